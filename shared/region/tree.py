"""What broadcasting has left over goes along a tree: root to leaves, each sends its children what their bitmaps lack.

The tree follows from the order in which a deployment names the keepers of a vertex, so all nodes know it and it changes
only when the deployment does. Who runs the vertex feeds the root; whoever has all of it and was asked to, feeds those
below it.
"""

from __future__ import annotations

from collections.abc import Sequence

from shared.region.blocks import Blocks
from shared.region.broadcast import Question
from shared.wire.broadcast import Announcement, Block

CHILDREN = 2
RUN_BLOCKS = 256  # in one exchange
ASK_S = 4.0  # between two questions to a child that does not answer
ASKS_MAX = 3  # without an answer; then its state edge brings it the rest
IDLE_MAX = 2  # the answer to an earlier question may come in between


def children(order: Sequence[str], node: str) -> tuple[str, ...]:
    """Whom a node feeds; those who are not in the tree feed its root."""
    if node not in order:
        return tuple(order[:1])
    at = order.index(node)
    return tuple(order[CHILDREN * at + 1 : CHILDREN * (at + 1) + 1])


class Feeding:
    """One child: it is asked what it lacks, and gets that until it has all of it."""

    def __init__(self, announcement: Announcement, blocks: Blocks, child: str, now: float) -> None:
        self.announcement, self._blocks, self.child = announcement, blocks, child
        self._id = announcement.id
        self.blocks = len(blocks)
        self._bits: int | None = None
        self._asks = self._idle = 0  # questions since its last answer, answers without a gain
        self._at = now
        self.over = False

    def bitmap(self, bits: int, now: float) -> None:
        """It has answered. One that gains nothing by what it is sent gets no more of it."""
        gained = self._bits is None or bits.bit_count() > self._bits.bit_count()
        self._idle = 0 if gained else self._idle + 1
        self.over = self.over or bits.bit_count() == len(self._blocks) or self._idle >= IDLE_MAX
        self._asks = 0
        self._bits, self._at = bits, now

    def next_wake(self) -> float | None:
        return None if self.over else self._at

    def take(self, now: float) -> tuple[list[Block], Question] | None:
        """What to send it now: blocks that it lacks, and the question again."""
        if self.over or now < self._at:
            return None
        self._asks += 1
        self._at = now + ASK_S
        if self._asks > ASKS_MAX:
            self.over = True
            return None
        lacks: list[int] = []
        if self._bits is not None:
            lacks = [index for index in range(len(self._blocks)) if not self._bits >> index & 1][:RUN_BLOCKS]
        question = Question(self.child, self.announcement, feed=True)
        return [self._blocks.block(self._id, index) for index in lacks], question
