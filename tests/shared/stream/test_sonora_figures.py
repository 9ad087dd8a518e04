"""Every snippet of Sonora's Figures 1, 2 and 13, no longer than the original (lines of the figure in the names)."""

# ruff: noqa: RET504  # the figures name each stream; so do we

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np
import pytest

import resurge as rs
from resurge import col, state
from shared.plan.placement import device_fragment
from shared.plan.vertices import vertices
from shared.stream.drafts import Program, collecting, stop_collecting

S = 1_000_000
LOCATION = {"lat": "float64", "lon": "float64", "precision": "float64"}
MAX_ERROR_ALLOWED = 50.0


@rs.operator("match_on_map", takes={"lat": "float64", "lon": "float64"}, gives={"road": "str"})
def match_location_on_map(columns):
    return {"road": np.where(columns["lat"] > 47.0, "Ring", "Quay").astype(np.dtypes.StringDType())}


def collected(snippet: Callable[[], object]) -> Program:
    program = Program()
    token = collecting(program)
    try:
        snippet()
    finally:
        stop_collecting(token)
    return program


def no_longer_than(original_lines: int, *snippets: Callable[..., object]) -> None:
    """Our statements, the function's own `def` line and `return` not counted, against the lines of the figure."""
    for snippet in snippets:
        body = inspect.getsource(snippet).splitlines()[1:]
        ours = [line for line in body if line.strip() and not line.strip().startswith(("#", '"""', "return"))]
        assert len(ours) <= original_lines, f"{len(ours)} lines, Sonora needs {original_lines}"


# --- Figure 1, lines 1-3: construction, subscription, append ----------------------------------------------------------

segmented: list[dict[str, np.ndarray]] = []


def trip_segmentation(columns) -> None:
    segmented.append(columns)


def figure_1_lines_1_to_3() -> None:
    trace = rs.stream("trace", LOCATION)
    trace.subscribe(trip_segmentation)


@pytest.mark.covers("SO-1")
def test_a_callback_is_subscribed_to_a_stream_that_is_appended_to() -> None:
    no_longer_than(2, figure_1_lines_1_to_3)
    program = collected(figure_1_lines_1_to_3)
    assert program.callbacks == {"trip_segmentation": trip_segmentation}
    appended = {"trace": {"time": [0], "lat": [47.0], "lon": [8.0], "precision": [5.0]}}  # trace.Append(GPS.Query())
    assert rs.evaluate(program.plan(), appended)["trip_segmentation"]["lat"].tolist() == [47.0]


# --- Figure 1, lines 5-8: active streams ------------------------------------------------------------------------------


def figure_1_lines_5_to_8() -> None:
    gps = rs.sensor("gps", every="30s")
    gps.subscribe("show")


@pytest.mark.covers("SO-3")
def test_an_active_stream_has_a_source_and_an_interval() -> None:
    no_longer_than(3, figure_1_lines_5_to_8)
    (sensor,) = collected(figure_1_lines_5_to_8).plan().sensors  # a node that gets the plan activates it
    assert (sensor.name, sensor.every_us) == ("gps", 30 * S)


# --- Figure 1, lines 10-13: relational --------------------------------------------------------------------------------


def figure_1_lines_10_to_13() -> rs.Stream:
    x = rs.stream("x", LOCATION)
    y = x.where(col.precision < MAX_ERROR_ALLOWED).apply("match_on_map")
    return y


@pytest.mark.covers("SO-4")
def test_filter_and_map_with_a_users_function() -> None:
    no_longer_than(4, figure_1_lines_10_to_13)
    rows = {"x": {"time": [0, 1, 2], "lat": [47.1, 46.9, 47.2], "lon": [8.0] * 3, "precision": [5.0, 10.0, 99.0]}}
    assert rs.evaluate(figure_1_lines_10_to_13(), rows)["out"]["road"].tolist() == ["Ring", "Quay"]


# --- Figure 1, lines 15-17: windows -----------------------------------------------------------------------------------


def figure_1_lines_15_to_17() -> rs.Stream:
    x = rs.stream("x", {"value": "float64"})
    y = x.hopping("5s").mean("value")
    return y


@pytest.mark.covers("SO-5")
def test_averages_of_every_five_seconds() -> None:
    no_longer_than(3, figure_1_lines_15_to_17)
    rows = {"x": {"time": [0, 2 * S, 5 * S], "value": [1.0, 2.0, 7.0]}}
    assert rs.evaluate(figure_1_lines_15_to_17(), rows)["out"]["value"].tolist() == [1.5, 7.0]


# --- Figure 1, lines 18-21: stateful streams --------------------------------------------------------------------------


def figure_1_lines_18_to_21() -> rs.Stream:
    x = rs.stream("x", {"t": "float64"})
    peak_temperature = x.state({"peak": -1e9}, peak=rs.if_else(col.t > state.peak, col.t, state.peak))
    return peak_temperature


@pytest.mark.covers("SO-6")
def test_the_highest_temperature_so_far() -> None:
    no_longer_than(4, figure_1_lines_18_to_21)
    rows = {"x": {"time": [0, 1, 2, 3], "t": [20.0, 22.5, 21.0, 30.0]}}
    assert rs.evaluate(figure_1_lines_18_to_21(), rows)["out"]["peak"].tolist() == [20.0, 22.5, 22.5, 30.0]


# --- Figure 1, lines 22-24: partitioning ------------------------------------------------------------------------------


def figure_1_lines_22_to_24() -> None:
    x = rs.stream("x", {"user_id": "int64", "lat": "float64"}).sync()
    x.key_by("user_id").subscribe("func")


