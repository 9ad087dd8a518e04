"""What a deleted device delivered is in no file any more: of the log, the store, the results and a fresh backup. And no
rollback, undo or restart brings it back."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import resurge as rs
from cloud_backend.coordinator.backup import Places, create, restore
from cloud_backend.log.erasure import ErasureCounts, erase, prepare
from cloud_backend.log.log import Record
from cloud_backend.log.reader import Reader
from cloud_backend.spark.cluster.session import LocalRunner
from cloud_backend.spark.control.driver import JobManager
from cloud_backend.spark.control.jobs import JobDirectory, JobsRunner
from cloud_backend.spark.control.log_use import LogUse
from cloud_backend.spark.manifest.manifest import Fenced, ManifestLog
from cloud_backend.spark.rollback.roll_back import roll_back
from cloud_backend.spark.rollback.undo import undo
from cloud_backend.spark.storage.store import Store
from cloud_backend.spark.task import state
from resurge import col
from shared.batch import Batch
from shared.engine.snapshots import decode_state
from shared.errors import UsageError
from shared.identity import edge_id
from shared.plan.graph import Plan
from shared.wire import columns, frame
from shared.wire.messages import Data
from tests.spark.worlds import SECOND, World

LATITUDE = 48.137_432_117
ASKED_US = 7


def plan(factor: float = 1.0) -> Plan:
    """Open windows, states, pairs that wait and rows by another key: all that can hold a reading."""
    up = rs.sensor("walk", every="1s", columns={"x": "float64", "cell": "int64"}).sync("walk", batch=20)
    long = up.tumbling("2m").aggregate(first=rs.first("x"), total=rs.sum("x"))
    short = up.tumbling("10s").aggregate(last=rs.last("x"), n=rs.count()).extend(last=col.last * factor)
    peak = up.state({"peak": 0.0}, peak=rs.if_else(col.x > rs.state.peak, col.x, rs.state.peak))
    pairs = up.join(up.select("x"), within="5s")
    cells = up.key_by("cell").where(col.x > -9)
    counts = up.key_by("cell").tumbling("1h").aggregate(n=rs.count())
    sinks = {"long": long, "short": short, "peak": peak, "pairs": pairs, "cells": cells, "counts": counts}
    return rs.plan_of(*(stream.subscribe(name) for name, stream in sinks.items()), name="readings")


class Walks(World):
    """Three devices; the first is always at one latitude, which nobody else is."""

    def walk(self, seconds: int = 12) -> None:
        (edge,) = self.plan.edges
        records = []
        for number, device in enumerate(self.ids):
            lo = self.next[number]
            if number == 0 and self.deleted:
                continue
            x = np.full(seconds, LATITUDE) if number == 0 else self.random.normal(size=seconds)
            content = Batch.of(
                edge.schema, {"x": x, "cell": self.random.integers(0, 3, seconds)},
                np.arange(lo, lo + seconds) * SECOND, lo=lo, frontier_us=(lo + seconds) * SECOND,
            )  # fmt: skip
            self.next[number] = lo + seconds
            codec, payload = columns.encode(content)
            data = Data(
                device, 1, edge_id(edge.name), lo, lo + seconds, seconds, edge.schema.id, 0, codec, payload,
                content.frontier_us,
            )  # fmt: skip
            records.append(Record(1_700_000_000_000_000, frame.encode(data.frame())))
        self.log.append(records)
        self.log.sync()

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        super().__post_init__()
        self.deleted: dict[str, int] = {}

    def watched(self) -> JobManager:
        return self.driver(deleted=lambda: self.deleted, gone=lambda: dict.fromkeys(self.deleted, 0))

    def delete(self) -> None:
        """As gateway and dashboard do: the log, then the results; Spark finds it in the roster."""
        for base in prepare(self.log):
            erase(self.log, base, self.ids[0], through_incarnation=1, done=ErasureCounts())
        self.deleted[self.ids[0].hex()] = ASKED_US
        self.results.forget_device(self.ids[0].hex())


def wait_until(holds: Callable[[], object], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def files_with(root: Path, value: float) -> list[str]:
    """Every file that holds this number, as bytes, as text, inside a state or inside a batch of a log."""
    marks = (struct.pack("<d", value), value.hex().encode(), repr(value).encode())
    found = []
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        data = path.read_bytes()
        inside = path.suffix in (".base", ".delta") and _holds(decode_state(data), value)
        if inside or any(mark in data for mark in marks):
            found.append(path.relative_to(root).as_posix())
    for log in {path.parent for path in root.rglob("*.segment")}:
        reader = Reader(log)
        for _, record in reader.read(reader.start, reader.valid_end()):
            if frame.stored_header(record.frame).kind == frame.FrameType.DATA:
                data = Data.of(frame.decode_one(record.frame)[0])
                batch = columns.decode(data.codec, bytes(data.columns), plan().edges[0].schema, lo=data.lo, hi=data.hi)
                if value in batch.columns["x"]:
                    found.append(f"{log.name}: batch {data.lo}")
    return found


def _holds(value: object, wanted: float) -> bool:
    return any(wanted in part if isinstance(part, np.ndarray) else part == wanted for part in _parts(value))


def _parts(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        for each in value.values():
            yield from _parts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _parts(each)
    elif isinstance(value, bytes):
        yield struct.pack("<d", LATITUDE) in value and LATITUDE
    elif not isinstance(value, np.ndarray) or value.dtype.kind == "f":
        yield value


@pytest.fixture
def world(tmp_path: Path) -> Walks:
    return Walks(tmp_path / "home", plan(), devices=3)


def started(world: Walks) -> JobManager:
    driver = world.watched()
    for _ in range(3):
        world.walk()
        driver.drain()
    return driver


def test_nothing_of_a_deleted_device_is_left_anywhere(world: Walks, tmp_path: Path) -> None:
    driver = started(world)
    done = roll_back(world.store_dir, "long", 1, fixed=plan(factor=2.0))  # former runs to return to
    driver.drain()
    found = files_with(world.root, LATITUDE)
    assert {Path(name).suffix.removesuffix("-wal") for name in found} >= {".base", ".delta", ".record", ".sqlite"}
    assert any(name.startswith("log: ") for name in found)
    world.delete()
    driver.drain()
    assert driver.manifest.erased == {world.ids[0].hex(): ASKED_US}
    assert files_with(world.root, LATITUDE) == []
    others = len(world.results.latest("peak"))
    for _ in range(3):
        world.walk()
        driver.drain()
    assert len(world.results.latest("peak")) == others + 3 * 2 * 12
    assert files_with(world.root, LATITUDE) == []
    with pytest.raises(UsageError, match="rollback-beyond-horizon"):
        roll_back(world.store_dir, "long", 1)
    with pytest.raises(UsageError, match="undo-unknown"):
        undo(world.store_dir, done.entry or 0)
    roll_back(world.store_dir, "long", driver.manifest.last_cut - 1)
    state.forget_all()
    driver.drain()
    assert not driver.failures.waiting()
    again = world.watched()
    again.drain()
    create(Places(world.root, world.root / "results.sqlite", world.root / "plan.bin", world.store_dir, world.root / "jobs"),
           tmp_path / "backup.tar.gz", now_us=1)  # fmt: skip
    restore(tmp_path / "backup.tar.gz", tmp_path / "restored")
    assert files_with(tmp_path / "restored", LATITUDE) == []
    assert files_with(world.root, LATITUDE) == []


def test_others_keep_their_open_windows(world: Walks, tmp_path: Path) -> None:
    driver = started(world)
    world.delete()
    driver.drain()
    plain = Walks(tmp_path / "plain", plan(), devices=3)
    beside = started(plain)
    for each, runs in ((world, driver), (plain, beside)):
        each.deleted[each.ids[0].hex()] = ASKED_US  # in both it says nothing more
        for _ in range(2):
            each.walk(60)
            runs.drain()

    def windows(each: Walks) -> list[tuple[object, ...]]:
        rows = [row for row in each.results.latest("long") if row.key != (each.ids[0].hex(),)]
        return [(row.key, row.window_start_us, row.values["first"], row.values["total"]) for row in rows]

    assert len(windows(world)) == 2
    assert windows(world) == windows(plain)


def test_an_erasure_that_a_crash_cut_short_is_ended_at_the_next_start(
    world: Walks, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = started(world)
    world.delete()
    with monkeypatch.context() as patch:
        patch.setattr(JobManager, "_forget_erased", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            driver.drain()
    assert files_with(world.root, LATITUDE) != []
    again = world.watched()
    assert files_with(world.root, LATITUDE) == []
    world.walk()
    again.drain()
    assert again.manifest.position("long") == again.manifest.last_cut == 4


def test_a_driver_that_slept_through_an_erasure_writes_nothing_more(world: Walks) -> None:
    driver = started(world)
    asleep = ManifestLog(Store(world.store_dir))
    again = world.watched()
    world.delete()
    again.drain()
    with pytest.raises(Fenced):
        asleep.catch_up()
    with pytest.raises(Fenced):
        driver.drain()


def test_a_device_is_erased_once(world: Walks) -> None:
    driver = started(world)
    world.delete()
    driver.drain()
    entries = driver.manifest.n
    assert not driver.step()
    assert driver.manifest.n == entries
    assert driver.status()["to_erase"] == []


def test_a_stopped_job_is_erased_too(world: Walks, tmp_path: Path) -> None:
    directory = JobDirectory(world.root / "jobs")
    runner = JobsRunner(
        directory, world.log_dir, results=world.results, runner=LocalRunner(), log_use=LogUse(world.root),
        settings=world.settings, deleted=lambda: world.deleted,
    )  # fmt: skip
    world.walk()
    runner.start("query", world.plan)
    store = Store(directory.store("query"))
    wait_until(
        lambda: store.exists() and "long" in (known := ManifestLog(store).state).vertices and known.position("long")
    )
    runner.stop("query")
    assert files_with(world.root / "jobs", LATITUDE) != []
    world.delete()
    runner.follow()
    assert files_with(world.root / "jobs", LATITUDE) == []
    assert directory.status()["query"]["state"] == "stopped"
