"""How far back a rollback can go, over a day of epochs: what is kept, what that costs, and that every kept point gives
the answer of a run without any rollback."""

from __future__ import annotations

import itertools
import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

import resurge as rs
from cloud_backend.results.rows import digest_of
from cloud_backend.results.store import Results
from cloud_backend.spark.control.collection import cut_times, forget_history, kept_files
from cloud_backend.spark.control.driver import JobManager, JobSettings
from cloud_backend.spark.manifest.manifest import ManifestLog
from cloud_backend.spark.rollback.roll_back import roll_back
from cloud_backend.spark.rollback.savepoints import create_savepoint, drop_savepoint, epoch_meant, savepoints
from cloud_backend.spark.rollback.undo import undo
from cloud_backend.spark.storage.store import Store
from resurge import col
from shared.errors import UsageError
from shared.plan.graph import Plan
from shared.recovery.retention import Retention
from tests.claims import Claim
from tests.spark.worlds import World, cells_plan

MORNING_S = 1_800_000_000.0
BYTES = 12_000


class Day(World):
    """A world whose clock a test moves."""

    now_s = MORNING_S

    def clocked(self) -> JobManager:
        return self.driver(clock=lambda: self.now_s)

    def go_on(self, driver: JobManager, epochs: int, every_s: float) -> None:
        for _ in range(epochs):
            self.now_s += every_s
            self.append(10, batches=1)
            driver.drain()

    def copy(self, to: Path) -> Day:
        """The same job elsewhere, to try a rollback on."""
        other = Day.__new__(Day)
        other.__dict__.update(self.__dict__)
        shutil.copytree(self.store_dir, to / "store")
        for path in self.root.glob("results.sqlite*"):  # with what its journal holds
            shutil.copy(path, to)
        other.root, other.store_dir, other.results = to, to / "store", Results(to / "results.sqlite")
        return other


def day(root: Path, retention: Retention, *, devices: int = 2) -> Day:
    settings = JobSettings(
        epoch_s=0.0, balance=False, collect_every=10, chain_max=4, ranges=1, retention=retention, run_again_s=60.0
    )
    return Day(root, cells_plan(), settings=settings, devices=devices)


