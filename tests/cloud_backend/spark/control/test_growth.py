"""A job that runs for long: an epoch costs what the first ones cost, and what is kept is bounded by how far back it goes.

Measured by calls, files and bytes, which a busy machine does not change. Tasks do nothing here: it is about the driver.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from cloud_backend.spark.control import collection
from cloud_backend.spark.control.driver import JobManager
from cloud_backend.spark.manifest import manifest as manifests
from cloud_backend.spark.manifest.entries import Cut
from cloud_backend.spark.manifest.lineage import Committed, Lineage, StatePart
from cloud_backend.spark.manifest.manifest import Fenced, ManifestLog
from cloud_backend.spark.slots import Range
from cloud_backend.spark.storage.files import PosixFiles
from cloud_backend.spark.storage.store import Store
from cloud_backend.spark.task import state
from cloud_backend.spark.task.specification import Done, Outcome, Specification
from shared.errors import DamagedData
from shared.recovery.retention import Retention
from tests.claims import Claim
from tests.spark import schedules
from tests.spark.schedules import Killed, killed_at
from tests.spark.worlds import World, trips_plan

EVERY_S = 100.0  # each epoch is kept this long; one is cut per second


class NoWork:
    """Runs nothing: every task has read nothing and says nothing."""

    code = "none"

    def run(self, specs: Sequence[Specification], *, timeout_s: float | None = None) -> list[list[Outcome]]:
        return [
            [Done(Committed(each.epoch, spec.term, {}, (), 0, 0, 0.0, "none", spec.plan)) for each in spec.epochs]
            for spec in specs
        ]


class LongRun:
    def __init__(self, root: Path) -> None:
        self.world = World(root, trips_plan(), devices=1, make_runner=lambda _: NoWork())
        retention = Retention(every_s=EVERY_S, hours=0.1)
        self.world.settings = replace(self.world.settings, retention=retention)
        self.now_s = 1_700_000_000.0
        self.driver = self.open()

    def open(self) -> JobManager:
        return self.world.driver(clock=lambda: self.now_s)

    def run(self, epochs: int) -> None:
        for _ in range(epochs):
            self.world.append(1, batches=1)
            self.now_s += 1.0
            while self.driver.step():
                pass


def calls_of(act: Callable[[], object]) -> int:
    """How many functions it called, C's included."""
    count = 0

    def note(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("epochs", [400, pytest.param(800, marks=pytest.mark.soak)])
def test_an_epoch_late_in_a_long_run_costs_what_an_early_one_did(tmp_path: Path, claim: Claim, epochs: int) -> None:
    job = LongRun(tmp_path)
    job.run(100)
    early = calls_of(lambda: job.run(100)) / 100
    opened_early = calls_of(lambda: ManifestLog(job.driver.store))
    job.run(epochs)
    late = calls_of(lambda: job.run(100)) / 100
    opened_late = calls_of(lambda: ManifestLog(job.driver.store))
    claim(f"calls per epoch {early:.0f} then {late:.0f}, to open the manifest {opened_early} then {opened_late}")
    assert late <= 1.15 * early
    # Opening reads a summary of what is kept and at most half as many entries; both are bounded.
    assert opened_late <= 2.5 * opened_early


@pytest.mark.soak
def test_the_manifest_stays_as_large_as_what_it_keeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection.forget_history, "__defaults__", (100,))
    monkeypatch.setattr(manifests, "SUMMARY_EVERY", 50)
    job = LongRun(tmp_path)
    job.run(400)
    before = {path.name: path.stat().st_size for path in (job.driver.store.root / "manifest").iterdir()}
    job.run(400)
    after = {path.name: path.stat().st_size for path in (job.driver.store.root / "manifest").iterdir()}
    assert len(after) <= 1.2 * len(before) < 400
    assert sum(after.values()) <= 1.2 * sum(before.values())
    assert len(job.driver.store.summaries()) <= collection.BASES_MIN + 1
    assert ManifestLog(job.driver.store).state.to_json() == job.driver.manifest.to_json()


