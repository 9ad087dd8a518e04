"""A standalone cluster from the pip package: executors and drivers killed, and a speculative attempt that wins.

Minutes; soak.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloud_backend.spark.manifest.manifest import ManifestLog
from cloud_backend.spark.storage.store import Store
from resurge.bench._spark_cluster import Cluster
from tests.claims import Claim
from tests.patience import SPARK_PATIENCE_S
from tests.spark.test_job_process import await_epoch, job, ready
from tests.spark.worlds import World, cells_plan

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(900)]
CONF = ("--conf", "spark.executor.memory=512m", "--conf", "spark.executor.cores=1", "--module", "tests.spark.operators")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    running = Cluster(tmp_path)
    yield running
    running.stop()


def test_three_executors_and_three_drivers_killed_change_nothing(
    tmp_path: Path, cluster: Cluster, claim: Claim
) -> None:
    world = World(tmp_path, cells_plan())
    killed = []
    for round_ in range(3):
        with job(world, *CONF, master=cluster.master) as process:
            ready(process)
            for _ in range(2):
                world.append()
            killed.append(("executor", cluster.kill_executor()))
            await_epoch(world, round_ + 1, "mine")
            killed.append(("driver", process.pid))
            os.killpg(process.pid, signal.SIGKILL)
    with job(world, *CONF, "--drain", master=cluster.master) as process:
        ready(process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(SPARK_PATIENCE_S) == 0
    rows, digest = world.check(least_rows=100)
    claim(f"killed {killed}, {rows} rows compared, digest {digest[:12]}")


def test_a_speculative_attempt_wins_over_a_hung_one(tmp_path: Path, cluster: Cluster) -> None:
    faults = tmp_path / "faults"
    faults.mkdir()
    world = World(tmp_path, cells_plan(faults=faults))
    world.append()
    (faults / "hang.1").touch()
    speculation = [
        "--conf", "spark.speculation=true", "--conf", "spark.speculation.quantile=0.4", "--conf",
        "spark.speculation.multiplier=1.1", "--conf", "spark.speculation.minTaskRuntime=500ms",
    ]  # fmt: skip
    with job(world, *CONF, *speculation, master=cluster.master) as process:
        ready(process)
        await_epoch(world, 1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(SPARK_PATIENCE_S) == 0
    assert (faults / "fired.hang.1").exists()
    manifest = ManifestLog(Store(world.store_dir)).state
    attempts = [each.attempt for lineage in manifest.vertices["mine"].values() for each in lineage.commits.values()]
    assert max(attempts) > 0
    world.check(least_rows=10)
