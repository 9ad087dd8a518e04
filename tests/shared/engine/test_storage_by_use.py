"""What an operator keeps follows from how its stream is used: the latest row, the last n rows, or the last seconds.

State is measured as the bytes of a snapshot: it must not grow with the rows that have gone by.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import resurge as rs
from shared.batch import Batch
from shared.engine.pipeline import Pipeline
from shared.plan.placement import device_fragment
from shared.stream.stream import Stream

SECOND = 1_000_000
x = rs.stream("x", {"v": "float64"})
y = rs.stream("y", {"w": "float64"})
keyed = rs.stream("keyed", {"k": "int64", "v": "float64"})

USES: dict[str, Callable[[], Stream]] = {
    "the latest row": lambda: x.with_latest(y),
    "the latest row of both": lambda: x.combine(y),
    "the latest state": lambda: x.state({"total": 0.0}, total=rs.state.total + rs.col.v),
    "the last row kept": lambda: x.significant("v", change=0.1),
    "the last 5 rows": lambda: x.sliding(count=5).aggregate(v=rs.mean("v"), low=rs.min("v")),
    "the last 4 seconds": lambda: x.sliding("4s").aggregate(v=rs.sum("v")),
    "the last 2 seconds of both": lambda: x.join(y, within="2s"),
    "one open window": lambda: x.tumbling("5s").aggregate(v=rs.sum("v"), middle=rs.quantile("v", 0.5)),
}


def state_bytes(stream: Stream, seconds: int) -> int:
    plan = rs.plan_of(stream)
    pipeline = Pipeline(device_fragment(plan), device="ann")
    draw = np.random.default_rng(5)
    for lo in range(0, seconds, 20):
        times = np.arange(lo, lo + 20) * SECOND
        for source in plan.appended:
            (column,) = source.schema.names
            batch = Batch.of(source.schema, {column: draw.random(20)}, times, lo=lo, frontier_us=int(times[-1]))
            pipeline.push(source.name, batch)
    return len(pipeline.snapshot())


@pytest.mark.covers("SO-20")
@pytest.mark.parametrize("use", USES)
def test_an_operator_keeps_no_more_than_its_use_needs(use: str) -> None:
    soon, later = state_bytes(USES[use](), 200), state_bytes(USES[use](), 4_000)
    assert later <= soon * 1.5, f"{use}: {soon} bytes after 200 rows, {later} after 4000"


KEYED: dict[str, Callable[[Stream], Stream]] = {
    "the last row kept of a key": lambda readings: readings.significant("v", change=0.1),
    "the latest state of a key": lambda readings: readings.state({"n": 0}, n=rs.state.n + 1),
    "the last 5 rows of a key": lambda readings: readings.sliding(count=5).aggregate(v=rs.mean("v")),
}


@pytest.mark.covers("SO-20")
@pytest.mark.parametrize("use", KEYED)
def test_what_is_kept_by_key_is_an_index_a_row_touches_its_own_entry(use: str) -> None:
    """The bytes that a snapshot has to add after one row of one key do not depend on how many keys there are."""
    few, many = changed_bytes(KEYED[use], 100), changed_bytes(KEYED[use], 5_000)
    assert 0 < many <= few * 1.5, f"{few} bytes of 100 keys, {many} of 5000"


def changed_bytes(use: Callable[[Stream], Stream], keys: int) -> int:
    pipeline = Pipeline(device_fragment(rs.plan_of(use(keyed.key_by("device", "k")))), device="ann")

    def push(numbers: np.ndarray, at: int, lo: int) -> None:
        columns = {"k": numbers, "v": np.full(len(numbers), float(at))}
        times = np.full(len(numbers), at * SECOND)
        pipeline.push(
            "keyed",
            Batch.of(pipeline.fragment.input("keyed").schema, columns, times, lo=lo, frontier_us=at * SECOND + 1),
        )

    for at in range(1, 7):
        push(np.arange(keys), at, at * keys)
    pipeline.snapshot()
    pipeline.changes_since_snapshot()
    push(np.array([keys // 2]), 7, 7 * keys)
    return len(pipeline.changes_since_snapshot())
