"""Each planted bug makes a named checker fire within 500 seeds; the same seed is green without it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.claims import Claim
from tests.simulation.bugs import BUGS, Bug
from tests.simulation.world import run_seed

pytestmark = pytest.mark.sim
ROOT = Path(__file__).resolve().parents[2]
SEEDS_MAX = 500
NEEDED = ("shared", "cloud_backend/log", "tests/simulation", "tests/__init__.py", "cloud_backend/__init__.py")


def copy_of_the_tree(directory: Path) -> None:
    for name in NEEDED:
        source, target = ROOT / name, directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)


def plant(bug: Bug, directory: Path) -> None:
    for name, old, new in bug.edits:
        path = directory / name
        text = path.read_text()
        assert text.count(old) == 1, f"{bug.name}: {name} no longer has {old!r} once; move the bug along with the code"
        path.write_text(text.replace(old, new))


def test_there_are_at_least_twelve_bugs_with_different_names() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 12


@pytest.mark.parametrize(
    "bug",
    [pytest.param(bug, id=bug.name, marks=[pytest.mark.soak] * (number % 2)) for number, bug in enumerate(BUGS)],
)
def test_a_planted_bug_is_caught_by_name(bug: Bug, tmp_path: Path, claim: Claim) -> None:
    copy_of_the_tree(tmp_path)
    plant(bug, tmp_path)
    run = subprocess.run(
        [sys.executable, "-m", "tests.simulation.run", "--seeds", str(SEEDS_MAX), "--stop", "--json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    summary = json.loads(run.stdout.splitlines()[-1])
    caught = summary.get("first")
    claim(f"{bug.name}: {caught} after {summary['seeds']} seeds")
    assert caught is not None, f"{bug.name} went unnoticed for {SEEDS_MAX} seeds"
    assert caught["checker"] in bug.checkers
    assert run_seed(caught["seed"]).violation is None, "the seed must be green without the bug"
