"""What devices cost that are enrolled and silent: a segment of the log and an epoch of a job, beside the same
active ones.

Nothing but this process's processor time is measured: the log is on a disk, the tasks run in this process.
"""

from __future__ import annotations

import gc
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

import resurge as rs
from cloud_backend.log.format import Record
from cloud_backend.log.log import Log
from cloud_backend.results.store import Results
from cloud_backend.spark.cluster.session import LocalRunner
from cloud_backend.spark.control.driver import JobManager, JobSettings
from resurge.bench._rounds import at_most
from shared.batch import Batch
from shared.identity import DeviceId, device_id, edge_id
from shared.plan.graph import Plan
from shared.spool.disk import PosixDisk
from shared.wire import columns
from shared.wire.frame import encode
from shared.wire.messages import Data, Declare

SECOND = 1_000_000
AT_ONCE = 5_000
ROWS = 12  # of one exchange a minute
CONTENTS = 16  # that devices share: encoding is not what is measured
EDGES = 4  # of a device; the job reads one of them
GROWTH_MAX = 1.3


def program() -> Plan:
    """What a device sends, and one vertex by device and one by cell over it."""
    up = rs.sensor("walk", every="5s", columns={"x": "float64", "cell": "int64"}).sync("walk", batch=ROWS)
    mine = up.key_by("device").tumbling("1m").aggregate(n=rs.count(), total=rs.sum("x"), cell=rs.last("cell"))
    cells = mine.key_by("cell", merge="arrival").tumbling("1m").aggregate(n=rs.count(), total=rs.sum("total"))
    return rs.plan_of(mine.sync_back("mine"), cells.subscribe("cells"), name="scale")


class Crowd:
    """A log in which every device has sent a minute, and of which the first ones go on."""

    def __init__(self, root: Path, *, devices: int, active: int) -> None:
        self.plan, self.root = program(), root
        (self._edge,) = self.plan.edges
        self._names = [self._edge.name, *(f"other {number}" for number in range(EDGES - 1))]
        self._random = np.random.default_rng(5)
        self.ids = [device_id(b"%d" % number) for number in range(devices)]
        self.active = active
        self.minute = 0
        self.log = Log.open(PosixDisk(root / "log"))
        for first in range(0, devices, AT_ONCE):
            group = self.ids[first : first + AT_ONCE]
            schema = self._edge.schema
            self.log.append([
                Record(0, encode(Declare(device, 1, edge_id(name), name, schema).frame()))
                for device in group for name in self._names
            ])  # fmt: skip
            self.log.append(self._minute(group, self._names))
            self.log.sync()
        self.minute = 1

    def _minute(self, ids: list[DeviceId], names: list[str]) -> list[Record]:
        schema, lo = self._edge.schema, self.minute * ROWS
        start = self.minute * 60 * SECOND
        frontier = start + 60 * SECOND
        times = start + 5 * SECOND * np.arange(ROWS)
        payloads = []
        for _ in range(CONTENTS):
            content = {"x": np.round(self._random.random(ROWS), 3), "cell": self._random.integers(0, 500, ROWS)}
            payloads.append(columns.encode(Batch.of(schema, content, times, lo=lo, frontier_us=frontier)))
        records = []
        for number, device in enumerate(ids):
            codec, payload = payloads[number % CONTENTS]
            for name in names:
                data = Data(device, 1, edge_id(name), lo, lo + ROWS, ROWS, schema.id, 0, codec, payload, frontier)
                records.append(Record(frontier, encode(data.frame())))
        return records

    def go_on(self) -> None:
        """The active ones send their next minute."""
        self.log.append(self._minute(self.ids[: self.active], self._names[:1]))
        self.log.sync()
        self.minute += 1

    def roll_s(self) -> float:
        """Processor time of beginning a segment, after the active ones went on."""
        self.go_on()
        begun = time.process_time()
        self.log.commit(self.log.take(roll=True))
        return time.process_time() - begun

    def epochs_s(self, count: int) -> list[float]:
        """Processor time of each epoch of a job that has caught up."""
        driver = JobManager(
            self.root / "log", self.root / "store", self.plan, results=Results(self.root / "results.sqlite"),
            runner=LocalRunner(), settings=JobSettings(epoch_s=0.0, balance=False),
        )  # fmt: skip
        driver.drain()
        spent = []
        for _ in range(count + 2):
            self.go_on()
            gc.collect()
            begun = time.process_time()
            driver.drain()
            spent.append(time.process_time() - begun)
        return spent[2:]  # the first ones close the windows of everybody


def checks_of_devices(root: Path, *, quick: bool, rounds: int, figures: dict[str, Any]) -> list[dict[str, Any]]:
    sizes, active, epochs = ((100, 400, 1_600), 100, 3) if quick else ((1_000, 10_000, 100_000), 1_000, 2 * rounds)
    rolls: dict[int, float] = {}
    epoch: dict[int, float] = {}
    for devices in sizes:
        crowd = Crowd(root / str(devices), devices=devices, active=active)
        crowd.roll_s()  # with what all of them declared
        gc.collect()
        rolls[devices] = statistics.median(crowd.roll_s() for _ in range(max(5, 2 * rounds)))
        epoch[devices] = statistics.median(crowd.epochs_s(epochs))
    few, *_, many = sizes
    figures["devices"] = {
        "active": active, "edges_each": EDGES,
        "roll_ms": {each: round(1000 * seconds, 3) for each, seconds in rolls.items()},
        "epoch_ms": {each: round(1000 * seconds, 2) for each, seconds in epoch.items()},
    }  # fmt: skip
    words = f"{many} devices, {active} active: processor time of"
    return [
        at_most(f"{words} a segment, times that at {few}", rolls[many] / rolls[few], GROWTH_MAX),
        at_most(f"{words} an epoch, times that at {few}", epoch[many] / epoch[few], GROWTH_MAX),
    ]
