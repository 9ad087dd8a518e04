"""A rollback that is taken back leaves the results it found, under higher revisions. Without a JVM."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cloud_backend.results.rows import digest_of
from cloud_backend.spark.control.driver import JobManager, JobSettings
from cloud_backend.spark.manifest.entries import Division
from cloud_backend.spark.rollback.roll_back import roll_back
from cloud_backend.spark.rollback.undo import undo
from shared.errors import UsageError
from shared.recovery.retention import Retention
from shared.recovery.rollback import Rule
from tests.spark.worlds import World, cells_plan


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, cells_plan())


def positions(driver: JobManager) -> dict[str, int]:
    driver._catch_up()
    return {name: driver.manifest.position(name) for name in driver.graph.order}


@pytest.mark.parametrize("rounds", [0, 1, 3, 5])
def test_taken_back_at_any_time_no_former_run_is_repeated(world: World, rounds: int) -> None:
    driver = world.started(4)
    before, revisions = positions(driver), {row.identity: row.revision for row in world.results.current()}
    done = roll_back(world.store_dir, "mine", 1, fixed=cells_plan(factor=7.0))
    assert done.entry is not None
    for _ in range(rounds):  # the wrong plan gets some way: some of its results are out, some ranges went back
        driver.step()
    said = undo(world.store_dir, done.entry, dry_run=True)
    assert (said.how, said.entry) == ("pointers", None)
    commits = driver.events.commits
    undo(world.store_dir, done.entry)
    assert positions(driver) == before
    driver.drain()
    assert driver.events.commits == commits
    world.check(least_rows=50)
    now = {row.identity: row.revision for row in world.results.current()}
    assert all(now[identity] >= revision for identity, revision in revisions.items())
    assert driver.manifest.plan == 1
    world.append()
    driver.drain()
    world.check(least_rows=60)


def test_a_reader_that_had_gone_on_returns_and_reads_the_former_run(world: World) -> None:
    driver = world.started(2)
    world.append()
    driver.step()  # "mine" has run epoch 3, nobody has read it
    done = roll_back(world.store_dir, "mine", 2, fixed=cells_plan(factor=7.0))
    assert done.entry is not None
    driver.step()
    driver.step()  # "cells" has read the wrong run of epoch 3 and never saw the former one
    said = undo(world.store_dir, done.entry)
    assert {name.split()[0] for name in said.restored} == {"mine"}
    assert "cells" in {name.split()[0] for name in said.returned}
    driver.drain()
    world.check(least_rows=30)


def test_a_driver_killed_between_changes_nothing_about_it(world: World) -> None:
    driver = world.started(4)
    done = roll_back(world.store_dir, "mine", 1, fixed=cells_plan(factor=7.0))
    driver.step()
    driver.step()
    assert done.entry is not None
    undo(world.store_dir, done.entry)
    world.plan = cells_plan()
    world.driver().drain()  # another driver finds it all in the store
    world.check(least_rows=50)


def test_taken_back_after_everything_had_run_again_and_on(world: World) -> None:
    driver = world.started(4)
    done = roll_back(world.store_dir, "mine", 1, fixed=cells_plan(factor=7.0))
    driver.drain()
    world.append()
    driver.drain()  # epoch 5 has only ever run under the wrong plan
    assert world.results.digest() != digest_of(world.expected())
    assert done.entry is not None
    commits = driver.events.commits
    said = undo(world.store_dir, done.entry)
    assert said.how == "pointers"
    driver.drain()
    assert driver.events.commits - commits == 3  # epoch 5 of three vertices, nothing of 2 to 4
    world.check(least_rows=50)


def test_beyond_the_horizon_it_runs_again_under_the_former_plan_or_says_why_not(tmp_path: Path) -> None:
    retention = Retention(keep=4, every_s=0.0, hours=0.0)
    settings = JobSettings(epoch_s=0.0, balance=False, collect_every=1, chain_max=1, retention=retention)
    world = World(tmp_path, cells_plan(), settings=settings)
    driver = world.started(6)
    done = roll_back(world.store_dir, "mine", 4, fixed=cells_plan(factor=7.0))
    assert done.entry is not None
    for _ in range(2):
        world.append()
        driver.drain()
    manifest = driver.manifest
    for lineages in manifest.vertices.values():
        for lineage in lineages.values():
            lineage.former.clear()
    driver.manifest_log.store.put_summary(manifest.n, json.dumps(manifest.to_json()).encode())  # as if forgotten
    assert undo(world.store_dir, done.entry, dry_run=True).how == "run again"
    for _ in range(8):
        world.append()
        driver.drain()
    with pytest.raises(UsageError, match=r"\[rollback-beyond-horizon\]"):
        undo(world.store_dir, done.entry)


def test_a_division_since_makes_it_run_again(world: World) -> None:
    driver = world.started(4)
    done = roll_back(world.store_dir, "mine", 3, fixed=cells_plan(factor=7.0))
    assert done.entry is not None
    driver.step()
    (widest, *_) = driver.manifest.vertices["cells"]
    at = driver.manifest.position("cells")
    driver._append(Division("cells", (widest,), tuple(replace(half, since=at + 1) for half in widest.halves()), at + 1))
    assert undo(world.store_dir, done.entry).how == "run again"
    driver.drain()
    world.check(least_rows=50)


def test_what_cannot_be_taken_back_is_explained(world: World) -> None:
    driver = world.started(4)
    with pytest.raises(UsageError, match=r"\[undo-unknown\]"):
        undo(world.store_dir, 1)
    same = roll_back(world.store_dir, "cells", 2)
    other = roll_back(world.store_dir, "mine", 2, fixed=cells_plan(factor=2.0))
    assert same.entry is not None
    assert other.entry is not None
    with pytest.raises(UsageError, match=r"take .* back first \[undo-order\]"):
        undo(world.store_dir, same.entry)
    undo(world.store_dir, other.entry)
    with pytest.raises(UsageError, match=r"\[undo-done\]"):
        undo(world.store_dir, other.entry)
    driver.drain()
    assert undo(world.store_dir, same.entry).how == "pointers"
    driver.drain()
    world.check(least_rows=50)


def test_an_undone_full_rollback_restores_every_range(world: World) -> None:
    driver = world.started(4)
    done = roll_back(world.store_dir, "everything", 1, rule=Rule.FULL)
    driver.step()
    assert done.entry is not None
    assert len(undo(world.store_dir, done.entry).restored) == sum(map(len, driver.manifest.vertices.values()))
    driver.drain()
    world.check(least_rows=50)


def test_a_run_rolled_back_before_it_was_published_is_still_published(world: World) -> None:
    driver = world.started(2)
    world.append()
    driver._catch_up()
    driver._cut()
    from cloud_backend.spark.control.schedule import ready_steps

    driver._run(ready_steps(driver.manifest, driver.graph))  # committed; killed before publishing
    roll_back(world.store_dir, "mine", 2)
    world.driver().drain()
    world.check(least_rows=30)


def test_what_a_second_run_says_first_never_outranks_what_it_says_later(tmp_path: Path) -> None:
    """A window that is said again with late rows has the same identity in two epochs:

    epoch 1  window [0, 10) = 3 rows      wrong plan: 7 x
    epoch 2  window [0, 10) = 4 rows      both plans: 4 x, no difference after the first
    """
    world = World(tmp_path, cells_plan(), settings=JobSettings(epoch_s=0.0, balance=False))
    driver = world.started(3)
    lineage = next(iter(driver.manifest.vertices["cells"].values()))
    from dataclasses import replace

    from cloud_backend.spark.publishing.sink_rows import same_as_before

    runs = dict(lineage.commits)
    lineage.superseded = {1: [replace(runs[1], outputs={})], 2: [runs[2]]}
    assert not same_as_before(lineage, runs[1], "cells")
    assert not same_as_before(lineage, runs[2], "cells")  # epoch 1 spoke with a higher revision; 2 must follow
    lineage.superseded = {1: [runs[1]], 2: [runs[2]]}
    assert same_as_before(lineage, runs[2], "cells")
    assert json.dumps(lineage.to_json())
