"""What a page about a job is told, read from the store alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cloud_backend.spark.job_facts import job_facts
from cloud_backend.spark.rollback.roll_back import roll_back
from cloud_backend.spark.rollback.undo import undo
from shared.errors import UsageError
from tests.spark.worlds import SECOND, World, cells_plan


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, cells_plan(faults=tmp_path / "faults"))


def test_vertices_ranges_epochs_and_snapshots(world: World) -> None:
    driver = world.started(3)
    world.append()
    driver.step()  # epoch 4 is cut, only "mine" has run it
    facts = job_facts(world.store_dir)
    assert json.loads(json.dumps(facts)) is not None
    assert (facts["epoch"], facts["stable"], facts["alive"]) == (4, 3, False)
    mine, cells, everything = facts["vertices"]
    assert (mine["name"], mine["position"], mine["epochs_behind"]) == ("mine", 4, 0)
    assert (cells["sources"], cells["readers"], cells["epochs_behind"]) == (["mine"], ["everything"], 1)
    assert cells["snapshots"] == {1: "STABLE", 2: "STABLE", 3: "STABLE", 4: "PENDING"}
    assert mine["snapshots"][4] == "STABLE"
    assert mine["frontier_us"] == 120 * SECOND
    assert [each["range"] for each in everything["ranges"]] == ["0-512", "512-1024"]
    assert sum(each["rows_in"] for each in mine["ranges"]) == 6 * 30
    assert mine["state_bytes"] > 0
    (newest, *_) = facts["epochs"]
    assert (newest["epoch"], newest["committed_by"]) == (4, {"mine": 1.0, "cells": 0.0, "everything": 0.0})
    assert newest["bytes"] > 0
    driver.lease.acquire()
    assert job_facts(world.store_dir)["alive"]


def test_rollbacks_with_their_sets_and_whether_they_can_be_taken_back(world: World) -> None:
    driver = world.started(3)
    done = roll_back(world.store_dir, "cells", 1)
    driver.drain()
    (told,) = job_facts(world.store_dir)["rollbacks"]
    assert {name.split()[0] for name in told["R"]} == {"cells", "everything"}
    assert {name.split()[0] for name in told["E"]} == {"mine"}
    assert (told["n"], told["vertex"], told["to"], told["undoable"]) == (done.entry, "cells", 1, True)
    assert told["cost"]["vertex_epochs"] > 0
    assert done.entry is not None
    undo(world.store_dir, done.entry)
    (told,) = job_facts(world.store_dir)["rollbacks"]
    assert not told["undoable"]
    assert told["undone"] > done.entry


def test_exceptions_keep_their_history_over_a_restart(world: World) -> None:
    driver = world.driver()
    world.append()
    driver.drain()
    lineages = driver.manifest.vertices["cells"]
    (part,) = lineages[min(lineages)].commits[1].state
    (driver.store.files / part.chain[-1]).write_bytes(b"?")
    from cloud_backend.spark.task import state

    state.forget_all()
    world.append()
    driver.drain()
    (told,) = job_facts(world.store_dir)["exceptions"]
    assert (told["vertex"], told["epoch"], told["kind"], told["times"]) == ("cells", 2, "state", 1)
    again = world.driver()
    world.append()
    again.drain()
    assert job_facts(world.store_dir)["exceptions"] == [told]


def test_a_directory_without_a_job_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"\[job-no-store\]"):
        job_facts(tmp_path / "nowhere")


def test_half_an_entry_is_told_before_and_after_it_was_set_aside(world: World) -> None:
    driver = world.started(2)
    number = driver.manifest.n + 1
    torn = world.store_dir / "manifest" / f"{number:012d}.json"
    torn.write_bytes(b'{"n":')
    assert job_facts(world.store_dir)["torn_entries"] == [number]
    assert torn.exists()
    world.append()
    world.driver().drain()
    assert job_facts(world.store_dir)["torn_entries"] == [number]
    assert "kind" in json.loads(torn.read_bytes())  # another entry has the number now
    world.check(least_rows=50)


def test_how_long_the_oldest_epoch_waits_that_is_not_worked_off(world: World) -> None:
    now = 1_700_000_000.0
    driver = world.driver(clock=lambda: now)
    world.append()
    driver.drain()
    assert job_facts(world.store_dir, clock=lambda: now + 9)["lag_s"] == 0.0
    now += 60.0
    world.append()
    driver.step()  # cut, and only "mine" has run it
    now += 5.0
    world.append()
    driver.step()
    assert job_facts(world.store_dir, clock=lambda: now + 9)["lag_s"] == 14.0
    driver.drain()
    assert job_facts(world.store_dir, clock=lambda: now + 9)["lag_s"] == driver.status()["lag_s"] == 0.0
