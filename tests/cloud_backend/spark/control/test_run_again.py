"""A range that catches up runs several epochs in one job, and nothing else changes: files, entries, order, results."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from cloud_backend.spark.cluster.session import LocalRunner
from cloud_backend.spark.control import schedule
from cloud_backend.spark.control.driver import JobManager, JobSettings
from cloud_backend.spark.control.failures import repair
from cloud_backend.spark.control.schedule import RangeEpoch, run_again, still_counts
from cloud_backend.spark.manifest.lineage import Physical
from cloud_backend.spark.rollback.roll_back import roll_back
from cloud_backend.spark.task import state
from cloud_backend.spark.task.specification import Outcome, Specification
from tests.spark.schedules import Killed, killed_at
from tests.spark.worlds import World, cells_plan

EPOCHS = 7
Seen = list[tuple[str, list[int]]]


class Watched(LocalRunner):
    """Remembers which epochs each task was given; `trouble` may raise before a job runs."""

    def __init__(self, seen: Seen, trouble: Callable[[Seen], None] = lambda _: None) -> None:
        super().__init__()
        self.seen = seen
        self.trouble = trouble

    def run(self, specs: Sequence[Specification], *, timeout_s: float | None = None) -> list[list[Outcome]]:
        given = [(f"{spec.vertex} {spec.range}", [each.epoch for each in spec.epochs]) for spec in specs]
        self.trouble(given)
        self.seen += given
        return super().run(specs, timeout_s=timeout_s)


@dataclass
class Ran:
    """A job that has run its epochs, and what its tasks are given from then on."""

    world: World
    driver: JobManager
    seen: Seen
    failed: Physical

    def epochs_given(self) -> list[list[int]]:
        return [epochs for name, epochs in self.seen if name == f"{self.failed[0]} {self.failed[1]}"]

    def lose(self) -> None:
        """The range's state is gone after epoch 1. Nobody says that it will change: its records stay readable."""
        entry = repair(
            self.driver.manifest, self.driver.graph, [self.failed], code=self.driver.runner.code, reason="test", to=1
        )
        assert self.driver._append(entry)
        state.forget_all()

    def commits(self) -> list[int]:
        """The epochs that the range committed, in the order of the manifest."""
        found = []
        for number in self.driver.store.entry_numbers():
            entry = json.loads(self.driver.store.entry(number) or b"{}")
            if entry["kind"] == "commit" and entry["vertex"] == self.failed[0]:
                found += [each["epoch"] for text, each in entry["ranges"].items() if text == str(self.failed[1])]
        return found


def ran(root: Path, vertex: str = "cells", trouble: Callable[[Seen], None] = lambda _: None, **settings: object) -> Ran:
    seen: Seen = []
    chosen = JobSettings(epoch_s=0.0, balance=False, run_again_s=1e6, **settings)  # type: ignore[arg-type]
    world = World(
        root, cells_plan(faults=root / "faults"), settings=chosen, make_runner=lambda _: Watched(seen, trouble)
    )
    driver = world.driver()
    for _ in range(EPOCHS):
        world.append(20)
        driver.drain()
    seen.clear()
    return Ran(world, driver, seen, (vertex, min(driver.manifest.vertices[vertex])))


@pytest.mark.parametrize("vertex", ["mine", "cells", "everything"])
@pytest.mark.covers("SO-30")
def test_a_lost_range_catches_up_in_one_task(tmp_path: Path, vertex: str) -> None:
    job = ran(tmp_path, vertex)
    job.lose()
    job.driver.drain()
    assert job.epochs_given() == [list(range(2, EPOCHS + 1))]
    assert len(job.seen) == 1  # nobody else ran
    assert job.commits() == [*range(1, EPOCHS + 1), *range(2, EPOCHS + 1)]
    assert job.driver.events.cascades == 0
    job.world.check(least_rows=50)


def test_new_epochs_run_one_by_one(tmp_path: Path) -> None:
    job = ran(tmp_path)
    for _ in range(3):
        job.world.append(10)
        job.driver._cut()
    job.driver.drain()
    assert all(len(epochs) == 1 for epochs in job.epochs_given())
    job.world.check(least_rows=50)


