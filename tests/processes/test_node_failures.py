"""A real node process whose world fails: killed while it writes, disk full, clock moved, permission taken away.

Each test prints the faults that were fired, how many rows were compared with what the sensor must have read, and the
digests of both. The sensors are functions of event time, so "what it must have read" does not come from the node.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from mobile_app.home.keys import load_keys
from mobile_app.recordings.store import MARKERS, Recordings
from mobile_app.sensors.synthetic import Synthetic
from mobile_app.service.connection import ServiceClient
from mobile_app.spool.opening import spool_cipher
from shared.errors import ResurgeError
from shared.identity import device_id
from shared.language.schema import Schema
from shared.spool.disk import PosixDisk
from shared.spool.entry import Tombstone
from shared.spool.ring import Spool
from shared.wire import codecs
from tests.mobile_app.sensors.termux.commands import FakeTermux
from tests.patience import PATIENCE_S, RAN_OUT, let_pass, wait_until
from tests.processes.gateway_process import ROOT
from tests.processes.node_processes import digest

pytestmark = pytest.mark.processes

PROGRAM = "import resurge as rs\nrs.sensor('accelerometer', every='20ms').sync('shake', batch=500, within='10s')\n"
EVERY_US = 20_000
SPEED = 100.0
LOSS_WINDOW_S = 0.2  # what a kill may take, as the settings say
SETTINGS = f"spool_mb = {{spool_mb}}\nloss_window_s = {LOSS_WINDOW_S}\nfree_mb = 0\n"


class Service:
    """One home and the node process in it, over restarts."""

    def __init__(self, directory: Path, *, spool_mb: int = 8, program: str = PROGRAM) -> None:
        self.home = directory / "home"
        self.home.mkdir()
        (self.home / "settings.toml").write_text(SETTINGS.format(spool_mb=spool_mb))
        self.program = directory / "program.py"
        self.program.write_text(program)
        self.process: subprocess.Popen[str] | None = None
        self._client: ServiceClient | None = None

    def start(self, *options: str, environment: dict[str, str] | None = None, limit_bytes: int = 0) -> Service:
        given = options or ("--sensor", "accelerometer=synthetic:9", "--speed", str(SPEED))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "resurge", "node", "run", "--home", str(self.home), "--program", str(self.program),
             "--json", *given],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
        )  # fmt: skip
        if limit_bytes:
            resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))
        self.ask(lambda client: client.view()["running"] or None)
        return self

    def ask(self, question: Callable[[ServiceClient], object]):
        """The first answer that is not None."""
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                if self._client is None:
                    self._client = ServiceClient.open(self.home)
                if (answer := question(self._client)) is not None:
                    return answer
            except ResurgeError:
                self._hang_up()
            assert time.monotonic() < end, f"an answer of the node {RAN_OUT} {PATIENCE_S:.0f} s"
            assert self.process.poll() is None, self.process.stdout.read()
            time.sleep(0.02)

    def codes(self) -> list[str]:
        return self.ask(lambda client: [entry["code"] for entry in client.health()])

    def _hang_up(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = None

    def kill(self) -> None:
        self._hang_up()
        self.process.kill()
        self.process.communicate()

    def end(self) -> dict[str, object]:
        self._hang_up()
        self.process.terminate()
        said, _ = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0, said
        return json.loads(said.splitlines()[-1])

    def close(self) -> None:
        self._hang_up()
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
        if self.process is not None and not self.process.stdout.closed:
            self.process.communicate()

    # --- what is on its disk, once it has stopped ----------------------------------------------------------------

    def recordings(self) -> Recordings:
        device = device_id(load_keys(self.home).public_key)
        return Recordings(self.home, device, spool_cipher(self.home), loss_window_s=1.0)

    def spooled(self, edge_schema: Schema) -> list[tuple[int, int, float, float, float]]:
        """(number, event time, x, y, z) of every row in the spool; there must be no hole in the numbers."""
        spool = Spool.open(PosixDisk(self.home / "spool"), spool_cipher(self.home))
        rows: list[tuple[int, int, float, float, float]] = []
        try:
            assert spool.statistics().damage == 0
            for edge in spool.edges():
                expected = 0
                for entry in spool.pending(edge):
                    assert entry.lo == expected
                    assert not isinstance(entry, Tombstone)
                    kept = spool.read(entry)
                    batch = codecs.decode(kept.codec, kept.payload, edge_schema, lo=kept.lo, hi=kept.hi)
                    values = (batch.columns[name].tolist() for name in ("x", "y", "z"))
                    rows += zip(batch.seq.tolist(), batch.time_us.tolist(), *values, strict=True)
                    expected = entry.hi
                assert expected == spool.head(edge)
        finally:
            spool.close()
        return rows

    def expected(self, times: list[int]) -> list[tuple[float, ...]]:
        """What the sensor reads at these times."""
        origin_us = int(json.loads((self.home / "clock.json").read_bytes())["origin_us"])
        source = Synthetic("accelerometer", seed=9, every_us=EVERY_US, origin_us=origin_us)
        assert all((time_us - origin_us) % EVERY_US == 0 for time_us in times)
        samples = source.at(np.asarray(times, np.int64))
        return list(zip(*(samples.columns[name].tolist() for name in ("x", "y", "z")), strict=True))


SHAKE = Schema.of({"x": "float64", "y": "float64", "z": "float64"})


class FailingWorld:
    """What is wrong with the world of a process that has this environment; it looks at every call."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        hooks = Path(__file__).with_name("failing_world")
        self.environment = {"PYTHONPATH": f"{hooks}{os.pathsep}{ROOT}", "FAILING_WORLD": str(directory)}

    def set(self, what: str, text: str) -> None:
        """At once, as seen by the process."""
        (self._directory / ".new").write_text(text)
        (self._directory / ".new").rename(self._directory / what)

    def unset(self, what: str) -> None:
        (self._directory / what).unlink()


