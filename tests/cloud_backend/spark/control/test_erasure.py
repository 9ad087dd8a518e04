"""What a deleted device delivered is in no file any more: of the log, the store, the results and a fresh backup. And no
rollback, undo or restart brings it back."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

import resurge as rs
from cloud_backend.coordinator.backup import Places, create, restore
from cloud_backend.spark.cluster.session import LocalRunner
from cloud_backend.spark.control.driver import JobManager
from cloud_backend.spark.control.jobs import JobDirectory, JobsRunner
from cloud_backend.spark.control.log_needs import LogUse
from cloud_backend.spark.manifest.manifest import Fenced, ManifestLog
from cloud_backend.spark.rollback.roll_back import roll_back
from cloud_backend.spark.rollback.savepoints import create_savepoint, savepoints
from cloud_backend.spark.rollback.undo import undo
from cloud_backend.spark.storage.store import Store
from cloud_backend.spark.task import state
from resurge import col
from shared.errors import UsageError
from shared.plan.graph import Plan
from tests.cloud_backend.spark.control.deletions import ASKED_US, COLUMNS, LATITUDE, Walks, files_with, started


def plan(factor: float = 1.0) -> Plan:
    """Open windows, states, pairs that wait and rows by another key: all that can hold a reading."""
    up = rs.sensor("walk", every="1s", columns=COLUMNS).sync("walk", batch=20)
    long = up.tumbling("2m").aggregate(first=rs.first("x"), total=rs.sum("x"))
    short = up.tumbling("10s").aggregate(last=rs.last("x"), n=rs.count()).extend(last=col.last * factor)
    peak = up.state({"peak": 0.0}, peak=rs.if_else(col.x > rs.state.peak, col.x, rs.state.peak))
    pairs = up.join(up.select("x"), within="5s")
    cells = up.key_by("cell").where(col.x > -9)
    counts = up.key_by("cell").tumbling("1h").aggregate(n=rs.count())
    sinks = {"long": long, "short": short, "peak": peak, "pairs": pairs, "cells": cells, "counts": counts}
    return rs.plan_of(*(stream.subscribe(name) for name, stream in sinks.items()), name="readings")


def wait_until(holds: Callable[[], object], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


@pytest.fixture
def world(tmp_path: Path) -> Walks:
    return Walks(tmp_path / "home", plan(), devices=3)


def test_nothing_of_a_deleted_device_is_left_anywhere(world: Walks, tmp_path: Path) -> None:
    driver = started(world)
    done = roll_back(world.store_dir, "long", 1, fixed=plan(factor=2.0))  # former runs to return to
    driver.drain()
    create_savepoint(world.store_dir, "before")
    found = files_with(world.root, LATITUDE)
    assert {Path(name).suffix.removesuffix("-wal") for name in found} >= {".base", ".delta", ".record", ".sqlite"}
    assert any(name.startswith("log: ") for name in found)
    world.delete()
    driver.drain()
    assert driver.manifest.erased == {world.ids[0].hex(): ASKED_US}
    assert savepoints(world.store_dir) == []
    assert driver.manifest.points() == set()
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
    assert again.manifest.position("long") == again.manifest.last_cut >= 4


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
