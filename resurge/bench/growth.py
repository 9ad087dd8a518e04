"""`resurge bench growth`: what a long run and a large fleet cost, by processor time, bytes and requests, late against
early and many against few.

The job manager runs its epochs in this process, on a clock that goes a second per epoch: no JVM, so nothing but our own
work is measured, and no waiting. Devices and results meet a gateway that is a process.
"""

from __future__ import annotations

import math
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import resurge as rs
from cloud_backend.log.format import Record
from cloud_backend.log.log import Log
from cloud_backend.log.partitions import open_log
from cloud_backend.results.store import Results
from cloud_backend.spark.cluster.faults import ClusterFault
from cloud_backend.spark.cluster.session import LocalRunner
from cloud_backend.spark.control.driver import JobManager, JobSettings
from cloud_backend.spark.control.log_needs import LogUse
from cloud_backend.spark.control.turns import Turns
from cloud_backend.spark.manifest.manifest import ManifestLog
from cloud_backend.spark.storage.file_names import piece_in
from cloud_backend.spark.storage.store import Store
from cloud_backend.spark.task.specification import Outcome, Specification
from resurge.bench._crowd import checks_of_crowd
from resurge.bench._executors import checks_of_executors
from resurge.bench._news import checks_of_news
from resurge.bench._rounds import at_least, at_most, versions
from shared.batch import Batch
from shared.identity import device_id, edge_id
from shared.plan.graph import Plan
from shared.spool.disk import PosixDisk
from shared.wire import columns
from shared.wire.frame import encode
from shared.wire.messages import Data

SECOND = 1_000_000
QUERIES = 30
KEYS_AT_ONCE = 50_000


def run(rounds: int = 5, quick: bool = False) -> dict[str, Any]:  # noqa: ARG001 - one long run, measured along its way
    early, late = (40, 160) if quick else (100, 3000)
    figures: dict[str, Any] = {}
    checks: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="resurge-bench-") as directory:
        root = Path(directory)
        for vertices in (1, 3):
            checks += _epochs(root / str(vertices), vertices, early, late, figures)
        checks.append(_torn(root / "torn", figures))
        checks.append(_cluster(root / "cluster", figures))
        checks += _keys(root / "keys", quick, figures)
        checks += checks_of_crowd(root / "crowd", quick=quick, figures=figures)
        checks += checks_of_news(root / "news", quick=quick, figures=figures)
        checks += checks_of_executors(
            root / "executors", lambda at, runner: _World(at, _plan(3), runner), quick=quick, figures=figures
        )
        checks += _queries(root / "queries", quick, figures)
    checks.append(_turns(figures))
    return {
        "bench": "growth", "checks": checks, "figures": figures, "rounds": 1,
        "versions": versions("numpy"),
    }  # fmt: skip


def _plan(vertices: int) -> Plan:
    up = rs.sensor("points", every="1s", columns={"user": "int64", "x": "int64"}).sync("points", batch=50)
    users = up.key_by("user").tumbling("10s").aggregate(n=rs.count(), total=rs.sum("x"))
    if vertices == 1:
        return rs.plan_of(users.subscribe("users"), name="growth")
    sizes = users.key_by("n").tumbling("30s").aggregate(k=rs.count(), total=rs.sum("total"))
    everything = sizes.key_by().tumbling("60s").aggregate(k=rs.count(), total=rs.sum("total"))
    return rs.plan_of(users.subscribe("users"), everything.subscribe("everything"), name="growth")