@pytest.fixture
def failing_world(tmp_path: Path) -> FailingWorld:
    directory = tmp_path / "world"
    directory.mkdir()
    return FailingWorld(directory)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path)
    yield service
    service.close()


def compare(service: Service, rows: list[tuple], faults: str, claim) -> None:
    """Every row is what the sensor read at its time, each time at most once; says so."""
    assert rows
    times = [row[-4] for row in rows]
    assert times == sorted(set(times))
    must = service.expected(times)
    are = [tuple(row[-3:]) for row in rows]
    claim(f"{faults}; {len(rows)} rows compared; digests {digest(are)} {digest(must)}")
    assert are == must


def recorded_rows(recordings: Recordings, recording: str) -> tuple[list[tuple], list[str]]:
    rows: list[tuple] = []
    labels: list[str] = []
    for sensor, batch in recordings.rows(recording):
        if sensor == MARKERS:
            labels += [str(label) for label in batch.columns["label"]]
        else:
            values = (batch.columns[name].tolist() for name in ("x", "y", "z"))
            rows += zip(batch.time_us.tolist(), *values, strict=True)
    return rows, labels


@pytest.mark.parametrize("kills", [2, pytest.param(25, marks=pytest.mark.soak)])
def test_a_service_killed_while_it_writes_loses_nothing_it_had_said_was_kept(service, kills, claim):
    service.start()
    recording = service.ask(lambda client: client.do("start_recording", name="walk"))["id"]
    acknowledged: list[str] = []
    pause = random.Random(4)
    for number in range(kills):
        label = f"before kill {number}"
        service.ask(lambda client, label=label: client.do("marker", label=label))
        acknowledged.append(label)
        least = service.ask(lambda client: client.view()["spooled"] or None)
        let_pass(LOSS_WINDOW_S)
        for _ in range(2):  # turns after it: on a busy machine the first may come late
            seen = service.ask(lambda client: client.view()["spooled"])
            service.ask(lambda client, seen=seen: client.view()["spooled"] > seen or None)
        time.sleep(pause.uniform(0.0, 0.4))  # anywhere in its turns: windows close every 0.2 s, batches more often
        service.kill()
        service.start()
        assert "killed" in service.codes()
        running = service.ask(lambda client: client.view()["recording"])
        assert [marker["label"] for marker in running["markers"]][: len(acknowledged)] == acknowledged
        assert service.ask(lambda client: client.view()["produced"]) >= least
    service.end()
    rows, labels = recorded_rows(service.recordings(), recording)
    assert [label for label in labels if label in acknowledged] == acknowledged
    compare(service, rows, f"{kills} kills, the recording", claim)
    compare(service, service.spooled(SHAKE), f"{kills} kills, the spool", claim)


@pytest.mark.soak
def test_a_file_that_may_grow_no_more_ends_the_recording_and_nothing_else(tmp_path, claim):
    """RLIMIT_FSIZE: no file may pass one and a half megabytes; the spool of one megabyte has its space already."""
    service = Service(tmp_path, spool_mb=1)
    try:
        service.start("--sensor", "accelerometer=synthetic:9", "--speed", "400", limit_bytes=1_500_000)
        recording = service.ask(lambda client: client.do("start_recording", name="long"))["id"]
        service.ask(lambda client: client.do("marker", label="kept"))
        service.ask(lambda client: True if _full(client) else None)
        assert service.ask(lambda client: client.view())["recording"] is None
        (summary,) = service.ask(lambda client: client.do("recordings"))
        assert summary["ended_by"] == "storage-full"
        produced = service.ask(lambda client: client.view()["produced"])
        service.ask(lambda client: True if client.view()["produced"] > produced else None)
        service.end()
        rows, labels = recorded_rows(service.recordings(), recording)
        assert labels == ["kept"]
        assert len(rows) == summary["readings"]["accelerometer"]
        compare(service, rows, "1 file size limit, the recording", claim)
    finally:
        service.close()


