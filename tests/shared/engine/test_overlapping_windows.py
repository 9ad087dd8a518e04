"""Windows that overlap do not cost more for that: the work is counted, as no speed is a test."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import resurge as rs
from shared.batch import END_OF_TIME, Batch
from shared.engine.pipeline import Pipeline
from shared.engine.pools import Pool
from shared.engine.rows import Rows
from shared.engine.spans import Answers, CountSpans
from shared.plan.placement import device_fragment
from shared.stream.stream import Stream

ROWS = 16_384


def through(stream: Stream) -> int:
    """How many windows come out for so many rows, a millisecond apart."""
    pipeline = Pipeline(device_fragment(rs.plan_of(stream.subscribe("out"))), device="ann")
    values = np.random.default_rng(3).standard_normal(ROWS)
    batch = Batch.of(pipeline.fragment.inputs[0].schema, {"v": values}, np.arange(ROWS) * 1_000)
    made = [*pipeline.push("x", batch), *pipeline.advance("x", END_OF_TIME)]
    return sum(len(out) for _, out in made)


@pytest.mark.covers("SO-17")
@pytest.mark.parametrize(
    "aggregate", [rs.mean("v"), rs.variance("v"), rs.dft("v", 3)], ids=["mean", "variance", "transform"]
)
def test_a_row_takes_part_in_as_much_work_in_a_window_of_1024_rows_as_in_one_of_16(
    aggregate: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    folded: Counter[int] = Counter()
    grid = CountSpans._grid

    def counted(self: CountSpans, values: np.ndarray, fill: object) -> np.ndarray:
        made = grid(self, values, fill)
        folded[self.size] += made.size
        return made

    def one_by_one(*_: object) -> dict[str, np.ndarray]:
        raise AssertionError("each window from its own rows")

    monkeypatch.setattr(CountSpans, "_grid", counted)
    monkeypatch.setattr(Answers, "_one_by_one", one_by_one)
    for size in (16, 1_024):
        windows = through(rs.stream("x", {"v": "float64"}).sliding(count=size).aggregate(a=aggregate))
        assert windows == ROWS - size + 1
    assert folded[16] >= ROWS
    assert folded[1_024] < 1.2 * folded[16]


@pytest.mark.covers("SO-17")
@pytest.mark.parametrize("seconds", [1, 8])
def test_a_row_is_folded_once_however_many_windows_it_is_in(seconds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    folded: list[int] = []
    fold = Pool.fold

    def counted(self: Pool, slots: np.ndarray, rows: Rows) -> None:
        folded.append(len(slots))
        fold(self, slots, rows)

    monkeypatch.setattr(Pool, "fold", counted)
    stream = rs.stream("x", {"v": "float64"}).hopping(f"{seconds}s", every="1s")
    windows = through(stream.aggregate(m=rs.mean("v"), s=rs.variance("v")))
    assert windows == 17 + seconds - 1
    assert sum(folded) == ROWS
