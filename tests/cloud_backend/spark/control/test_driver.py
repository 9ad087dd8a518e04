"""The job manager without a JVM: the same tasks, run in this process."""

from __future__ import annotations

from pathlib import Path

from tests.claims import Claim
from tests.spark.worlds import World, cells_plan, trips_plan


def test_one_keyed_vertex_gives_what_the_engine_gives(tmp_path: Path, claim: Claim) -> None:
    world = World(tmp_path, trips_plan())
    driver = world.started(4)
    assert driver.manifest.last_cut == 4
    rows, _ = world.check(least_rows=50)
    claim(f"{rows} rows compared")


def test_three_vertices_over_two_rekeyings_give_what_the_engine_gives(tmp_path: Path) -> None:
    world = World(tmp_path, cells_plan())
    driver = world.started(6)
    assert set(driver.graph.order) == {"mine", "cells", "everything"}
    world.check(least_rows=100)


def test_epochs_pipeline_when_the_log_is_ahead(tmp_path: Path) -> None:
    world = World(tmp_path, cells_plan())
    driver = world.driver()
    for _ in range(4):
        world.append()
        driver._cut()
    driver.drain()
    world.check(least_rows=50)
