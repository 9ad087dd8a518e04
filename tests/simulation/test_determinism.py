"""The same seed gives the same transcript, whatever the process hashes text to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.world import run_seed

pytestmark = pytest.mark.sim
ROOT = Path(__file__).resolve().parents[2]


def digests_in_a_process(hash_seed: str) -> str:
    program = "from tests.simulation.world import run_seed; print([run_seed(s).digest for s in range(7, 12)])"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_a_seed_run_twice_gives_the_same_transcript() -> None:
    first, second = run_seed(5, keep=True), run_seed(5, keep=True)
    assert first.lines == second.lines
    assert first.digest == second.digest
    assert len(first.lines) > 100


def test_the_transcript_does_not_depend_on_the_hash_seed() -> None:
    assert digests_in_a_process("0") == digests_in_a_process("12345")


def test_two_seeds_are_two_worlds() -> None:
    assert run_seed(1).digest != run_seed(2).digest
