"""Batches per edge: when they close, how they are numbered and cut."""

from __future__ import annotations

import numpy as np
import pytest

from mobile_app.spool.batching import EdgeBatcher
from shared.batch import Batch
from shared.errors import BrokenInvariant
from shared.language.schema import Schema
from shared.plan.contracts import LOSSLESS
from shared.plan.graph import SyncEdge

SCHEMA = Schema.of({"v": "float64"})
SECOND_US = 1_000_000


def edge(rows: int = 10, size: int = 1 << 16, within_s: int = 60) -> SyncEdge:
    return SyncEdge("gps", SCHEMA, rows, size, within_s * SECOND_US, "auto", "query", 0, None, LOSSLESS)


def batch(lo: int, values: list[float]) -> Batch:
    times = np.arange(lo, lo + len(values)) * SECOND_US
    return Batch.of(SCHEMA, {"v": values}, times, lo=lo)


def test_numbers_go_on_from_the_spools_head_whatever_the_pipeline_counts():
    batcher = EdgeBatcher(edge(), head=100)
    batcher.add(batch(7, [1.0, 2.0]), 0)
    batcher.add(batch(9, [3.0]), 0)
    taken = batcher.take()
    assert (taken.lo, taken.hi, taken.seq.tolist()) == (100, 103, [100, 101, 102])


def test_a_gap_in_the_pipelines_numbers_is_never_papered_over():
    batcher = EdgeBatcher(edge(), head=0)
    batcher.add(batch(0, [1.0]), 0)
    with pytest.raises(BrokenInvariant, match="batching-gap"):
        batcher.add(batch(2, [1.0]), 0)


def test_a_batch_closes_by_rows_bytes_or_age():
    by_rows, by_bytes, by_age = (
        EdgeBatcher(edge(rows=3), head=0),
        EdgeBatcher(edge(size=40), head=0),
        EdgeBatcher(edge(), head=0),
    )
    for batcher in (by_rows, by_bytes, by_age):
        batcher.add(batch(0, [1.0, 2.0]), 0)
        assert not batcher.due(59 * SECOND_US)
        batcher.add(batch(2, [3.0]), 0)
    assert by_rows.due(0)
    assert by_bytes.due(0)
    assert by_age.due(60 * SECOND_US)


def test_compressed_time_waits_less_in_real_time():
    batcher = EdgeBatcher(edge(within_s=60), head=0, speed=30.0)
    batcher.add(batch(0, [1.0]), 0)
    assert not batcher.due(SECOND_US)
    assert batcher.due(2 * SECOND_US)


def test_numbers_whose_rows_were_filtered_away_are_covered_too():
    batcher = EdgeBatcher(edge(), head=0)
    empty = Batch(SCHEMA, {"v": np.zeros(0)}, np.zeros(0, np.int64), np.zeros(0, np.int64), 0, 5)
    batcher.add(empty, 0)
    batcher.reach(9)
    assert batcher.holds
    assert not batcher.due(SECOND_US)
    assert batcher.due(60 * SECOND_US)
    taken = batcher.take()
    assert (len(taken), taken.lo, taken.hi, taken.frontier_us) == (0, 0, 5, 9)
    assert not batcher.holds


def test_more_rows_than_a_batch_may_have_are_cut_and_each_promises_no_more_than_what_is_left_allows():
    batcher = EdgeBatcher(edge(rows=4), head=0)
    batcher.add(batch(0, [1.0] * 2), 0)
    batcher.reach(50)
    batcher.take()
    batcher.add(batch(2, [float(value) for value in range(10)]), 0)
    batcher.reach(12 * SECOND_US)
    pieces = []
    while batcher.holds:
        pieces.append(batcher.take())
    cuts = [(piece.lo, piece.hi, piece.frontier_us) for piece in pieces]
    assert cuts == [(2, 6, 6 * SECOND_US), (6, 10, 10 * SECOND_US), (10, 12, 12 * SECOND_US)]
    assert np.concatenate([piece.columns["v"] for piece in pieces]).tolist() == list(range(10))


def test_a_row_that_came_late_holds_the_frontier_of_a_cut_back_and_none_goes_back():
    batcher = EdgeBatcher(edge(rows=2), head=0)
    times = np.array([10, 20, 30, 5, 40])
    batcher.add(Batch.of(SCHEMA, {"v": np.zeros(5)}, times, lo=0), 0)
    batcher.reach(35)
    assert [batcher.take().frontier_us for _ in range(3)] == [5, 35, 35]
