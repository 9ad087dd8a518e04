"""The process around a node: enrolling when it can, callbacks, a disk that fails."""

from __future__ import annotations

import errno
import os
import signal
import socket
import threading
import time
from pathlib import Path

import pytest

import resurge as rs
from mobile_app.headless import RunOptions, calling, run
from mobile_app.links.gateway import TIMEOUT
from mobile_app.sensors.choose import Choice, parse_choices
from mobile_app.snapshots import Snapshots
from shared.errors import ResurgeError, UsageError
from shared.plan.graph import Plan
from shared.stream.program import read_program
from shared.wire.enrolment import EnrolmentLink

PROGRAM = """
import resurge as rs
seen = []

def note(columns):
    seen.append(len(columns["time"]))
    raise ValueError("the program's own mistake")

gps = rs.sensor("gps", every="1s")
gps.sync("raw", within="5s")
gps.subscribe(note)
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    (home / "settings.toml").write_text("spool_mb = 1\nloss_window_s = 0.1\n")
    return home


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return rs.load_program(path)


def options(home: Path, plan: Plan | None, **changes) -> RunOptions:
    sensors = parse_choices(["gps=synthetic:4"])
    return RunOptions(**{"home": home, "plan": plan, "sensors": sensors, "speed": 60.0, "for_s": 1.0, **changes})


@pytest.mark.covers("SO-10")
def test_a_gateway_that_cannot_be_reached_is_no_reason_not_to_record(home, plan):
    said: list[str] = []
    link = str(EnrolmentLink("127.0.0.1", 1, b"c" * 16, b"k" * 32))
    account = run(options(home, plan, link=link, say=said.append))
    assert account["spooled"] == account["produced"] > 0
    assert any("not enrolled yet" in line for line in said)


def test_being_told_to_end_does_not_wait_for_a_gateway_that_never_answers_an_enrolment(home):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        link = str(EnrolmentLink("127.0.0.1", silent.getsockname()[1], b"c" * 16, b"k" * 32))

        def interrupt() -> None:
            connection, _ = silent.accept()  # the request is on its way, and nobody will answer it
            connection.recv(1)
            os.kill(os.getpid(), signal.SIGTERM)
            ended.wait(60.0)
            connection.close()

        ended = threading.Event()
        thread = threading.Thread(target=interrupt)
        thread.start()
        start = time.monotonic()
        account = run(options(home, None, link=link, for_s=None))
        took_s = time.monotonic() - start
        ended.set()
        thread.join()
    assert account["produced"] == 0
    assert took_s < TIMEOUT.read_timeout


def test_a_silent_gateway_costs_no_readings(home, plan):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        link = str(EnrolmentLink("127.0.0.1", silent.getsockname()[1], b"c" * 16, b"k" * 32))
        account = run(options(home, plan, link=link))
    assert account["produced"] > 10


def test_a_link_that_is_none_is_refused_without_repeating_it(home, plan):
    with pytest.raises(UsageError, match="enrolment-link") as refused:
        run(options(home, plan, link="resurge://secret"))
    assert "secret" not in str(refused.value)


def test_a_callback_that_fails_is_named_and_the_recording_goes_on(home, tmp_path, plan):
    said: list[str] = []
    program = read_program(tmp_path / "program.py")
    account = run(options(home, program.plan(), on_output=calling(program.callbacks, said.append)))
    assert account["produced"] > 10
    assert "subscription 'note' failed: ValueError" in said[0]


def test_a_failing_disk_ends_the_node_with_what_to_do(home, plan, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Snapshots, "save", full)
    with pytest.raises(ResurgeError, match="node-disk"):
        run(options(home, plan))
    monkeypatch.undo()
    assert run(options(home, plan))["produced"] > 0


def test_speed_has_bounds(home, plan):
    with pytest.raises(UsageError, match="node-speed"):
        run(options(home, plan, speed=0.0))


@pytest.mark.parametrize("text", ["gps", "gps=radio:1", "gps=synthetic:x", "=synthetic:1", "gps=recording:"])
def test_a_sensor_choice_that_cannot_be_read_is_refused(text):
    with pytest.raises(UsageError, match="sensor-choice"):
        parse_choices([text])


def test_sensor_choices_are_read_by_name():
    assert parse_choices(["gps=recording:a:b.gpx"]) == {"gps": Choice("recording", "a:b.gpx")}
