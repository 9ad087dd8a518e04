"""The program and the input that `bench spark` and the Sonora experiments share: A stateless, B keyed, C keyed anew."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import resurge as rs
from cloud_backend.log.format import Record
from cloud_backend.log.log import Log
from cloud_backend.results.store import Results
from cloud_backend.spark.control.driver import JobManager, JobSettings, Runner
from resurge import col
from shared.batch import Batch
from shared.identity import device_id, edge_id
from shared.plan.graph import Plan
from shared.spool.disk import PosixDisk
from shared.wire import columns
from shared.wire.frame import encode
from shared.wire.messages import Data

SECOND = 1_000_000
KINDS = {"user": "int64", "cell": "int64", "x": "float64"}


def three_vertices() -> Plan:
    """A: rows worth keeping. B: per user and minute. C: per cell and minute."""
    up = rs.sensor("points", every="1s", columns=KINDS).sync("points", batch=5000)
    kept = up.where(col.x > 0.1)
    users = kept.key_by("user").tumbling("60s").aggregate(n=rs.count(), total=rs.sum("x"), cell=rs.last("cell"))
    cells = users.key_by("cell").tumbling("60s").aggregate(users=rs.count(), total=rs.sum("total"))
    return rs.plan_of(cells.subscribe("cells"), name="bench")


@dataclass
class World:
    """A log that grows by epochs of a given number of rows, and a driver over it."""

    root: Path
    rows: int
    users: int
    plan: Plan = field(default_factory=three_vertices)
    devices: int = 40
    epoch_seconds: int = 60
    seed: int = 7

    def __post_init__(self) -> None:
        self.log = Log.open(PosixDisk(self.root / "log"))
        self.random = np.random.default_rng(self.seed)
        self.ids = [device_id(f"bench {number}".encode()) for number in range(self.devices)]
        self.epoch = 0

    def epoch_columns(self) -> dict[str, np.ndarray]:
        """The next epoch's rows, device by device, each in order of time."""
        each = self.rows // self.devices
        start = self.epoch * self.epoch_seconds * SECOND
        times = start + np.sort(self.random.integers(0, self.epoch_seconds * SECOND, (self.devices, each)), axis=1)
        self.epoch += 1
        return {
            "device": np.repeat(np.arange(self.devices), each),
            "time": times.reshape(-1),
            "user": self.random.integers(0, self.users, self.devices * each),
            "cell": self.random.integers(0, 1000, self.devices * each),
            "x": np.round(self.random.random(self.devices * each), 3),
        }

    def append(self, given: dict[str, np.ndarray]) -> None:
        self.log.append(self.encoded(given))
        self.log.sync()

    def encoded(self, given: dict[str, np.ndarray]) -> list[Record]:
        """The records that devices send for these rows, the last that `epoch_columns` gave."""
        (edge,) = self.plan.edges
        records = []
        each = self.rows // self.devices
        for number in range(self.devices):
            part = slice(number * each, (number + 1) * each)
            lo = (self.epoch - 1) * each
            batch = Batch.of(
                edge.schema, {name: given[name][part] for name in KINDS}, given["time"][part], lo=lo,
                frontier_us=self.epoch * self.epoch_seconds * SECOND,
            )  # fmt: skip
            codec, payload = columns.encode(batch)
            data = Data(
                self.ids[number], 1, edge_id(edge.name), batch.lo, batch.hi, each, edge.schema.id, 0, codec, payload,
                batch.frontier_us,
            )  # fmt: skip
            records.append(Record(batch.frontier_us, encode(data.frame())))
        return records

    def driver(self, runner: Runner, **settings: object) -> JobManager:
        chosen = JobSettings(epoch_s=0.0, balance=False, **settings)  # type: ignore[arg-type]
        results = Results(self.root / "results.sqlite")
        return JobManager(
            self.root / "log", self.root / "store", self.plan, results=results, runner=runner, settings=chosen
        )
