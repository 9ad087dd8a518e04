"""Promises in a full ring, for every order of batches: none is broken while another batch could have gone."""

from __future__ import annotations

import math

import pytest
from hypothesis import strategies as st

from shared.identity import EdgeId
from shared.spool.entry import DataEntry, SpooledBatch
from shared.spool.evict import Evict
from shared.spool.memory import MemoryDisk
from shared.spool.ring import Spool
from shared.spool.segment import CONTROL_BYTES
from tests.examples_drawn import examples_drawn
from tests.shared.spool.story import DEVICE

CAPACITY = 6000
batches = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(0, 1500)), max_size=80)


def allowance(spool: Spool, edge: EdgeId, promise: float, head: int) -> int:
    given_up = sum(each.hi - each.lo for each in spool.ledger if each.edge == edge)
    return head - given_up - math.ceil(promise * head - 1e-9)


@pytest.mark.covers("EC-10")
@examples_drawn(
    60,
    1_000,
    evict=st.sampled_from([Evict.OLDEST, Evict.QUERY_AWARE, Evict.QUERY_AWARE_BYTES]),
    promises=st.tuples(*[st.sampled_from([0.0, 0.5, 0.9, 1.0])] * 3),
    inserts=batches,
)
def test_a_promise_is_broken_only_when_nothing_else_could_go(
    evict: Evict, promises: tuple[float, ...], inserts: list[tuple[int, int, int]]
) -> None:
    spool = Spool.create(MemoryDisk(), capacity_bytes=CAPACITY, device=DEVICE, incarnation=1, evict=evict)
    kept_min = {EdgeId(number + 1): promise for number, promise in enumerate(promises)}
    for edge, promise in kept_min.items():
        spool.promise(edge, promise)
    for number, count, size in inserts:
        edge, spool_free = EdgeId(number), CAPACITY - spool.statistics().used_bytes
        lo = spool.head(edge)
        before = {each: allowance(spool, each, promise, spool.head(each)) for each, promise in kept_min.items()}
        could_go = 0  # bytes that could have gone within the promises
        for other, allowed in before.items():
            left = allowed
            for entry in spool.pending(other):
                if isinstance(entry, DataEntry) and entry.hi - entry.lo <= left:
                    left -= entry.hi - entry.lo
                    could_go += CONTROL_BYTES + entry.payload_bytes
                elif isinstance(entry, DataEntry):
                    break
        spared = allowance(spool, edge, kept_min[edge], lo + count) >= count
        spool.append(SpooledBatch(edge, lo, lo + count, count, 0, 0, 0, 1, bytes(size)))
        spool.sync()
        broken = [
            each
            for each, promise in kept_min.items()
            if allowance(spool, each, promise, spool.head(each)) < min(0, before[each])
        ]
        if broken:
            assert not spared
            assert spool_free + could_go < CONTROL_BYTES + size
