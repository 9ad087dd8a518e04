"""What a rollback and a split let run on a real Spark session: nothing that has its record, and both halves at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

import resurge as rs
from cloud_backend.spark.cluster.session import SparkRunner
from cloud_backend.spark.control.driver import JobSettings, Runner
from cloud_backend.spark.rollback.roll_back import roll_back
from cloud_backend.spark.task.specification import Outcome, Specification
from tests.claims import Claim
from tests.spark.worlds import World, cells_plan

pytestmark = pytest.mark.spark
NOBODY = ("nobody", "nobody else")  # who was there before: then nobody waits


class Noted:
    """A runner that notes how often each epoch of each vertex ran."""

    def __init__(self, runner: Runner) -> None:
        self.runner, self.code = runner, runner.code
        self.ran: Counter[tuple[str, int]] = Counter()

    def run(self, specs: Sequence[Specification], *, timeout_s: float | None = None) -> list[list[Outcome]]:
        self.ran.update((spec.vertex, each.epoch) for spec in specs for each in spec.epochs)
        return self.runner.run(specs, timeout_s=timeout_s)


@pytest.mark.covers("SO-28")
@pytest.mark.parametrize("recorded", [True, False])
def test_a_vertex_runs_again_from_what_the_one_before_it_recorded_and_that_one_only_where_it_is_gone(
    tmp_path: Path, runner: SparkRunner, claim: Claim, recorded: bool
) -> None:
    noted = Noted(runner)
    world = World(tmp_path, cells_plan(), make_runner=lambda _: noted)
    driver = world.started(4)
    if not recorded:
        for lineage in driver.manifest.vertices["mine"].values():
            (record,) = [record for (_, reader), record in lineage.commits[3].outputs.items() if reader]
            (driver.store.files / record.file).unlink()
    noted.ran.clear()
    roll_back(driver.store.root, "cells", 2)
    driver.drain()
    ranges = len(driver.manifest.vertices["mine"])
    assert {epoch for name, epoch in noted.ran if name == "cells"} == {3, 4}
    assert noted.ran["everything", 3] == noted.ran["everything", 4] == 0, "what it reads came out the same"
    again = {epoch: number for (name, epoch), number in noted.ran.items() if name == "mine"}
    assert again == ({} if recorded else dict.fromkeys((3, 4), ranges))  # from its state after epoch 2
    rows, digest = world.check(least_rows=50)
    claim(f"tasks {dict(noted.ran)}, {rows} rows compared, digest {digest[:12]}")


def split_in_two(world: World, place: Path) -> tuple[int, list[str]]:
    """One range runs until it is divided; then each half waits until the other one runs as well. Gives the number of
    ranges, and who took them."""
    driver = world.driver()
    for name in NOBODY:
        (place / name).touch()
    for _ in range(8):
        world.append(20)
        driver.drain()
        if len(driver.manifest.ranges_at("out", driver.manifest.last_cut + 1)) > 1:
            break
    before = {path.name for path in place.iterdir()} - {*NOBODY}
    assert before, "nobody ran the whole range"
    for path in place.iterdir():
        path.unlink()
    world.append(20)
    driver.drain()
    assert not driver.failures.waiting()
    return len(driver.manifest.ranges_at("out", driver.manifest.last_cut)), [path.name for path in place.iterdir()]


def world_of_one_range(root: Path, runner: Runner) -> tuple[World, Path]:
    place = root / "place"
    place.mkdir()
    up = rs.sensor("walk", every="1s", columns={"x": "float64", "cell": "int64"}).sync("walk", batch=20)
    met = up.key_by("device").apply("tests_spark_meets", place=str(place))
    plan = rs.plan_of(met.tumbling("10s").aggregate(n=rs.count()).subscribe("out"))
    # An epoch interval of a microsecond makes every task "hot".
    settings = JobSettings(ranges=1, ranges_max=2, epoch_s=1e-6, balance=True)
    return World(root, plan, settings=settings, make_runner=lambda _: runner), place


@pytest.mark.covers("SO-33")
def test_the_halves_of_a_hot_range_run_at_once_in_workers_of_their_own(
    tmp_path: Path, runner: SparkRunner, claim: Claim
) -> None:
    world, place = world_of_one_range(tmp_path, runner)
    ranges, workers = split_in_two(world, place)
    assert (ranges, len(workers)) == (2, 2)
    rows, digest = world.check(least_rows=30)
    claim(f"{ranges} ranges, {rows} rows compared, digest {digest[:12]}")
