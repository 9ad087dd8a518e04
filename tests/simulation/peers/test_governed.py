"""A gateway that coordinates crashes, is restored from an older copy, has a standby or a twin: one rules, nothing is
lost."""

from __future__ import annotations

import os

import pytest

from tests.claims import Claim
from tests.simulation.peers.governed import GATEWAY_FAULTS, outcome_of
from tests.simulation.peers.programs import undisturbed

pytestmark = pytest.mark.sim
SOAK_SEEDS = int(os.environ.get("GOVERNED_SEEDS", "50"))


def check(kind: str, seeds: range, claim: Claim) -> None:
    ideal = undisturbed("chain")
    fired = recovered = learned = deposed = elements = 0
    for seed in seeds:
        outcome, world = outcome_of(kind, seed)
        assert not outcome.violation, f"{kind} {seed}: {outcome.violation}"
        fired, recovered, elements = fired + outcome.fired, recovered + outcome.recoveries, elements + outcome.elements
        learned, deposed = learned + world.learned, deposed + world.deposed
        assert outcome.digest == ideal.digest
    claim(
        f"{kind}: {len(seeds)} seeds, {fired} faults, {recovered} recoveries, {elements} rows compared, digest "
        f"{ideal.digest} = {ideal.digest}; {learned} times learned, {deposed} deposed"
    )
    assert fired
    assert recovered
    assert elements
    assert learned or kind not in ("restore", "twin")
    assert deposed == (len(seeds) if kind in ("standby", "twin") else 0)


@pytest.mark.parametrize("kind", GATEWAY_FAULTS)
def test_whatever_happens_to_the_coordinator_one_rules_and_nothing_is_lost(kind: str, claim: Claim) -> None:
    check(kind, range(1, 3), claim)


@pytest.mark.soak
@pytest.mark.parametrize("kind", GATEWAY_FAULTS)
def test_the_same_over_many_seeds(kind: str, claim: Claim) -> None:
    check(kind, range(SOAK_SEEDS), claim)
