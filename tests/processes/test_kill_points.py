"""A real SIGKILL at the n-th change of a file: nothing promised is lost, nothing is there twice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.covers("SO-22")
@pytest.mark.parametrize(
    ("points", "elements", "kills"),
    [
        (12, 300, 12),
        pytest.param(25, 300, 25, marks=pytest.mark.soak),
        pytest.param(1 << 30, 3000, 2000, marks=pytest.mark.soak),
    ],
)
def test_a_kill_at_any_system_call_loses_and_repeats_nothing(points, elements, kills, claim):
    command = [sys.executable, "-m", "tests.processes.kill_points", "--kills", str(points), "--elements", str(elements)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    claim(
        f"{found['kills']} kills at {found['points']} points of {found['calls']} calls, {found['elements']} "
        f"elements, opened in at most {found['slowest_open_s']} s, digests {found['expected'][1]} "
        f"{' '.join(digest for _, digest in found['digests'])}"
    )
    assert found["kills"] >= kills
    assert found["elements"] == found["points"] * elements
    assert found["digests"] == [found["expected"]]
