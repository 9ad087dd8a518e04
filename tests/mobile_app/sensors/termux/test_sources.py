"""The node's Termux:API adapter against commands that speak the real formats, with their real limits."""

from __future__ import annotations

import contextlib
import math
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from mobile_app.sensors.choose import open_source
from mobile_app.sensors.source import SensorMissing, Source
from mobile_app.sensors.termux import sources as termux
from mobile_app.sensors.termux import stream as termux_stream
from mobile_app.sensors.termux.answers import battery, cell, position, wifi
from mobile_app.sensors.termux.calls import Calls, Errand, TermuxRefused, call, parse_answer
from mobile_app.sensors.termux.stream import JsonObjects
from tests.mobile_app.sensors.termux.commands import FakeTermux
from tests.patience import wait_until


@pytest.fixture
def phone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeTermux:
    fake = FakeTermux(tmp_path / "termux")
    for name, value in fake.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(termux_stream, "RESTART_AFTER_S", (0.1, 0.5))
    return fake


@pytest.fixture
def sources() -> Iterator[Callable[..., Source]]:
    opened: list[Source] = []

    def open_one(sensor: str, every_us: int = 100_000) -> Source:
        source = open_source(
            sensor, {}, every_us=every_us, origin_us=0, from_us=now_us() - 5_000_000, event_time=lambda boot_us: boot_us
        )
        opened.append(source)
        return source

    yield open_one
    for source in opened:
        source.close()


def now_us() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


def gather(source: Source, least: int) -> SimpleNamespace:
    """Read like a node does, until there are this many readings."""
    times: list[int] = []
    columns: dict[str, list] = {}
    frontiers: list[int] = []

    def enough() -> bool:
        samples = source.read(now_us())
        if len(times):
            assert all(time_us >= frontiers[-1] for time_us in samples.time_us), "a reading before the frontier"
        frontiers.append(samples.frontier_us)
        times.extend(samples.time_us.tolist())
        if len(samples):
            for name, column in samples.columns.items():
                columns.setdefault(name, []).extend(column.tolist())
        return len(times) >= least

    wait_until(enough, f"{least} readings (trouble: {source.trouble!r})")
    assert times == sorted(times)
    return SimpleNamespace(times=times, **columns)


# --- the formats ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_objects_back_to_back_are_told_apart_however_they_are_cut(size):
    text = (
        '{}{\n  "a": {\n "values": [1.5, -2e3, false]}}oops {not json} Sensor cleanup successful!\n{"b": "}{"}{"c": tru'
    )
    objects = JsonObjects()
    found = [value for start in range(0, len(text), size) for value in objects.feed(text[start : start + size])]
    assert found == [{}, {"a": {"values": [1.5, -2000.0, False]}}, {"b": "}{"}]
    assert list(objects.feed('e}{"d": 1}')) == [{"c": True}, {"d": 1}]


def test_endless_noise_is_not_kept():
    objects = JsonObjects()
    for _ in range(40):
        assert not list(objects.feed('{"never": "closed ' + "x" * 4000))
    assert list(objects.feed('"}{"a": 1}'))[-1] == {"a": 1}


def test_both_shapes_of_an_error_are_refusals():
    for text in ('{"error": "Please grant"}', '{"API_ERROR": "Failed to get location"}', "not JSON", ""):
        with pytest.raises(TermuxRefused):
            parse_answer(text)


def test_answers_become_rows_and_what_a_phone_leaves_out_is_nan():
    lat, _, altitude, *_ = position({"latitude": 39.5, "longitude": 2.6})
    assert lat == 39.5
    assert math.isnan(altitude)
    assert battery({"percentage": 83, "plugged": "PLUGGED_USB", "status": "NOT_CHARGING"}) == (0.83, True)
    assert battery({"percentage": 83, "status": "DISCHARGING"}) == (0.83, False)
    assert wifi({"rssi": -61, "bssid": "aa"})[0] == -61.0
    cells = [
        {"registered": False, "dbm": -1},
        {"registered": True, "mcc": "228", "mnc": 2, "lac": 3, "cid": 4, "dbm": -70},
    ]
    assert cell(cells) == ("228-2-3-4", -70.0)
    with pytest.raises(TermuxRefused, match="location permission"):
        cell([])  # what a phone answers without the permission
    with pytest.raises(TermuxRefused):
        position({"latitude": None})


