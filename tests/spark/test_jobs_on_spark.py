"""Several jobs in one Spark session, started and stopped while others run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import resurge as rs
from cloud_backend.spark.cluster.session import SparkRunner
from cloud_backend.spark.control.jobs import JobDirectory, JobsRunner
from cloud_backend.spark.control.log_needs import LogUse
from tests.patience import SPARK_PATIENCE_S, wait_until
from tests.spark.worlds import World, cells_plan, trips_plan

pytestmark = pytest.mark.spark


def test_two_jobs_share_a_session_and_stop_one_by_one(tmp_path: Path, runner: SparkRunner) -> None:
    world = World(tmp_path, cells_plan(), make_runner=lambda _: runner)
    log_use = LogUse(tmp_path)
    main = world.driver(log_use=log_use)
    jobs = JobsRunner(
        JobDirectory(tmp_path / "jobs"), world.log_dir, results=world.results, runner=runner, log_use=log_use,
        settings=world.settings,
    )  # fmt: skip
    world.append()
    jobs.start("trips", trips_plan())
    jobs.start("counts", _counts())
    main.drain()  # at the same time as both
    _await(lambda: len(world.results.latest("trips")) == len(world.results.latest("counts")) == 18, jobs)
    jobs.stop("counts")
    world.append()
    main.drain()
    _await(lambda: len(world.results.latest("trips")) == 36, jobs)
    assert len(world.results.latest("counts")) == 18
    jobs.close()
    own = [row for row in world.results.current() if row.sink in ("mine", "cells", "everything")]
    assert sorted(row.content() for row in own) == sorted(row.content() for row in world.expected())
    assert len(own) > 30


def _counts() -> object:
    up = rs.sensor("walk", every="1s", columns={"x": "float64", "cell": "int64"}).sync("walk", batch=20)
    return rs.plan_of(up.tumbling("10s").aggregate(n=rs.count()).subscribe("counts"), name="counts")


def _await(condition: Callable[[], bool], jobs: JobsRunner) -> None:
    try:
        wait_until(condition, "the condition", patience_s=SPARK_PATIENCE_S)
    except AssertionError as never:
        raise AssertionError(f"{never}: {jobs.status()}") from None
