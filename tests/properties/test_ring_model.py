"""The ring against a plain list, with crash as a rule; and query-aware eviction against the paper's Algorithm 1."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from shared.identity import EdgeId
from shared.spool.entry import DataEntry, Reason, SpooledBatch, Tombstone
from shared.spool.evict import Evict
from shared.spool.memory import MemoryDisk
from shared.spool.ring import Spool
from shared.spool.segment import CONTROL_BYTES
from tests.shared.spool.crash_disk import CrashDisk
from tests.shared.spool.story import DEVICE, payload_for

EDGES = [EdgeId(1), EdgeId(2), EdgeId(3)]


class PaperBuffer:
    """Algorithm 1 of NebulaStream-MSS, line by line. Ties, which it leaves open: the query whose oldest batch is oldest."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.batches: list[tuple[int, int, int]] = []  # (query, name, bytes) in buffer order
        self.batch_counter: dict[int, int] = {}

    def available(self) -> int:
        return self.size - sum(CONTROL_BYTES + size for _, _, size in self.batches)

    def insert(self, query: int, name: int, size: int) -> None:
        while self.available() < CONTROL_BYTES + size:
            delete = query
            if not any(other == query for other, _, _ in self.batches):
                highest = max(self.batch_counter.values())
                delete = next(other for other, _, _ in self.batches if self.batch_counter[other] == highest)
            oldest = next(place for place, batch in enumerate(self.batches) if batch[0] == delete)
            del self.batches[oldest]  # "move up subsequent batches"
            self.batch_counter[delete] -= 1
        self.batches.append((query, name, size))
        self.batch_counter[query] = self.batch_counter.get(query, 0) + 1


@pytest.mark.covers("NB-6", "NB-8", "T6")
@settings(max_examples=120, deadline=None)
@given(
    st.integers(4096, 12_000),
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3900)), max_size=120),
)
def test_query_aware_eviction_is_algorithm_1(capacity: int, inserts: list[tuple[int, int]]) -> None:
    paper = PaperBuffer(capacity)
    spool = Spool.create(MemoryDisk(), capacity_bytes=capacity, device=DEVICE, incarnation=1)
    for query, size in inserts:
        edge = EdgeId(query)
        name = spool.head(edge)
        spool.append(SpooledBatch(edge, name, name + 1, 1, 0, 0, 0, 1, bytes(size)))
        paper.insert(query, name, size)
    spool.sync()
    kept = [e for edge in spool.edges() for e in spool.pending(edge) if isinstance(e, DataEntry)]
    assert [(e.edge, e.lo, e.payload_bytes) for e in sorted(kept, key=lambda e: e.order)] == paper.batches
    assert spool.statistics().used_bytes == capacity - paper.available()


class RingAgainstList(RuleBasedStateMachine):
    """`model` is per edge a list of (lo, hi, payload or reason); `durable` what it was at the last sync."""

    @initialize(
        evict=st.sampled_from([Evict.QUERY_AWARE, Evict.OLDEST, Evict.QUERY_AWARE_BYTES]), seed=st.integers(0, 99)
    )
    def create(self, evict: Evict, seed: int) -> None:
        self.random = Random(seed)
        self.disk = CrashDisk()
        self.spool = Spool.create(
            self.disk, capacity_bytes=4096, device=DEVICE, incarnation=1, evict=evict, journal_bytes=4096
        )
        self.durable_heads: dict[EdgeId, int] = {}

    @rule(edge=st.sampled_from(EDGES), count=st.integers(1, 50), size=st.integers(0, 1500))
    def append(self, edge: EdgeId, count: int, size: int) -> None:
        lo = self.spool.head(edge)
        payload = payload_for(edge, lo, lo + count, size)
        self.spool.append(SpooledBatch(edge, lo, lo + count, count, size, 0, 0, 1, payload))
        assert self.spool.head(edge) == lo + count

    @rule(edge=st.sampled_from(EDGES))
    def append_too_large(self, edge: EdgeId) -> None:
        lo = self.spool.head(edge)
        refused = self.spool.append(SpooledBatch(edge, lo, lo + 4, 4, 0, 0, 0, 1, bytes(5000)))
        assert isinstance(refused, Tombstone)
        assert refused.reason is Reason.REJECTED
        assert refused.hi == self.spool.head(edge) == lo + 4

    @rule()
    def sync(self) -> None:
        self.spool.sync()
        self.durable_heads = {edge: self.spool.head(edge) for edge in EDGES}

    @rule(edge=st.sampled_from(EDGES), data=st.data())
    def trim(self, edge: EdgeId, data: st.DataObject) -> None:
        ends = [entry.hi for entry in self.spool.pending(edge)]
        if ends:
            through = data.draw(st.sampled_from(ends))
            self.spool.trim(edge, through)
            assert all(entry.lo >= through for entry in self.spool.pending(edge))

    @rule(edge=st.sampled_from(EDGES), data=st.data())
    def send_and_freeze(self, edge: EdgeId, data: st.DataObject) -> None:
        ends = [entry.hi for entry in self.spool.pending(edge)]
        if ends:
            self.spool.sent(edge, data.draw(st.sampled_from(ends)))

    @rule(fates=st.sampled_from(["K", "D", "KDTG", "KD"]))
    def crash(self, fates: str) -> None:
        image = self.disk.image(self.random, fates)
        self.disk = CrashDisk()
        for name, file in image.files.items():
            self.disk.replace(name, bytes(file.content))
        self.spool = Spool.open(self.disk)
        for edge, head in self.durable_heads.items():
            assert self.spool.head(edge) >= head
        self.durable_heads = {edge: self.spool.head(edge) for edge in EDGES}

    @rule()
    def close_and_open(self) -> None:
        before = self.spool.statistics()
        self.spool.close()
        self.spool = Spool.open(self.disk)
        assert self.spool.statistics().edges == before.edges
        self.durable_heads = {edge: self.spool.head(edge) for edge in EDGES}

    @invariant()
    def everything_is_accounted_for(self) -> None:
        if not hasattr(self, "spool"):
            return
        statistics = self.spool.statistics()
        assert statistics.used_bytes <= statistics.capacity_bytes
        assert statistics.damage == 0
        for edge in statistics.edges:
            buried = sum(
                e.hi - e.lo
                for e in self.spool._contents.edges[edge.edge].entries(edge.delivered)
                if isinstance(e, Tombstone)
            )
            assert edge.head == edge.delivered + edge.elements + buried
            at = edge.delivered
            for entry in self.spool.pending(edge.edge):
                assert entry.lo == at
                at = entry.hi
                if isinstance(entry, DataEntry):
                    batch = self.spool.read(entry)
                    assert batch.payload == payload_for(edge.edge, entry.lo, entry.hi, entry.schema_id)


RingAgainstList.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestRingAgainstList = pytest.mark.covers("NB-5", "NB-8", "T6")(RingAgainstList.TestCase)
