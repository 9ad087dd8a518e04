"""Failures that only a real Spark session can have: killed and hung workers, attempts that win, on top of the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloud_backend.spark.cluster.session import SparkRunner
from cloud_backend.spark.control.driver import JobSettings
from tests.claims import Claim
from tests.spark.schedules import Schedule
from tests.spark.worlds import World, cells_plan

pytestmark = pytest.mark.spark


SHORT = [(1000 + number, 3) for number in range(4)]
LONG = [pytest.param(1000 + number, 3, marks=pytest.mark.soak) for number in range(4, 10)]
LONG += [pytest.param(2000 + number, 8, marks=pytest.mark.soak) for number in range(50)]


@pytest.mark.parametrize(("seed", "rounds"), [*SHORT, *LONG])
def test_random_failures_leave_no_trace_in_the_results(
    seed: int, rounds: int, tmp_path: Path, runner: SparkRunner, monkeypatch: pytest.MonkeyPatch, claim: Claim
) -> None:
    schedule = Schedule(tmp_path, seed, lambda _: runner, monkeypatch, worker_faults=True, rounds=rounds)
    claim(f"seed {seed}: {schedule.run()}")


def test_a_killed_worker_is_replaced_and_a_later_attempt_counts(tmp_path: Path, runner: SparkRunner) -> None:
    faults = tmp_path / "faults"
    faults.mkdir()
    world = World(tmp_path, cells_plan(faults=faults), make_runner=lambda _: runner)
    driver = world.driver()
    world.append()
    (faults / "kill.1").touch()
    driver.drain()
    assert (faults / "fired.kill.1").exists()
    attempts = [
        each.attempt for lineage in driver.manifest.vertices["mine"].values() for each in lineage.commits.values()
    ]
    assert max(attempts) > 0
    world.check(least_rows=10)


def test_a_hung_task_is_cancelled_and_run_again(tmp_path: Path, runner: SparkRunner) -> None:
    faults = tmp_path / "faults"
    faults.mkdir()
    settings = JobSettings(epoch_s=0.0, balance=False, task_timeout_s=8.0)
    world = World(tmp_path, cells_plan(faults=faults), make_runner=lambda _: runner, settings=settings)
    driver = world.driver()
    world.append()
    (faults / "hang.1").touch()
    driver.drain()
    assert (faults / "fired.hang.1").exists()
    assert not driver.failures.waiting()
    world.check(least_rows=10)


def test_evaluate_agrees_with_the_numpy_engine(runner: SparkRunner, claim: Claim) -> None:
    import numpy as np

    import resurge as rs
    from cloud_backend.spark.evaluate import evaluate as on_spark
    from resurge.evaluate import as_columns
    from shared.batch import END_OF_TIME

    random = np.random.default_rng(3)
    given = {
        "walk": {
            "time": np.arange(500) * 1_000_000,
            "device": [f"d{number}" for number in random.integers(0, 7, 500)],
            "x": random.normal(size=500),
            "cell": random.integers(0, 5, 500),
        }
    }
    plan = cells_plan()
    by_numpy = rs.evaluate(plan, given)
    columns = {name: as_columns(plan, name, values) for name, values in given.items()}
    by_spark = on_spark(plan, columns, frontier_us=END_OF_TIME, runner=runner)
    assert by_spark.keys() == by_numpy.keys()
    compared = 0
    for sink, found in by_spark.items():
        wanted = by_numpy[sink]
        assert _lines(found) == _lines(wanted)
        compared += len(found["time"])
    assert compared > 100
    claim(f"{compared} rows compared")


def _lines(columns: dict[str, object]) -> list[tuple[object, ...]]:
    names = sorted(columns)
    return sorted(zip(*(columns[name].tolist() for name in names), strict=True))  # type: ignore[attr-defined]
