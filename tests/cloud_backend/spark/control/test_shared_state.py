"""What a deleted device added where devices meet: derived again without it, or dropped and said to be incomplete."""

from __future__ import annotations

from pathlib import Path

import pytest

import resurge as rs
from cloud_backend.coordinator.backup import Places, create, restore
from cloud_backend.results.rows import ResultRow
from cloud_backend.spark.control.driver import JobManager, JobSettings
from cloud_backend.spark.manifest.entries import Rollback, Undo
from cloud_backend.spark.manifest.manifest import Manifest
from cloud_backend.spark.rollback.roll_back import roll_back
from cloud_backend.spark.rollback.undo import undo
from cloud_backend.spark.task import state
from resurge import col
from shared.errors import UsageError
from shared.plan.graph import Plan
from shared.recovery.retention import Retention
from tests.cloud_backend.spark.control.deletions import COLUMNS, LATITUDE, Walks, files_with, started
from tests.spark.worlds import SECOND

SHORT = JobSettings(
    epoch_s=0.0,
    balance=False,
    ranges=1,
    retention=Retention(keep=3, every_s=0.0, hours=0.0),
    collect_every=2,
    chain_max=2,
)


def plan(factor: float = 1.0) -> Plan:
    """No key says whose reading it was: open and closed windows, states, windows that slide, and all of it again."""
    places = rs.sensor("walk", every="1s", columns=COLUMNS).sync("walk", batch=20).key_by("cell")
    highest = places.tumbling("20s").aggregate(top=rs.max("x"), total=rs.sum("x")).extend(top=col.top * factor)
    rising = places.state({"top": -9.0}, top=rs.if_else(col.x > rs.state.top, col.x, rs.state.top))
    sinks = {
        "open": places.tumbling("1h").aggregate(first=rs.first("x"), top=rs.max("x"), n=rs.count()),
        "closed": highest,
        "counts": places.tumbling("20s").aggregate(n=rs.count()),
        "state": rising.select("top"),
        "sliding": places.sliding(count=5).aggregate(last=rs.last("x")),
        "tops": highest.key_by().tumbling("40s").aggregate(top=rs.max("top")),
    }
    return rs.plan_of(*(stream.subscribe(name) for name, stream in sinks.items()), name="shared")


@pytest.fixture
def world(tmp_path: Path) -> Walks:
    return Walks(tmp_path / "home", plan(), devices=3)


def said(world: Walks, sink: str) -> list[tuple[object, ...]]:
    rows = world.results.latest(sink)
    return sorted((row.key, row.window_start_us // SECOND, row.complete, *row.values.values()) for row in rows)


def closed_after(world: Walks, driver: JobManager, epochs: int = 2) -> None:
    world.deleted.setdefault(world.ids[0].hex(), 7)  # it says nothing more
    for _ in range(epochs):
        world.walk()
        driver.drain()


def test_nothing_of_a_deleted_device_is_left_where_devices_meet(world: Walks, tmp_path: Path) -> None:
    driver = started(world)
    done = roll_back(world.store_dir, "open", 1, fixed=plan(factor=2.0))  # former runs that an undo could return to
    driver.drain()
    found = files_with(world.root, LATITUDE)
    assert {Path(name).suffix.removesuffix("-wal") for name in found} >= {".base", ".delta", ".record", ".sqlite"}
    world.delete()
    driver.drain()
    assert not driver.failures.waiting()
    assert files_with(world.root, LATITUDE) == []
    closed_after(world, driver)
    with pytest.raises(UsageError, match="undo-unknown"):
        undo(world.store_dir, done.entry or 0)
    roll_back(world.store_dir, "open", driver.manifest.last_cut - 1)
    state.forget_all()
    driver.drain()
    world.watched().drain()
    create(Places(world.root, world.root / "results.sqlite", world.root / "plan.bin", world.store_dir, world.root / "jobs"),
           tmp_path / "backup.tar.gz", now_us=1)  # fmt: skip
    restore(tmp_path / "backup.tar.gz", tmp_path / "restored")
    assert files_with(tmp_path / "restored", LATITUDE) == []
    assert files_with(world.root, LATITUDE) == []


def test_what_is_left_is_what_the_others_said(world: Walks, tmp_path: Path) -> None:
    """As if the log had never held a reading of it: also windows that had closed, and the state that goes on."""
    driver = started(world)
    world.delete()
    driver.drain()
    without = Walks(tmp_path / "without", plan(), devices=3)
    beside = without.driver(gone=lambda: dict.fromkeys(without.deleted, 0))
    for _ in range(3):
        without.walk()
        without.erase()
        beside.drain()
    for each, runs in ((world, driver), (without, beside)):
        closed_after(each, runs)
    for sink in ("closed", "state", "sliding", "tops", "counts"):
        assert said(world, sink), sink
        assert said(world, sink) == said(without, sink), sink


def test_beyond_the_horizon_it_is_dropped_and_said_to_be_incomplete(tmp_path: Path) -> None:
    world = Walks(tmp_path / "home", plan(), devices=3, settings=SHORT)
    driver = world.watched()
    for _ in range(10):
        world.walk()
        driver.drain()
    assert driver.manifest.collected.snapshots["open"] > 4
    counted = {row.identity: row for row in world.results.latest("counts")}
    world.delete()
    driver.drain()
    assert not driver.failures.waiting()
    assert files_with(world.root, LATITUDE) == []
    (emptied,) = set(driver.manifest.emptied.values())
    kept = [row for row in world.results.latest("counts") if row.window_end_us < (emptied.epoch - 2) * 12 * SECOND]
    assert kept  # a number of readings shows none of them
    assert all(counted[row.identity] == row for row in kept)
    closed_after(world, driver, epochs=5)

    def complete(row: ResultRow) -> bool:
        return row.window_start_us >= emptied.before_us

    rows = world.results.latest("closed")
    assert {row.complete for row in rows} == {True, False}
    assert all(row.complete == complete(row) for row in rows)
    assert files_with(world.root, LATITUDE) == []


def test_a_crash_while_shared_state_is_derived_again_changes_nothing(
    world: Walks, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = started(world)
    world.delete()
    with monkeypatch.context() as patch:
        patch.setattr(JobManager, "_run", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            driver.drain()
    assert driver.manifest.erasing == world.deleted
    assert files_with(world.store_dir, LATITUDE) != []
    again = world.watched()
    again.drain()
    assert (again.manifest.erasing, again.manifest.erased) == ({}, world.deleted)
    assert files_with(world.root, LATITUDE) == []


def test_an_undo_before_it_has_ended_begins_it_anew() -> None:
    """What an undo makes count again was derived with the device."""
    manifest = Manifest(plan=1)
    entry = Rollback((), 0, changed=True, reason="data of a device is deleted", erases={"aa": 7}, emptied={})
    manifest.apply({"n": 1, "term": 1, "kind": "rollback", **entry.to_json()})
    assert manifest.erasing == {"aa": 7}
    assert manifest.rollbacks[0].before is None  # and nobody can undo this one
    assert Manifest.from_json(manifest.to_json()).erasing == {"aa": 7}
    manifest.apply({"n": 2, "term": 1, "kind": "undo", **Undo(0, 1, (), ()).to_json()})
    assert manifest.erasing == {}
