"""The job on a real Spark session."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloud_backend.spark.session import SparkRunner
from tests.claims import Claim
from tests.spark.conftest import OPERATOR_MODULES
from tests.spark.worlds import World, cells_plan

pytestmark = pytest.mark.spark


@pytest.mark.covers("SO-16", "SO-19")
def test_three_vertices_give_what_one_pipeline_gives_and_the_cache_catches_up(
    tmp_path: Path, runner: SparkRunner, claim: Claim
) -> None:
    world = World(tmp_path, cells_plan(), make_runner=lambda _: runner)
    driver = world.started(5)
    rows, digest = world.check(least_rows=100)
    loaded = driver.events.cache.get("loaded", 0)
    warm = driver.events.cache.get("hit", 0) + driver.events.cache.get("caught-up", 0)
    claim(f"{rows} rows compared, digest {digest[:12]}, cache {driver.events.cache}")
    assert warm > 0
    assert loaded <= 6  # at most once per worker and range; a cache that misses would load 24 times


def test_records_through_the_shuffle_give_the_same_as_by_slices(
    tmp_path: Path, spark: object, runner: SparkRunner, claim: Claim
) -> None:
    from cloud_backend.spark.shuffle import ShufflingRunner

    shuffling = ShufflingRunner(spark, tmp_path / "code", OPERATOR_MODULES, check=False)  # type: ignore[arg-type]
    world = World(tmp_path, cells_plan(), make_runner=lambda _: shuffling)
    driver = world.started(3)
    assert not driver.failures.waiting()
    rows, digest = world.check(least_rows=50)
    claim(f"{rows} rows compared, digest {digest[:12]}")


def test_a_lost_record_is_noticed_behind_the_shuffle_too(tmp_path: Path, spark: object) -> None:
    from cloud_backend.spark.shuffle import ShufflingRunner

    shuffling = ShufflingRunner(spark, tmp_path / "code", OPERATOR_MODULES, check=False)  # type: ignore[arg-type]
    world = World(tmp_path, cells_plan(), make_runner=lambda _: shuffling)
    driver = world.driver()
    world.append()
    driver.step()
    committed = driver.manifest.vertices["mine"][min(driver.manifest.vertices["mine"])].commits[1]
    (record,) = [record for (_, reader), record in committed.outputs.items() if reader]
    (driver.store.files / record.file).unlink()
    driver.drain()
    assert len(driver.manifest.rollbacks) == 1
    world.check(least_rows=10)
