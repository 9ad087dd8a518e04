"""Each planted bug makes a named checker fire within a few seeds; the same seed is green without it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Protocol

import pytest

from tests.claims import Claim
from tests.simulation.peers.bugs import BUGS, PeerBug
from tests.simulation.peers.run import violation_of

pytestmark = pytest.mark.sim
ROOT = Path(__file__).resolve().parents[3]
SEEDS_MAX = 30
NEEDED = ("shared", "resurge", "tests/simulation", "tests/claims.py", "tests/__init__.py")


class Planted(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def edits(self) -> tuple[tuple[str, str, str], ...]: ...


def plant(bug: Planted, directory: Path) -> None:
    for name in NEEDED:
        source, target = ROOT / name, directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    for name, old, new in bug.edits:
        path = directory / name
        text = path.read_text()
        assert text.count(old) == 1, f"{bug.name}: {name} no longer has {old!r} once; move the bug along with the code"
        path.write_text(text.replace(old, new))


@pytest.mark.covers("T3", "T12")
@pytest.mark.soak
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_between_nodes_is_caught_by_name(bug: PeerBug, tmp_path: Path, claim: Claim) -> None:
    plant(bug, tmp_path)
    run = subprocess.run(
        [sys.executable, "-m", "tests.simulation.peers.run", bug.program, bug.row, str(SEEDS_MAX), bug.world],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    summary = json.loads(run.stdout.splitlines()[-1])
    caught = summary["first"]
    claim(f"{bug.name}: {caught} after {summary['seeds']} seeds")
    assert caught is not None, f"{bug.name} went unnoticed for {SEEDS_MAX} seeds"
    assert caught["checker"] in bug.checkers, caught
    assert not violation_of(bug.program, bug.row, caught["seed"], bug.world), "the seed must be green without the bug"


def test_every_planted_bug_still_has_its_place() -> None:
    for bug in BUGS:
        for name, old, _ in bug.edits:
            assert (ROOT / name).read_text().count(old) == 1, f"{bug.name}: move it along with the code"
