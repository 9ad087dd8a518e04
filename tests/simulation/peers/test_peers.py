"""Queries over several simulated nodes that crash, are cut off and lose messages: the sink holds what it should."""

from __future__ import annotations

import os
from random import Random

import pytest

from tests.claims import Claim
from tests.simulation.peers.checkers import every_checker
from tests.simulation.peers.programs import PROGRAMS, settings, undisturbed
from tests.simulation.peers.world import ALL_KINDS, Outcome, Settings, faults_of, run

pytestmark = pytest.mark.sim
CASES = [(name, row) for name, program in PROGRAMS.items() for row in program.strategies]
QUICK = CASES[::3]  # every program and every strategy
NODES = range(5)


def disturbed(name: str, row: str, seed: int) -> Settings:
    """A world in which nodes, links and messages fail; what it does follows from the seed."""
    rng = Random(f"{name} {row} {seed}")
    return settings(
        name, row=row, seed=seed, loss=rng.choice((0.0, 0.05, 0.2)), duplication=rng.choice((0.0, 0.05)),
        copies=rng.choice((1, 2)), faults=faults_of(rng, NODES, rng.randint(2, 5), 2.5, ALL_KINDS), settle_s=30.0,
    )  # fmt: skip


def outcome_of(name: str, row: str, seed: int, *, keep: bool = False) -> Outcome:
    """Of one world; what is wrong with its results is named as what is wrong in it."""
    ideal = undisturbed(name)
    outcome = run(disturbed(name, row, seed), ideal.elements, keep=keep, observers=every_checker())
    if not outcome.violation and outcome.lost:
        outcome.violation = f"NothingLost: {outcome.lost} elements are"
    if not outcome.violation and outcome.digest != ideal.digest:
        outcome.violation = "OutputAsIdeal: the sinks hold something else"
    return outcome


def check(name: str, row: str, seeds: range, claim: Claim) -> None:
    ideal = undisturbed(name)
    assert not ideal.violation
    assert ideal.elements
    outcomes = [outcome_of(name, row, seed) for seed in seeds]
    broken = [f"seed {seed}: {one.violation}" for seed, one in zip(seeds, outcomes, strict=True) if one.violation]
    assert not broken, f"{name} under {row}: " + "; ".join(broken)
    fired, compared = sum(one.fired for one in outcomes), sum(one.elements for one in outcomes)
    counts = f"{sum(one.crashes for one in outcomes)} crashes, {sum(one.recoveries for one in outcomes)} recoveries"
    claim(
        f"{name} under {row}: {fired} faults, {counts}, {compared} rows compared, digests {outcomes[-1].digest} = "
        f"{ideal.digest}"
    )
    assert fired


@pytest.mark.parametrize(("name", "row"), QUICK)
def test_what_fails_changes_no_result(name: str, row: str, claim: Claim) -> None:
    check(name, row, range(1), claim)


@pytest.mark.soak
@pytest.mark.parametrize(("name", "row"), CASES)
def test_what_fails_changes_no_result_in_a_long_run(name: str, row: str, claim: Claim) -> None:
    check(name, row, range(1000, 1000 + int(os.environ.get("SIM_SEEDS", "1000")) // len(CASES) + 1), claim)
