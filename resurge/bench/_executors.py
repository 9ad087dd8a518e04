"""How long a job stands still when one of two executors is killed: a standalone cluster, a job that always has work."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from resurge.bench._rounds import at_most
from resurge.bench._spark_cluster import Cluster, until

EPOCHS_BEFORE = 3
RECOVERY_S_MAX = 15.0


def checks_of_executors(
    root: Path, open_job: Callable[[Path, Any], Any], *, quick: bool, figures: dict[str, Any]
) -> list[dict[str, Any]]:
    """`open_job`: a job with its log over this runner, which works off epoch after epoch (`run`)."""
    from cloud_backend.spark.cluster.session import SparkRunner, open_session

    root.mkdir()
    cluster = Cluster(root)
    took = []
    try:
        settings = {"spark.executor.memory": "512m", "spark.executor.cores": "1"}
        session = open_session(cluster.master, settings=settings)
        try:
            world = open_job(root / "job", SparkRunner(session, root / "code"))
            for _ in range(1 if quick else 3):
                until(lambda: len(cluster.executors()) == len(cluster.processes) - 1, "both executors run")
                world.run(EPOCHS_BEFORE)
                cluster.kill_executor()
                begun = time.monotonic()
                world.run(1)
                took.append(time.monotonic() - begun)
        finally:
            session.stop()
    finally:
        cluster.stop()
    figures["an executor killed"] = {"epoch_after_s": [round(each, 2) for each in took]}
    return [at_most("an executor killed: seconds until the next epoch is done, the longest", max(took), RECOVERY_S_MAX)]