class _World:
    """A job over a log that grows by a second of four readings at a time."""

    def __init__(self, root: Path, plan: Plan, runner: LocalRunner | None = None) -> None:
        self.root = root
        self.plan = plan
        self.log = Log.open(PosixDisk(root / "log"))
        self.now_s = 1_700_000_000.0
        self.epoch = 0
        self.rows: Counter[int] = Counter()  # by device
        self.runner = runner or LocalRunner()
        self.driver = self.open()

    def open(self) -> JobManager:
        return JobManager(
            self.root / "log", self.root / "store", self.plan, results=Results(self.root / "results.sqlite"),
            runner=self.runner, settings=JobSettings(epoch_s=0.0, balance=False), clock=lambda: self.now_s,
        )  # fmt: skip

    def append(self, users: Sequence[int] = range(4)) -> None:
        self.append_of(0, {"user": np.asarray(users), "x": np.ones(len(users), np.int64)})

    def append_of(self, device: int, values: Mapping[str, np.ndarray]) -> None:
        (edge,) = self.plan.edges
        rows, lo = len(next(iter(values.values()))), self.rows[device]
        self.rows[device] += rows
        times = self.epoch * SECOND + np.arange(rows)
        self.epoch += 1
        self.now_s += 1.0
        batch = Batch.of(
            edge.schema, values, times, lo=lo, frontier_us=self.epoch * SECOND,
        )  # fmt: skip
        codec, payload = columns.encode(batch)
        data = Data(
            device_id(b"growth %d" % device), 1, edge_id(edge.name), batch.lo, batch.hi, rows, edge.schema.id, 0, codec,
            payload, batch.frontier_us,
        )  # fmt: skip
        self.log.append([Record(batch.frontier_us, encode(data.frame()))])
        self.log.sync()

    def run(self, epochs: int) -> float:
        """Processor seconds that the job took for them, without what writes the log."""
        spent = 0.0
        for _ in range(epochs):
            self.append()
            begun = time.process_time()
            self.driver.drain()
            spent += time.process_time() - begun
        return spent

    def manifest_bytes(self) -> int:
        return sum(path.stat().st_size for path in (self.root / "store" / "manifest").iterdir())

    def opening_s(self) -> float:
        begun = time.process_time()
        ManifestLog(Store(self.root / "store"))
        return time.process_time() - begun


