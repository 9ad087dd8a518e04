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
