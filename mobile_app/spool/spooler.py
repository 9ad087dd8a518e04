"""Takes what the computation puts out to the spool, by the order that `snapshots.py` explains."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Protocol

from mobile_app.node.computation import Computation
from mobile_app.spool.batching import EdgeBatcher
from mobile_app.spool.snapshots import OpenEdge, Snapshot, Snapshots
from shared.batch import Batch
from shared.identity import EdgeId, edge_id
from shared.language.codecs import AUTO
from shared.language.schema import Schema
from shared.plan.graph import SyncEdge
from shared.spool.entry import NO_DEADLINE, PRIORITY_MAX, Entry, SpooledBatch
from shared.spool.evict import edge_policy
from shared.spool.ring import Spool, SpoolFull
from shared.spool.segment import CONTROL_BYTES
from shared.sync.composer import EdgePolicy
from shared.wire import codecs, columns

MICROSECONDS = 1_000_000
GATHER_S = 0.5
# A snapshot repeats the rows of open batches. Beyond this many bytes it is cheaper to close such a batch early: its
# rows are written once, compressed, and it still waits for its exchange as long as it would have waited here.
REPEATED_BYTES_MAX = 28 * 1024


class Outgoing(Protocol):
    """What takes the batches of the edges: the sender to the gateway, or the host of a fleet's node."""

    def declare(self, name: str, schema: Schema, policy: EdgePolicy | None = None) -> EdgeId: ...

    def append(self, batch: SpooledBatch, now: float) -> Entry: ...

    def frontier(self, edge: EdgeId, frontier_us: int, now: float) -> None: ...