def test_everybody_who_runs_again_does_so_in_few_jobs(tmp_path: Path) -> None:
    job = ran(tmp_path, "mine")
    roll_back(job.driver.store.root, "mine", 1)
    job.driver.drain()
    assert [epochs for name, epochs in job.seen if name.startswith("mine")] == [list(range(2, EPOCHS + 1))] * 2
    job.world.check(least_rows=50)


def test_the_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = ran(tmp_path)
    job.lose()
    lineage = job.driver.manifest.lineage(job.failed)
    for epoch, committed in lineage.commits.items():
        lineage.commits[epoch] = replace(committed, seconds=0.25, bytes_read=100)
    step = RangeEpoch(*job.failed, 2)

    def epochs(seconds: float = 100.0) -> list[int]:
        return [each.epoch for each in run_again(job.driver.manifest, job.driver.graph, step, seconds=seconds)]

    assert epochs() == [2, 3, 4, 5, 6, 7]
    assert epochs(seconds=0.8) == [2, 3, 4]
    assert epochs(seconds=0.0) == [2]
    with monkeypatch.context() as patch:
        patch.setattr(schedule, "RUN_BYTES_MAX", 250)
        assert epochs() == [2, 3]
    with monkeypatch.context() as patch:
        patch.setattr(schedule, "RUN_EPOCHS_MAX", 4)
        assert epochs() == [2, 3, 4, 5]
    lineage.last = 4  # another range took over from there
    assert epochs() == [2, 3, 4]
    lineage.last = None
    del lineage.commits[6]  # never run, as far as anybody knows
    assert epochs() == [2, 3, 4, 5]
    source = job.driver.manifest.vertices["mine"]
    del source[min(source)].commits[4]  # nothing to read
    assert epochs() == [2, 3]


def test_a_driver_killed_anywhere_in_between_leaves_a_prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = ran(tmp_path / "lost")
    lost.lose()
    points = rows = 0
    for call in range(0, 400, 3):  # before a durable call and after one in turn
        shutil.copytree(lost.world.root, tmp_path / str(call))
        world = World(tmp_path / str(call), lost.world.plan, settings=lost.world.settings)
        job = Ran(world, world.driver(), [], lost.failed)
        with killed_at(monkeypatch, call) as died, contextlib.suppress(Killed):
            job.driver.drain()
        if not died:
            break
        points += 1
        again = job.commits()[EPOCHS:]
        assert again == list(range(2, 2 + len(again)))
        state.forget_all()
        world.driver().drain()
        rows += world.check(least_rows=50)[0]
    print(f"{points} points, {rows} rows compared")
    assert points >= 10


def test_a_task_that_hangs_on_several_epochs_runs_them_alone(tmp_path: Path) -> None:
    jobs: Seen = []

    def hang(given: Seen) -> None:
        jobs.extend(given)
        if any(5 in epochs and len(epochs) > 1 for _, epochs in given):
            raise TimeoutError

    job = ran(tmp_path, trouble=hang)
    job.lose()
    jobs.clear()
    job.driver.drain()
    assert [epochs for _, epochs in jobs] == [[2, 3, 4, 5, 6, 7], [2], [3], [4], [5], [6], [7]]
    assert job.driver.events.timeouts == 0  # by itself none of them hung
    job.world.check(least_rows=50)


def test_an_epoch_that_always_hangs_parks_the_range_with_the_ones_before_it_done(tmp_path: Path) -> None:
    broken = False

    def hang(given: Seen) -> None:
        if broken and any(5 in epochs for _, epochs in given):
            raise TimeoutError

    job = ran(tmp_path, trouble=hang)
    job.lose()
    broken = True
    job.driver.drain()
    assert job.commits()[EPOCHS:] == [2, 3, 4]
    assert list(job.driver.failures.waiting()) == [job.failed]
    assert job.driver.events.timeouts == 3