def _epochs(root: Path, vertices: int, early: int, late: int, figures: dict[str, Any]) -> list[dict[str, Any]]:
    """Processor time per epoch over as many epochs as had run before the first ones that count."""
    world = _World(root, _plan(vertices))
    world.run(early)
    first = world.run(early) / early
    world.run(late // 2 - 2 * early)
    half = (world.manifest_bytes(), world.opening_s())
    world.run(late // 2 - early)
    last = world.run(early) / early
    full = (world.manifest_bytes(), world.opening_s())
    figures[f"{vertices} vertices"] = {
        "epochs": late, "early_ms": round(first * 1000, 2), "late_ms": round(last * 1000, 2),
        "manifest_bytes": [half[0], full[0]], "opening_ms": [round(each[1] * 1000, 1) for each in (half, full)],
        "manifest_files": len([*(root / "store" / "manifest").iterdir()]),
    }  # fmt: skip
    words = f"{vertices} vertices, {late} epochs"
    return [
        at_most(f"{words}: processor time per epoch, times that at {early}", last / first, 1.3),
        at_most(f"{words}: bytes of the manifest, times those at half", full[0] / half[0], 1.3),
    ]


def _keys(root: Path, quick: bool, figures: dict[str, Any]) -> list[dict[str, Any]]:
    """Epochs of some rows over a state of very many keys. A new base of it is written on the way, in pieces: the
    dearest epoch, and those with a piece, against the others."""
    few, many, changed, epochs = (500, 5_000, 20, 60) if quick else (100_000, 1_000_000, 1_000, 200)
    costs = {keys: _kept(root / str(keys), keys, changed, epochs) for keys in (few, many)}
    medians = {keys: statistics.median(each.cpu_s) for keys, each in costs.items()}
    for keys, each in costs.items():
        figures[f"{keys} keys, {changed} changed"] = {
            "epochs": epochs, "with_a_piece": sum(each.piece), "median_ms": round(1000 * medians[keys], 1),
            "worst_ms": round(1000 * max(each.cpu_s), 1),
            "p99_delay_ms": [round(1000 * p99, 1) for p99 in each.p99(each.wall_s)],
            "p99_cpu_ms": [round(1000 * p99, 1) for p99 in each.p99(each.cpu_s)],
        }  # fmt: skip
    last = costs[many]
    with_piece, without = last.p99(last.wall_s)
    return [
        at_most(
            f"{many} keys, {changed} changed: processor time of the median epoch, times that of {few}",
            medians[many] / medians[few], 1.3,
        ),
        at_most(
            f"{many} keys, {changed} changed: processor time of the dearest epoch, times the median",
            max(last.cpu_s) / medians[many], 2.0,
        ),
        at_most(
            f"{many} keys, {changed} changed: p99 delay of epochs with a piece of a base, times that of those without",
            with_piece / without, 1.2,
        ),
    ]  # fmt: skip


@dataclass(slots=True)
class _Kept:
    """What each epoch cost, and whether a piece of a base was written in it."""

    cpu_s: list[float]
    wall_s: list[float]
    piece: list[bool]

    def p99(self, seconds: Sequence[float]) -> tuple[float, float]:
        """Of epochs with a piece, and of those without."""
        found = []
        for kind in (True, False):
            chosen = sorted(each for each, piece in zip(seconds, self.piece, strict=True) if piece == kind)
            found.append(chosen[int(0.99 * len(chosen))] if chosen else math.inf)
        return found[0], found[1]


def _kept(root: Path, keys: int, changed: int, epochs: int) -> _Kept:
    world, found = _World(root, _kept_plan()), _Kept([], [], [])
    for first in range(0, keys, KEYS_AT_ONCE):
        world.append(range(first, min(keys, first + KEYS_AT_ONCE)))
        world.driver.drain()
    for epoch in range(epochs):
        world.append([(7919 * epoch + each * (keys // changed)) % keys for each in range(changed)])
        cpu, wall = time.process_time(), time.perf_counter()
        world.driver.drain()
        found.cpu_s.append(time.process_time() - cpu)
        found.wall_s.append(time.perf_counter() - wall)
        ranges = world.driver.manifest.vertices["users"].values()
        last = [part.chain[-1] for each in ranges for part in each.commits[each.position].state]
        found.piece.append(any(piece_in(name) is not None for name in last))
    return found


def _kept_plan() -> Plan:
    """A state for each user that is never over."""
    up = rs.sensor("points", every="1s", columns={"user": "int64", "x": "int64"}).sync("points", batch=50)
    return rs.plan_of(up.key_by("user").tumbling("1000d").aggregate(n=rs.count()).subscribe("users"), name="growth")


def _queries(root: Path, quick: bool, figures: dict[str, Any]) -> list[dict[str, Any]]:
    """30 queries over one log, an epoch of each for every round of the devices: with what is decoded kept for the next
    query, as the jobs of one process do, and each for itself."""
    devices, epochs = 100, 1 if quick else 5
    world, random = _World(root, _asked(0)), np.random.default_rng(30)
    opened = {kind: _jobs(root / kind, world, together=kind == "together") for kind in ("alone", "together")}
    spent = dict.fromkeys(opened, 0.0)
    for _ in range(epochs + 1):
        for device in range(devices):
            world.append_of(device, {axis: np.round(random.normal(size=60), 3) for axis in "xyz"})
        for kind, jobs in opened.items():
            begun = time.process_time()
            for job in jobs:
                job.drain()
            spent[kind] += time.process_time() - begun if world.epoch > devices else 0.0  # the first one starts things
    sizes = {kind: [job.events.log_bytes for job in jobs] for kind, jobs in opened.items()}
    figures[f"{QUERIES} queries over one log"] = {
        "devices": devices, "epochs": epochs,
        "cpu_ms_per_epoch": {kind: round(1000 * each / epochs, 1) for kind, each in spent.items()},
        "decoded_bytes": {kind: sum(each.decoded for each in found) for kind, found in sizes.items()},
        "log_bytes": sizes["together"][0].read,
    }  # fmt: skip
    decoded = sum(each.decoded for each in sizes["together"]) / sizes["together"][0].read
    return [
        at_most(f"{QUERIES} queries over one log: bytes decoded, times those of one", decoded, 1.1),
        at_most(
            f"{QUERIES} queries over one log: processor time, times that of each reading for itself",
            spent["together"] / spent["alone"], 0.7,
        ),
    ]  # fmt: skip


def _asked(number: int) -> Plan:
    up = rs.sensor("motion", every="20ms", columns=dict.fromkeys("xyz", "float64")).sync("motion", batch=60)
    means = up.key_by("device").tumbling("10s").aggregate(n=rs.count(), mean=rs.mean("x"))
    return rs.plan_of(means.subscribe(f"query {number}"), name=f"query {number}")


def _jobs(root: Path, world: _World, *, together: bool) -> list[JobManager]:
    use, reader, results = LogUse(root), open_log(world.root / "log"), Results(root / "results.sqlite")
    jobs = [
        JobManager(
            world.root / "log", root / str(number), _asked(number), results=results, runner=world.runner,
            settings=JobSettings(epoch_s=0.0, balance=False), clock=lambda: world.now_s, name=str(number),
            log_use=use if together else LogUse(root / str(number)), reader=reader if together else None,
        )
        for number in range(QUERIES)
    ]  # fmt: skip
    for job in jobs:
        job.write_status()
    return jobs


def _torn(root: Path, figures: dict[str, Any]) -> dict[str, Any]:
    """Half an entry of every kind of length: how many a restart goes on after."""
    world = _World(root, _plan(1))
    world.run(3)
    went_on = tries = 0
    for length in (0, 1, 20, 200):
        store = world.driver.store
        last = store.entry(world.driver.manifest.n) or b""
        number = world.driver.manifest.n + 1
        (store.root / "manifest" / f"{number:012d}.json").write_bytes(last[: min(length, len(last) - 1)])
        world.driver = world.open()
        world.run(1)
        tries += 1
        went_on += number in store.set_aside() and world.driver.manifest.position("users") == world.epoch
    figures["torn entries"] = {"tries": tries, "went_on": went_on}
    return at_least("half a last entry: share that a restart sets aside and goes on after", went_on / tries, 1.0)


class _Away(LocalRunner):
    """A cluster that takes nothing for a while."""

    away = False
    refused = 0

    def run(self, specs: Sequence[Specification], *, timeout_s: float | None = None) -> list[list[Outcome]]:
        if self.away:
            self.refused += 1
            raise ClusterFault("no executor took the tasks")
        return super().run(specs, timeout_s=timeout_s)


def _cluster(root: Path, figures: dict[str, Any]) -> dict[str, Any]:
    """Ten minutes without a cluster: how much of what came meanwhile is worked off a minute after, without a person."""
    runner = _Away()
    world = _World(root, _plan(3), runner)
    world.run(3)
    runner.away = True
    for _ in range(600):
        if world.epoch < 6:
            world.append()
        world.driver.step()
        world.now_s += 1.0
    runner.away = False
    world.now_s += 60.0
    world.driver.drain()
    done = min(map(world.driver.manifest.position, world.driver.manifest.vertices))
    figures["a cluster away for 10 minutes"] = {
        "jobs_refused": runner.refused,
        "parked": len(world.driver.failures.waiting()),
    }
    return at_least(
        "a cluster away: share of epochs worked off a minute after", done / world.driver.manifest.last_cut, 1.0
    )


def _turns(figures: dict[str, Any]) -> dict[str, Any]:
    """30 queries that always have work on a session of two cores: turns of the one with fewest, against the mean."""
    served: Counter[str] = Counter()
    lock = threading.Lock()

    class Served(LocalRunner):
        def run(self, specs: Sequence[Specification], *, timeout_s: float | None = None) -> list[list[Outcome]]:  # noqa: ARG002
            time.sleep(0.001)
            with lock:
                served[threading.current_thread().name] += 1
            return []

    turns = Turns(Served(), 2)

    def ask() -> None:
        while served.total() < 20 * QUERIES:
            turns.run(())

    threads = [threading.Thread(target=ask, name=f"query {number:02d}") for number in range(QUERIES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    fewest = min(served[thread.name] for thread in threads)
    figures["30 queries"] = {"turns": served.total(), "fewest": fewest, "most": max(served.values())}
    return at_least("30 queries: turns of the last one, times the mean", fewest * QUERIES / served.total(), 0.8)
