"""Edges that other nodes read: each is kept in its spool until its slowest reader needs it no more.

Every reading node has a `Reading`, which its sender takes for its spool. A reading has two positions per edge, both
told by the reader's receipts: `taken`, where to go on, and `through`, below which that reader will never ask again.
Between the two lies what a restored reader is given once more. The spool is trimmed at the least `through`.

A vertex that runs again after a failure, or on two nodes at once, makes the same elements with the same numbers, not
in the same batches. Readers take no batch that overlaps what they have. So the one that straddles `taken` is cut here.

An edge may lead to those who read it by several *ways*: all readers of one are enough. One that is only passed on here
is not at home here either: what its reader asks for and is gone here comes from where it came from, and is not lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from shared.batch import NO_FRONTIER, Batch
from shared.errors import BrokenInvariant
from shared.identity import EdgeId
from shared.language.codecs import COLUMNS, NONE
from shared.language.schema import Schema
from shared.spool.entry import DataEntry, Entry, Reason, SpooledBatch, Tombstone
from shared.spool.ring import Spool
from shared.wire import codecs


class Outbox:
    """The readers of every edge, and where each edge is spooled."""

    def __init__(self) -> None:
        self._spools: dict[EdgeId, Spool] = {}
        self._schemas: dict[tuple[EdgeId, int], Schema] = {}
        self._readings: dict[str, Reading] = {}
        self._readers: dict[EdgeId, dict[str, int]] = {}
        self._ways: dict[EdgeId, tuple[tuple[str, ...], ...]] = {}
        self._passed_on: set[EdgeId] = set()
        self._held: set[EdgeId] = set()
        self._leaving: dict[EdgeId, Callable[[SpooledBatch], SpooledBatch]] = {}

    def reading(self, reader: str) -> Reading:
        """What this node reads here; the same one each time."""
        found = self._readings.get(reader)
        if found is None:
            found = self._readings[reader] = Reading(self)
        return found

    def serve(
        self,
        edge: EdgeId,
        schemas: Sequence[Schema],
        spool: Spool,
        readers: Mapping[str, int],
        *,
        ways: tuple[tuple[str, ...], ...] = (),
        passed_on: bool = False,
        leaving: Callable[[SpooledBatch], SpooledBatch] | None = None,
    ) -> None:
        """These nodes read the edge from now on, and no others. Nothing is trimmed before all have said how far. Each
        comes with a number that changes when something begins to read there: what the node said before is then of those
        who read there already, and the newcomer may need more. `leaving` is what is done to a batch before it goes."""
        self._spools[edge] = spool
        self._schemas.update(((edge, schema.id), schema) for schema in schemas)
        self._ways[edge] = ways or (tuple(readers),)
        self._passed_on.discard(edge)
        if passed_on:
            self._passed_on.add(edge)
        self._leaving.pop(edge, None)
        if leaving is not None:
            self._leaving[edge] = leaving
        before = self._readers.get(edge, {})
        for node, reads in readers.items():
            if before.get(node) != reads:
                self.reading(node).forget(edge)
        self._readers[edge] = dict(readers)
        self.trim(edge)

    def end(self, edge: EdgeId) -> None:
        """Nobody reads this edge any more: what is here of it goes."""
        self._readers[edge] = {}
        self.trim(edge)
        del self._readers[edge], self._spools[edge], self._ways[edge]
        self._held.discard(edge)
        self._passed_on.discard(edge)
        self._leaving.pop(edge, None)
        for reading in self._readings.values():
            reading.forget(edge)

    def hold(self, edge: EdgeId) -> None:
        """Nobody is sent this edge for now: it comes to its readers another way. What they say of it counts."""
        self._held.add(edge)

    def release(self, edge: EdgeId) -> None:
        self._held.discard(edge)

    def is_held(self, edge: EdgeId) -> bool:
        return edge in self._held

    def restart(self, edge: EdgeId, at: int) -> None:
        """The edge goes on from `at`, under a new term."""
        self._spools[edge].restart(edge, at)
        for reading in self._readings.values():
            reading.forget(edge)

    def edges(self) -> tuple[EdgeId, ...]:
        return tuple(self._readers)

    def spool(self, edge: EdgeId) -> Spool:
        return self._spools[edge]

    def schema(self, edge: EdgeId, schema_id: int) -> Schema:
        return self._schemas[edge, schema_id]

    def first(self, edge: EdgeId) -> int:
        """The first number that is still here, also where it is not durable yet: that is not gone."""
        return self._spools[edge].first(edge)

    def through(self, edge: EdgeId) -> int:
        """What every reader of one way is through with; 0 until all of them have said."""
        if not self._readers[edge]:
            return self._spools[edge].head(edge)
        return max(min(self._said(name, edge) for name in way) for way in self._ways[edge])

    def _said(self, reader: str, edge: EdgeId) -> int:
        return self._readings[reader].through.get(edge, 0) if reader in self._readings else 0

    def gone(self, edge: EdgeId, taken: int) -> int:
        """Up to where what a reader at `taken` asks for is nowhere any more; `taken` where nothing is."""
        first = self.first(edge)
        if taken >= first or edge in self._passed_on:
            return taken
        for way in self._ways[edge]:
            at = [self._readings[name].taken.get(edge, 0) for name in way if name in self._readings]
            if len(self._ways[edge]) > 1 and at and min(at) >= first:
                return taken  # it came there another way, and this one will hear of it
        return first

    def leave(self, batch: SpooledBatch) -> SpooledBatch:
        """A batch as it goes to its readers."""
        leaving = self._leaving.get(batch.edge)
        return batch if leaving is None else leaving(batch)

    def copies(self, edge: EdgeId, lo: int, hi: int) -> list[SpooledBatch]:
        """The batches of [lo, hi), the first and the last cut where they straddle an end."""
        found: list[SpooledBatch] = []
        spool = self._spools[edge]
        for entry in spool.pending(edge, after=lo):
            if entry.lo >= hi:
                break
            if isinstance(entry, DataEntry):
                batch = spool.read(entry)
                found.append(cut(batch, max(lo, batch.lo), min(hi, batch.hi), self.schema(edge, batch.schema_id)))
        return found

    def trim(self, edge: EdgeId) -> None:
        through, spool = self.through(edge), self._spools[edge]
        last = 0
        for entry in spool.pending(edge):
            if entry.hi > through:
                break
            last = entry.hi
        if last:
            spool.trim(edge, last)


class Merging(NamedTuple):
    """How large a batch may become that is joined from several: those of vertices are as large as what they read."""

    rows: int
    bytes: int


@dataclass(slots=True)
class _Run:
    """Batches of an edge, one behind the other, that are to be joined."""

    first: DataEntry
    last: DataEntry
    rows: int
    bytes: int

    def take(self, entry: DataEntry, merging: Merging) -> bool:
        """Whether the next one fits, in kind and size."""
        rows, size = self.rows + entry.rows, self.bytes + entry.payload_bytes
        alike = (entry.lo, entry.schema_id, entry.applied) == (self.last.hi, self.first.schema_id, self.first.applied)
        if not alike or rows > merging.rows or size > merging.bytes:
            return False
        self.last, self.rows, self.bytes = entry, rows, size
        return True

    def is_full(self, merging: Merging) -> bool:
        return self.rows >= merging.rows or self.bytes >= merging.bytes

    def entry(self) -> DataEntry:
        if self.last is self.first:
            return self.first
        return replace(self.first, hi=self.last.hi, payload_bytes=self.bytes)


class Reading:
    """One reader's place in an outbox. What a `Sender` asks of a spool, it answers."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self.taken: dict[EdgeId, int] = {}
        self.through: dict[EdgeId, int] = {}
        self.ahead: dict[EdgeId, int] = {}  # what is under way to it ends here: `pending` begins behind that
        self.broadcast: set[EdgeId] = set()  # edges that come to it another way: nothing of them is pending
        self._buried: dict[tuple[EdgeId, int], Tombstone] = {}
        self._merging: dict[EdgeId, Merging] = {}
        self._held: set[EdgeId] = set()  # of those, edges whose last batch waits for more rows

    def merge(self, edge: EdgeId, merging: Merging | None) -> None:
        """Batches of this edge are joined on their way, or go as they are."""
        self._merging.pop(edge, None)
        if merging is not None:
            self._merging[edge] = merging

    def merges(self, edge: EdgeId) -> bool:
        return edge in self._merging

    def hold(self, edge: EdgeId, holds: bool) -> None:
        """Whether the last batch of an edge stays here while it is not full."""
        (self._held.add if holds else self._held.discard)(edge)

    def held_rows(self, edge: EdgeId) -> int:
        """Rows that stay here for now."""
        if edge not in self._held or edge not in self._merging:
            return 0
        last = [run for run in deque(self._runs(edge), maxlen=1) if isinstance(run, _Run)]
        return sum(run.rows for run in last if not run.is_full(self._merging[edge]))

    def head(self, edge: EdgeId) -> int:
        return self._outbox.spool(edge).head(edge)

    def first(self, edge: EdgeId) -> int:
        return self._outbox.first(edge)

    def pending(self, edge: EdgeId) -> Iterator[Entry]:
        """What the reader has not taken and is not on its way. The first may be the later part of a batch."""
        if edge not in self._merging:
            yield from self._each(edge)
            return
        before: _Run | None = None  # the last one may stay here
        for run in self._runs(edge):
            if before is not None:
                yield before.entry()
            before = run if isinstance(run, _Run) else None
            if not isinstance(run, _Run):
                yield run
        if before is not None and (edge not in self._held or before.is_full(self._merging[edge])):
            yield before.entry()

    def _runs(self, edge: EdgeId) -> Iterator[_Run | Entry]:
        """Batches that become one, and what stands between them."""
        merging, run = self._merging[edge], None
        for entry in self._each(edge):
            if isinstance(entry, DataEntry):
                if run is not None and run.take(entry, merging):
                    continue
                if run is not None:
                    yield run
                run = _Run(entry, entry, entry.rows, entry.payload_bytes)
                continue
            if run is not None:
                yield run
            run = None
            yield entry
        if run is not None:
            yield run

    def _each(self, edge: EdgeId) -> Iterator[Entry]:
        if self._outbox.is_held(edge) or self.waits(edge):
            return
        taken = max(self.taken.get(edge, 0), self.ahead.get(edge, 0))
        for entry in self._outbox.spool(edge).pending(edge, after=taken):
            if entry.hi > taken:
                yield self._buried.get((edge, max(entry.lo, taken))) or (
                    entry if entry.lo >= taken else replace(entry, lo=taken)
                )

    def waits(self, edge: EdgeId) -> bool:
        """Whether what it has not taken comes to it another way: marks and frontiers stand behind that."""
        return edge in self.broadcast and self.taken.get(edge, 0) < self.head(edge)

    def reaches(self, edge: EdgeId) -> int | None:
        """Where it is when it has got all that is on its way; None where it has not said."""
        if edge not in self.taken:
            return None
        return max(self.taken[edge], self.ahead.get(edge, 0))

    def read(self, entry: DataEntry) -> SpooledBatch:
        spool = self._outbox.spool(entry.edge)
        whole = next(iter(spool.pending(entry.edge, after=entry.lo)))
        if not isinstance(whole, DataEntry):
            raise BrokenInvariant("a batch of an outbox is a tombstone now; ask pending() again", code="spool-gone")
        if entry.hi > whole.hi:
            return self._outbox.leave(self._merged(entry))
        batch = spool.read(whole)
        return self._outbox.leave(cut(batch, entry.lo, batch.hi, self._outbox.schema(batch.edge, batch.schema_id)))

    def _merged(self, entry: DataEntry) -> SpooledBatch:
        schema = self._outbox.schema(entry.edge, entry.schema_id)
        parts = self._outbox.copies(entry.edge, entry.lo, entry.hi)
        batch = Batch.joined([
            codecs.decode(
                part.codec, part.payload, schema, lo=part.lo, hi=part.hi, frontier_us=part.frontier_us,
                applied=part.applied,
            )
            for part in parts
        ])  # fmt: skip
        if (batch.lo, batch.hi) != (entry.lo, entry.hi):
            raise BrokenInvariant("some of an outbox's batches are gone; ask pending() again", code="spool-gone")
        codec, payload = codecs.encode(batch, COLUMNS)
        return replace(
            parts[0], hi=batch.hi, rows=len(batch), codec=codec, payload=payload, frontier_us=batch.frontier_us
        )

    def gone(self, edge: EdgeId, taken: int) -> int:
        return self._outbox.gone(edge, taken)

    def forget(self, edge: EdgeId) -> None:
        """Nothing is known of how far the reader has come."""
        self.taken.pop(edge, None)
        self.through.pop(edge, None)
        self.ahead.pop(edge, None)
        self.broadcast.discard(edge)

    def go_on(self, edge: EdgeId, taken: int) -> None:
        """The reader has everything below `taken`; after it was restored this may be less than before."""
        self.taken[edge] = taken

    def trim(self, edge: EdgeId, through: int) -> None:
        """The reader will not ask again for what is below `through`."""
        if through > self.through.get(edge, -1):
            self.through[edge] = through
            self._outbox.trim(edge)

    def give_up(self, edge: EdgeId, lo: int, hi: int, reason: Reason) -> Tombstone:
        """This reader refuses the batch: it gets a tombstone in its place. Others may still take the batch."""
        buried = self._buried[edge, lo] = Tombstone(edge, lo, hi, reason)
        return buried


def cut(batch: SpooledBatch, lo: int, hi: int, schema: Schema) -> SpooledBatch:
    """The part [lo, hi) of a batch, as a batch of its own."""
    if (lo, hi) == (batch.lo, batch.hi):
        return batch
    whole = codecs.decode(
        batch.codec, batch.payload, schema, lo=batch.lo, hi=batch.hi, frontier_us=batch.frontier_us,
        applied=batch.applied,
    )  # fmt: skip
    # Only the last part may promise that nothing earlier follows.
    frontier_us = batch.frontier_us if hi == batch.hi else NO_FRONTIER
    chosen = whole.take(np.flatnonzero((whole.seq >= lo) & (whole.seq < hi)))
    part = replace(chosen, lo=lo, hi=hi, frontier_us=frontier_us)
    codec, payload = codecs.encode(part, NONE)
    return replace(batch, lo=lo, hi=hi, rows=len(part), codec=codec, payload=payload, frontier_us=frontier_us)
