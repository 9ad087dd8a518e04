"""Several queries over one log: it is decoded once for all of them, and each says what it says alone."""

from __future__ import annotations

from pathlib import Path

import pytest

import resurge as rs
from cloud_backend.log.partitions import open_log
from cloud_backend.results.store import Results
from cloud_backend.spark.control.driver import JobManager
from cloud_backend.spark.control.log_needs import LogUse
from cloud_backend.spark.job_facts import job_facts
from cloud_backend.spark.rollback.roll_back import roll_back
from cloud_backend.spark.task import inputs
from cloud_backend.spark.task.decoded_batches import DecodedBatches
from shared.plan.graph import Plan
from shared.recovery.rollback import Rule
from tests.spark.worlds import World, trips_plan

QUERIES = 4


def query(number: int) -> Plan:
    """Every second one meets other devices' rows by cell, so that its rows go through a record first."""
    up = rs.sensor("walk", every="1s", columns={"x": "float64", "cell": "int64"}).sync("walk", batch=20)
    keyed = up if number % 2 else up.key_by("cell")
    counted = keyed.tumbling(f"{10 + number}s").aggregate(n=rs.count(), total=rs.sum("x"))
    return rs.plan_of(counted.subscribe(f"q{number}"), name=f"q{number}")


class Queries:
    """Jobs of one process, over the world's log."""

    def __init__(self, world: World, root: Path, *, share: bool) -> None:
        self.root, self.results = root, Results(root / "results.sqlite")
        use, reader = LogUse(root), open_log(world.log_dir)
        self.jobs = [
            JobManager(
                world.log_dir, root / f"q{number}", query(number), results=self.results, runner=world.make_runner(world),
                settings=world.settings, name=f"q{number}", local_dir=root,
                log_use=use if share else LogUse(root / f"q{number}"), reader=reader if share else None,
            )
            for number in range(QUERIES)
        ]  # fmt: skip
        for job in self.jobs:
            job.write_status()  # from here on it is known that there are several

    def work(self) -> None:
        for job in self.jobs:
            job.drain()

    def decoded(self) -> int:
        return sum(job.events.log_bytes.decoded for job in self.jobs)

    def read(self) -> int:
        return sum(job.events.log_bytes.read for job in self.jobs)


@pytest.fixture(autouse=True)
def fresh_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "_decoded", DecodedBatches())


def test_the_log_is_decoded_once_for_all_queries_and_each_answers_as_it_does_alone(tmp_path: Path) -> None:
    world = World(tmp_path / "world", trips_plan())
    alone, together = (Queries(world, tmp_path / name, share=name == "together") for name in ("alone", "together"))
    for _ in range(3):
        world.append()
        alone.work()
        together.work()
    assert alone.results.digest() == together.results.digest()
    assert len(together.results.current()) > 10 * QUERIES
    assert alone.decoded() == alone.read() == together.read()
    assert together.decoded() == together.read() / QUERIES
    facts = job_facts(together.root / "q3")
    assert facts["log_bytes"] == {"read": together.jobs[3].events.log_bytes.read, "decoded": 0}


def test_a_query_that_goes_back_reads_again_what_the_others_have_read_on(tmp_path: Path) -> None:
    world = World(tmp_path / "world", trips_plan())
    together = Queries(world, tmp_path / "together", share=True)
    for _ in range(3):
        world.append()
        together.work()
    said, decoded, read = together.results.digest(), together.decoded(), together.read()
    for number in (2, 3):
        job = together.jobs[number]
        roll_back(job.store.root, job.graph.order[0], 1, rule=Rule.FULL)
    together.work()
    assert together.results.digest() == said
    assert together.read() > read  # two of three epochs again
    assert together.decoded() == decoded
    world.append()
    together.work()
    alone = Queries(world, tmp_path / "alone", share=False)
    alone.work()
    assert [row.content() for row in alone.results.current()] == [row.content() for row in together.results.current()]


def test_a_job_alone_keeps_nothing_for_others(tmp_path: Path) -> None:
    world = World(tmp_path, trips_plan())
    world.started(2)
    assert not inputs._decoded._kept
