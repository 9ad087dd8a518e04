"""Random failure schedules: a seed decides the program, the devices, and what breaks when.

After every schedule the results must equal those of a run without failures. Drivers die at a random call to the store
or the results (`Killed` is no Exception, so nothing can handle it), files vanish or rot, vertices are rolled back, ranges
split and merge, workers are killed, raise or hang.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from cloud_backend.results.store import Results
from cloud_backend.spark.control.driver import JobManager, JobSettings, Runner
from cloud_backend.spark.control.schedule import RangeEpoch, _readable
from cloud_backend.spark.manifest.entries import Division
from cloud_backend.spark.manifest.manifest import ManifestLog
from cloud_backend.spark.publishing.publisher import Publication
from cloud_backend.spark.rollback.roll_back import RolledBack, roll_back
from cloud_backend.spark.rollback.undo import undo
from cloud_backend.spark.slots import Range
from cloud_backend.spark.storage.store import Store
from cloud_backend.spark.task import state
from shared.errors import UsageError
from shared.plan.graph import Plan
from tests.spark.worlds import World, cells_plan, trips_plan

CALLS = (
    (Store, "write_file"),
    (Store, "put_entry"),
    (Store, "sync_files"),
    (Results, "publish"),
    (Publication, "_save"),
)


class Killed(BaseException):
    """The driver's process is gone."""


@contextmanager
def killed_at(patch: pytest.MonkeyPatch, call: int) -> Iterator[list[str]]:
    """The driver dies before (even) or after (odd) its `call // 2`-th call to something durable."""
    seen = 0
    died: list[str] = []

    def wrap(kind: type, name: str) -> None:
        original = getattr(kind, name)

        def mortal(*arguments: object, **named: object) -> object:
            nonlocal seen
            here, seen = seen, seen + 2
            if here == call:
                died.append(f"before {name}")
                raise Killed
            answer = original(*arguments, **named)
            if here + 1 == call:
                died.append(f"after {name}")
                raise Killed
            return answer

        patch.setattr(kind, name, mortal)

    with patch.context() as inner:
        patch, outer = inner, patch
        for kind, name in CALLS:
            wrap(kind, name)
        yield died
        patch = outer


def random_plan(chance: random.Random, faults: Path) -> Plan:
    return chance.choice(
        [
            trips_plan,
            cells_plan,
            lambda: cells_plan(faults=faults),
        ]
    )()


