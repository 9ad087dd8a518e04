"""A standalone Spark cluster from the pip package: a master and two workers on loopback, whose executors are killed.

Spark never speculates on the host that already runs the task, so the second worker lives on 127.0.0.2.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from resurge.up.free_ports import free_ports

EXECUTOR = "CoarseGrainedExecutorBackend"
WORKERS = 2
PATIENCE_S = 120.0
LOOK_S = 0.02
Found = TypeVar("Found")


class Cluster:
    def __init__(self, root: Path) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        (port,) = free_ports(1)
        self.master = f"spark://127.0.0.1:{port}"
        start = [str(home / "bin" / "spark-class")]
        deploy = "org.apache.spark.deploy"
        self.processes = [
            self._run(
                [*start, f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"],
                home,
            )
        ]
        until(lambda: _listens(port), "the master listens")
        for number in range(1, WORKERS + 1):
            command = [
                *start, f"{deploy}.worker.Worker", self.master, "--host", f"127.0.0.{number}", "--cores", "1",
                "--memory", "1g", "--work-dir", str(root / f"work{number}"), "--webui-port", "0",
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
        found = until(self.executors, "an executor to kill")
        os.kill(found[0], signal.SIGKILL)
        return found[0]

    def stop(self) -> None:
        for process in reversed(self.processes):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def until(ask: Callable[[], Found], what: str) -> Found:
    end = time.monotonic() + PATIENCE_S
    while not (found := ask()):
        if time.monotonic() > end:
            raise RuntimeError(f"after {PATIENCE_S:.0f} s still not: {what}")
        time.sleep(LOOK_S)
    return found


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), PATIENCE_S).close()
    except OSError:
        return False
    return True
