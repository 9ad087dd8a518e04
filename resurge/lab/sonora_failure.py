"""Sonora, Fig 11: throughput and goodput over time while one of nine first-stage vertices fails and recovers.

Rows come at a steady rate that does not saturate the job. Throughput is every row that the second stage takes in;
goodput leaves out what it had taken in before the failure, as the paper does. The paper stalls the pipeline to flush
buffers when it checkpoints, and all 23 vertices of its second stage roll back. Here every epoch is a checkpoint that
nobody waits for, and by the digests of its output the failed vertex goes back alone.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cloud_backend.log.format import Record
from cloud_backend.spark.cluster.session import LocalRunner
from cloud_backend.spark.control.driver import JobManager
from cloud_backend.spark.rollback.roll_back import roll_back
from cloud_backend.spark.task import state
from resurge.bench._spark_world import World
from resurge.lab._figure import draw, report, shape
from resurge.lab._sonora import FIRST, RANGES, SECOND, two_stages
from shared.recovery.rollback import Rule

RULES = (Rule.FULL, Rule.SONORA, Rule.CHANGED)
LOST = 4  # epochs
EPOCHS, FAILS_AFTER = 24, 8
ROWS, USERS = 20_000, 2_000
BUSY = 0.4  # the share of the time between two epochs that one takes
ROUNDS = 3
QUICK = {"rounds": 1, "rows": 4_000}


@dataclass(frozen=True)
class Run:
    throughput: list[tuple[float, float]]  # (seconds, rows a second), a point per two epochs' time
    goodput: list[tuple[float, float]]
    silent_s: float  # from the failure until the second stage took in a row for the first time
    complete_s: float  # from the failure until nothing was behind
    before: float  # rows a second of goodput before the failure
    steady: float  # the lowest goodput before the failure, over `before`
    burst: float  # the highest goodput after the failure, over `before`
    digest: str
    stable_s: float  # median, from an epoch's rows in the log until its snapshot is stable everywhere
    snapshot_bytes: int  # of all vertices, in the epoch that is gone back to
    replayed_bytes: int
    restored_bytes: int


def run(rounds: int = ROUNDS, rows: int = ROWS) -> dict[str, Any]:
    epochs = _epochs(rows)
    period_s = _epoch_seconds(epochs, rows) / BUSY
    runs: dict[Rule, list[Run]] = {rule: [] for rule in RULES}
    for _ in range(rounds):
        for rule in RULES:
            runs[rule].append(_fail(rule, epochs, rows, period_s))
    silent = {rule: statistics.median(each.silent_s for each in runs[rule]) / period_s for rule in RULES}
    complete = {rule: statistics.median(each.complete_s for each in runs[rule]) / period_s for rule in RULES}
    digests = {each.digest for many in runs.values() for each in many}
    steady = statistics.median(each.steady for many in runs.values() for each in many)
    stable = statistics.median(each.stable_s for many in runs.values() for each in many) / period_s
    burst = statistics.median(each.burst for each in runs[Rule.SONORA])
    sonora = runs[Rule.SONORA][-1]
    restored = sonora.restored_bytes / (sonora.restored_bytes + sonora.replayed_bytes)
    shapes = [
        shape("checkpoints do not lower the goodput: lowest over mean before the failure",
              "a visible drop at each checkpoint", round(steady, 2), steady >= 0.5),
        shape("time without goodput, over the lost time: full, Sonora's rule, ours", ["-", 8 / 20, "-"],
              [round(silent[rule] / LOST, 2) for rule in RULES], silent[Rule.CHANGED] <= silent[Rule.SONORA]),
        shape("until all have recovered, over the lost time: full, Sonora's rule, ours", ["-", 36 / 20, "-"],
              [round(complete[rule] / LOST, 2) for rule in RULES],
              complete[Rule.CHANGED] < complete[Rule.SONORA] <= complete[Rule.FULL] * 1.1),
        shape("goodput rises above its mean right after recovery (buffered data): highest after the failure over mean",
              "above average", round(burst, 2), burst > 1),
        shape("from its rows until a snapshot is stable everywhere, over the interval", 11 / 40, round(stable, 2),
              stable < 1),
        shape("Sonora's rule reads, MB: replayed, snapshots", [53.27, 212.85],
              [round(sonora.replayed_bytes / 1e6, 3), round(sonora.restored_bytes / 1e6, 3)],
              sonora.replayed_bytes > 0 and 0 < sonora.restored_bytes <= sonora.snapshot_bytes),
        shape("results of all runs are the same", "-", len(digests), len(digests) == 1),
    ]  # fmt: skip
    series = {
        f"{what}, {name}": [(at, rate / 1000) for at, rate in getattr(runs[rule][-1], what)]
        for rule, name in ((Rule.SONORA, "Sonora's rule"), (Rule.CHANGED, "ours"))
        for what in ("throughput", "goodput")
    }
    drawn = draw("sonora-failure", "A first-stage vertex fails", "seconds", "thousand rows a second", series)
    return report(
        "sonora-failure", "Sonora Fig 11", shapes, drawn=drawn,
        bytes_read_again={
            rule.value: {
                "replayed": each.replayed_bytes, "snapshots": each.restored_bytes,
                "snapshot_of_all_vertices": each.snapshot_bytes,
            }
            for rule, (*_, each) in runs.items()
        },
        share_of_snapshots_in_what_is_read={"paper": 0.8, "ours": round(restored, 2)},
        parameters={
            "ranges": RANGES, "rows_an_epoch": rows, "users": USERS, "epochs": EPOCHS, "epochs_lost": LOST,
            "seconds_between_epochs": round(period_s, 3), "rounds": rounds,
            "why": "9 and 23 vertices are the paper's; all run in one process here, at a rate that takes "
            f"{BUSY:.0%} of its time. The paper loses 20 s; times are therefore given over the lost time.",
        },
    )  # fmt: skip


def _epochs(rows: int) -> list[list[Record]]:
    """What the devices send, made before the clock starts: encoding is their work, not the job's."""
    with tempfile.TemporaryDirectory(prefix="resurge-lab-") as directory:
        world, _ = _new(Path(directory), rows)
        return [world.encoded(world.epoch_columns()) for _ in range(EPOCHS)]


