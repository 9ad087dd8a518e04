"""What the results should be follows from the log alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import resurge as rs
from cloud_backend.log.format import Record
from cloud_backend.log.log import Log
from resurge.up.expected_results import Expected, devices_meet, expected_digest, expected_results
from shared.batch import Batch
from shared.identity import device_id, edge_id
from shared.plan.encoding import encode_plan
from shared.plan.graph import Plan
from shared.spool.disk import PosixDisk
from shared.stream.program import load_program
from shared.wire import columns
from shared.wire.frame import Frame, FrameType, encode
from shared.wire.messages import Data
from tests.cloud_backend.spark.task.test_frames import scored_plan
from tests.spark.worlds import World, cells_plan, trips_plan

SECOND_US = 1_000_000
PHONE, OTHER = device_id(b"phone"), device_id(b"other")
START = 1_700_000_000 * SECOND_US

PROGRAM = """
import resurge as rs

battery = rs.sensor("battery", every="1s")
up = battery.sync(batch=10, within="1s")
up.key_by("device").tumbling("10s").aggregate(lowest=rs.min("level"), readings=rs.count()).sync_back("charge")
"""


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    (tmp_path / "charge.py").write_text(PROGRAM)
    return load_program(tmp_path / "charge.py")


class LogWriter:
    """Writes what a phone would into a log: readings one second apart."""

    def __init__(self, log: Log, plan: Plan, device=PHONE) -> None:
        [self.edge] = plan.edges
        self.log = log
        self.device = device
        self.next = 0

    def send(self, readings: int) -> None:
        lo = self.next
        self.next += readings
        times = START + np.arange(lo, self.next, dtype=np.int64) * SECOND_US
        values = {field.name: np.arange(lo, self.next) % 7 for field in self.edge.schema}
        frontier = START + self.next * SECOND_US
        batch = Batch.of(self.edge.schema, values, times, lo=lo, frontier_us=frontier)
        codec, payload = columns.encode(batch)
        data = Data(
            device=self.device, incarnation=1, edge=edge_id(self.edge.name), lo=lo, hi=self.next, rows=readings,
            schema_id=batch.schema.id, applied=0, codec=codec, columns=payload, frontier_us=frontier,
        )  # fmt: skip
        self.append(data.frame())

    def frontier(self, second: int) -> None:
        self.append(
            Frame(
                FrameType.FRONTIER, self.device, incarnation=1, edge=edge_id(self.edge.name),
                frontier_us=START + second * SECOND_US,
            )
        )  # fmt: skip

    def append(self, frame: Frame) -> None:
        self.log.append([Record(START, encode(frame))])
        self.log.sync()


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log.open(PosixDisk(tmp_path / "log"))


def test_a_window_gives_a_row_once_the_log_has_closed_it(tmp_path, plan, log):
    #  0         10        20
    #  |xxxxxxxxxx|xxxxx...|
    phone = LogWriter(log, plan)
    phone.send(9)
    assert expected_results(plan, tmp_path / "log") == []
    phone.send(6)
    [row] = expected_results(plan, tmp_path / "log")
    assert (row.sink, row.device, row.key) == ("charge", PHONE.hex(), (PHONE.hex(),))
    assert (row.window_start_us, row.window_end_us) == (START, START + 10 * SECOND_US)
    assert dict(row.values) == {"lowest": 0.0, "readings": 10}


def test_a_frontier_alone_closes_a_window(tmp_path, plan, log):
    phone = LogWriter(log, plan)
    phone.send(4)
    assert expected_results(plan, tmp_path / "log") == []
    phone.frontier(10)
    [row] = expected_results(plan, tmp_path / "log")
    assert row.values["readings"] == 4


def test_one_phone_never_closes_the_window_of_another(tmp_path, plan, log):
    LogWriter(log, plan).send(25)
    LogWriter(log, plan, OTHER).send(5)
    assert {row.device for row in expected_results(plan, tmp_path / "log")} == {PHONE.hex()}


def test_the_closed_windows_are_those_of_evaluate(tmp_path, plan, log):
    phone = LogWriter(log, plan)
    for readings in (3, 1, 16, 11):
        phone.send(readings)
    rows = expected_results(plan, tmp_path / "log")
    count = phone.next
    readings = {
        "time": START + np.arange(count) * SECOND_US,
        "device": np.array([PHONE.hex()] * count, dtype=np.dtypes.StringDType()),
        **{field.name: (np.arange(count) % 7).astype(field.kind) for field in phone.edge.schema},
    }
    said = rs.evaluate(plan, {"battery": readings}, frontier_us=START + count * SECOND_US)["charge"]
    assert len(said["time"]) == len(rows) == 3
    for index, row in enumerate(sorted(rows, key=lambda row: row.window_start_us)):
        assert row.window_end_us == said["window_end"][index]
        assert {name: said[name][index] for name in row.values} == dict(row.values)


def test_where_devices_meet_the_digest_is_the_jobs_epoch_by_epoch(tmp_path):
    world = World(tmp_path, cells_plan())
    driver = world.driver()
    for _ in range(3):
        world.append()
        driver.drain()
    assert devices_meet(world.plan)
    assert expected_digest(world.plan, world.log_dir, world.store_dir).digest == world.results.digest()
    world.append()  # not cut yet: what it will mean is open
    assert expected_digest(world.plan, world.log_dir, world.store_dir) == Expected(
        None, "the job has not cut all of the log into epochs, or has forgotten where it did"
    )
    driver.drain()
    assert expected_digest(world.plan, world.log_dir, world.store_dir).digest == world.results.digest()


def test_where_they_do_not_the_log_alone_says_it(tmp_path):
    world = World(tmp_path, trips_plan())
    for _ in range(3):
        world.append()
    world.driver().drain()
    assert not devices_meet(world.plan)
    assert expected_digest(world.plan, world.log_dir).digest == world.results.digest()


def test_a_frame_operator_is_expected_too(tmp_path):
    world = World(tmp_path, scored_plan())
    world.started(3)
    assert expected_digest(world.plan, world.log_dir, world.store_dir).digest == world.results.digest()


def test_it_builds_frame_operators_by_itself(tmp_path):
    """In a process that has imported nothing else: nobody but this module says how frames are called."""
    world = World(tmp_path, scored_plan())
    world.started(1)
    (tmp_path / "plan").write_bytes(encode_plan(world.plan))
    code = (
        "import sys; from pathlib import Path; import tests.spark.frame_operators\n"
        "from resurge.up.expected_results import expected_digest; from shared.plan.encoding import decode_plan\n"
        "root = Path(sys.argv[1]); plan = decode_plan((root / 'plan').read_bytes())\n"
        "print(expected_digest(plan, root / 'log', root / 'store').digest)"
    )
    said = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == world.results.digest()


def test_nothing_is_expected_of_a_frame_that_depends_on_which_rows_came_together(tmp_path):
    mean = rs.sensor("walk", every="1s", columns={"x": "float64", "cell": "int64"}).sync("walk", batch=20)
    world = World(tmp_path, rs.plan_of(mean.apply("tests_frame_mean").subscribe("mean"), name="mean"))
    world.started(1)
    assert expected_digest(world.plan, world.log_dir, world.store_dir) == Expected(
        None, "frame operator 'tests_frame_mean' may say something else for other rows together"
    )