class Schedule:
    def __init__(
        self,
        root: Path,
        seed: int,
        make_runner: Callable[[World], Runner],
        patch: pytest.MonkeyPatch,
        *,
        worker_faults: bool = False,
        rounds: int = 5,
    ) -> None:
        self.chance = random.Random(seed)
        self.faults = root / "faults"
        self.faults.mkdir(parents=True)
        self.patch = patch
        self.rounds = rounds
        self.worker_faults = worker_faults
        settings = JobSettings(epoch_s=0.0, balance=False, collect_every=4, chain_max=3, task_timeout_s=20.0)
        settings = replace(
            settings, retention=replace(settings.retention, keep=self.chance.choice([4, 51]), every_s=0.0)
        )
        self.world = World(
            root, random_plan(self.chance, self.faults), seed=seed, settings=settings, make_runner=make_runner
        )
        self.fired: list[str] = []
        self.broken: set[str] = set()

    def run(self) -> str:
        """The line to print: faults fired, rows compared, both digests. Raises when they differ or are empty."""
        driver = self.world.driver()
        for _ in range(self.rounds):
            self.world.append(self.chance.choice([10, 20, 30]))
            driver = self._round(driver)
        driver.drain()
        rows, found, wanted = self.world.compare()
        assert self.fired
        assert rows > 0
        assert found == wanted, f"faults {self.fired}\n{self.world.difference()}"
        assert not driver.failures.waiting()
        return f"faults {len(self.fired)} ({', '.join(self.fired)}), rows {rows}, digests {found[:12]} {wanted[:12]}"

    def _round(self, driver: JobManager) -> JobManager:
        kinds = [self._kill_driver, self._lose_file, self._damage_file, self._undo, self._redivide, self._race]
        kinds += [self._take_back, self._tear_entry]
        if self.worker_faults and "troubled" in str(self.world.plan):
            kinds += [self._break_worker] * 3
        return self.chance.choice(kinds)(driver)

    # -- faults ----------------------------------------------------------------------------------------------------

    def _kill_driver(self, driver: JobManager) -> JobManager:
        with killed_at(self.patch, self.chance.randrange(40)) as died:
            try:
                driver.drain()
            except Killed:
                self.fired.append(f"driver killed {died[0]}")
        state.forget_all()
        return self.world.driver()

    def _tear_entry(self, driver: JobManager) -> JobManager:
        """A power cut leaves the beginning of the next entry under its name."""
        driver.step()
        last = driver.store.entry(driver.manifest.n) or b""
        torn = driver.store.root / "manifest" / f"{driver.manifest.n + 1:012d}.json"
        torn.write_bytes(last[: self.chance.randrange(len(last))])
        self.fired.append("entry torn")
        if self.chance.random() < 0.5:
            driver = self.world.driver()
        driver.drain()
        return driver

    def _lose_file(self, driver: JobManager) -> JobManager:
        return self._with_file(driver, "lost", lambda path: path.unlink())

    def _damage_file(self, driver: JobManager) -> JobManager:
        def damage(path: Path) -> None:
            data = bytearray(path.read_bytes())
            data[self.chance.randrange(len(data))] ^= 0x20
            path.write_bytes(data)

        return self._with_file(driver, "damaged", damage)

    def _with_file(self, driver: JobManager, word: str, act: Callable[[Path], None]) -> JobManager:
        """Break the newest state, or a record that somebody has yet to read."""
        driver.step()
        names = [name for name in self._files_in_use(driver) if self._bearable(driver, name)]
        if names:
            name = self.chance.choice(names)
            act(driver.store.files / name)
            self.broken.add(name)
            self.fired.append(f"{name.rsplit('.', 1)[1]} {word}")
        state.forget_all()
        driver = self.world.driver()
        driver.drain()
        return driver

    def _bearable(self, driver: JobManager, name: str) -> bool:
        """Whether every range keeps something whole to start from without this file. What is kept stands on two bases, so
        a second one may be more than is promised: workers' caches hide the loss of the first."""
        gone = self.broken | {name}
        manifest = driver.manifest
        for vertex, lineages in manifest.vertices.items():
            for range_, lineage in lineages.items():
                holds = any(name in each.state_files() for each in lineage.commits.values())
                whole = any(not each.stale and not each.state_files() & gone for each in lineage.commits.values())
                if (
                    holds
                    and not whole
                    and (lineage.parents or not self._from_nothing(driver, RangeEpoch(vertex, range_, 1)))
                ):
                    return False
        return True

    @staticmethod
    def _from_nothing(driver: JobManager, step: RangeEpoch) -> bool:
        return driver.manifest.lineage(step.physical).first == 1 and _readable(driver.manifest, driver.graph, step)

    def _files_in_use(self, driver: JobManager) -> list[str]:
        manifest = driver.manifest
        names: set[str] = set()
        for vertex, lineages in manifest.vertices.items():
            vertices = driver.graph.vertices
            readers = [manifest.position(name) for name in driver.graph.order if vertex in vertices[name].sources]
            for lineage in lineages.values():
                newest = lineage.commits.get(lineage.position)
                if newest is not None and lineage.last is None:
                    names |= newest.state_files()
                for epoch, committed in lineage.commits.items():
                    if readers and epoch > min(readers):
                        names |= {record.file for (_, reader), record in committed.outputs.items() if reader}
        return sorted(names)

    def _undo(self, driver: JobManager) -> JobManager:
        driver.step()
        vertex = self.chance.choice(driver.graph.order)
        if driver.manifest.position(vertex) and (answer := self._rolled_back(driver, vertex)):
            self.fired.append(f"{vertex} rolled back to {answer.plan.epoch}")
        driver.drain()
        return driver

    def _rolled_back(self, driver: JobManager, vertex: str) -> RolledBack | None:
        """One or two epochs; None where the horizon does not allow it."""
        position = driver.manifest.position(vertex)
        try:
            return roll_back(driver.store.root, vertex, self.chance.randrange(max(0, position - 2), position))
        except UsageError as error:
            if error.code != "rollback-beyond-horizon":
                raise
            return None

    def _take_back(self, driver: JobManager) -> JobManager:
        """A rollback, taken back after it has got some way."""
        driver.drain()
        vertex = self.chance.choice(driver.graph.order)
        answer = self._rolled_back(driver, vertex)
        if answer is not None and answer.entry is not None:
            for _ in range(self.chance.randrange(6)):
                driver.step()
            try:
                said = undo(driver.store.root, answer.entry)
                self.fired.append(f"rollback of {vertex} taken back by {said.how}")
            except UsageError as error:
                if error.code != "undo-nothing":
                    raise
        driver.drain()
        return driver

    def _redivide(self, driver: JobManager) -> JobManager:
        driver.drain()
        vertex = self.chance.choice(driver.graph.order)
        epoch = driver.manifest.position(vertex)
        ranges = driver.manifest.ranges_at(vertex, epoch + 1)
        assert all(driver.manifest.vertices[vertex][each].position == epoch for each in ranges), "a range is behind"
        if len(ranges) > 2 and self.chance.random() < 0.5:
            old = ranges[:2]
            new = [Range(old[0].lo, old[1].hi, epoch + 1)]
        else:
            old = [self.chance.choice(ranges)]
            new = [replace(half, since=epoch + 1) for half in old[0].halves()]
        assert driver._append(Division(vertex, tuple(old), tuple(new), epoch + 1))
        self.fired.append(f"{vertex} {'split' if len(new) > 1 else 'merged'}")
        return driver

    def _race(self, driver: JobManager) -> JobManager:
        """A second driver takes over while the first still thinks it is the one; the first must stop."""
        from cloud_backend.spark.manifest.manifest import Fenced

        driver.step()
        successor = self.world.driver()
        self.world.append(10)
        with pytest.raises(Fenced):
            driver.drain()
        self.fired.append("driver fenced")
        successor.drain()
        return successor

    def _break_worker(self, driver: JobManager) -> JobManager:
        fault = self.chance.choice(["kill", "kill", "raise"])
        path = self.faults / f"{fault}.{len(self.fired)}"
        path.touch()
        driver.drain()
        if path.with_name(f"fired.{path.name}").exists():
            self.fired.append(f"worker {fault}")
        else:
            path.unlink()
        return driver


def manifest_of(world: World) -> ManifestLog:
    return ManifestLog(Store(world.store_dir))