def _epoch_seconds(epochs: list[list[Record]], rows: int) -> float:
    """How long one epoch takes here, once the job is warm."""
    with tempfile.TemporaryDirectory(prefix="resurge-lab-") as directory:
        world, driver = _new(Path(directory), rows)
        took = []
        for records in epochs[:4]:
            _feed(world, records)
            begun = time.perf_counter()
            driver.drain()
            took.append(time.perf_counter() - begun)
        return statistics.median(took[1:])


def _feed(world: World, records: list[Record]) -> None:
    world.log.append(records)
    world.log.sync()


def _new(directory: Path, rows: int) -> tuple[World, JobManager]:
    world = World(directory, rows, users=USERS, plan=two_stages())
    return world, world.driver(LocalRunner(), ranges_of=RANGES)


def _fail(rule: Rule, epochs: list[list[Record]], rows: int, period_s: float) -> Run:
    """Feed epochs by the clock; after some of them a first-stage range loses its last ones."""
    with tempfile.TemporaryDirectory(prefix="resurge-lab-") as directory:
        world, driver = _new(Path(directory), rows)
        counted = _Counted(driver)
        fed = 0
        begun = time.perf_counter()
        failed_at = silent_s = complete_s = None
        fed_at: dict[int, float] = {}  # log offset -> when it was there
        stable_after: dict[int, float] = {}
        snapshot_bytes = 0
        while True:
            now = time.perf_counter() - begun
            if fed < len(epochs) and now >= fed * period_s:
                _feed(world, epochs[fed])
                fed_at[world.log.durable_end] = time.perf_counter() - begun
                fed += 1
            if failed_at is None and fed > FAILS_AFTER and driver.manifest.position(SECOND) >= FAILS_AFTER:
                failed_at = time.perf_counter() - begun
                counted.remember()
                snapshot_bytes = _lose(driver, rule)
            worked = driver.step()
            at = time.perf_counter() - begun
            is_new = counted.look(at)
            newest = driver.snapshots.stable_everywhere()
            if newest and failed_at is None and newest not in stable_after:
                came = [when for end, when in fed_at.items() if end <= driver.manifest.cuts[newest].ends["0"]]
                stable_after[newest] = at - max(came)
            if failed_at is not None:
                if is_new and silent_s is None:
                    silent_s = at - failed_at
                if complete_s is None and not worked:  # a cut may take two epochs' rows: positions would not tell
                    complete_s = at - failed_at
            if fed == len(epochs) and not worked:
                break
            if not worked:
                time.sleep(max(0.0, min(0.01, fed * period_s - at)))
        if failed_at is None or silent_s is None or complete_s is None:
            raise RuntimeError("the vertex did not fail and recover within the run")
        bin_s = 2 * period_s  # of one epoch's time it would hold none or two by chance
        before = counted.rates(counted.first, bin_s, failed_at)[:-1]
        mean = statistics.mean(rate for _, rate in before)
        replayed, restored = counted.read_again
        goodput = counted.rates(counted.first, bin_s, at)
        burst = max(rate for begins, rate in goodput if begins >= failed_at)
        return Run(
            counted.rates(counted.all, bin_s, at), goodput, silent_s, complete_s, mean,
            min(rate for _, rate in before) / mean, burst / mean, driver._results.digest(),
            statistics.median(stable_after.values()), snapshot_bytes, replayed, restored,
        )  # fmt: skip


