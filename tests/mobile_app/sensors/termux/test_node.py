"""A whole node on a phone's Termux: slow calls, one stream, a missing sensor, a permission that goes and returns."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import resurge as rs
from mobile_app.headless import RunOptions, run
from mobile_app.node import schedule
from mobile_app.sensors.termux import sources
from mobile_app.sensors.termux import stream as termux_stream
from tests.mobile_app.sensors.termux.commands import FakeTermux
from tests.patience import PATIENCE_S, wait_until

PROGRAM = """
import resurge as rs
for name in ("accelerometer", "light", "gyroscope"):
    rs.sensor(name, every="100ms").sync(name, within="1s")
rs.sensor("gps", every="5s").sync("gps", within="1s")
rs.sensor("battery", every="30s").sync("battery", within="1s")
"""


def test_a_node_copes_with_everything_termux_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    phone = FakeTermux(tmp_path / "termux")
    for name, value in phone.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(termux_stream, "RESTART_AFTER_S", (0.1, 0.5))
    monkeypatch.setattr(sources, "_shared", sources._Shared())  # a node keeps its device for the life of the process
    monkeypatch.setattr(sources, "_newest", {})
    monkeypatch.setattr(schedule, "PUBLISH_S", schedule.SLOW_S_MIN)  # somebody who waits for its view
    phone.set("seconds", "1.0")
    home = tmp_path / "home"
    home.mkdir()
    (home / "settings.toml").write_text("spool_mb = 4\nloss_window_s = 0.2\n")
    (tmp_path / "program.py").write_text(PROGRAM)
    plan = rs.load_program(tmp_path / "program.py")
    stop, accounts = threading.Event(), []
    options = RunOptions(home=home, plan=plan, stop=stop, signals=False)
    node = threading.Thread(target=lambda: accounts.append(run(options)))
    node.start()

    def view() -> dict:
        status = home / "status.json"
        return json.loads(status.read_bytes()) if status.exists() else {}

    def wait_for(condition: Callable[[dict], object], what: str) -> None:
        wait_until(lambda: condition(view()) or not node.is_alive(), what)
        assert node.is_alive()

    def readings(sensor: str) -> int:
        entry = view().get("sensors", {}).get(sensor, 0)
        return int(entry["readings"] if isinstance(entry, dict) else entry)

    def missing(state: dict, sensor: str) -> str:
        return state.get("missing_sensors", {}).get(sensor, "")

    try:
        wait_for(
            lambda _: all(readings(name) for name in ("accelerometer", "light", "gps", "battery")), "first readings"
        )
        wait_for(lambda state: "this phone has no 'gyroscope'" in missing(state, "gyroscope"), "the missing sensor")
        assert not missing(view(), "light")
        phone.set("mode-termux-sensor", "denied")
        os.kill(int((phone.state / "stream.owner").read_text()), signal.SIGTERM)
        wait_for(lambda state: "grant" in missing(state, "light"), "the permission that was taken")
        phone.set("mode-termux-sensor", "ok")
        before = readings("light")
        wait_for(lambda state: not missing(state, "light") and readings("light") > before, "its return")
    finally:
        stop.set()
        node.join(PATIENCE_S)
    account = accounts[0]
    assert account["produced"] == account["spooled"] > 0
    streams = [line for line in phone.calls() if " -s " in line]
    assert all(line.startswith("termux-sensor -s LSM6DSO Accelerometer,TCS3701 Light -d 100") for line in streams[1:])
