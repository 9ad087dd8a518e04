"""Event-driven programs run in this process: subscribe, append, sensors read on request."""

from __future__ import annotations

import math

import numpy as np
import pytest

import resurge as rs
from resurge import col
from shared.errors import UsageError

S = 1_000_000


class Seen:
    """A callback that keeps what it was given."""

    def __init__(self) -> None:
        self.rows: list[dict[str, list]] = []

    def __call__(self, columns) -> None:
        self.rows.append({name: column.tolist() for name, column in columns.items()})


@pytest.mark.covers("SO-1")
def test_a_subscribed_callback_is_triggered_by_every_append() -> None:
    trip_segmentation = Seen()
    trace = rs.stream("trace", {"lat": "float64", "lon": "float64"})
    live = rs.Live(trace.subscribe(trip_segmentation))
    live.append(trace, time=5, lat=47.0, lon=8.5)
    live.append(trace, time=[6, 7], lat=[47.1, 47.2], lon=[8.5, 8.6])
    assert [row["lat"] for row in trip_segmentation.rows] == [[47.0], [47.1, 47.2]]
    assert trip_segmentation.rows[0]["time"] == [5]


@pytest.mark.covers("SO-5")
def test_a_window_goes_out_when_time_has_passed_it() -> None:
    seen = Seen()
    x = rs.stream("x", {"v": "float64"})
    live = rs.Live(x.tumbling("5s").mean("v").subscribe(seen))
    live.append(x, time=1 * S, v=1.0)
    live.append(x, time=4 * S, v=3.0)
    assert seen.rows == []
    live.append(x, time=5 * S, v=9.0)
    assert seen.rows[0]["v"] == [2.0]
    live.close()
    assert seen.rows[1]["v"] == [9.0]


@pytest.mark.covers("SO-3")
def test_whoever_appends_a_signal_has_the_sensor_read_between_its_intervals() -> None:
    """Sonora's Activate(): the timer has its reading, and a button that somebody presses another."""
    readings = iter([{"ppm": 400.0}, {"ppm": 410.0}, {"ppm": 420.0}])
    seen = Seen()
    button = rs.stream("button", {"tick": "int64"})
    signals = rs.timer("30s").select("tick").union(button, merge="arrival")
    live = rs.Live(signals.read("co2", {"ppm": "float64"}).subscribe(seen), sensors={"co2": lambda: next(readings)})
    live.append("timer 30s", time=0, tick=0)
    live.append(button, time=7 * S, tick=0)
    live.append("timer 30s", time=30 * S, tick=1)
    live.close()
    assert [(row["time"], row["ppm"]) for row in seen.rows] == [([0], [400.0]), ([7 * S], [410.0]), ([30 * S], [420.0])]


@pytest.mark.covers("SO-3", "SO-8")
def test_each_signal_queries_the_sensor_once() -> None:
    readings = iter([{"ppm": 400.0}, {"ppm": 410.0}])
    seen = Seen()
    signals = rs.timer("30s").where(col.tick % 2 == 0)
    live = rs.Live(signals.read("co2", {"ppm": "float64"}).subscribe(seen), sensors={"co2": lambda: next(readings)})
    for tick in range(4):
        live.append("timer 30s", time=tick * 30 * S, tick=tick)
    assert [(row["time"], row["ppm"]) for row in seen.rows] == [([0], [400.0]), ([60 * S], [410.0])]


@pytest.mark.covers("SO-2")
def test_zip_waits_for_both_and_combine_fires_for_either() -> None:
    zipped, combined = Seen(), Seen()
    x, y = rs.stream("x", {"v": "float64"}), rs.stream("y", {"w": "float64"})
    live = rs.Live(
        x.zip(y).subscribe(zipped, name="zipped"), x.combine(y, merge="arrival").subscribe(combined, name="combined")
    )
    for time, value in ((0, 1.0), (10, 2.0)):
        live.append(x, time=time, v=value)
    live.append(y, time=20, w=10.0)
    live.close()
    assert [(row["v"], row["w"]) for row in zipped.rows] == [([1.0], [10.0])]
    assert [(row["v"], row["w"]) for row in combined.rows] == [([2.0], [10.0])]