def _lose(driver: JobManager, rule: Rule) -> int:
    """Returns the bytes of all vertices' snapshots that it goes back to."""
    state.forget_all()
    position = driver.manifest.position(SECOND)
    roll_back(driver.store.root, FIRST, position - LOST, ranges=[min(driver.manifest.vertices[FIRST])], rule=rule)
    lineages = [lineage for lineages in driver.manifest.vertices.values() for lineage in lineages.values()]
    return sum(lineage.commits[position - LOST].state_bytes for lineage in lineages)


class _Counted:
    """What the second stage has taken in: (seconds, rows), everything and only what was new."""

    def __init__(self, driver: JobManager) -> None:
        self._driver = driver
        self._seen: set[tuple[object, int, int]] = set()
        self._ever: set[tuple[object, int]] = set()
        self.all: list[tuple[float, int]] = []
        self.first: list[tuple[float, int]] = []
        self._ran: dict[tuple[str, object], tuple[int, int]] = {}  # before the failure: position and term
        self._read: dict[tuple[object, ...], tuple[int, int]] = {}

    def remember(self) -> None:
        """What runs from here on, up to where it is now, has run before."""
        for vertex, lineages in self._driver.manifest.vertices.items():
            self._ran |= {(vertex, range_): (each.position, each.term) for range_, each in lineages.items()}

    @property
    def read_again(self) -> tuple[int, int]:
        """(bytes of inputs, bytes of snapshots) that epochs read which had been run before."""
        return sum(each for each, _ in self._read.values()), sum(each for _, each in self._read.values())

    def look(self, at: float) -> bool:
        """Count what was committed since; True if some of it was new."""
        is_new = False
        for vertex, lineages in self._driver.manifest.vertices.items():
            for range_, lineage in lineages.items():
                for each in lineage.commits.values():
                    ran = self._ran.get((vertex, range_))
                    if ran is not None and each.epoch <= ran[0] and each.term > ran[1] and not each.stale:
                        self._read[vertex, range_, each.epoch] = (each.bytes_read, each.state_bytes_read)
        for range_, lineage in self._driver.manifest.vertices[SECOND].items():
            for committed in lineage.commits.values():
                name = (range_, committed.epoch, committed.term)
                if committed.stale or name in self._seen:
                    continue
                self._seen.add(name)
                self.all.append((at, committed.rows_in))
                if name[:2] not in self._ever:
                    self._ever.add(name[:2])
                    self.first.append((at, committed.rows_in))
                    is_new = True
        return is_new

    @staticmethod
    def rates(counted: list[tuple[float, int]], bin_s: float, end: float) -> list[tuple[float, float]]:
        bins = [0.0] * (int(end / bin_s) + 1)
        for at, rows in counted:
            if at <= end:
                bins[int(at / bin_s)] += rows / bin_s
        return [(number * bin_s, rate) for number, rate in enumerate(bins)]
