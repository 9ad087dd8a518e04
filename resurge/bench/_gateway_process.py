"""A gateway as a process, over a home that a bench has written: where it is, how soon it was, what it costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
STOP_S = 120.0  # of a busy machine
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class GatewayProcess:
    pid: int
    address: str
    token: str
    started_s: float  # from its start until it listened

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def cpu_s(self) -> float:
        """Processor time it has taken so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S

    def memory_bytes(self) -> int:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * _PAGE_BYTES


@contextmanager
def gateway_process(root: Path, *options: str) -> Iterator[GatewayProcess]:
    """Its home is `gateway` under this directory, its results lie beside that."""
    command = [
        sys.executable, "-m", "cloud_backend.gateway", "--home", str(root / "gateway"), "--port", "0",
        "--results", str(root / "results.sqlite"), *options,
    ]  # fmt: skip
    begun = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        if process.stdout is None:
            raise RuntimeError("the gateway's output was not caught")
        for line in process.stdout:
            if '"listening"' in line:
                listening = json.loads(line)["listening"]
                break
        else:
            raise RuntimeError("the gateway ended before it listened")
        token = (root / "gateway" / "operator.token").read_text().strip()
        yield GatewayProcess(process.pid, f"http://{listening}", token, time.monotonic() - begun)
    finally:
        process.terminate()
        process.wait(STOP_S)
