"""Queries over several simulated nodes that crash, are cut off and lose messages: the sink holds what it should."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.claims import Claim
from tests.simulation.peers.programs import PROGRAMS, undisturbed
from tests.simulation.peers.worlds import outcome_of

pytestmark = pytest.mark.sim
CASES = [(name, row) for name, program in PROGRAMS.items() for row in program.strategies]
QUICK = CASES[::5]  # every program and every strategy
ONE = range(1, 2)
MANY = range(1000, 1000 + int(os.environ.get("SIM_SEEDS", "1000")) // len(CASES) + 1)  # of each, so many worlds in all


def check(name: str, row: str, seeds: range, claim: Claim) -> None:
    ideal = undisturbed(name)
    assert not ideal.violation
    assert ideal.elements
    outcomes = [outcome_of(name, row, seed) for seed in seeds]
    broken = [f"seed {seed}: {one.violation}" for seed, one in zip(seeds, outcomes, strict=True) if one.violation]
    assert not broken, f"{name} under {row}: " + "; ".join(broken)
    kinds = sum((one.kinds for one in outcomes), Counter())
    fired, compared = sum(one.fired for one in outcomes), sum(one.elements for one in outcomes)
    counts = f"{sum(one.crashes for one in outcomes)} crashes, {sum(one.recoveries for one in outcomes)} recoveries"
    claim(
        f"{name} under {row}: {len(outcomes)} worlds, {fired} faults {dict(sorted(kinds.items()))}, {counts}, "
        f"{compared} rows compared, digests {outcomes[-1].digest} = {ideal.digest}"
    )
    assert fired


@pytest.mark.parametrize(
    ("name", "row", "seeds"),
    [
        *((name, row, ONE) for name, row in QUICK),
        *(pytest.param(name, row, MANY, marks=pytest.mark.soak) for name, row in CASES),
    ],
)
def test_what_fails_changes_no_result(name: str, row: str, seeds: range, claim: Claim) -> None:
    check(name, row, seeds, claim)


@pytest.mark.parametrize(
    ("name", "row", "seed"),
    [
        pytest.param("sp1", "extended-ecoc", 105, id="a keeper that was none for a while said it had nothing"),
        pytest.param(
            "sp3", "ecoc-region", 0, id="answers overtook readings that waited for the frontier", marks=pytest.mark.soak
        ),
        pytest.param("sp4", "extended-ecoc", 1010, id="two snapshots of a term had one number", marks=pytest.mark.soak),
    ],
)
def test_a_world_that_broke_a_promise_once_keeps_it(name: str, row: str, seed: int, claim: Claim) -> None:
    check(name, row, range(seed, seed + 1), claim)
