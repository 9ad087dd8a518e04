"""Event-driven programs run in this process: subscribe, append, sensors read on request."""

from __future__ import annotations

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
