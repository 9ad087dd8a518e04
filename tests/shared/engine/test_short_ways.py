"""The short ways give the bits of the long ones: single rows, one-operator lanes, quick sliding means."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import resurge as rs
from resurge import col
from shared.batch import END_OF_TIME, NO_FRONTIER, Batch
from shared.engine.pipeline import Pipeline
from shared.engine.pools import Pool
from shared.engine.windowing import TimeWindows
from shared.errors import UsageError
from shared.plan.placement import device_fragment
from shared.stream.declare import plan_of
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


@pytest.mark.covers("SO-17")
@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.parametrize("name", STREAMS)
def test_a_lane_gives_the_bits_of_the_general_way(name: str, odd: bool) -> None:
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


def test_single_rows_pass_the_same_filters_as_batches() -> None:
    stream = (
        source()
        .where((col.x > 0) & (col.y < 1.5) | (col.k == 3))
        .where(col.n != 2)
        .select("n", twice=col.x * 2.0 + col.y)
    )
    pipeline = device_pipeline(stream)
    columns = sample(500, odd=True)
    time = np.arange(500, dtype=np.int64)
    rows = list(zip(time.tolist(), *(columns[name].tolist() for name in COLUMNS), strict=True))
    out: list[tuple[object, ...]] = []
    append = pipeline.row_input("probe", out.append)
    for row in rows:
        append(row)
    expected = rs.evaluate(stream, {"probe": {"time": time, **columns}})["out"]
    listed = list(zip(expected["time"].tolist(), expected["n"].tolist(), expected["twice"].tolist(), strict=True))
    same = [tuple("nan" if isinstance(part, float) and math.isnan(part) else part for part in row) for row in listed]
    assert [
        tuple("nan" if isinstance(part, float) and math.isnan(part) else part for part in row) for row in out
    ] == same
    assert len(pipeline.rows_input("probe")(rows)) == len(out)


def test_rows_are_refused_where_only_batches_can_go() -> None:
    pipeline = device_pipeline(source().tumbling("1s").aggregate(n=rs.count()))
    with pytest.raises(UsageError, match="pipeline-rows"):
        pipeline.row_input("probe", print)


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