@pytest.mark.covers("SO-31")
@pytest.mark.parametrize(
    ("every_s", "tries"), [(1200.0, 2), pytest.param(60.0, 12, marks=pytest.mark.soak)], ids=["20 min", "1 min"]
)
def test_over_a_day_points_are_few_and_each_gives_the_answer_of_a_run_without_rollbacks(
    tmp_path: Path, every_s: float, tries: int, claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The answer is computed from every cut of the day, and the manifest forgets those before its oldest point.
    monkeypatch.setattr(forget_history, "__defaults__", (1_000_000,))
    world = day(tmp_path / "world", Retention(keep=3))
    driver = world.clocked()
    epochs = int(86_400 / every_s)
    world.go_on(driver, epochs // 4, every_s)
    named = create_savepoint(world.store_dir, "before-lunch")
    world.go_on(driver, epochs - epochs // 4, every_s)
    manifest = driver.manifest
    points = sorted(manifest.points())
    times = cut_times(manifest, world.now_s)
    files = kept_files(manifest)
    on_disk = len(list((world.store_dir / "files").iterdir()))
    assert named.epoch in points
    assert world.now_s - times[points[0]] > 0.8 * 86_400
    assert len(points) < 130
    assert on_disk == len(files)
    rows, answer = world.check(least_rows=100)
    recorded = min(each.recorded_from() for lineages in manifest.vertices.values() for each in lineages.values())
    old = [epoch for epoch in points if epoch < recorded - 1]
    chosen = sorted({named.epoch or 0, *old[:: max(1, len(old) // tries)]})
    assert len(chosen) > tries
    for number, epoch in enumerate(chosen):
        there = world.copy(tmp_path / f"copy {number}")
        tried = roll_back(there.store_dir, "everything" if number % 2 else "mine", epoch)
        assert (tried.plan.epoch, tried.from_log) == (epoch, True)
        again = there.clocked()
        again.drain()
        assert there.results.digest() == answer, f"from epoch {epoch}: {there.difference()}"
        assert again.manifest.position("everything") == manifest.last_cut
        there.results.close()
    claim(
        f"{epochs} epochs in a day, {len(points)} points, {on_disk} files, {sum(files.values())} bytes, "
        f"{rows} rows; {len(chosen)} rollbacks, digests {answer[:12]} each"
    )


def above(limit: float) -> Plan:
    up = rs.sensor("walk", every="1s", columns={"x": "float64", "cell": "int64"}).sync("walk", batch=20)
    return rs.plan_of(up.where(col.x > limit).tumbling("10s").aggregate(n=rs.count()).subscribe("mine"), name="above")


def test_a_corrected_program_takes_back_what_it_does_not_say_again(tmp_path: Path) -> None:
    """Its former run was collected, so only the results know what it had said."""
    world = day(tmp_path, Retention(keep=2, every_s=0.0))
    world.plan = above(-9.0)
    driver = world.clocked()
    world.go_on(driver, 30, 60.0)
    point = sorted(driver.manifest.points())[1]
    said = world.results.current()
    stays = {row.identity for row in said if row.revision & 0xFFFF_FFFF <= point}
    assert 0 < len(stays) < len(said)
    assert roll_back(world.store_dir, "mine", point, fixed=above(99.0)).from_log
    driver.drain()
    assert {row.identity for row in world.results.current()} == stays
    entry = driver.manifest.rollbacks[-1].n
    assert undo(world.store_dir, entry).how == "run again"
    driver.drain()
    assert digest_of(world.results.current()) == digest_of(said)


def test_a_time_between_two_points_means_the_one_before_and_the_dry_run_says_so(tmp_path: Path) -> None:
    world = day(tmp_path, Retention(keep=2, every_s=0.0))
    driver = world.clocked()
    world.go_on(driver, 30, 300.0)
    points = sorted(driver.manifest.points())
    at, following = next((a, b) for a, b in itertools.pairwise(points) if b > a + 1)
    told = roll_back(world.store_dir, "mine", at + 1, dry_run=True)
    assert (told.asked, told.plan.epoch, told.from_log) == (at + 1, at, True)
    assert f"Epoch {at + 1} is not kept; the newest kept one before it is {at}" in told.in_words()
    assert "made again from the log" in told.in_words()
    between_s = driver.manifest.cuts[at].at_ms / 1000 + 150
    assert epoch_meant(world.store_dir, datetime.fromtimestamp(between_s, UTC).isoformat()) == at
    assert following != at
    with pytest.raises(UsageError, match=r"\[rollback-beyond-horizon\]"):
        epoch_meant(world.store_dir, "2001-01-01T00:00")
    with pytest.raises(UsageError, match=r"\[rollback-to\]"):
        epoch_meant(world.store_dir, "12 o'clock")


def test_a_savepoint_holds_its_epoch_and_the_log_until_it_is_dropped(tmp_path: Path) -> None:
    world = day(tmp_path, Retention(keep=2, every_s=0.0, hours=0.0))
    driver = world.clocked()
    world.go_on(driver, 12, 60.0)
    named = create_savepoint(world.store_dir, "release-1")
    start = json.loads((world.store_dir / "stable.json").read_bytes())["0"]
    world.go_on(driver, 22, 60.0)
    held = json.loads((world.store_dir / "stable.json").read_bytes())["0"]
    assert driver.manifest.points() == {named.epoch}
    assert start <= held <= driver.manifest.cuts[named.epoch or 0].ends["0"]
    assert epoch_meant(world.store_dir, "release-1") == named.epoch
    with pytest.raises(UsageError, match=r"\[savepoint-exists\]"):
        create_savepoint(world.store_dir, "release-1")
    there = world.copy(tmp_path / "copy")
    roll_back(there.store_dir, "mine", named.epoch or 0)
    there.clocked().drain()
    assert there.results.digest() == world.check()[1]
    drop_savepoint(world.store_dir, "release-1")
    assert savepoints(world.store_dir) == []
    world.go_on(driver, 12, 60.0)
    assert driver.manifest.points() == set()
    assert json.loads((world.store_dir / "stable.json").read_bytes())["0"] > held
    with pytest.raises(UsageError, match=r"\[rollback-beyond-horizon\]"):
        roll_back(world.store_dir, "mine", named.epoch or 0)
    with pytest.raises(UsageError, match=r"\[savepoint-unknown\]"):
        drop_savepoint(world.store_dir, "release-1")
    with pytest.raises(UsageError, match=r"\[savepoint-name\]"):
        create_savepoint(world.store_dir, "7 o'clock")


def test_bytes_bound_how_far_back_points_reach(tmp_path: Path) -> None:
    wide, narrow = day(tmp_path / "wide", Retention(keep=2, every_s=0.0)), day(
        tmp_path / "narrow", Retention(keep=2, every_s=0.0, bytes_max=BYTES)
    )  # fmt: skip
    reached = []
    for world in (wide, narrow):
        driver = world.clocked()
        world.go_on(driver, 30, 300.0)
        oldest = min(driver.manifest.points())
        held = driver.manifest.cuts[driver.manifest.last_cut].ends["0"] - driver.manifest.cuts[oldest].ends["0"]
        reached.append(oldest)
        if world is narrow:
            assert held < BYTES
    assert reached[0] < reached[1]


def test_a_summary_of_a_long_horizon_is_small_and_says_the_same(tmp_path: Path) -> None:
    world = day(tmp_path, Retention(keep=2, every_s=0.0))
    driver = world.clocked()
    world.go_on(driver, 40, 60.0)
    driver.manifest_log.summarise()
    text = json.dumps(driver.manifest.to_json())
    read = ManifestLog(Store(world.store_dir)).state
    assert json.dumps(read.to_json()) == text
    assert {epoch: read.cuts[epoch] for epoch in read.cuts} == {
        epoch: driver.manifest.cuts[epoch] for epoch in driver.manifest.cuts
    }
    packed = sum(len(run[2]) for run in json.loads(text)["packed_cuts"])
    assert packed > 10
    assert all(read.cuts[epoch].ends == read.cuts[epoch + 1].starts for epoch in range(read.cuts.first, read.cuts.last))
