"""`resurge bench trips`: location points per second through the whole cloud pipeline of the trips example, on one core.

People drive, ride and walk around a made-up town; their phones' part of the program runs beforehand. What is timed is
the cloud's: reading and decoding the log, modes (in one variant), trips, days and weeks, places and who may be told of
them, recorded outputs and states on disk, publishing. Spark has one core; what counts are the seconds that it, the
driver and the Python workers computed, beside those on the wall. Sonora's cluster did 70,000 points a second
on 40 machines of 8 cores for its version of the same service (section 5.2), 1,750 per machine.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from cloud_backend.spark.cluster.session import SparkRunner, open_session
from cloud_backend.spark.control.driver import JobManager
from resurge.bench._rounds import at_least, interleave, versions
from resurge.examples.trips import operators
from resurge.examples.trips.cloud import Cloud
from resurge.examples.trips.move_modes import plan_with_modes_in_the_cloud
from resurge.examples.trips.people import SECOND, UNDATED_WEEK, Person
from resurge.examples.trips.report import trips_plan
from resurge.examples.trips.riders import riders

SONORA_POINTS_PER_MACHINE = 70_000 / 40
SONORA_CORES = 8  # two Xeon X5550 of four cores each
EVERY_S = 5
PEOPLE, HOURS = 40, 2


def run(rounds: int = 5, quick: bool = False) -> dict[str, Any]:
    rounds = 1 if quick else rounds
    hours = (rounds + 1) * (1.0 if quick else HOURS)
    people = riders(6 if quick else PEOPLE, round(hours * 3600 / EVERY_S), every_s=EVERY_S)
    session = open_session("local[1]")
    with tempfile.TemporaryDirectory(prefix="resurge-bench-") as directory:
        root = Path(directory)
        runner = SparkRunner(session, root / "code", [operators.__name__])
        plans = {
            "modes on the phone": trips_plan(recorded=True),
            "modes in the cloud": plan_with_modes_in_the_cloud(recorded=True),
        }
        variants = {name: _Variant(root / name.replace(" ", "-"), plan, people, runner) for name, plan in plans.items()}
        step_us = round((1.0 if quick else HOURS) * 3_600 * SECOND)
        rates = interleave({name: partial(variant.epoch, step_us) for name, variant in variants.items()}, rounds)
        per_core = {name: statistics.median(variant.per_cpu_second[1:]) for name, variant in variants.items()}
        figures = {
            name: {
                "points_per_s": round(statistics.median(rates[name])),
                "rounds": [round(rate) for rate in rates[name]],
                "points": variants[name].cloud.points,
                "points_per_core_s": round(per_core[name]),
                "users_at_a_point_per_5_s": round(per_core[name] * EVERY_S),
                "results": sum(variants[name].cloud.results.sinks().values()),
            }
            for name in variants
        }
        for variant in variants.values():
            variant.cloud.close()
    session.stop()
    slowest = min(per_core.values())
    name, found = (
        "points per second of one core, Sonora's per machine of 8 as the measure",
        slowest / SONORA_POINTS_PER_MACHINE,
    )
    checks = [] if quick else [at_least(name, found, 1.0)]
    if quick:
        figures["reported"] = {name: round(found, 3)}
    return {
        "bench": "trips", "checks": checks, "figures": figures, "rounds": rounds,
        "sonora": {"points_per_s_per_machine": SONORA_POINTS_PER_MACHINE, "cores_per_machine": SONORA_CORES,
                   "users_per_machine": SONORA_POINTS_PER_MACHINE * EVERY_S},
        "people": len(people), "spark": "local[1]", "versions": versions("pyspark", "numpy", "pyarrow"),
    }  # fmt: skip


class _Variant:
    """One variant of the program with its own log, store and driver."""

    def __init__(self, root: Path, plan: Any, people: list[Person], runner: SparkRunner) -> None:
        self.cloud = Cloud(root, plan, people)
        self.driver: JobManager = self.cloud.driver(runner, ranges=1)
        self.reached_us = UNDATED_WEEK
        self.per_cpu_second: list[float] = []

    def epoch(self, step_us: int) -> float:
        """Let everyone's phones make another stretch of the day, then time the cloud over it."""
        before = self.cloud.points
        self.reached_us += step_us
        self.cloud.advance(self.reached_us)
        cpu, begun = _cpu_seconds(), time.perf_counter()
        self.driver.drain()
        points, took = self.cloud.points - before, time.perf_counter() - begun
        self.per_cpu_second.append(points / (_cpu_seconds() - cpu))
        return points / took


def _cpu_seconds() -> float:
    """What this process and everything it started (the JVM, Python workers) have computed so far. Unlike the clock on
    the wall it does not count what others did meanwhile, so it is what "per core" means on a busy machine, too."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            parents[int(path.parent.name)] = int(fields[1])
            ticks[int(path.parent.name)] = sum(map(int, fields[11:15]))  # own and of children that have ended
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(ticks.get(pid, 0) for pid in ours) / os.sysconf("SC_CLK_TCK")
