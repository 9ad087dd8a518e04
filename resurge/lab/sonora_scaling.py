"""Sonora, Fig 7 and 8: location points per second, by the number of worker processes. Here on whatever machine this is.

The paper's 40 machines of eight cores took 70,000 points/s (350,000 users at one point per 5 s), at an efficiency of
0.70. Here a job of three vertices runs on Spark with one worker process and with more, over the same epochs, decoding
from the ingest log included. What a worker does of a second of its processor's time does not depend on what else the
machine does; what all do of a second on the wall does, and cannot grow beyond the machine's cores.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cloud_backend.spark.cluster.session import SparkRunner, open_session
from resurge.bench._spark_world import World, three_vertices
from resurge.lab._figure import draw, report, shape

PAPER_POINTS, PAPER_MACHINES, PAPER_CORES, PAPER_EFFICIENCY = 70_000, 40, 8, 0.70
PAPER_POINTS_PER_CORE = PAPER_POINTS / PAPER_MACHINES / PAPER_CORES
ROWS, EPOCHS, WARM, USERS, RANGES = 100_000, 5, 2, 20_000, 4
WORKERS = (1, 2)
QUICK = {"rows": 20_000}


@dataclass(frozen=True, slots=True)
class Rates:
    """Points a second."""

    wall: float
    cpu: float  # of all worker processes together


def run(rows: int = ROWS, workers: Sequence[int] = WORKERS) -> dict[str, Any]:
    load = os.getloadavg()[0]
    found = {count: measure(count, rows) for count in workers}
    one, most = found[workers[0]], workers[-1]
    efficiency = {count: round(each.cpu / one.cpu, 3) for count, each in found.items()}
    on_the_wall = {count: round(each.wall / one.wall / count, 3) for count, each in found.items()}
    shapes = [
        shape("points per second of a worker's processor time", round(PAPER_POINTS_PER_CORE), round(one.cpu),
              one.cpu > PAPER_POINTS_PER_CORE),
        shape(f"efficiency of {most} workers: points per processor second, over those of one", PAPER_EFFICIENCY,
              efficiency[most], efficiency[most] >= PAPER_EFFICIENCY),
        shape(f"points per second on the wall, {most} workers over one", PAPER_EFFICIENCY * most,
              round(found[most].wall / one.wall, 2), found[most].wall > one.wall),
    ]  # fmt: skip
    series = {
        "per second of processor time": [(float(count), each.cpu) for count, each in found.items()],
        "per second on the wall and worker": [(float(count), each.wall / count) for count, each in found.items()],
        "paper: per core": [(1.0, PAPER_POINTS_PER_CORE), (float(most), PAPER_POINTS_PER_CORE)],
    }
    drawn = draw("sonora-scaling", "Points per second and worker", "worker processes", "points/s", series)
    return report(
        "sonora-scaling", "Sonora Fig 7, 8", shapes, efficiency=efficiency, efficiency_on_the_wall=on_the_wall,
        points_per_second={count: {"wall": round(each.wall), "cpu": round(each.cpu)} for count, each in found.items()},
        cores=os.cpu_count(), load_average=[round(load, 1), round(os.getloadavg()[0], 1)], drawn=drawn,
        parameters={
            "rows_an_epoch": rows, "epochs": EPOCHS, "not_counted": WARM, "users": USERS, "ranges": RANGES,
            "why": "hardware and program differ from the paper's, so only the order of magnitude of points per core "
            "compares; two workers are as many as this machine has cores",
        },
    )  # fmt: skip


def measure(workers: int, rows: int) -> Rates:
    """The median of epochs, once the workers are warm."""
    with tempfile.TemporaryDirectory(prefix="resurge-lab-") as directory:
        session = open_session(f"local[{workers}]")
        try:
            world = World(Path(directory), rows, users=USERS, plan=three_vertices())
            driver = world.driver(SparkRunner(session, Path(directory) / "code"), ranges=RANGES)
            found = []
            for _ in range(WARM + EPOCHS):
                world.append(world.epoch_columns())
                begun, used = time.perf_counter(), worker_seconds()
                driver.drain()
                found.append((time.perf_counter() - begun, worker_seconds() - used))
        finally:
            session.stop()
    wall, cpu = (statistics.median(each) for each in zip(*found[WARM:], strict=True))
    return Rates(rows / wall, rows / cpu)


def worker_seconds() -> float:
    """Processor time so far of Spark's Python workers under this process."""
    ticks, parents, seconds = os.sysconf("SC_CLK_TCK"), {}, {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                fields = (place / "stat").read_text().rpartition(")")[2].split()
                command = (place / "cmdline").read_bytes()
            except OSError:  # it ended meanwhile
                continue
            parents[int(place.name)] = int(fields[1])
            if b"pyspark" in command and b"daemon" in command:
                seconds[int(place.name)] = (int(fields[11]) + int(fields[12])) / ticks
    return sum(took for process, took in seconds.items() if _is_under(os.getpid(), process, parents))


def _is_under(ancestor: int, process: int, parents: dict[int, int]) -> bool:
    while process in parents and process != ancestor:
        process = parents[process]
    return process == ancestor
