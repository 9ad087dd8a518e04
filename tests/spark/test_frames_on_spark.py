"""A frame vertex on a real session: the numpy engine's rows, also when its worker is killed in the middle of an epoch,
and after a rollback of it and that rollback's undo."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloud_backend.spark.cluster.session import SparkRunner
from cloud_backend.spark.rollback.roll_back import roll_back
from cloud_backend.spark.rollback.undo import undo
from tests.claims import Claim
from tests.cloud_backend.spark.task.test_frames import scored_plan
from tests.spark.worlds import World

pytestmark = pytest.mark.spark


def test_spark_gives_the_digest_of_the_numpy_engine(tmp_path: Path, runner: SparkRunner, claim: Claim) -> None:
    world = World(tmp_path, scored_plan(), make_runner=lambda _: runner)
    world.started(3)
    rows, digest = world.check(least_rows=100)
    claim(f"{rows} rows compared, digest {digest[:12]}")


def test_a_worker_killed_in_the_middle_of_an_epoch_leaves_no_trace(
    tmp_path: Path, runner: SparkRunner, claim: Claim
) -> None:
    faults = tmp_path / "faults"
    faults.mkdir()
    world = World(tmp_path, scored_plan(str(faults)), make_runner=lambda _: runner)
    driver = world.started(1)
    world.append()
    (faults / "kill.1").touch()
    driver.drain()
    assert (faults / "fired.kill.1").exists()
    attempts = [each.attempt for line in driver.manifest.vertices["scored"].values() for each in line.commits.values()]
    assert max(attempts) > 0
    rows, digest = world.check(least_rows=100)
    claim(f"{rows} rows compared, digest {digest[:12]}")


def test_a_rollback_of_a_frame_vertex_and_its_undo_give_identical_digests(
    tmp_path: Path, runner: SparkRunner, claim: Claim
) -> None:
    wrong, fixed = scored_plan(factor=7.0), scored_plan()
    world = World(tmp_path, wrong, make_runner=lambda _: runner)
    driver = world.started(3)
    first = world.check(least_rows=100)

    world.plan = fixed
    done = roll_back(world.store_dir, "scored", 1, fixed=fixed)
    driver.drain()
    assert world.results.digest() != first[1]  # epochs 2 and 3 say what the corrected function says

    world.plan = wrong
    ran = driver.events.commits
    said = undo(world.store_dir, done.entry or 0)
    assert said.how == "pointers"
    driver.drain()
    assert driver.events.commits == ran  # the former runs count again; no frame was made
    assert world.check(least_rows=100) == first

    world.plan = fixed
    roll_back(world.store_dir, "scored", 0, fixed=fixed)
    driver.drain()
    rows, digest = world.check(least_rows=100)  # from the beginning: as if it had never been wrong
    claim(f"{first[0]} rows compared, digest {first[1][:12]} before the rollback and after its undo")
    claim(f"{rows} rows compared, digest {digest[:12]} after a rollback to the beginning")