def test_a_full_disk_is_said_waited_for_and_survived(service, failing_world, claim):
    service.start(environment=failing_world.environment)
    service.ask(lambda client: client.view()["spooled"] or None)
    failing_world.set("full", "yes")
    service.ask(lambda client: True if _full(client) else None)
    failing_world.unset("full")
    produced = service.ask(lambda client: client.view()["produced"])
    service.ask(lambda client: True if client.view()["running"] and client.view()["produced"] > produced else None)
    service.end()
    compare(service, service.spooled(SHAKE), "disk filled once", claim)


def _full(client: ServiceClient) -> bool:
    return "storage-full" in [entry["code"] for entry in client.health()]


def test_a_wall_clock_that_jumps_moves_no_reading(service, failing_world, claim):
    service.start("--sensor", "accelerometer=synthetic:9", environment=failing_world.environment)
    for seconds in ("86400", "-7200"):
        before = service.ask(lambda client: client.view()["time_us"])
        failing_world.set("clock", seconds)
        service.ask(lambda client: True if "clock-jump" in [e["code"] for e in client.health()] else None)
        after = service.ask(lambda client: client.view()["time_us"])
        assert 0 <= after - before < 3_600_000_000
        service.ask(lambda client: [client.do("dismiss", code="clock-jump")])
    service.end()
    compare(service, service.spooled(SHAKE), "the clock moved a day forward and two hours back", claim)


POSITIONS = """
import resurge as rs
rs.sensor("gps", every="1s").sync("raw", batch=20, within="5s")
rs.sensor("battery", every="1s").sync("power", batch=20, within="5s")
"""


@pytest.mark.soak
def test_a_permission_taken_away_stops_that_sensor_and_its_return_starts_it(tmp_path, claim):
    """The node's own Termux adapters over commands that answer as Termux:API does."""
    fake = FakeTermux(tmp_path / "termux")
    fake.set("seconds", "0.05")
    service = Service(tmp_path, program=POSITIONS)
    try:
        service.start("--sensor", "gps=live", "--sensor", "battery=live", environment=fake.environment())

        def readings(sensor: str) -> int:
            return service.ask(lambda client: client.view()["sensors"].get(sensor, {}).get("readings", 0))

        wait_until(lambda: readings("gps") > 0 and readings("battery") > 0, "the first fixes")
        fake.set("mode-termux-location", "denied")
        service.ask(lambda client: True if "sensor-permission" in [e["code"] for e in client.health()] else None)
        silent, powered = readings("gps"), readings("battery")
        # The battery is asked every 30 s at most.
        wait_until(lambda: readings("battery") > powered, "the rest to go on")
        fake.set("mode-termux-location", "ok")
        wait_until(lambda: readings("gps") > silent, "the fixes to come back")
        service.ask(lambda client: True if "sensor-permission" not in [e["code"] for e in client.health()] else None)
        account = service.end()
        claim(f"1 permission taken and given back; {account['produced']} readings numbered")
        assert account["produced"] == account["spooled"]
    finally:
        service.close()


FAILING = """import resurge as rs
@rs.operator('shaken', takes={{'x': 'float64', 'y': 'float64', 'z': 'float64'}},
             gives={{'x': 'float64', 'y': 'float64', 'z': 'float64'}})
class Shaken:
    n = 0
    def process(self, port, row):
        self.n += 1
        if self.n == {fails_at}:
            raise ValueError('too shaken')
        yield {{name: row[name] for name in 'xyz'}}
    def snapshot(self):
        return self.n.to_bytes(8, 'big')
    def restore(self, state):
        self.n = int.from_bytes(state, 'big')
rs.sensor('accelerometer', every='20ms').apply('shaken').sync('shake', batch=500, within='10s')
"""


def test_an_operator_that_raises_ends_no_process_and_a_corrected_program_goes_on(tmp_path, claim):
    service = Service(tmp_path, program=FAILING.format(fails_at=5_003))
    try:
        service.start()
        told = service.ask(
            lambda client: next((entry for entry in client.health() if entry["code"] == "operator-failed"), None)
        )
        assert "operator type 'shaken' raised ValueError: too shaken" in told["what"]
        service.ask(lambda client: client.do("start_recording", name="by hand", sensors=["accelerometer"]))
        service.ask(lambda client: (client.view()["recording"] or {}).get("readings") or None)
        service.ask(lambda client: client.do("stop_recording"))
        assert service.codes().count("operator-failed") == 1
        account = service.end()
        schema = Schema.of(dict.fromkeys("xyz", "float64"))
        before = service.spooled(schema)
        assert account["produced"] == len(before) <= 5_002
        service.program.write_text(FAILING.format(fails_at=-1))
        service.start()
        assert "operator-failed" not in service.codes()
        service.ask(lambda client: client.view()["produced"] > len(before) + 2_000 or None)
        service.end()
        rows = service.spooled(schema)
        assert rows[: len(before)] == before
        steps = {after[1] - at[1] for at, after in itertools.pairwise(rows)} - {EVERY_US}
        assert len(steps) == 1  # one silence: from the failure to the second start
        compare(service, [row[1:] for row in rows], "an operator raised, once", claim)
    finally:
        service.close()
