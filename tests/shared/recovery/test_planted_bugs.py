"""Each bug planted into the machine of snapshots makes a named checker fire; the same schedule is green without it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.claims import Claim
from tests.shared.recovery.positions.bugs import BUGS, Bug
from tests.shared.recovery.positions.run import run_seed

ROOT = Path(__file__).resolve().parents[3]
SEEDS_MAX = 100
NEEDED = ("shared", "tests/shared/recovery/positions")
PACKAGES = ("tests/__init__.py", "tests/shared/__init__.py", "tests/shared/recovery/__init__.py")


@pytest.mark.covers("T9")
@pytest.mark.parametrize(
    "bug",
    [pytest.param(bug, id=bug.name, marks=[pytest.mark.soak] * (number % 2)) for number, bug in enumerate(BUGS)],
)
def test_a_planted_bug_is_caught_by_name(bug: Bug, tmp_path: Path, claim: Claim) -> None:
    for name in NEEDED:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in PACKAGES:
        shutil.copy(ROOT / name, tmp_path / name)
    path = tmp_path / bug.file
    text = path.read_text()
    assert text.count(bug.old) == 1, f"{bug.name}: {bug.file} no longer has {bug.old!r} once; move the bug along"
    path.write_text(text.replace(bug.old, bug.new))
    run = subprocess.run(
        [sys.executable, "-m", "tests.shared.recovery.positions.run", "--seeds", str(SEEDS_MAX)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    caught = json.loads(run.stdout.splitlines()[-1])
    claim(f"{bug.name}: {caught}")
    assert caught["checker"] in bug.checkers
    run_seed(caught["graph"], caught["row"], caught["seed"])  # green without the bug
