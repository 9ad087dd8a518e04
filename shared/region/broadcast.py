"""A snapshot, or rows, to all nodes of a region at once, over a medium that loses messages and where everybody hears.

Theory of operation. The sender announces the snapshot to each receiver in an exchange, and the answer is a bitmap: what
is there already. Then it broadcasts what at least one lacks, asks again, and so on, phase by phase:

    ask all -> bitmaps -> broadcast what one of them lacks -> ask all -> ... -> cost > gain -> the tree (`tree.py`)

The gain of a phase is what the receivers have more than before, all of them together; its cost what was broadcast, and
the bitmaps. A phase that cost more than it gained is the last: few lack few blocks by then, and those are cheaper to
send in exchanges. Nor is broadcast what costs no less than to send it to those who lack it, one by one.

A slow medium still carries the end of a phase when its first bitmaps are made. What a node lacks behind the last block
that came to it may be in the air rather than lost: it is asked once more as long as more comes to it, or nobody has
the last blocks yet.

Nothing here is the only way: a receiver that cannot be reached by broadcasts gets the same snapshot as elements of its
state edge, when this has ended. Receipts say what is kept, bitmaps only what need not be sent.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from shared.errors import PeerError
from shared.identity import DeviceId, EdgeKey
from shared.region.blocks import HASH_BYTES, Blocks, Gathering, layout
from shared.wire.broadcast import BLOCK_BYTES, DATAGRAM_BYTES, Announcement, Bitmap, Block

ANSWER_S = 5.0  # that is waited for bitmaps, of those that can be reached and are not busy
BUSY_S = 60.0  # the same of one that has answered nothing since: a phone that computes says nothing meanwhile
IN_THE_AIR = 4  # blocks at the end of a phase: fewer that lack are lost, so many may be on their way
AGAIN_S_MIN, AGAIN_S_MAX = 0.1, 1.0  # before one is asked once more to whom they may be on their way
BURST_BLOCKS = 32
BURST_S = 0.02  # between two bursts: 1.6 MB a second at most, which a receiver takes from its socket meanwhile
QUIET_S = 0.05  # before bitmaps are asked for: what is still in the air would count as lost, and go again
PHASES_MAX = 16
QUESTION_BYTES = 700  # an ANNOUNCE and its answer, but for the bitmap's bits
SENDER_BYTES_MAX = 32 << 20  # announced by one node and not whole yet
REGION_BYTES_MAX = 128 << 20  # the same of all of them


class Question(NamedTuple):
    """Announce the snapshot to a node, and ask which blocks it has."""

    node: str
    announcement: Announcement
    feed: bool = False


class Broadcast(NamedTuple):
    """A datagram for these nodes: at once where the medium allows it, else to each of them."""

    nodes: tuple[str, ...]
    body: bytes


@dataclass(slots=True)
class Phase:
    sent: int = 0  # bytes of blocks
    bitmaps: int = 0  # bytes
    gain: int = 0

    @property
    def cost(self) -> int:
        return self.sent + self.bitmaps


class Phases:
    """What to broadcast next, and whether it is worth it: the arithmetic of one snapshot, and nothing else."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = sizes
        self._all = (1 << len(sizes)) - 1
        self._short = {index: BLOCK_BYTES - size for index, size in enumerate(sizes) if size < BLOCK_BYTES}
        self._before: dict[str, int] = {}
        self.done: list[Phase] = []
        self.arrives = 1.0  # the share of what was sent to receivers that came there, in the last phase

    def size(self, bits: int) -> int:
        """Bytes of these blocks."""
        return bits.bit_count() * BLOCK_BYTES - sum(less for index, less in self._short.items() if bits >> index & 1)

    def lacking(self, bitmaps: Iterable[int]) -> int:
        """The blocks that at least one lacks."""
        everywhere = self._all
        for bits in bitmaps:
            everywhere &= bits
        return self._all & ~everywhere

    def begin(self, bitmaps: Mapping[str, int]) -> None:
        """What was there before anything was sent."""
        self._before = dict(bitmaps)

    def end(self, sent: int, bitmaps: Mapping[str, int]) -> Phase:
        """These blocks were broadcast, and now these are there."""
        before = {node: self._before.get(node, 0) for node in bitmaps}
        received = sum(self.size(bits) - self.size(before[node]) for node, bits in bitmaps.items())
        self.arrives = min(1.0, max(0.0, received / (self.one_by_one(before) or 1)))
        phase = Phase(self.size(sent), len(bitmaps) * -(-len(self._sizes) // 8), received)
        self.done.append(phase)
        self._before |= bitmaps
        return phase

    def before(self, node: str) -> int:
        """What a node had when this phase began."""
        return self._before.get(node, 0)

    def one_by_one(self, bitmaps: Mapping[str, int]) -> int:
        """Bytes that it takes to send everybody what it lacks."""
        return sum(self.size(self._all & ~bits) for bits in bitmaps.values())

    def pays(self, bitmaps: Mapping[str, int]) -> bool:
        """Whether to broadcast what is lacking costs less than what it saves, if as much arrives as the last time."""
        asked = len(bitmaps) * -(-len(self._sizes) // 8)
        return self.size(self.lacking(bitmaps.values())) + asked < self.arrives * self.one_by_one(bitmaps)


def worth_it(length: int, receivers: int) -> bool:
    """Whether broadcasting so many bytes to so many could cost less than an exchange with each."""
    listed, data = layout(length)
    once = length + data * HASH_BYTES + (listed + data) * DATAGRAM_BYTES
    asked = 2 * receivers * (QUESTION_BYTES + (listed + data) // 8)
    return once + asked < receivers * length


class Sending:
    """One run of bytes on its way to its receivers: who was asked, what they have, what is to be broadcast."""

    def __init__(
        self,
        announcement: Announcement,
        blocks: Blocks,
        receivers: Iterable[str],
        reached: Callable[[str], bool],
        now: float,
        *,
        answered_at: Callable[[str], float] = lambda _: math.inf,
        at_once: bool = False,
    ) -> None:
        """`reached` says whether a node answers just now: others are asked, too, and not waited for. `answered_at` is
        when it last took an exchange. `at_once`: nobody has any of it, so that nobody is asked first."""
        self.announcement, self.blocks = announcement, blocks
        self.receivers = tuple(receivers)
        self.phases = Phases(blocks.sizes)
        self._id = announcement.id
        self._reached, self._answered_at = reached, answered_at
        self.bitmaps: dict[str, int] = {}  # as they answered last
        self._waiting: dict[str, float] = {}  # who was asked and has not answered: when that was
        self._again: dict[str, float] = {}  # of those, who is asked once more: its answer came before the last blocks
        self._gained: dict[str, tuple[int, float]] = {}  # how much of this phase came to a node, and since when
        self._sent = 0  # blocks of the phase that runs
        self._queue: list[int] = []
        self._out: list[Question | Broadcast] = []
        self._at = self._phase_at = now  # of the next burst or question, and when this phase began
        self._to_ask = False  # all is sent, and may still be on its way
        self._begun = False  # the first bitmaps have come
        self.aired = False  # the last blocks of the first phase have come to somebody
        self.over = False  # nothing more is broadcast
        if at_once:
            self.bitmaps = {node: 0 for node in self.receivers if reached(node)}
            said = Broadcast(tuple(self.bitmaps), announcement.datagram())
            self._out += [said, said]  # who misses it takes none of the blocks
            self._decide(now)
        else:
            self._ask(now)

    @property
    def missing(self) -> tuple[str, ...]:
        """Those of whom it is not known that they have all of it."""
        everything = (1 << len(self.blocks)) - 1
        return tuple(node for node in self.receivers if self.bitmaps.get(node, 0) != everything)

    def _ask(self, now: float) -> None:
        self._out += [Question(node, self.announcement) for node in self.missing]
        self._waiting = {node: now for node in self.missing if self._reached(node)}
        if not self._waiting:
            self._decide(now)

    def bitmap(self, node: str, bits: int, now: float) -> None:
        """A receiver has answered."""
        if node not in self.receivers:
            return
        self.bitmaps[node] = bits
        if node in self._waiting and (wait_s := self._in_the_air_s(node, bits, now)):
            self._again[node] = now + wait_s
        else:
            self._answered(node, now)

    def _in_the_air_s(self, node: str, bits: int, now: float) -> float:
        """How long to wait before a node is asked once more, because the end of the phase may still be on its way to
        it; 0 where that is not so."""
        lacked = self._sent & ~self.phases.before(node)
        new = bits & lacked
        came, behind = new.bit_count(), (lacked >> new.bit_length()).bit_count()
        if behind < IN_THE_AIR:
            self.aired = self.aired or self._begun
            return 0.0
        before, since = self._gained.get(node, (-1, self._phase_at))
        if came > before:
            self._gained[node] = came, now
        elif self.aired or now - since >= ANSWER_S:
            return 0.0
        return min(AGAIN_S_MAX, max(AGAIN_S_MIN, (now - self._phase_at) * behind / max(1, came)))

    def lost(self, node: str, now: float) -> None:
        """It does not answer: nothing is sent for its sake until it does."""
        self.bitmaps.pop(node, None)
        self._answered(node, now)

    def keep_to(self, nodes: Iterable[str], now: float) -> None:
        """Only these are receivers any more."""
        stay = {*nodes}
        self.receivers = tuple(node for node in self.receivers if node in stay)
        for node in self._waiting.keys() - stay:
            self._answered(node, now)

    def _answered(self, node: str, now: float) -> None:
        self._again.pop(node, None)
        if self._waiting.pop(node, None) is not None and not (self._waiting or self.over):
            self._decide(now)

    def _decide(self, now: float) -> None:
        """All bitmaps that will come are here."""
        known = {node: self.bitmaps[node] for node in self.receivers if node in self.bitmaps}
        if self._begun:
            phase = self.phases.end(self._sent, known)
            goes_on = phase.cost <= phase.gain
            self.aired = True
        else:
            self.phases.begin(known)
            self._begun = goes_on = True
        if not known or not goes_on or len(self.phases.done) >= PHASES_MAX or not self.phases.pays(known):
            self.over = self.aired = True
            return
        self._sent = self.phases.lacking(known.values())
        self._queue = [index for index in range(len(self.blocks)) if self._sent >> index & 1]
        self._at = self._phase_at = now
        self._gained.clear()

    def wake(self, now: float) -> None:
        if self.over:
            return
        if self._queue or self._to_ask:
            if now < self._at:
                return
            if self._queue:
                self._burst(now)
            else:
                self._to_ask = False
                self._ask(now)
            return
        for node in [node for node, at in self._again.items() if now >= at]:
            del self._again[node]
            self._waiting[node] = now
            self._out.append(Question(node, self.announcement))
        for node, asked_at in [*self._waiting.items()]:
            busy = self._answered_at(node) <= asked_at and now < asked_at + BUSY_S
            if node not in self._again and now >= asked_at + ANSWER_S and not busy:
                self.lost(node, now)

    def _burst(self, now: float) -> None:
        everybody = tuple(node for node in self.receivers if node in self.bitmaps)
        for index in self._queue[:BURST_BLOCKS]:
            nodes = tuple(node for node in everybody if not self.bitmaps[node] >> index & 1)
            if nodes:  # else only those lacked it that do not answer any more
                self._out.append(Broadcast(nodes, self.blocks.block(self._id, index).datagram()))
        del self._queue[:BURST_BLOCKS]
        self._to_ask = not self._queue
        self._at = now + (QUIET_S if self._to_ask else BURST_S)

    def next_wake(self) -> float | None:
        if self.over:
            return None
        if self._queue or self._to_ask:
            return self._at
        asked = [
            at + (ANSWER_S if self._answered_at(node) > at else BUSY_S)
            for node, at in self._waiting.items()
            if node not in self._again
        ]
        return min([*asked, *self._again.values()], default=None)

    def take(self) -> list[Question | Broadcast]:
        """What to send now."""
        out, self._out = self._out, []
        return out


class Receiving:
    """What others broadcast and this node keeps, within bounds: of each state edge one snapshot at a time."""

    def __init__(self, device: DeviceId, slot: Callable[[Announcement], Hashable] = lambda each: each.key) -> None:
        """One announcement takes the place of another that has the same `slot`."""
        self._device, self._slot = device, slot
        self._by_slot: dict[Hashable, Gathering] = {}
        self._by_id: dict[bytes, Gathering] = {}
        self.refused: Counter[str] = Counter()  # datagrams by code; others' mistakes cost one number each

    def announced(self, announcement: Announcement) -> Gathering:
        """Take its blocks from now on. PeerError where that is more than one node, or all of them, may announce."""
        known = self._by_slot.get(self._slot(announcement))
        if known is not None and known.announcement.id == announcement.id:
            return known
        others = [each.announcement for each in self._by_slot.values() if each is not known]
        of_sender = sum(each.length for each in others if each.sender == announcement.sender)
        of_all = sum(each.length for each in others)
        if of_sender + announcement.length > SENDER_BYTES_MAX or of_all + announcement.length > REGION_BYTES_MAX:
            raise PeerError(
                f"one node announces at most {SENDER_BYTES_MAX} bytes at a time, a region {REGION_BYTES_MAX}",
                code="broadcast-quota",
            )
        self.forget(announcement)
        gathering = self._by_slot[self._slot(announcement)] = self._by_id[announcement.id] = Gathering(announcement)
        return gathering

    def gathers(self, id: bytes) -> bool:
        """Whether blocks of this announcement are taken."""
        return id in self._by_id

    def add(self, block: Block) -> tuple[Announcement, bytes] | None:
        """Take a block; the whole snapshot when it was the last. What is wrong with it is counted."""
        gathering = self._by_id.get(block.id)
        try:
            if gathering is None:
                raise PeerError("a block that nobody has announced", code="broadcast-unannounced")
            gathering.add(block)
        except PeerError as error:
            self.refused[error.code] += 1
            return None
        whole = gathering.whole
        return None if whole is None else (gathering.announcement, whole)

    def datagram(self, body: bytes | memoryview) -> tuple[Announcement, bytes] | None:
        try:
            block = Block.of(body)
        except PeerError as error:
            self.refused[error.code] += 1
            return None
        return self.add(block)

    def forget(self, announcement: Announcement) -> None:
        """Nothing is gathered in its place any more."""
        gone = self._by_slot.pop(self._slot(announcement), None)
        if gone is not None:
            del self._by_id[gone.announcement.id]

    def keep_to(self, keys: Iterable[EdgeKey]) -> None:
        stay = {*keys}
        for each in [each.announcement for each in self._by_slot.values() if each.announcement.key not in stay]:
            self.forget(each)

    def bits(self, announcement: Announcement, *, has_all: bool) -> Bitmap:
        """How much of it is here; `has_all` where it is kept already."""
        blocks = sum(layout(announcement.length))
        known = self._by_slot.get(self._slot(announcement))
        here = 0 if known is None or known.announcement.id != announcement.id else known.bits
        return Bitmap(self._device, announcement.id, (1 << blocks) - 1 if has_all else here, blocks)
