"""The process around a node: enrolling when it can, callbacks, a disk that fails."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from urllib3.util.timeout import Timeout

import resurge as rs
from mobile_app import headless
from mobile_app.headless import RunOptions, calling, run
from mobile_app.home.keys import load_keys
from mobile_app.home.peer_keys import load_curve_keys
from mobile_app.links import gateway
from mobile_app.node import schedule
from mobile_app.sensors.choose import Choice, parse_choices
from mobile_app.settings import Gateway, save_gateway
from mobile_app.spool.snapshots import Snapshots
from resurge.up.process_fleet import free_address
from shared.errors import ResurgeError, UsageError
from shared.plan.graph import Plan
from shared.stream.program import read_program
from shared.wire.enrolment import EnrolmentLink
from tests.mobile_app.small_gateway import SmallGateway
from tests.patience import PATIENCE_S

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
    return RunOptions(**{"home": home, "plan": plan, "sensors": sensors, "speed": 60.0, **changes})


def run_until(condition: Callable[[dict], object], chosen: RunOptions) -> dict:
    """Run until its view fulfils this."""
    stop = threading.Event()
    return run(replace(chosen, stop=stop, for_s=PATIENCE_S, on_view=lambda view: condition(view) and stop.set()))


@pytest.mark.covers("SO-10")
def test_a_gateway_that_cannot_be_reached_is_no_reason_not_to_record(home, plan):
    said: list[str] = []
    link = str(EnrolmentLink("127.0.0.1", 1, b"c" * 16, b"k" * 32))
    account = run_until(lambda view: view["produced"] and said, options(home, plan, link=link, say=said.append))
    assert account["spooled"] == account["produced"] > 0
    assert any("not enrolled yet" in line for line in said)


def test_a_gateway_that_cannot_be_reached_is_no_reason_not_to_coordinate_a_fleet(home, tmp_path):
    (tmp_path / "noise.py").write_text(
        'import resurge as rs\nnear = rs.stream("x", {"v": "float64"}).gather("near")\nnear.subscribe("loud")\n'
    )
    keys, curve = load_keys(home), load_curve_keys(home)
    (tmp_path / "fleet.toml").write_text(
        f'coordinator = "laptop"\n[[node]]\nname = "laptop"\npublic_key = "{keys.public_key.hex()}"\n'
        f'curve_key = {json.dumps(curve.public)}\naddress = "{free_address()}"\n'
        '[[query]]\nname = "noise"\nprogram = "noise.py"\nstrategy = "none"\nkeepers = 0\nsources = ["laptop"]\nsink = "laptop"\n'
    )
    link = str(EnrolmentLink("127.0.0.1", 1, b"c" * 16, b"k" * 32))
    views, begun = [], time.monotonic()

    def coordinates(view):
        views.append(view)
        return view["fleet"]["coordinates"] and view["fleet"]["instances"]

    run_until(coordinates, options(home, None, link=link, fleet=tmp_path / "fleet.toml"))
    assert time.monotonic() - begun < PATIENCE_S, "it waited for the gateway"
    assert views[-1]["fleet"]["name"] == "laptop"
    assert views[-1]["gateway"] is None


def test_being_told_to_end_does_not_wait_for_a_gateway_that_never_answers_an_enrolment(home, monkeypatch):
    monkeypatch.setattr(gateway, "TIMEOUT", Timeout(connect=3600.0, read=3600.0))  # whoever waits for it never ends
    with socket.create_server(("127.0.0.1", 0)) as silent:
        link = str(EnrolmentLink("127.0.0.1", silent.getsockname()[1], b"c" * 16, b"k" * 32))

        def interrupt() -> None:
            connection, _ = silent.accept()  # the request is on its way, and nobody will answer it
            connection.recv(1)
            os.kill(os.getpid(), signal.SIGTERM)
            ended.wait()
            connection.close()

        ended = threading.Event()
        thread = threading.Thread(target=interrupt)
        thread.start()
        account = run(options(home, None, link=link, for_s=None))
        ended.set()
        thread.join()
    assert account["produced"] == 0


def test_a_silent_gateway_costs_no_readings(home, plan):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        link = str(EnrolmentLink("127.0.0.1", silent.getsockname()[1], b"c" * 16, b"k" * 32))
        account = run_until(lambda view: view["produced"] > 10, options(home, plan, link=link))
    assert account["produced"] > 10


def test_a_link_that_is_none_is_refused_without_repeating_it(home, plan):
    with pytest.raises(UsageError, match="enrolment-link") as refused:
        run(options(home, plan, link="resurge://secret"))
    assert "secret" not in str(refused.value)


def test_a_callback_that_fails_is_named_and_the_recording_goes_on(home, tmp_path, plan):
    said: list[str] = []
    program = read_program(tmp_path / "program.py")
    told = options(home, program.plan(), on_output=calling(program.callbacks, said.append))
    account = run_until(lambda view: view["produced"] > 10 and said, told)
    assert account["produced"] > 10
    assert "subscription 'note' failed: ValueError" in said[0]


def test_a_failing_disk_ends_the_node_with_what_to_do(home, plan, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Snapshots, "save", full)
    with pytest.raises(ResurgeError, match="node-disk"):
        run(options(home, plan, for_s=1.0))  # it looks for room until then
    monkeypatch.undo()
    assert run_until(lambda view: view["produced"], options(home, plan))["produced"] > 0


TRACK = "time,lat,lon\n" + "".join(f"{1600000000 + second},{47 + second / 1e5},8.5\n" for second in range(200))


@pytest.mark.parametrize(
    ("sensor", "text", "said"),
    [
        ("gps=recording:{}/absent.gpx", None, "no recording at"),
        ("gsp=recording:{}/track.csv", TRACK, "--sensor gps="),
        ("gps=recording:{}/track.csv", TRACK.replace("lat,lon", "north,east"), "none of the columns"),
        ("gps=recording:{}/track.csv", "time,lat,lon\n1600000000,north,east\n", "none of the columns"),
        ("gps=recording:{}/track.csv", "time,lat,lon\nnoon,1,2\n", "'noon' in column 'time' is not a time"),
    ],
)
def test_a_program_that_can_read_nothing_is_refused_at_once_with_the_reason(home, tmp_path, plan, sensor, text, said):
    if text is not None:
        (tmp_path / "track.csv").write_text(text)
    lines: list[str] = []
    sensors = parse_choices([sensor.format(tmp_path)])
    with pytest.raises(UsageError, match="node-nothing-to-read") as refused:
        run(options(home, plan, sensors=sensors, say=lines.append, for_s=60.0))
    assert said in str(refused.value)
    assert not any("running" in line for line in lines)
    if sensor.startswith("gsp"):
        assert any(
            "the program reads no sensor of this name" in line and "did you mean 'gps'" in line for line in lines
        )


def test_a_node_with_neither_program_nor_gateway_says_that_it_reads_nothing(home):
    lines: list[str] = []
    with pytest.raises(UsageError, match="node-nothing-to-run"):
        run(RunOptions(home=home, sensors=parse_choices(["gps=synthetic:7"]), say=lines.append, for_s=0.3))
    assert any("there is no program and no gateway" in line for line in lines)


def test_a_source_that_is_put_right_is_played_from_its_beginning_and_one_that_is_over_is_said(home, tmp_path, plan):
    """The recording is shorter than what passes until it is found: nothing of it may have gone by meanwhile."""
    sensors = parse_choices([f"gps=recording:{tmp_path}/track.csv"])
    for _ in range(2):
        with pytest.raises(UsageError, match="node-nothing-to-read"):
            run(options(home, plan, sensors=sensors, speed=1.0, for_s=60.0))
    (tmp_path / "track.csv").write_text("time,lat,lon\n1600000000,1,2\n")
    lines: list[str] = []
    found = run_until(lambda view: view["produced"] == 1, options(home, plan, sensors=sensors, speed=1.0))
    assert found["produced"] == 1
    run_until(
        lambda _: any("[recording-over]" in line for line in lines),
        options(home, plan, sensors=sensors, speed=1.0, say=lines.append),
    )


@pytest.fixture
def paired(home, monkeypatch) -> SmallGateway:
    """A gateway with which this home is paired; it is in memory, and reached where others are over HTTP."""
    gateway = SmallGateway()
    gateway.enrol_key(load_keys(home).public_key)
    save_gateway(home, Gateway("http://127.0.0.1:1", gateway.keys.public_key, b"", 1))
    monkeypatch.setattr(headless, "GatewayLink", lambda *_, **__: gateway)
    for period in ("UPKEEP_S", "PUBLISH_S"):  # nothing is said only because it was time to look again
        monkeypatch.setattr(schedule, period, 3600.0)
    return gateway


@pytest.mark.parametrize(
    ("sensor", "words"),
    [
        (
            "gsp=recording:{}/track.csv",
            ("--sensor gsp: the program reads no sensor of this name", "did you mean 'gps'"),
        ),
        ("gps=recording:{}/absent.csv", ("no recording at", "[sensor-missing]")),
        ("gps=recording:{}/other.csv", ("none of the columns", "[sensor-missing]")),
    ],
)
def test_a_gateways_plan_that_can_read_nothing_is_said_when_it_comes_and_fails_at_the_end(
    home, tmp_path, plan, paired, sensor, words
):
    (tmp_path / "track.csv").write_text(TRACK)
    (tmp_path / "other.csv").write_text(TRACK.replace("lat,lon", "north,east"))
    paired.plan_to_send = replace(plan, version=7)
    lines: list[str] = []
    sensors = parse_choices([sensor.format(tmp_path)])
    chosen = options(home, None, sensors=sensors, say=lines.append, speed=1.0)
    run_until(lambda _: any(all(word in line for word in words) for line in lines), chosen)
    assert sum(words[0] in line for line in lines) == 1
    with pytest.raises(UsageError, match="node-nothing-to-read") as refused:  # now the plan is stored
        run(options(home, None, sensors=sensors, say=lines.append, for_s=2.0))
    assert "the gateway's plan reads nothing here: gps" in str(refused.value)


def test_columns_that_a_source_lacks_are_said_when_a_gateways_plan_begins(home, tmp_path, plan, paired):
    (tmp_path / "track.csv").write_text(TRACK.replace("lat,lon", "lat,east"))
    paired.plan_to_send = replace(plan, version=7)
    lines: list[str] = []
    sensors = parse_choices([f"gps=recording:{tmp_path}/track.csv"])
    run_until(
        lambda _: any("gps: its source has no lon, altitude" in line for line in lines),
        options(home, None, sensors=sensors, say=lines.append, speed=1.0),
    )
    account = run(options(home, None, sensors=sensors, for_s=2.0))  # latitudes are read, so this is no error
    assert account["produced"] > 0


def test_a_link_is_not_spent_on_a_recording_that_is_not_there(home, tmp_path):
    link = str(EnrolmentLink("127.0.0.1", 1, b"c" * 16, b"k" * 32))
    sensors = parse_choices([f"gps=recording:{tmp_path}/absent.gpx"])
    with pytest.raises(UsageError, match="node-nothing-to-read") as refused:
        run(options(home, None, sensors=sensors, link=link, for_s=60.0))
    assert "the link is still good" in str(refused.value)
    assert not (home / "gateway.json").exists()


def test_one_source_that_is_missing_is_said_and_the_rest_runs(home, tmp_path):
    (tmp_path / "program.py").write_text(
        "import resurge as rs\nrs.sensor('gps', every='1s').sync('raw')\nrs.sensor('accelerometer', every='1s').sync('shake')"
    )
    lines: list[str] = []
    sensors = parse_choices([f"gps=recording:{tmp_path}/absent.gpx", "accelerometer=synthetic:1"])
    chosen = options(home, rs.load_program(tmp_path / "program.py"), sensors=sensors, say=lines.append)
    account = run_until(lambda view: view["produced"] > 10, chosen)
    assert account["produced"] > 10
    assert sum("no recording at" in line and "sensor-missing" in line for line in lines) == 1


def test_rows_that_a_filter_drops_are_counted_and_a_filter_that_drops_all_is_said(home, tmp_path):
    (tmp_path / "track.csv").write_text(TRACK)
    (tmp_path / "program.py").write_text(
        "import resurge as rs\nfrom resurge import col\ngps = rs.sensor('gps', every='1s')\n"
        "gps.where(col.accuracy < 50).sync('exact')\ngps.where(col.lat < 47.0001).sync('south')"
    )
    lines: list[str] = []
    sensors = parse_choices([f"gps=recording:{tmp_path}/track.csv"])
    program = rs.load_program(tmp_path / "program.py")
    account = run_until(
        lambda _: any("all-filtered" in line for line in lines),
        options(home, program, sensors=sensors, say=lines.append),
    )
    assert account["filtered"] > 20
    said = [line for line in lines if "all-filtered" in line]
    assert len(said) == 1
    assert "rows of 'exact'" in said[0]
    assert "gps has no altitude, accuracy" in said[0]
    assert "south" not in said[0]


def test_rows_that_cannot_be_read_are_counted_and_said(home, tmp_path, plan):
    (tmp_path / "track.csv").write_text(TRACK.replace(",8.5\n", ",east\n", 1))
    lines: list[str] = []
    sensors = parse_choices([f"gps=recording:{tmp_path}/track.csv"])
    account = run_until(lambda view: view["produced"] > 10, options(home, plan, sensors=sensors, say=lines.append))
    assert account["unreadable"] == 1
    assert account["produced"] > 10
    assert any("'east' in column 'lon' is not a number" in line for line in lines)


def test_a_column_of_text_where_numbers_belong_is_said(home, tmp_path, plan):
    lines: list[str] = []
    header, *rows = TRACK.splitlines()
    text = "\n".join([f"{header},accuracy", *(f"{row},good" for row in rows)]) + "\n"
    (tmp_path / "track.csv").write_text(text)
    sensors = parse_choices([f"gps=recording:{tmp_path}/track.csv"])
    account = run_until(lambda view: view["produced"] > 10, options(home, plan, sensors=sensors, say=lines.append))
    assert account["unreadable"] == 0
    assert any("column 'accuracy' of 'track.csv' is text ('good')" in line for line in lines)


def test_speed_has_bounds(home, plan):
    with pytest.raises(UsageError, match="node-speed"):
        run(options(home, plan, speed=0.0))


@pytest.mark.parametrize("text", ["gps", "gps=radio:1", "gps=synthetic:x", "=synthetic:1", "gps=recording:"])
def test_a_sensor_choice_that_cannot_be_read_is_refused(text):
    with pytest.raises(UsageError, match="sensor-choice"):
        parse_choices([text])


def test_sensor_choices_are_read_by_name():
    assert parse_choices(["gps=recording:a:b.gpx"]) == {"gps": Choice("recording", "a:b.gpx")}
