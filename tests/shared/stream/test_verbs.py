"""Each verb: the type it gives, the answer it gives, and what it refuses with the user's line."""

from __future__ import annotations

import json

import numpy as np
import pytest

import resurge as rs
from resurge import col, state
from shared.errors import UsageError

S = 1_000_000
X = {"v": "float64", "w": "str", "i": "int64"}


@rs.operator("verbs_scale", takes={"v": "float64"}, gives={"v": "float64"})
class Scale:
    """Multiplies by a parameter that a config stream may set; counts rows, so that it has state to snapshot."""

    def __init__(self, *, factor: float = 1.0) -> None:
        self.factor = factor
        self.seen = 0

    def process(self, port, row):
        self.seen += 1
        yield {"v": row["v"] * self.factor}

    def snapshot(self):
        return json.dumps([self.factor, self.seen]).encode()

    def restore(self, state):
        self.factor, self.seen = json.loads(state)


@rs.operator("verbs_width", takes={"v": "float64"}, gives={"range": "float64"}, over="window")
def value_range(window: dict[str, np.ndarray], *, by: float = 1.0) -> dict[str, float]:
    return {"range": by * float(window["v"].max() - window["v"].min())}


@rs.operator(
    "verbs_split", takes={"v": "float64"}, gives={"low": {"v": "float64"}, "high": {"v": "float64", "row": "int64"}}
)
class Split:
    def __init__(self) -> None:
        self.row = 0

    def process(self, port, row):
        self.row += 1
        yield ("low", {"v": row["v"]}) if row["v"] < 0 else ("high", {"v": row["v"], "row": self.row})

    def snapshot(self):
        return str(self.row).encode()

    def restore(self, state):
        self.row = int(state)


@rs.aggregate("verbs_range", takes={"v": "float64"}, gives="float64")
class Range:
    def __init__(self, *, scale: float = 1.0) -> None:
        self.scale, self.least, self.most = scale, float("inf"), float("-inf")

    def add(self, value):
        self.least, self.most = min(self.least, value), max(self.most, value)

    def result(self):
        return (self.most - self.least) * self.scale

    def snapshot(self):
        return json.dumps([self.least, self.most]).encode()

    def restore(self, state):
        self.least, self.most = json.loads(state)


def x() -> rs.Stream:
    return rs.stream("x", X)


def rows(*values: float, **more: list) -> dict[str, list]:
    count = len(values)
    return {
        "time": [n * S for n in range(count)],
        "v": list(values),
        "w": ["a"] * count,
        "i": list(range(count)),
        **more,
    }


def out(stream: rs.Stream, *columns: str, **inputs: dict) -> list:
    found = rs.evaluate(stream, inputs)["out"]
    return [found[name].tolist() for name in columns]


@pytest.mark.covers("SO-4", "EC-1")
def test_every_stream_has_time_and_device_and_keeps_its_key_through_select() -> None:
    chosen = x().select("v", t=col.time)
    assert chosen.schema.names == ("device", "v", "t")
    assert chosen.key == ("device",)
    assert out(chosen, "t", x=rows(1.0, 2.0)) == [[0, S]]


def test_extend_adds_and_replaces() -> None:
    assert x().extend(v=col.v * 2, k=1).schema.names == ("device", "v", "w", "i", "k")
    assert out(x().extend(v=col.v * 2), "v", x=rows(1.0, 2.0)) == [[2.0, 4.0]]


@pytest.mark.covers("SO-4")
def test_group_by_is_key_by() -> None:
    grouped = x().sync("x").group_by("w").tumbling("1h").aggregate(n=rs.count())
    assert out(grouped, "w", "n", x=rows(1.0, 2.0, 3.0, w=["b", "a", "b"])) == [["a", "b"], [1, 2]]


@pytest.mark.covers("SO-13")
def test_significant_drops_small_moves_at_the_source() -> None:
    gps = rs.sensor("gps", every="5s").significant("lat", "lon", metres=15)
    lat = [47.0, 47.0001, 47.0002, 47.0002]  # 11 m, 22 m from the first
    found = rs.evaluate(gps, {"gps": {"time": [0, 1, 2, 3], "lat": lat, "lon": [8.0] * 4}})["out"]
    assert found["lat"].tolist() == [47.0, 47.0002]


@pytest.mark.covers("EC-3")
def test_a_config_stream_sets_parameters_from_its_time_on() -> None:
    config = rs.stream("config", {"factor": "float64"})
    scaled = x().apply("verbs_scale", config=config)
    found = out(scaled, "v", x=rows(1.0, 1.0, 1.0, 1.0), config={"time": [S + 1, 3 * S - 1], "factor": [10.0, 100.0]})
    assert found == [[1.0, 1.0, 10.0, 100.0]]


@pytest.mark.covers("EC-3", "SO-6")
def test_a_config_stream_sets_a_state() -> None:
    reset = rs.stream("reset", {"n": "int64"})
    counted = x().state({"n": 0}, n=state.n + 1, config=reset)
    assert out(counted, "n", x=rows(1.0, 1.0, 1.0), reset={"time": [S + 1], "n": [50]}) == [[1, 2, 51]]


@pytest.mark.covers("EC-2", "EC-4")
def test_a_users_operator_with_two_output_ports() -> None:
    split = x().apply("verbs_split")
    plan = rs.plan_of(split.port("low").subscribe("low"), split.port("high").subscribe("high"))
    found = rs.evaluate(plan, {"x": rows(1.0, -2.0, 3.0)})
    assert found["low"]["v"].tolist() == [-2.0]
    assert found["high"]["row"].tolist() == [1, 3]