class Spooler:
    """One computation's way to the spool. `loss_window_s` bounds what a kill may take."""

    def __init__(
        self,
        computation: Computation,
        spool: Spool,
        sender: Outgoing,
        snapshots: Snapshots,
        *,
        loss_window_s: float,
        turn_s: float = 0.0,
        speed: float = 1.0,
        edges: Sequence[SyncEdge] | None = None,
    ) -> None:
        """`turn_s`: how old a reading may be when it is taken; it is part of the window. `edges` are those to the
        gateway unless it is said."""
        self._computation = computation
        self._digest = computation.digest()
        self._spool = spool
        self._sender = sender
        self._snapshots = snapshots
        self._loss_window_us = round(max(loss_window_s / 2, loss_window_s - turn_s) * MICROSECONDS)
        self._read_until_us = 0
        self._readings = 0
        self._changed_at_us: int | None = None  # since when readings are in memory only
        # The first commit saves, so that a kill goes back to this start. Without readings only time passes, and
        # frontiers are told less often.
        self._saved_at_us: float = -math.inf
        self._kept: dict[str, tuple[int, int]] = {}  # of open rows in the last snapshot: where they end, their frontier
        self._refused: SpooledBatch | None = None  # numbered in a snapshot, but the spool is full and blocks
        self._spooled_bytes: dict[EdgeId, int] = {}
        self._first_append: float | None = None
        self._caches: dict[str, columns.Cache] = {}
        self.batchers: dict[str, EdgeBatcher] = {}
        edges = computation.plan.edges if edges is None else edges
        self._within_s = {edge.name: edge.within_us / MICROSECONDS / speed for edge in edges}
        least_s = min(self._within_s.values(), default=0.0)
        self._quiet_window_us = max(self._loss_window_us, round(least_s * MICROSECONDS))
        for edge in edges:
            # Rows wait from when they were held here; a moment more lets other edges join the exchange.
            within_s = self._within_s[edge.name]
            policy = EdgePolicy(
                within_s + min(GATHER_S, within_s), rows=edge.batch_rows, priority=edge.priority,
                evict=edge_policy(edge.evict, spool.evict), kept_min=edge.contract.kept_min,
            )  # fmt: skip
            self._sender.declare(edge.name, edge.schema, policy)
            self.batchers[edge.name] = EdgeBatcher(edge, head=spool.head(edge_id(edge.name)), speed=speed)

    @property
    def blocked(self) -> bool:
        """The spool is full and its policy gives nothing up: read no sensors until a receipt has made room."""
        return self._refused is not None

    def resume(self, snapshot: Snapshot) -> None:
        """Go on from this snapshot: it fits the spool's heads, and the computation has resumed from it."""
        self._read_until_us = snapshot.read_until_us
        for name, kept in snapshot.edges.items():
            self.batchers[name].resume(kept.shift, kept.frontier_us, kept.rows)

    def take(self, outputs: Iterable[tuple[str, Batch]], *, read_until_us: int, now: float) -> None:
        """Take what came out of reading the sensors up to read_until_us."""
        now_us = round(now * MICROSECONDS)
        if self._computation.reading_count != self._readings and self._changed_at_us is None:
            self._changed_at_us = now_us
        self._readings = self._computation.reading_count
        for name, batch in outputs:
            if name in self.batchers:
                self.batchers[name].add(batch, now_us)
        for name, frontier_us in self._computation.frontiers().items():
            if name in self.batchers:
                self.batchers[name].reach(frontier_us)
        self._read_until_us = read_until_us

    def commit(self, now: float, spooled_us: int, *, everything: bool = False) -> None:
        """Spool every batch that is due (or everything), and keep the loss window."""
        now_us = round(now * MICROSECONDS)
        if self._refused is not None and not self._append(self._refused, now):
            return
        for name, batcher in self.batchers.items():
            while batcher.due(now_us) or (everything and batcher.holds):
                if not self._close(name, now, spooled_us):
                    return
        changed = self._changed_at_us is not None and now_us - self._changed_at_us >= self._loss_window_us
        if everything or changed or now_us - self._saved_at_us >= self._quiet_window_us:
            self._keep_window(now, spooled_us)

    def settle(self, now: float, spooled_us: int) -> None:
        """Before a long rest: leave nothing that only memory has."""
        if self._changed_at_us is not None and self._refused is None:
            self._keep_window(now, spooled_us)

    def _keep_window(self, now: float, spooled_us: int) -> None:
        large = [name for name, batcher in self.batchers.items() if batcher.bytes >= REPEATED_BYTES_MAX]
        for name in large:
            if not self._close(name, now, spooled_us):
                return
        if self._changed_at_us is None and large:
            self._spool.sync()
        else:  # what was closed was in the last snapshot, and what came since is not
            self._save({}, now)

    def _close(self, name: str, now: float, spooled_us: int) -> bool:
        """Spool what an edge holds; False when the spool is full and blocks."""
        batcher = self.batchers[name]
        since = min(now, batcher.since_us / MICROSECONDS)
        batch = batcher.take()
        edge = batcher.edge
        spooled = encode_batch(
            edge.name, batch, spooled_us, codec=edge.codec, priority=edge.priority, deadline_us=edge.deadline_us,
            cache=self._caches.setdefault(edge.name, columns.Cache()),
        )  # fmt: skip
        if not self._is_kept(name, batch):
            self._save({name: batch.hi}, now)
        return self._append(spooled, since)

    def _is_kept(self, name: str, batch: Batch) -> bool:
        """Whether a kill after this batch is appended goes back to the snapshot that is there: it has these rows."""
        hi, frontier_us = self._kept.get(name, (0, 0))
        return batch.hi <= hi and batch.frontier_us <= frontier_us

    def _append(self, batch: SpooledBatch, since: float) -> bool:
        """Spool a batch whose oldest row is held since then."""
        try:
            self._sender.append(batch, since)
        except SpoolFull:
            self._refused = batch
            return False
        self._refused = None
        self._spooled_bytes[batch.edge] = self._spooled_bytes.get(batch.edge, 0) + len(batch.payload) + CONTROL_BYTES
        if self._first_append is None:
            self._first_append = since
        return True

    def expire(self, now_us: int) -> None:
        """Give up batches whose deadline has passed; most plans have none."""
        if any(batcher.edge.deadline_us is not None for batcher in self.batchers.values()):
            self._spool.expire(now_us)

    def rates(self, now: float) -> dict[str, float]:
        """Bytes per second that each edge brings to the spool, over this computation's life; none until it is known."""
        if self._first_append is None or now - self._first_append < 1.0:
            return {}
        life_s = now - self._first_append
        return {name: self._spooled_bytes.get(edge_id(name), 0) / life_s for name in self.batchers}

    def _save(self, coming: dict[str, int], now: float) -> None:
        """Write the snapshot for the heads after the coming append; what was appended before must be durable first."""
        self._spool.sync()
        edges = {
            name: OpenEdge(batcher.edge.schema, batcher.shift, batcher.frontier_us, batcher.peek())
            for name, batcher in self.batchers.items()
        }
        self._snapshots.save(
            Snapshot(
                plan=self._digest,
                read_until_us=self._read_until_us,
                origins=self._computation.origins(),
                heads={name: self._spool.head(edge_id(name)) for name in self.batchers} | coming,
                edges=edges,
                state=self._computation.snapshot(),
            )
        )
        self._kept = {name: (kept.rows.hi, kept.frontier_us) for name, kept in edges.items() if kept.rows is not None}
        self._changed_at_us = None
        self._saved_at_us = round(now * MICROSECONDS)
        for name, batcher in self.batchers.items():
            if not batcher.holds and name not in coming:
                self._sender.frontier(edge_id(name), batcher.frontier_us, now - self._within_s[name])


def spool_leftovers(snapshot: Snapshot, sender: Outgoing, spooled_us: int, now: float) -> None:
    """Spool what another plan's computation still held when it ended; its state is of no more use.

    A kill after this finds heads that the snapshot no longer fits, so nothing is spooled twice.
    """
    for name, kept in snapshot.edges.items():
        if kept.rows is not None:
            sender.declare(name, kept.schema)
            sender.append(encode_batch(name, kept.rows, spooled_us), now)


def encode_batch(
    edge: str,
    batch: Batch,
    spooled_us: int,
    *,
    codec: str = AUTO,
    priority: int = 0,
    deadline_us: int | None = None,
    cache: columns.Cache | None = None,
) -> SpooledBatch:
    """The batch as the spool takes it."""
    packed_with, payload = codecs.encode(batch, codec, cache=cache)
    return SpooledBatch(
        edge=edge_id(edge),
        lo=batch.lo,
        hi=batch.hi,
        rows=len(batch),
        schema_id=batch.schema.id,
        applied=batch.applied,
        frontier_us=batch.frontier_us,
        codec=packed_with,
        payload=payload,
        priority=min(max(priority, 0), PRIORITY_MAX),
        deadline=NO_DEADLINE if deadline_us is None else spooled_us + deadline_us,
        spooled_us=spooled_us,
    )
