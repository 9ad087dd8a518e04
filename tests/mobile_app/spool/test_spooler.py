"""Kills at every write: the operators' state and the spool always fit, nothing is put out twice.

The stand-in computation adds readings up in windows of seven and puts out one row per window: (first reading, last
reading, sum). Its state matters: restored too old it repeats a window, too new it skips one.

    readings  0 1 2 3 4 5 6 | 7 8 9 10 11 12 13 | 14 ...
    rows            0       |         1         |
"""

from __future__ import annotations

import struct
from random import Random

import numpy as np
import pytest

from mobile_app.spool.snapshots import Snapshot, Snapshots
from mobile_app.spool.spooler import Spooler
from shared.batch import Batch
from shared.identity import DeviceId, edge_id
from shared.language.schema import Schema
from shared.plan.contracts import LOSSLESS
from shared.plan.graph import SyncEdge
from shared.spool.entry import DataEntry
from shared.spool.memory import MemoryDisk
from shared.spool.ring import Spool
from shared.sync.pacing import Pacing
from shared.sync.sender import Sender
from shared.sync.session import DeviceSession
from shared.wire import codecs
from tests.simulation.disk import Crash, SimulatedDisk
from tests.simulation.keys import ToyKeys

DEVICE = DeviceId(b"d" * 16)
SUMS = Schema.of({"first": "int64", "last": "int64", "total": "int64"})
RAW = Schema.of({"reading": "int64"})
STATE = struct.Struct("<qqqq")


class Windows:
    """The stand-in: a stateless edge `raw` and a stateful edge `sums` over the same readings."""

    class plan:
        edges = (
            SyncEdge("raw", RAW, 5, 1 << 16, 10**7, "auto", "query", 0, None, LOSSLESS),
            SyncEdge("sums", SUMS, 2, 1 << 16, 10**7, "auto", "query", 0, None, LOSSLESS),
        )

    def __init__(self) -> None:
        self.reading = self.first = self.total = self.rows = 0

    def digest(self) -> str:
        return "windows of seven"

    @property
    def reading_count(self) -> int:
        return self.reading

    def origins(self) -> dict[str, int]:
        return {"reading": self.reading}

    def snapshot(self) -> bytes:
        return STATE.pack(self.reading, self.first, self.total, self.rows)

    def resume(self, snapshot: Snapshot) -> None:
        self.reading, self.first, self.total, self.rows = STATE.unpack(snapshot.state)
        assert snapshot.origins == self.origins()

    def frontiers(self) -> dict[str, int]:
        return {"raw": self.reading, "sums": self.first}

    def read(self, count: int) -> list[tuple[str, Batch]]:
        start, outputs = self.reading, []
        sums: list[tuple[int, int, int]] = []
        for _ in range(count):
            self.total += self.reading
            self.reading += 1
            if self.reading - self.first == 7:
                sums.append((self.first, self.reading - 1, self.total))
                self.first, self.total = self.reading, 0
        raw = np.arange(start, self.reading)
        outputs.append(("raw", Batch.of(RAW, {"reading": raw}, raw, lo=start)))
        table = np.array(sums, dtype=np.int64).reshape(-1, 3)
        rows = {name: table[:, index] for index, name in enumerate(SUMS.names)}
        outputs.append(("sums", Batch.of(SUMS, rows, table[:, 1], lo=self.rows)))
        self.rows += len(sums)
        return outputs