def test_of_several_sensors_the_plainest_name_is_taken():
    names = [
        "ICM Accelerometer-Wakeup Secondary",
        "Linear Acceleration",
        "ICM Accelerometer",
        "Acc Uncalibrated accelerometer",
    ]
    assert termux.choose_name("accelerometer", names) == "ICM Accelerometer"
    assert termux.choose_name("barometer", ["BMP280 Pressure Temperature"]) is None


# --- the stream ----------------------------------------------------------------------------------------------


def test_all_sensors_share_one_child_process_and_repeated_motion_is_one_reading(phone, sources):
    accelerometer, light, steps = sources("accelerometer"), sources("light"), sources("steps")
    moved = gather(accelerometer, 5)
    assert len(set(moved.x)) == len(moved.x), "the stream tells each value twice"
    assert gather(light, 3).lux[0] >= 100.0
    assert gather(steps, 3).steps[0] >= 4000
    running = [line for line in phone.calls() if " -s " in line]
    assert running[-1] == "termux-sensor -s LSM6DSO Accelerometer,Step Counter,TCS3701 Light -d 100"
    assert not any((accelerometer.trouble, light.trouble, steps.trouble))


def test_noise_between_the_objects_costs_no_reading(phone, sources):
    phone.set("mode-termux-sensor", "noise")
    light = gather(sources("light"), 8).lux
    assert np.diff(light).max() == 1.0


def test_a_stream_that_ends_is_said_and_started_again(phone, sources):
    light = sources("light")
    gather(light, 2)
    phone.set("mode-termux-sensor", "die")
    wait_until(lambda: light.trouble, "the trouble")
    assert "started again" in light.trouble
    phone.set("mode-termux-sensor", "ok")
    gather(light, 2)
    assert light.trouble == ""


def test_a_sensor_this_phone_lacks_is_named_with_those_it_has(phone, sources):
    gyroscope, light = sources("gyroscope"), sources("light")
    wait_until(lambda: "this phone has no 'gyroscope'" in gyroscope.trouble, "the trouble")
    assert "BMP280 Pressure" in gyroscope.trouble
    gather(light, 2)  # the rest runs
    with pytest.raises(SensorMissing, match="sensor-absent"):
        sources("microphone")


def test_a_permission_taken_away_while_running_is_a_state_and_ends_with_its_return(phone, sources):
    light = sources("light")
    gather(light, 2)
    phone.set("mode-termux-sensor", "denied")
    os.kill(int((phone.state / "stream.owner").read_text()), signal.SIGTERM)
    wait_until(lambda: "grant" in light.trouble, "the trouble")
    phone.set("mode-termux-sensor", "ok")
    gather(light, 2)
    assert light.trouble == ""


def test_without_termux_api_the_trouble_says_what_to_install(phone, sources, monkeypatch):
    monkeypatch.setenv("PATH", str(phone.state))
    light, battery_level = sources("light"), sources("battery")
    wait_until(
        lambda: "pkg install termux-api" in light.trouble and "pkg install termux-api" in battery_level.trouble,
        "the trouble",
    )


def test_closing_every_source_ends_the_child_and_cleans_up(phone, sources):
    light, steps = sources("light"), sources("steps")
    gather(light, 1)
    owner = phone.state / "stream.owner"
    light.close()
    light.close()
    assert gather(steps, 1).steps
    steps.close()
    wait_until(lambda: not owner.exists(), "the child's end")
    wait_until(lambda: phone.calls()[-1] == "termux-sensor -c", "cleaning up")


# --- calls ---------------------------------------------------------------------------------------------------


