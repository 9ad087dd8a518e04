"""Gathers what the device's operators put out on one sync edge into the batches that are spooled.

Numbers: the pipeline numbers its output from where its own state stands; the edge goes on from the spool's head.
The two differ by a constant, fixed when the first output after a start arrives, and everything after it must follow
without a gap. So whatever a crash took, the edge's numbers go on without one being skipped or used twice.
"""

from __future__ import annotations

from dataclasses import replace

from shared.batch import NO_FRONTIER, Batch
from shared.errors import BrokenInvariant
from shared.plan.graph import SyncEdge
from shared.sync.pacing import Batching


class EdgeBatcher:
    """The open end of one edge. `speed` is event seconds per real second: waiting is done in real time."""

    def __init__(self, edge: SyncEdge, *, head: int, speed: float = 1.0) -> None:
        self.edge = edge
        self.next = head  # the number after the last one held here
        self.frontier_us = NO_FRONTIER  # of everything put out so far
        self._closed_frontier_us = NO_FRONTIER  # of everything taken out so far
        self.shift: int | None = None  # edge number minus the pipeline's
        self._rules = Batching(
            rows=edge.batch_rows, size_bytes=edge.batch_bytes, within_us=max(1, round(edge.within_us / speed))
        )
        self._parts: list[Batch] = []
        self._rows = 0
        self.bytes = 0  # of the rows held
        self.since_us = 0  # when the oldest of them came, in real, monotonic time

    def __len__(self) -> int:
        return self._rows

    @property
    def holds(self) -> bool:
        """Whether there are numbers here that are not in the spool; they may have no rows."""
        return bool(self._parts)

    def reach(self, frontier_us: int) -> None:
        """No earlier row than this will be added."""
        self.frontier_us = max(self.frontier_us, frontier_us)

    def add(self, batch: Batch, now_us: int) -> None:
        """Take what the pipeline put out; now_us is real, monotonic time."""
        if batch.lo == batch.hi:
            return
        if self.shift is None:
            self.shift = self.next - batch.lo
        if self.shift:
            shift = self.shift
            batch = replace(batch, seq=batch.seq + shift, lo=batch.lo + shift, hi=batch.hi + shift)
        if batch.lo != self.next:
            raise BrokenInvariant(
                f"output [{batch.lo}, {batch.hi}) of edge {self.edge.name!r} cannot follow number {self.next}",
                code="batching-gap",
            )
        if not self._parts:
            self.since_us = now_us
        self._parts.append(batch)
        self.next = batch.hi
        self._rows += len(batch)
        self.bytes += batch.time_us.nbytes + sum(column.nbytes for column in batch.columns.values())

    def resume(self, shift: int | None, frontier_us: int, rows: Batch | None) -> None:
        """Go on where a snapshot left off, with the same pipeline state behind it. `rows` have the edge's numbers, and
        are old already: they are spooled soon."""
        if rows is not None:
            self.shift = 0
            self.add(rows, now_us=0)
        self.shift = shift
        self.frontier_us = self._closed_frontier_us = frontier_us

    def due(self, now_us: int) -> bool:
        """Whether the batch should be closed: by rows, bytes or age. Numbers without rows go by age only."""
        if not self._parts:
            return False
        age_us = now_us - self.since_us
        return age_us >= self._rules.within_us or self._rules.full(
            rows=self._rows, size_bytes=self.bytes, age_us=age_us
        )

    def peek(self) -> Batch | None:
        """Everything held, as one batch; None when nothing is."""
        if not self._parts:
            return None
        merged = replace(Batch.joined(self._parts), frontier_us=self.frontier_us)
        self._parts = [merged]
        return merged

    def take(self) -> Batch:
        """The next batch to spool: everything held, or its first `batch_rows` rows while there are more.

        The part of the range that a cut leaves behind stays held, and the frontier goes no further than its earliest
        row: who reads a long backlog must not have to hold all of it until the last batch.
        """
        merged = self.peek()
        if merged is None:
            raise BrokenInvariant(f"nothing to spool on edge {self.edge.name!r}", code="batching-gap")
        limit = self._rules.rows
        if len(merged) <= limit:
            self._parts, self._rows, self.bytes = [], 0, 0
            self._closed_frontier_us = self.frontier_us
            return merged
        rest = merged.slice(limit)
        self._parts = [rest]
        self._closed_frontier_us = max(self._closed_frontier_us, min(self.frontier_us, int(rest.time_us.min())))
        self.bytes -= limit * (self.bytes // self._rows)  # every row has as many
        self._rows -= limit
        return replace(merged.slice(0, limit), frontier_us=self._closed_frontier_us)