class Machine:
    """A phone that is switched on, reads, and crashes; the disk stays."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.disk = SimulatedDisk(self.rng)
        Spool.create(self.disk, capacity_bytes=1 << 20, device=DEVICE, incarnation=1).close()
        self.promised_us: dict[str, int] = {}

    def switch_on(self) -> None:
        self.spool = Spool.open(self.disk)
        self.sender = Sender(
            self.spool, DeviceSession(ToyKeys(self.rng, {}), DEVICE, 1), pacing=Pacing(), rng=self.rng,
            edges=[(edge.name, edge.schema) for edge in Windows.plan.edges],
        )  # fmt: skip
        self.computation = Windows()
        snapshots = Snapshots(self.disk)
        self.spooler = Spooler(self.computation, self.spool, self.sender, snapshots, loss_window_s=0.5)
        snapshot = snapshots.fitting(lambda name: self.spool.head(edge_id(name)))
        if snapshot is not None:
            self.computation.resume(snapshot)
            self.spooler.resume(snapshot)

    def live(self, turns: int, start: float, behind: int = 0) -> float:
        """Reads a little in each turn, and now and then what came while it was `behind`."""
        now = start
        for _ in range(turns):
            now += self.rng.uniform(0.05, 0.4)
            late = behind and self.rng.random() < 0.3
            outputs = self.computation.read(self.rng.randrange(behind) if late else self.rng.randrange(6))
            self.spooler.take(outputs, read_until_us=self.computation.reading, now=now)
            self.spooler.commit(now, 0)
            if self.rng.random() < 0.3:
                self.spool.sync()
        return now

    def rows(self, edge: str, schema: Schema) -> dict[str, list[int]]:
        rows: dict[str, list[int]] = {name: [] for name in schema.names}
        rows["seq"] = []
        for entry in self.spool.pending(edge_id(edge)):
            assert isinstance(entry, DataEntry)
            kept = self.spool.read(entry)
            batch = codecs.decode(kept.codec, kept.payload, schema, lo=kept.lo, hi=kept.hi)
            rows["seq"] += batch.seq.tolist()
            for name in schema.names:
                rows[name] += batch.columns[name].tolist()
        return rows


@pytest.mark.parametrize("behind", [0, 60])
@pytest.mark.parametrize("block", [0, *(pytest.param(block, marks=pytest.mark.soak) for block in (1, 2))])
def test_after_any_kill_state_and_spool_fit_and_no_window_is_put_out_twice(block: int, behind: int):
    crashes = 0
    for seed in range(block * 10, block * 10 + 10):
        machine = Machine(seed)
        machine.switch_on()
        now = 0.0
        for _ in range(6):
            machine.disk.arm(machine.rng.randrange(1, 60))
            try:
                now = machine.live(60, now, behind)
            except Crash:
                crashes += 1
            machine.disk.crash()
            machine.switch_on()
        machine.disk.disarm()
        machine.live(20, now + 100.0, behind)
        machine.spooler.commit(1e6, 0, everything=True)
        machine.spool.sync()

        raw, sums = machine.rows("raw", RAW), machine.rows("sums", SUMS)
        assert raw["seq"] == list(range(len(raw["seq"])))
        assert sums["seq"] == list(range(len(sums["seq"])))
        assert raw["reading"] == raw["seq"]  # the state went on exactly where the spool did
        for first, last, total in zip(sums["first"], sums["last"], sums["total"], strict=True):
            assert last - first == 6
            assert total == sum(range(first, last + 1))
        assert sums["first"] == list(range(0, 7 * len(sums["first"]), 7))
    assert crashes > 20


class Weighed(Snapshots):
    """Counts the bytes that it writes."""

    written = 0

    def save(self, snapshot: Snapshot) -> None:
        super().save(snapshot)
        self.written += self._disk.open(self._needed).size()


def snapshot_bytes(readings: int) -> int:
    """Written to snapshots when so many readings are taken at once."""
    disk = MemoryDisk()
    spool = Spool.create(disk, capacity_bytes=1 << 22, device=DEVICE, incarnation=1)
    rng = Random(1)
    sender = Sender(spool, DeviceSession(ToyKeys(rng, {}), DEVICE, 1), pacing=Pacing(), rng=rng)
    computation, snapshots = Windows(), Weighed(disk)
    spooler = Spooler(computation, spool, sender, snapshots, loss_window_s=0.5)
    spooler.take(computation.read(readings), read_until_us=readings, now=1.0)
    spooler.commit(1.0, 0)
    assert spool.head(edge_id("raw")) == readings - readings % 5
    return snapshots.written


def test_who_is_behind_by_many_batches_does_not_write_all_that_is_left_before_each_of_them():
    assert snapshot_bytes(8_000) < 12 * snapshot_bytes(800)