def test_what_cannot_run_live_is_refused() -> None:
    x = rs.stream("x", {"v": "float64"})
    with pytest.raises(UsageError, match="live-cloud"):
        rs.Live(x.sync("up").subscribe("out"))
    live = rs.Live(x.where(col.v > 0).subscribe("out"))
    with pytest.raises(UsageError, match="live-input"):
        live.append("y", time=0, v=1.0)
    with pytest.raises(UsageError, match="look at 'w'"):
        live.append(x, time=0, v=1.0, w=2.0)
    with pytest.raises(UsageError, match="appended to a source"):
        live.append(x.where(col.v > 0), time=0, v=1.0)
    with pytest.raises(UsageError, match="live-sensor"):
        rs.Live(x.read("gps").subscribe("out")).append(x, time=0, v=1.0)


FEW_KINDS = {"x": "float64", "f": "float32", "n": "int16", "b": "bool", "t": "str"}


@pytest.mark.parametrize(
    "predicate",
    [
        col.x > 0.5,
        (col.f == 0.1) | (col.n // 3 == 1),
        col.b & (col.t == "a"),
        (col.x / col.n > 1) | (1 / col.x < 0),
        (col.x**0.5 > 1) & (col.time > 5),
        rs.call("is_missing", col.x) | rs.like(col.t, "b%"),
    ],
)
def test_rows_dropped_one_by_one_are_those_that_a_batch_drops(predicate: object) -> None:
    draw = np.random.default_rng(8)
    rows = 200
    given = {
        "x": draw.choice([0.0, -0.0, 1.5, math.inf, -math.inf, math.nan, -3.0], rows).tolist(),
        "f": draw.choice([0.1, 0.5, math.nan, -1e38], rows).tolist(),
        "n": draw.integers(-5, 5, rows).tolist(),
        "b": (draw.random(rows) < 0.5).tolist(),
        "t": draw.choice(["a", "b", "bb"], rows).tolist(),
    }
    stream = rs.stream("in", FEW_KINDS)
    one_by_one: list[float] = []
    live = rs.Live(stream.where(predicate).subscribe(lambda out: one_by_one.extend(out["time"].tolist()), name="out"))
    for place in range(rows):
        live.append("in", time=place, **{name: values[place] for name, values in given.items()})
    whole = rs.evaluate(stream.where(predicate), {"in": {"time": list(range(rows)), **given}})["out"]
    assert one_by_one == whole["time"].tolist()
    assert live._drops, "the filter was not asked before the engine"


@pytest.mark.parametrize(
    "wrong", [{"n": 40_000}, {"n": 1.5}, {"x": "1"}, {"f": 1e39}, {"b": 2}, {"t": 1}, {"y": 1.0}, {"time": "now"}]
)
def test_a_row_that_a_filter_would_drop_is_refused_as_any_other(wrong: dict[str, object]) -> None:
    live = rs.Live(rs.stream("in", FEW_KINDS).where(col.x > 0.5).subscribe(print, name="out"))
    row: dict[str, object] = {"time": 1, "x": 0.0, "f": 0.0, "n": 0, "b": False, "t": ""}
    live.append("in", **row)
    with pytest.raises(rs.ResurgeError):
        live.append("in", **{**row, **wrong})


def test_rows_are_not_dropped_early_where_somebody_reads_them_or_waits_for_time() -> None:
    stream = rs.stream("in", {"x": "float64"})
    kept = stream.where(col.x > 0.5)
    assert not rs.Live(stream.subscribe(print, name="all"), kept.subscribe(print, name="some"))._drops
    assert not rs.Live(kept.tumbling("1s").mean("x").subscribe(print, name="means"))._drops


def test_a_live_program_is_its_own_region() -> None:
    seen, high = Seen(), Seen()
    x = rs.stream("x", {"v": "float64"})
    room = x.gather("x").key_by().tumbling("1s").aggregate(v=rs.mean("v"), device=rs.last("device"))
    live = rs.Live(room.subscribe(seen, name="room"), room.where(col.v > 2).subscribe(high, name="high"), device="ann")
    live.append(x, time=[0, 1, 1 * S], v=[1.0, 2.0, 5.0])
    live.close()
    assert [row["v"] for row in seen.rows] == [[1.5], [5.0]]
    assert [row["device"] for row in seen.rows] == [["ann"], ["ann"]]
    assert [row["v"] for row in high.rows] == [[5.0]]
