"""The job on a real Spark session."""

from __future__ import annotations

from pathlib import Path

import pytest

import resurge as rs
from cloud_backend.spark.cluster.session import SparkRunner
from tests.claims import Claim
from tests.spark.worlds import World, cells_plan

pytestmark = pytest.mark.spark


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


@pytest.mark.covers("SO-7")
def test_the_ranges_of_a_key_run_at_once_in_workers_of_their_own(
    tmp_path: Path, runner: SparkRunner, claim: Claim
) -> None:
    """Each row waits until rows of the other range are under way in another process."""
    place = tmp_path / "place"
    place.mkdir()
    up = rs.sensor("walk", every="1s", columns={"x": "float64", "cell": "int64"}).sync("walk", batch=20)
    met = up.key_by("device").apply("tests_spark_meets", place=str(place))
    plan = rs.plan_of(met.tumbling("10s").aggregate(n=rs.count()).subscribe("out"))
    world = World(tmp_path, plan, make_runner=lambda _: runner)
    driver = world.driver()
    world.append()
    driver.drain()
    ranges = driver.manifest.vertices["out"]
    workers = len(list(place.iterdir()))
    assert (len(ranges), workers) == (2, 2)
    assert not driver.failures.waiting()
    rows, digest = world.check(least_rows=10)
    claim(f"{len(ranges)} ranges in {workers} processes at once, {rows} rows compared, digest {digest[:12]}")