def test_a_record_lost_in_the_middle_costs_its_producer_that_epoch(tmp_path: Path) -> None:
    job = ran(tmp_path)
    job.lose()
    committed = job.driver.manifest.vertices["mine"][min(job.driver.manifest.vertices["mine"])].commits[4]
    (record,) = [record for (_, reader), record in committed.outputs.items() if reader]
    (job.driver.store.files / record.file).unlink()
    job.driver.drain()
    (_, mended) = job.driver.manifest.rollbacks
    assert (mended.entry.rollback[0][0], mended.entry.to) == ("mine", 3)
    assert job.epochs_given()[0] == [2, 3, 4, 5, 6, 7]
    assert job.commits()[EPOCHS:] == [2, 3, 4, 5, 6, 7]
    job.world.check(least_rows=50)


def test_a_record_lost_of_a_producer_that_is_further_back_waits_for_it(tmp_path: Path) -> None:
    job = ran(tmp_path)
    job.driver.settings = replace(job.driver.settings, run_again_s=0.0)  # or the producer is there first
    producer = ("mine", min(job.driver.manifest.vertices["mine"]))
    for failed, to in ((producer, 1), (job.failed, 4)):
        entry = repair(
            job.driver.manifest, job.driver.graph, [failed], code=job.driver.runner.code, reason="test", to=to
        )
        assert job.driver._append(entry)
    state.forget_all()
    committed = job.driver.manifest.lineage(producer).commits[5]
    (record,) = [record for (_, reader), record in committed.outputs.items() if reader]
    (job.driver.store.files / record.file).unlink()
    for _ in range(10 * EPOCHS):
        if not job.driver.step():
            break
    assert not job.driver.failures.waiting()
    assert job.epochs_given() == [[5], [5], [6], [7]]
    job.world.check(least_rows=50)


def test_a_poison_batch_in_the_middle_is_left_out_again(tmp_path: Path) -> None:
    job = ran(tmp_path, "mine")
    job.world.append(poison=2)
    job.world.append()
    job.driver.drain()
    (left_out,) = job.driver.events.quarantined
    held = [range_ for (vertex, range_, _), _ in job.driver.manifest.quarantined.items() if vertex == "mine"]
    job.failed = ("mine", held[0])
    before = job.world.results.digest()
    job.lose()
    job.driver.drain()
    assert len(job.epochs_given()[-1]) > 2
    assert job.driver.events.quarantined == [left_out, left_out]
    assert job.world.results.digest() == before


def test_a_changed_epoch_takes_its_readers_back_and_the_rest_of_the_run_counts(tmp_path: Path) -> None:
    job = ran(tmp_path, "mine")
    job.world.plan = cells_plan(faults=tmp_path / "faults", factor=3.0)
    roll_back(job.driver.store.root, "mine", 0, fixed=job.world.plan)
    job.driver.drain()
    assert job.driver.events.cascades > 0
    assert job.epochs_given() == [list(range(1, EPOCHS + 1))]
    job.world.check(least_rows=50)


def test_a_step_that_read_what_no_longer_counts_is_not_committed(tmp_path: Path) -> None:
    """A producer runs an epoch again beside a reader that has yet to commit it: no cascade finds that reader."""
    job = ran(tmp_path, "mine")
    manifest, graph, footer = job.driver.manifest, job.driver.graph, job.driver._footer
    reader = RangeEpoch("cells", min(manifest.vertices["cells"]), EPOCHS)
    read = schedule._records(manifest, graph, reader)
    assert still_counts(manifest, graph, reader, read, footer)
    job.lose()
    job.driver.drain()
    assert schedule._records(manifest, graph, reader) != read
    assert still_counts(manifest, graph, reader, read, footer)  # other files, the same said
    producer = manifest.lineage(job.failed)
    another = producer.commits[EPOCHS - 1].outputs
    producer.commits[EPOCHS] = replace(producer.commits[EPOCHS], outputs=another)
    assert not still_counts(manifest, graph, reader, read, footer)
    del producer.commits[EPOCHS]
    assert not still_counts(manifest, graph, reader, read, footer)
