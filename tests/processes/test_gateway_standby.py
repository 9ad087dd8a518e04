"""A second gateway on the same home begins when the first is gone; one that was paused ends when it wakes up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cloud_backend.gateway.__main__ import DEPOSED
from cloud_backend.gateway.tenure import LEASE_S
from tests.claims import Claim
from tests.patience import SPARK_PATIENCE_S, let_pass
from tests.processes.gateway_process import ROOT, GatewayProcess

pytestmark = pytest.mark.processes
WORKS_S = 2.0  # that the first one works while the second must only wait
PAUSED_S = LEASE_S + 4.0  # until its lease has run out, and the standby has taken that


@pytest.mark.parametrize("way", ["killed", "paused"])
def test_a_standby_takes_over_from_a_gateway_that_was(tmp_path: Path, claim: Claim, way: str) -> None:
    home = tmp_path / "gateway"
    with GatewayProcess(home, "--results", str(tmp_path / "results.sqlite")) as first:
        second = subprocess.Popen(
            [sys.executable, "-m", "cloud_backend.gateway", "--home", str(home), "--port", "0", "--standby"],
            cwd=ROOT, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        try:
            assert json.loads(second.stdout.readline()) == {"standing_by": str(home)}
            let_pass(WORKS_S)
            assert second.poll() is None, "it waits while the first one works"
            began = time.monotonic()
            if way == "killed":
                first.kill()
            else:
                first.process.send_signal(signal.SIGSTOP)
                let_pass(PAUSED_S)
                first.process.send_signal(signal.SIGCONT)
                assert first.process.wait(SPARK_PATIENCE_S) == DEPOSED
                first.process.stdout.close()
            listening = json.loads(second.stdout.readline())
            took_s = time.monotonic() - began
            answered = json.loads((home / "gateway.json").read_text())
        finally:
            second.kill()
            second.wait()
            second.stdout.close()
    claim(f"1 gateway {way}, the standby listens at {listening['listening']} {took_s:.0f} s later")
    assert answered["pid"] == second.pid
