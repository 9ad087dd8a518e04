"""A batch's verbs: what is taken, cut and joined keeps its numbers and covers what it covered."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from shared.batch import Batch
from shared.language.schema import Schema

SCHEMA = Schema.of({"v": "float64"})


def batch(lo: int = 10) -> Batch:
    """Rows 11, 13 and 14 of the numbers 10 to 15: the others were filtered away."""
    made = Batch.of(SCHEMA, {"v": [1.0, 2.0, 3.0]}, [0, 1, 2], lo=lo, frontier_us=2)
    return replace(made, seq=np.array([11, 13, 14]) + lo - 10, hi=lo + 6)


def test_slices_that_meet_cover_what_the_batch_covers() -> None:
    first, second = batch().slice(0, 2), batch().slice(2)
    assert (first.lo, first.hi, second.lo, second.hi) == (10, 14, 14, 16)
    assert first.columns["v"].tolist() == [1.0, 2.0]
    joined = Batch.joined([first, second])
    assert (joined.lo, joined.hi, joined.seq.tolist(), joined.time_us.tolist()) == (10, 16, [11, 13, 14], [0, 1, 2])
    assert batch().slice(0, 3).hi == 16


def test_taken_rows_keep_the_covered_range() -> None:
    taken = batch().take(np.array([0, 2]))
    assert (taken.lo, taken.hi, taken.seq.tolist(), taken.columns["v"].tolist()) == (10, 16, [11, 14], [1.0, 3.0])


def test_joined_batches_carry_the_last_ones_frontier() -> None:
    joined = Batch.joined([batch(), replace(batch(16), frontier_us=9)])
    assert (joined.frontier_us, joined.lo, joined.hi, len(joined)) == (9, 10, 22, 6)