def test_a_driver_that_slept_while_history_was_forgotten_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection.forget_history, "__defaults__", (20,))
    monkeypatch.setattr(manifests, "SUMMARY_EVERY", 20)
    job = LongRun(tmp_path)
    job.run(10)
    asleep = ManifestLog(job.driver.store)
    number, term = asleep.state.n + 1, asleep.state.term
    job.run(400)
    assert number not in job.driver.store.entry_numbers()  # it is free, as if nobody had written it yet
    with pytest.raises(Fenced, match="others went on far beyond"):
        asleep.try_append(Cut(asleep.state.last_cut + 1, {"0": 0}, {"0": 1}), term=term)
    job.run(50)
    assert ManifestLog(job.driver.store).state.to_json() == job.driver.manifest.to_json()


def test_a_manifest_without_its_beginning_and_without_a_summary_is_no_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection.forget_history, "__defaults__", (20,))
    monkeypatch.setattr(manifests, "SUMMARY_EVERY", 20)
    job = LongRun(tmp_path)
    job.run(300)
    for path in (job.driver.store.root / "manifest").glob("*.summary"):
        path.write_bytes(b"{")
    with pytest.raises(DamagedData, match=r"first entry is \d+ and no summary before it is whole"):
        ManifestLog(job.driver.store)


@contextmanager
def compacting(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Summaries and forgetting every few entries, and drivers that can die at each of their steps too."""
    with patch.context() as inner:
        inner.setattr(manifests, "SUMMARY_EVERY", 4)
        inner.setattr(collection.forget_history, "__defaults__", (0,))
        calls = ((Store, "put_summary"), (PosixFiles, "remove"), (Store, "put_entry"))
        inner.setattr(schedules, "CALLS", calls)
        yield


def test_a_driver_killed_at_any_step_of_forgetting_leaves_a_manifest_that_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, claim: Claim
) -> None:
    settings = replace(
        World(tmp_path / "settings", trips_plan()).settings,
        epoch_bytes_max=1, collect_every=2, chain_max=2, retention=Retention(every_s=0.0),
    )  # fmt: skip
    with compacting(monkeypatch):
        first = World(tmp_path / "first", trips_plan(), devices=2, settings=settings)
        first.started(4)
        first.append()
        assert min(first_entries := Store(first.store_dir).entry_numbers()) > 1
        died_at: set[str] = set()
        points = rows = 0
        for call in range(1000):
            shutil.copytree(first.root, tmp_path / str(call))
            world = World(tmp_path / str(call), first.plan, devices=2, settings=settings)
            driver = world.driver()
            with killed_at(monkeypatch, call) as died, contextlib.suppress(Killed):
                driver.drain()
            opened = ManifestLog(Store(world.store_dir)).state
            assert opened.n >= first_entries[-1]
            state.forget_all()
            world.driver().drain()
            rows += world.check(least_rows=20)[0]
            shutil.rmtree(world.root)
            if not died:
                break
            points += 1
            died_at |= {*died}
    claim(f"{points} points, {rows} rows compared, at {len(died_at)} kinds of steps")
    assert died_at == {
        f"{when} {what}" for when in ("before", "after") for what in ("put_summary", "remove", "put_entry")
    }


@pytest.mark.parametrize(
    ("chains", "kept_from"),
    [
        ([["b"], ["b", "d"], ["b", "d", "e"]], 0),  # all stand on one base
        ([["b"], ["b", "d"], ["c"], ["c", "e"]], 2),
        ([["b"], ["b", "d"], ["b", "d", "p"], ["p", "q"], ["p", "q", "e"]], 2),  # a piece that both have is one base
    ],
)
def test_what_is_kept_reaches_back_to_a_snapshot_without_a_file_of_the_newest(
    chains: list[list[str]], kept_from: int
) -> None:
    commits = {
        epoch: Committed(epoch, 0, {}, (StatePart(Range(0, 1024), tuple(chain), (1,) * len(chain)),), 1, 1, 0.1, "c", 1)
        for epoch, chain in enumerate(chains, start=1)
    }
    assert collection._on_two_bases(Lineage(1, position=len(chains), commits=commits)) == kept_from