def test_a_users_aggregate_with_a_parameter() -> None:
    windowed = x().tumbling("1h").aggregate(spread=rs.user_aggregate("verbs_range", "v", scale=2.0), n=rs.count())
    assert out(windowed, "spread", "n", x=rows(1.0, 4.0, 2.0)) == [[6.0], [3]]


@pytest.mark.covers("EC-31")
def test_feedback_attenuates_a_sensor_through_a_cycle() -> None:
    """OSIRIS-SE's SP3: the average goes back and lowers what comes in above a threshold."""
    back = rs.feedback("attenuation", {"scale": "float64"})
    damped = x().with_latest(back, defaults={"scale": 1.0}).select(v=col.v * col.scale)
    average = damped.sliding(count=2).aggregate(v=rs.mean("v"))
    average.where(col.v > 5).select(scale=0.5).feed(back)
    live_rows: list[float] = []

    def keep(columns) -> None:
        live_rows.extend(columns["v"].tolist())

    live = rs.Live(damped.subscribe(keep))
    for second, value in enumerate((1.0, 20.0, 20.0, 20.0)):
        live.append("x", time=second * S, v=value, w="", i=0)
    live.close()
    assert live_rows[:2] == [1.0, 20.0]
    assert live_rows[-1] == 10.0


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (lambda: x().where(col.v), "where"),
        (lambda: x().where(col.vv > 1), "column-unknown"),
        (lambda: x().select(time=col.v), "column-name"),
        (lambda: x().select(device=col.v), "select-key"),
        (lambda: x().extend(device="a"), "select-key"),
        (lambda: x().key_by("i").extend(i=col.i % 2), "select-key"),
        (lambda: x().key_by("device", "i").extend(i=col.i % 2).key_by("i"), "select-key"),
        (lambda: x().key_by("v"), "key-kind"),
        (lambda: x().key_by("i", merge="sorted"), "merge-mode"),
        (lambda: x().tumbling("1s").aggregate(), "aggregate-none"),
        (lambda: x().tumbling("1s").aggregate(device=rs.count()), "select-key"),
        (lambda: x().tumbling("1s").aggregate(complete=rs.count()), "column-twice"),
        (lambda: x().tumbling("1s").aggregate(m=rs.mean("w")), "aggregate-type"),
        (lambda: x().tumbling(), "window-size"),
        (lambda: x().tumbling("1s", count=3), "window-size"),
        (lambda: x().tumbling("soon"), "duration"),
        (lambda: x().hopping("1s", every="2s"), "window-hop"),
        (lambda: x().sliding(count=0), "window-size"),
        (lambda: x().join(x()), "join-interval"),
        (lambda: x().sync("x").key_by("w").zip(x().sync("x")), "graph-alphabet"),
        (lambda: x().with_latest(rs.timer("1s"), defaults={"tock": 1}), "latest-defaults"),
        (lambda: x().with_latest(rs.timer("1s"), defaults={"tick": "one"}), "latest-defaults"),
        (lambda: x().state({"n": 0}, m=state.n + 1), "state-type"),
        (lambda: x().state({"n": 0}, n=col.w), "state-type"),
        (lambda: x().state({}), "state-none"),
        (lambda: x().significant("v"), "significant"),
        (lambda: x().significant("w", change=1.0), "significant"),
        (lambda: x().significant("v", metres=15), "significant"),
        (lambda: x().apply("verbs_scale", factor="two"), "operator-parameter"),
        (lambda: x().apply("verbs_skale"), "operator-unknown"),
        (lambda: x().sliding(count=2).apply("verbs_scale"), "operator-form"),
        (
            lambda: x().sliding(count=2).apply("verbs_width", config=rs.stream("c", {"by": "float64"})),
            "operator-config",
        ),
        (lambda: x().select("w").apply("verbs_scale"), "graph-alphabet"),
        (lambda: x().apply("verbs_scale", config=rs.stream("c", {"colour": "str"})), "graph-alphabet"),
        (lambda: x().apply("verbs_split").port("middle"), "graph-port"),
        (lambda: x().sync("x", batch=0), "sync-batch"),
        (lambda: x().sync("x", evict="random"), "sync-batch"),
        (lambda: x().sync("a/b"), "plan-name"),
        (lambda: x().sync("x").key_by("w").tumbling("1s").aggregate(n=rs.count()).sync_back("n"), "sync-back"),
        (lambda: x().sync("x").sync_back("x", commit="soon"), "sync-back"),
        (lambda: x().feed(x()), "graph-input"),
        (lambda: rs.sensor("gsp", every="5s"), "sensor-unknown"),
        (lambda: rs.sensor("gps", every="often"), "duration"),
        (lambda: rs.stream("t", {"time": "int64"}), "column-reserved"),
        (lambda: rs.stream("t", {}), "schema-empty"),
    ],
)
def test_a_mistake_is_found_where_it_is_written(wrong, code: str) -> None:
    with pytest.raises(UsageError, match=r"test_verbs\.py:\d+") as caught:
        wrong()
    assert caught.value.code == code


def test_contracts_out_of_bounds_are_refused() -> None:
    for wrong in (lambda: rs.limited_loss(1.5), lambda: rs.lossless(order="some")):
        with pytest.raises(UsageError, match="contract"):
            wrong()
    assert rs.lossless(delay="10m").delay_us_max == 600 * S
    assert not rs.limited_loss(0.9).lossless
