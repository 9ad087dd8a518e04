"""Phones that walk while nodes fail and queries are edited: nothing is lost, and no operator meets a row twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.claims import Claim
from tests.simulation.peers.test_planted_bugs import ROOT, plant
from tests.simulation.walks.bugs import BUGS, WalkBug
from tests.simulation.walks.world import EDITED, outcome_of, undisturbed

pytestmark = pytest.mark.sim
KINDS = ("calm", "alone", "detour", "rough", "edit", "move", "slow", "shared")
SEEDS = int(os.environ.get("WALK_SEEDS", "500"))
MANY = range(1000, 1000 + SEEDS // len(KINDS) + 1)  # of each, so many worlds in all
MIXED = range(1000, 1000 + SEEDS)
SEEDS_MAX = 30


@pytest.mark.covers("NB-9", "NB-11", "NB-12", "NB-13", "NB-24")
@pytest.mark.parametrize(
    ("kind", "seeds"),
    [
        ("calm", range(4, 5)),
        ("alone", range(1)),
        ("detour", range(4, 5)),
        ("rough", range(10, 11)),
        ("edit", range(1, 2)),
        ("move", range(1, 2)),
        ("shared", range(1)),
        ("shared", range(1003, 1004)),  # what a node said as a reader was taken for what it passes on for another query
        ("mixed", range(1)),
        pytest.param("mixed", MIXED, marks=pytest.mark.soak),
        *(pytest.param(kind, MANY, marks=pytest.mark.soak) for kind in KINDS),
    ],
)
def test_a_phone_that_walks_loses_nothing(kind: str, seeds: range, claim: Claim) -> None:
    ideal = undisturbed(False, kind == "shared").outcome
    assert ideal.elements
    outcomes = [outcome_of(seed, kind) for seed in seeds]
    broken = [
        f"{seed}: {one.outcome.violation}" for seed, one in zip(seeds, outcomes, strict=True) if one.outcome.violation
    ]
    assert not broken, f"{kind}: " + "; ".join(broken)
    kinds = sum((one.outcome.kinds for one in outcomes), Counter())
    fired, compared = sum(one.outcome.fired for one in outcomes), sum(one.outcome.elements for one in outcomes)
    shares = {share for one in outcomes for share in one.shares}
    rerouted, longest = sum(one.rerouted for one in outcomes), max(one.longest for one in outcomes)
    turned = sum(one.turned for one in outcomes)
    claim(
        f"{kind}: {len(outcomes)} worlds, {fired} faults {dict(sorted(kinds.items()))}, {rerouted} ways replaced, up to "
        f"{longest} nodes on one, {turned} taken by nodes themselves, {len(shares)} ways to share the run out, "
        f"{compared} rows compared, digests {outcomes[-1].outcome.digest} = {ideal.digest}"
        + (" but for what was edited" if kind in EDITED else "")
    )
    assert fired
    assert rerouted
    assert turned or kind not in ("alone", "detour")
    assert any(share[0] for share in shares), "no phone applied anything"


@pytest.mark.soak
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_of_a_walk_is_caught_by_name(bug: WalkBug, tmp_path: Path, claim: Claim) -> None:
    plant(bug, tmp_path)
    run = subprocess.run(
        [sys.executable, "-m", "tests.simulation.walks.run", bug.kind, str(SEEDS_MAX)],
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
    assert not outcome_of(caught["seed"], bug.kind).outcome.violation, "the seed must be green without the bug"


def test_every_planted_bug_of_a_walk_still_has_its_place() -> None:
    for bug in BUGS:
        for name, old, _ in bug.edits:
            assert (ROOT / name).read_text().count(old) == 1, f"{bug.name}: move it along with the code"
