"""The job on a real Spark session."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloud_backend.spark.cluster.session import SparkRunner
from tests.claims import Claim
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