@pytest.mark.covers("SO-7")
def test_a_key_lets_the_cloud_run_in_parallel() -> None:
    no_longer_than(3, figure_1_lines_22_to_24)
    (vertex,) = vertices(collected(figure_1_lines_22_to_24).plan())
    assert vertex.key == ("user_id",)


# --- Figure 1, lines 25-31: sync streams, batching and compression ----------------------------------------------------


def figure_1_lines_25_to_28() -> None:
    x = rs.stream("x", {"value": "float64"})
    y = x.sync()
    y.subscribe("received")


def figure_1_lines_30_to_31() -> rs.Stream:
    x = rs.stream("x", {"value": "float64"})
    y = x.sync(batch=100, within="60s", codec="auto")
    return y


@pytest.mark.covers("SO-9", "SO-11", "SO-12")
def test_a_sync_stream_with_batching_and_compression() -> None:
    no_longer_than(4, figure_1_lines_25_to_28)
    no_longer_than(2, figure_1_lines_30_to_31)
    plan = collected(figure_1_lines_25_to_28).plan()
    rows = {"x": {"time": [0, 1], "value": [1.0, 2.0]}}
    assert rs.evaluate(plan, rows)["received"]["value"].tolist() == [1.0, 2.0]
    (edge,) = rs.plan_of(figure_1_lines_30_to_31()).edges
    assert (edge.batch_rows, edge.within_us, edge.codec) == (100, 60 * S, "auto")


# --- Figure 2: adaptive sampling --------------------------------------------------------------------------------------

N = 4


def figure_2(low_battery: rs.Stream, context: rs.Stream) -> rs.Stream:
    signals = rs.timer("30s")
    # Lower sampling rate when in low battery mode
    signals = signals.with_latest(low_battery).with_latest(context)
    signals = signals.where(~col.low | (col.tick % N == 0))
    # Filter out samples taken indoors
    signals = signals.where(~col.indoor)
    gps = signals.read("gps")
    return gps


@pytest.mark.covers("SO-8")
def test_adaptive_sampling_reads_less_on_low_battery_and_not_at_all_indoors() -> None:
    no_longer_than(13, figure_2)
    low = rs.sensor("battery", every="30s").select(low=col.level < 0.2)
    indoor = rs.sensor("context", every="30s", columns={"indoor": "bool"})
    gps = figure_2(low, indoor)
    #   tick      0    1    2    3    4    5    6    7    8    9
    #   battery   full ----------------  low --------------------
    #   indoors   no -------  yes  no  no -----------------------
    #   reads     x    x    x       x    x                   x
    times = [tick * 30 * S for tick in range(10)]
    inputs = {
        "timer 30s": {"time": times, "tick": list(range(10))},
        "battery": {"time": times, "level": [0.9] * 5 + [0.1] * 5, "charging": [False] * 10},
        "context": {"time": times, "indoor": [tick == 3 for tick in range(10)]},
        "gps": {"time": times, **{name: [float(tick) for tick in range(10)] for name in GPS}},
    }
    read = rs.evaluate(gps, inputs)["out"]
    assert (read["time"] // (30 * S)).tolist() == [0, 1, 2, 4, 8]
    assert read["lat"].tolist() == [0.0, 1.0, 2.0, 4.0, 8.0]


GPS = ("lat", "lon", "altitude", "accuracy", "speed", "bearing")


# --- Figure 13: moving transportation mode inference from the mobile into the cloud -----------------------------------

SYNC = 'samples = samples.sync("samples")\n'
HEAD = 'import resurge as rs\nfrom resurge import col\nsamples = rs.sensor("gps", every="5s")\n'
INFERENCE = """samples = samples.select(kmh=col.speed * 3.6)
samples = samples.sliding(count=12).aggregate(kmh=rs.quantile("kmh", 0.9))
samples = samples.extend(walking=col.kmh < 8.0)
"""
TAIL = 'samples.sync_back("mode")\n'
ON_THE_PHONE = HEAD + INFERENCE + SYNC + TAIL
IN_THE_CLOUD = HEAD + SYNC + INFERENCE + TAIL  # the same lines, one of them moved


def speeds_on_the_phone() -> rs.Stream:
    samples = rs.sensor("gps", every="5s")
    speeds = samples.select(kmh=col.speed * 3.6)
    return speeds


def speeds_in_the_cloud() -> rs.Stream:
    samples = rs.sensor("gps", every="5s").sync()
    speeds = samples.select(kmh=col.speed * 3.6)
    return speeds


@pytest.mark.covers("SO-14")
def test_moving_mode_inference_to_the_cloud_moves_one_line_and_changes_no_answer(tmp_path) -> None:
    no_longer_than(2, speeds_on_the_phone)
    no_longer_than(5, speeds_in_the_cloud)
    before = inspect.getsource(speeds_on_the_phone).splitlines()[1:]
    after = inspect.getsource(speeds_in_the_cloud).splitlines()[1:]
    assert sum(one != other for one, other in zip(before, after, strict=True)) == 1

    plans = []
    for name, text in (("phone.py", ON_THE_PHONE), ("cloud.py", IN_THE_CLOUD)):
        (tmp_path / name).write_text(text)
        plans.append(rs.load_program(tmp_path / name))
    work = [[node.operator.kind for node in device_fragment(plan).nodes] for plan in plans]
    assert work == [["select", "window", "select"], []]
    seconds = range(40)
    inputs = {"gps": {"time": [5 * S * n for n in seconds], **{name: [n * 0.1 for n in seconds] for name in GPS}}}
    answers = [rs.evaluate(plan, inputs)["mode"] for plan in plans]
    assert {name: column.tolist() for name, column in answers[0].items()} == {
        name: column.tolist() for name, column in answers[1].items()
    }
    assert answers[0]["walking"].tolist()[0] is True
    assert answers[0]["walking"].tolist()[-1] is False
