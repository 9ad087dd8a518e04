"""Several jobs beside each other: started, stopped, failing and dropped, without a JVM."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import resurge as rs
from cloud_backend.log.reader import Reader
from cloud_backend.spark.cluster.session import LocalRunner
from cloud_backend.spark.control.jobs import JobDirectory, JobsRunner
from cloud_backend.spark.control.log_needs import LogUse, Use
from shared.errors import UsageError
from shared.plan.graph import Plan
from tests.patience import SPARK_PATIENCE_S, wait_until
from tests.spark.worlds import World, trips_plan


def counts_plan() -> Plan:
    up = rs.sensor("walk", every="1s", columns={"x": "float64", "cell": "int64"}).sync("walk", batch=20)
    return rs.plan_of(up.tumbling("10s").aggregate(n=rs.count()).subscribe("counts"), name="counts")


def await_(condition: Callable[[], bool]) -> None:
    wait_until(condition, "the condition", patience_s=SPARK_PATIENCE_S)


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path, trips_plan())
    world.append()
    return world


@pytest.fixture
def jobs(world: World) -> Iterator[JobsRunner]:
    runner = make(world)
    yield runner
    runner.close()


def make(world: World, clock: Callable[[], float] = time.time) -> JobsRunner:
    return JobsRunner(
        JobDirectory(world.root / "jobs"), world.log_dir, results=world.results, runner=LocalRunner(),
        log_use=LogUse(world.root / "use"), settings=world.settings, clock=clock,
    )  # fmt: skip


def use(world: World) -> dict[str, int]:
    value: dict[str, int] = json.loads((world.root / "use" / "stable.json").read_bytes())
    return value


def test_jobs_run_beside_each_other_and_each_gives_its_own_answer(world: World, jobs: JobsRunner) -> None:
    jobs.start("trips", trips_plan())
    jobs.start("counts", counts_plan())
    world.append()
    await_(lambda: len(world.results.latest("trips")) == len(world.results.latest("counts")) == 36)
    assert jobs.directory.store("trips") != jobs.directory.store("counts")
    assert {row.device for row in world.results.latest("counts")} == {""}  # a query's rows go down to nobody
    assert {row.device for row in world.results.latest("trips")} == {each.hex() for each in world.ids}
    jobs.stop("counts")
    assert jobs.status()["counts"]["state"] == "stopped"
    world.append()
    await_(lambda: len(world.results.latest("trips")) == 54)
    assert len(world.results.latest("counts")) == 36
    jobs.start("counts", counts_plan())
    await_(lambda: len(world.results.latest("counts")) == 54)


def test_what_was_wanted_runs_again_in_the_next_process(world: World) -> None:
    JobDirectory(world.root / "jobs").start("trips", trips_plan())  # asked for while no Spark process runs
    first = make(world)
    first.follow()
    await_(lambda: len(world.results.latest("trips")) == 18)
    first.close()
    world.append()
    stop = threading.Event()
    second = make(world)
    thread = threading.Thread(target=second.run, args=(stop.is_set,))
    thread.start()
    await_(lambda: len(world.results.latest("trips")) == 36)
    stop.set()
    thread.join()
    assert JobDirectory(world.root / "jobs").status()["trips"]["wanted"] == "running"


def test_a_job_that_fails_harms_no_other_and_is_tried_again(world: World) -> None:
    now = [100.0]
    jobs = make(world, clock=lambda: now[0])
    jobs.directory.start("trips", trips_plan())
    jobs.directory.start("broken", counts_plan())
    (jobs.directory.root / "broken" / "store").write_text("not a directory")
    jobs.follow()
    await_(lambda: jobs.status()["broken"]["state"] == "failed")
    assert "NotADirectoryError" in jobs.status()["broken"]["error"]
    await_(lambda: len(world.results.latest("trips")) == 18)
    (jobs.directory.root / "broken" / "store").unlink()
    jobs.follow()
    assert jobs.status()["broken"]["state"] == "failed"  # not before its pause is over
    now[0] += 60
    jobs.follow()
    world.append()
    await_(lambda: len(world.results.latest("counts")) == 36)
    jobs.close()


def test_the_log_is_kept_for_a_stopped_job_and_released_by_a_dropped_one(world: World, jobs: JobsRunner) -> None:
    jobs.start("trips", trips_plan())
    jobs.start("late", counts_plan())
    await_(lambda: "late" in jobs.managers and "trips" in jobs.managers)
    jobs.stop("late")
    place = use(world)["0"]
    world.append()
    await_(lambda: use(world)["read"] == Reader(world.log_dir).valid_end())
    assert use(world)["0"] == place  # it may go on from there
    jobs.directory.drop("late")
    jobs.follow()
    assert jobs.directory.names() == ["trips"]
    assert not (jobs.directory.root / "late").exists()


def test_a_job_that_never_ran_holds_the_whole_log(tmp_path: Path) -> None:
    use_of = LogUse(tmp_path)
    use_of.know("waiting", Use({"0": 10}, None))
    use_of.say("trips", Use({"0": 500}, {"0": 900}, 3))
    assert json.loads((tmp_path / "stable.json").read_bytes()) == {"0": 10, "read": 900, "quarantined": 3}
    use_of.forget("waiting")
    assert json.loads((tmp_path / "stable.json").read_bytes()) == {"0": 500, "read": 900, "quarantined": 3}


def test_phones_are_asked_for_the_lowest_rate_any_job_needs(tmp_path: Path) -> None:
    use_of = LogUse(tmp_path)
    use_of.ask("trips", rate=1.0, backlog_bytes=0)
    use_of.ask("counts", rate=0.25, backlog_bytes=99)
    assert json.loads((tmp_path / "hints.json").read_bytes())["sampling_rate"] == 0.25
    use_of.pause("counts")
    use_of.ask("trips", rate=1.0, backlog_bytes=0)
    assert json.loads((tmp_path / "hints.json").read_bytes())["sampling_rate"] == 1.0


def test_names_are_checked(tmp_path: Path) -> None:
    directory = JobDirectory(tmp_path)
    with pytest.raises(UsageError, match=r"a job cannot be called '\.\./x'.*\[job-name\]"):
        directory.start("../x", trips_plan())
    with pytest.raises(UsageError, match=r"no job 'trips' \(have: none\) \[job-unknown\]"):
        directory.stop("trips")
    directory.start("trips", trips_plan())
    directory.drop("trips")
    with pytest.raises(UsageError, match=r"\[job-dropping\]"):
        directory.start("trips", trips_plan())