def test_position_battery_wifi_and_cell_come_by_calls_one_at_a_time(phone, sources):
    phone.set("seconds", "0.1")
    names = ("gps", "battery", "wifi", "cell")
    opened = {name: sources(name, 5_000_000) for name in names}
    read = {name: gather(source, 1) for name, source in opened.items()}
    assert read["gps"].lat == [39.55157048]
    assert (read["battery"].level, read["battery"].charging) == ([0.83], [False])
    assert read["wifi"].rssi_dbm == [-61.0]
    assert read["cell"].tower == ["228-02-77-123456789"]


def test_a_fix_that_is_told_again_is_one_reading_and_an_old_one_none(phone, sources):
    phone.set("fix-age-ms", str(3_600_000))
    device = termux.TermuxDevice()
    source = termux.Position(device, "gps", every_us=1_000_000, from_us=0, event_time=lambda boot_us: boot_us)
    source._answered({"latitude": 1.0, "longitude": 2.0, "elapsedMs": 3_600_000}, 10_000.0)
    source._answered({"latitude": 1.0, "longitude": 2.0, "elapsedMs": 500}, 10_000.0)
    source._answered({"latitude": 1.0, "longitude": 2.0, "elapsedMs": 5_600}, 10_005.0)  # the same one
    source._answered({"latitude": 1.1, "longitude": 2.0, "elapsedMs": 200}, 10_006.0)
    source.close()
    assert source.read(20_000_000_000).time_us.tolist() == [9_999_500_000, 10_005_800_000]
    device.close()


def test_a_refused_call_is_repeated_at_growing_distances():
    asked: list[float] = []

    def refuse(_command: tuple[str, ...]) -> None:
        asked.append(time.monotonic())
        raise TermuxRefused("no")

    calls = Calls(refuse)
    errand = Errand(("termux-battery-status",), 0.02, lambda *_: None)
    calls.add(errand)
    wait_until(lambda: len(asked) >= 5, "five calls")
    calls.close()
    assert errand.trouble == "no"
    assert errand.failures >= 5
    assert asked[4] - asked[3] > asked[1] - asked[0]


def test_refused_positions_are_said_and_the_other_sensors_go_on(phone, sources):
    phone.set("mode-termux-location", "denied")
    gps, battery_level = sources("gps", 1_000_000), sources("battery", 1_000_000)
    gps._once.due = 0.0
    wait_until(lambda: "ACCESS_FINE_LOCATION" in gps.trouble, "the trouble")
    assert gather(battery_level, 1).level == [0.83]


def test_a_stream_that_hangs_is_ended_and_started_again(phone, sources, monkeypatch):
    monkeypatch.setattr(termux_stream, "SILENT_S", 0.2)
    phone.set("mode-termux-sensor", "mute")
    source = sources("accelerometer")
    wait_until(lambda: "has said nothing" in source.trouble, "the trouble")
    phone.set("mode-termux-sensor", "ok")
    monkeypatch.setattr(termux_stream, "SILENT_S", 30.0)
    assert gather(source, 1).x
    assert source.trouble == ""


def test_a_stream_is_followed_also_where_many_files_are_open(phone, sources):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    phone.set("mode-termux-sensor", "ok")
    with contextlib.ExitStack() as files:
        while files.enter_context(Path(os.devnull).open()).fileno() < 1100:
            pass
        assert gather(sources("accelerometer"), 1).x
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_call_that_hangs_ends_with_everything_it_started(tmp_path, monkeypatch):
    """The commands are scripts that wait for a child of theirs; left over, it counts for the phantom process killer."""
    script = tmp_path / "termux-battery-status"
    script.write_text(f"#!/bin/sh\nsleep 600 & echo $! > {tmp_path}/child; wait\n")
    script.chmod(0o755)
    with pytest.raises(TermuxRefused, match="did not answer within"):
        call((str(script),), patience_s=0.5)
    child = int((tmp_path / "child").read_text())
    wait_until(lambda: not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text(), "its end")
