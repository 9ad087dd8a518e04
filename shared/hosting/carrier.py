"""Rows of a device that a node only passes on, on their way to those who read them.

A carrier keeps nothing that is not elsewhere: its receipt says `through` where its reader does, so the device has all
of it until then, and a carrier that is killed loses nothing. It therefore needs no disk and no snapshot, only to know
where its reader is. Until it does, it takes nothing. A reader that goes back behind what is here makes the carrier go
back as well, and the rows come again from the device. A reader that is ahead has them from another path.
"""

from __future__ import annotations

from collections.abc import Iterator

from shared.batch import NO_FRONTIER
from shared.errors import PeerError
from shared.hosting.wiring import CarrierSpec, EdgeSpec
from shared.identity import EdgeId
from shared.language.schema import Schema
from shared.spool.entry import Reason, SpooledBatch
from shared.spool.ring import Spool
from shared.sync.outbox import Outbox, cut
from shared.wire.messages import Data, LostRange

TERMS = 1 << 32
EPOCHS = 1 << 12  # that one start of a node has before they are those of the next, which costs nothing but a wait


class Carrier:
    """One edge that is passed on."""

    def __init__(self, spec: CarrierSpec, outbox: Outbox, spool: Spool, epochs: Iterator[int]) -> None:
        """`epochs` are numbers that no other carrier of this node gets: who sends to it may not have heard that there
        was none for a while."""
        self.spec = spec
        self._outbox, self._spool = outbox, spool
        self._epochs = epochs
        self._epoch = next(epochs)
        self.begun = False
        self._frontier_us = NO_FRONTIER

    @property
    def edge(self) -> EdgeId:
        return self.spec.makes.key.edge

    @property
    def term(self) -> int:
        """Of its receipts: when it changes, who sends to it asks where it is, and sends marks again."""
        return self._epoch % TERMS

    @property
    def taken(self) -> int:
        return self._spool.head(self.edge)

    @property
    def through(self) -> int:
        return min(self.taken, self._outbox.through(self.edge))

    def frontier_us(self, spec: EdgeSpec) -> int:  # noqa: ARG002 - as an instance answers, which has several
        return self._frontier_us

    def advance(self, frontier_us: int) -> None:
        self._frontier_us = max(self._frontier_us, frontier_us)

    def reader_restored(self) -> None:
        """Marks that its reader has not answered come again from where they came from."""
        self._epoch = next(self._epochs)

    def follow(self) -> bool:
        """Be where the reader can go on. True: it goes on elsewhere than it was."""
        readings = [self._outbox.reading(node).taken.get(self.edge) for node in self.spec.makes.readers]
        known = [at for at in readings if at is not None]
        if len(known) < len(readings) or not known:
            return False
        at = min(known)
        if self.begun and self._outbox.first(self.edge) <= at <= self.taken:
            return False
        self._outbox.restart(self.edge, at)
        for node, taken in zip(self.spec.makes.readers, known, strict=True):
            self._outbox.reading(node).go_on(self.edge, taken)
        self.begun, self._frontier_us = True, NO_FRONTIER
        self._epoch = next(self._epochs)
        return True

    def take(self, data: Data, schema: Schema) -> SpooledBatch | None:
        """The next batch, or the part of it that is new; None when there is none. PeerError: its columns are not what
        its stamp says."""
        if schema != self.spec.flow.runs.wire_schema(data.applied):
            raise PeerError("a batch of other columns than its stamp says", code="hosting-schema")
        head = self.taken
        if data.hi <= head:
            return None
        batch = SpooledBatch(
            self.edge, data.lo, data.hi, data.rows, data.schema_id, data.applied, data.frontier_us, data.codec,
            bytes(data.columns),
        )  # fmt: skip
        batch = cut(batch, max(head, batch.lo), batch.hi, schema)
        self._spool.append(batch)
        return batch

    def lose(self, lost: LostRange) -> None:
        """A tombstone in the place of elements is passed on like them."""
        lo = max(self.taken, lost.lo)
        if lo < lost.hi:
            reason = Reason.__members__.get(lost.reason.upper(), Reason.QUARANTINED)
            self._spool.give_up(self.edge, lo, lost.hi, reason)
