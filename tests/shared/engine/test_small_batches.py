"""Small batches on a device give the bits of one large one, and panes merged at once those of one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import resurge as rs
from resurge import col
from shared.batch import END_OF_TIME, NO_FRONTIER, Batch
from shared.engine.pipeline import Pipeline
from shared.engine.pools import Pool
from shared.engine.time_windows import TimeWindows
from shared.plan.placement import device_fragment
from shared.stream.declarations import plan_of
from shared.stream.stream import Stream

COLUMNS = {"x": "float64", "y": "float32", "k": "uint16", "n": "int64"}


def source() -> Stream:
    return rs.sensor("probe", every="1s", columns=COLUMNS)


def device_pipeline(stream: Stream) -> Pipeline:
    return Pipeline(device_fragment(plan_of(stream.subscribe("out"))), device="me")


def sample(rows: int, *, odd: bool) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(rows)
    x = draw.standard_normal(rows) * 10.0 ** draw.integers(-5, 5, rows)
    if odd:
        x[rows // 3], x[rows // 2] = np.nan, np.inf
    return {
        "x": x,
        "y": draw.standard_normal(rows).astype(np.float32),
        "k": draw.integers(0, 6, rows).astype(np.uint16),
        "n": draw.integers(-5, 5, rows),
    }


STREAMS = {
    "sliding mean": lambda: source().sliding(count=10).mean("x").select("x"),
    "sliding mean with bounds": lambda: source().sliding(count=10).mean("y"),
    "keyed tumbling": lambda: (
        source().key_by("device", "k").tumbling("1s").aggregate(n=rs.count(), m=rs.mean("x"), h=rs.max("x"))
    ),
    "keyed hopping": lambda: (
        source().key_by("device", "k").hopping("1s", every="100ms").aggregate(m=rs.mean("x"), s=rs.std("x"))
    ),
    "filter": lambda: source().where(col.x > 0).where(col.k < 4),
}


@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.parametrize("name", STREAMS)
def test_small_batches_give_the_bits_of_one_large_one(name: str, odd: bool) -> None:
    rows = 9_000  # two anchors
    columns = sample(rows, odd=odd)
    time = np.arange(rows, dtype=np.int64) * 1_000
    expected = rs.evaluate(STREAMS[name](), {"probe": {"time": time, **columns}})["out"]
    pipeline = device_pipeline(STREAMS[name]())
    schema = pipeline.fragment.inputs[0].schema
    draw = np.random.default_rng(1)
    cuts = [0, *sorted(draw.integers(0, rows, 40).tolist()), rows]
    found: list[Batch] = []
    for start, stop in itertools.pairwise(cuts):
        piece = {column: values[start:stop] for column, values in columns.items()}
        frontier = int(time[stop]) if stop < rows else NO_FRONTIER
        found += [
            out
            for _, out in pipeline.push(
                "probe", Batch.of(schema, piece, time[start:stop], lo=start, frontier_us=frontier)
            )
        ]
        if start % 5 == 0:
            state = pipeline.snapshot()
            pipeline = device_pipeline(STREAMS[name]())
            pipeline.restore(state)
    found += [out for _, out in pipeline.advance("probe", END_OF_TIME)]
    for column, values in expected.items():
        if column != "device":
            mine = np.concatenate([out.time_us if column == "time" else out.columns[column] for out in found])
            assert mine.tobytes() == values.tobytes(), column


@pytest.mark.parametrize("odd", [False, True])
def test_merging_panes_at_once_gives_the_bits_of_one_after_the_other(odd: bool) -> None:
    asked = {
        "n": rs.count(), "values": rs.count("x"), "total": rs.sum("x"), "whole": rs.sum("n"), "mean": rs.mean("x"),
        "low": rs.min("y"), "high": rs.max("x"), "spread": rs.variance("x"), "first": rs.first("x"), "last": rs.last("n"),
    }  # fmt: skip
    pipeline = device_pipeline(source().key_by("device", "k").hopping("1s", every="100ms").aggregate(**asked))
    columns = sample(400, odd=odd)
    columns["k"][:40] = 9  # a key of the first panes only
    schema = pipeline.fragment.inputs[0].schema
    pipeline.push("probe", Batch.of(schema, columns, np.arange(400) * 2_500))
    (windows,) = pipeline._operators
    assert isinstance(windows, TimeWindows)
    windows.dump()  # rows wait to be folded until they must be
    pools = [pane.pool for _, pane in sorted(windows.panes.items())]
    keys = len(windows.key)
    every = np.arange(keys)
    one_by_one = Pool(windows.aggregation)
    one_by_one.reserve(keys)
    with np.errstate(all="ignore"):
        for pool in pools:
            one_by_one.merge(every, pool, every)
        expected, found = one_by_one.results(every), Pool.merged(windows.aggregation, pools, keys).results(every)
    assert len(pools) == 10
    assert {name: column.tobytes() for name, column in found.items()} == {
        name: column.tobytes() for name, column in expected.items()
    }
