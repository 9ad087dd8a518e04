"""Sonora, Fig 8: location points per second. Here per core, on whatever machine this is.

The paper's 40 machines of eight cores took 70,000 points/s (350,000 users at one point per 5 s). One process runs every
task of a two-stage job over epochs of rows, decoding from the ingest log included.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from cloud_backend.spark.cluster.session import LocalRunner
from resurge.bench._spark_world import World, three_vertices
from resurge.lab._figure import draw, report, shape

PAPER_POINTS_PER_CORE = 70_000 / 40 / 8
ROWS, EPOCHS, USERS = 100_000, 6, 20_000


def run() -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="resurge-lab-") as directory:
        world = World(Path(directory), ROWS, users=USERS, plan=three_vertices())
        driver = world.driver(LocalRunner())
        rates = []
        for _ in range(EPOCHS):
            world.append(world.epoch_columns())
            begun, used = time.perf_counter(), time.process_time()
            driver.drain()
            rates.append((ROWS / (time.perf_counter() - begun), ROWS / (time.process_time() - used)))
    per_core = sorted(rate for _, rate in rates)[len(rates) // 2]
    shapes = [
        shape("points per second and core", round(PAPER_POINTS_PER_CORE), round(per_core),
              per_core > PAPER_POINTS_PER_CORE),
        shape("users at a point per 5 s and core", round(5 * PAPER_POINTS_PER_CORE), round(5 * per_core), True),
    ]  # fmt: skip
    series = {"points per CPU second": [(float(epoch), rate) for epoch, (_, rate) in enumerate(rates)]}
    drawn = draw("sonora-scaling", "Points per second and core", "epoch", "points/s", series)
    parameters = {
        "rows_an_epoch": ROWS, "epochs": EPOCHS, "users": USERS,
        "why": "per second of CPU time of one process that runs every task, so that a busy machine does not count; "
        "hardware and program differ from the paper's, so only the order of magnitude compares",
    }  # fmt: skip
    return report(
        "sonora-scaling",
        "Sonora Fig 8",
        shapes,
        parameters=parameters,
        wall_points_per_second=[round(wall) for wall, _ in rates],
        drawn=drawn,
    )
