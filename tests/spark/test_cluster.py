"""A standalone cluster from the pip package: executors and drivers killed, and a speculative attempt that wins.

Spark never speculates on the host that already runs the task, so the second worker lives on 127.0.0.2. Minutes; soak.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloud_backend.spark.manifest.manifest import ManifestLog
from cloud_backend.spark.storage.store import Store
from tests.claims import Claim
from tests.patience import PATIENCE_S, SPARK_PATIENCE_S, wait_until
from tests.spark.test_job_process import await_epoch, job, ready
from tests.spark.worlds import World, cells_plan

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(900)]
EXECUTOR = "CoarseGrainedExecutorBackend"
CONF = ("--conf", "spark.executor.memory=512m", "--conf", "spark.executor.cores=1", "--module", "tests.spark.operators")


class Cluster:
    def __init__(self, root: Path) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.master = f"spark://127.0.0.1:{port}"
        start = [str(home / "bin" / "spark-class")]
        deploy = "org.apache.spark.deploy"
        self.processes = [
            self._run(
                [*start, f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"],
                home,
            )
        ]
        _await_port(port)
        for number in (1, 2):
            command = [
                *start, f"{deploy}.worker.Worker", self.master, "--host", f"127.0.0.{number}", "--cores", "1", "--memory",
                "1g", "--work-dir", str(root / f"work{number}"), "--webui-port", "0",
            ]  # fmt: skip
            self.processes.append(self._run(command, home))

    @staticmethod
    def _run(command: list[str], home: Path) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
        return subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )

    def executors(self) -> list[int]:
        """Pids of the executors that our workers started."""
        workers = {process.pid for process in self.processes[1:]}
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    command = (entry / "cmdline").read_bytes()
                    parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                except (FileNotFoundError, ProcessLookupError, PermissionError):
                    continue
                if EXECUTOR.encode() in command and parent in workers:
                    found.append(int(entry.name))
        return found

    def kill_executor(self) -> int:
        found = wait_until(self.executors, "an executor to kill", patience_s=SPARK_PATIENCE_S)
        os.kill(found[0], signal.SIGKILL)
        return found[0]

    def stop(self) -> None:
        for process in reversed(self.processes):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


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


def _await_port(port: int) -> None:
    address = ("127.0.0.1", port)
    wait_until(lambda: socket.create_connection(address, PATIENCE_S), "the master listens", again_after=OSError).close()
