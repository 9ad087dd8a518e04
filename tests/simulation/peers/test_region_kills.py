"""Snapshots that a whole region keeps: any number of its phones may go at once, and nothing of what they did is lost."""

from __future__ import annotations

from random import Random

import pytest

from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.row import Commit, Home
from tests.claims import Claim
from tests.simulation.peers.checkers import every_checker
from tests.simulation.peers.programs import settings, undisturbed
from tests.simulation.peers.world import Fault, Outcome, PeerWorld

pytestmark = pytest.mark.sim
PHONES = 8
(OURS,) = [
    each.row.name for each in STRATEGIES.values() if each.row.home is Home.REGION and each.row.commit is Commit.READERS
]


def killed(count: int, seed: int) -> Outcome:
    """A region of eight, where so many phones but the source's stop in the same moment and do not come back."""
    rng = Random(f"kills {count} {seed}")
    at = rng.uniform(0.4, 1.4)
    gone = rng.sample(range(2, PHONES), count)
    faults = tuple(Fault(at, node, "crash", 400.0) for node in gone)
    world = PeerWorld(
        settings(
            "wide", row=OURS, seed=seed, nodes=PHONES, heard=rng.choice((0.01, 0.1, 0.4)), faults=faults,
            within_s=300.0, every_s=0.1,
        ),
        observers=every_checker(),
    )  # fmt: skip
    world._last_fault = lambda: at  # type: ignore[method-assign]
    return world.run(undisturbed("wide").elements)


@pytest.mark.parametrize(
    ("counts", "seeds"), [((6,), 1), pytest.param(range(1, 7), 12, marks=pytest.mark.soak)], ids=["most", "any"]
)
def test_any_number_of_phones_may_go(counts: range, seeds: int, claim: Claim) -> None:
    ideal = undisturbed("wide")
    for count in counts:
        outcomes = [killed(count, seed) for seed in range(seeds)]
        wrong = [
            f"seed {seed}: {one.violation or f'{one.lost} lost'}"
            for seed, one in enumerate(outcomes)
            if one.violation or one.lost or one.digest != ideal.digest
        ]
        assert not wrong, f"{count} of {PHONES}: " + "; ".join(wrong)
        assert all(one.crashes == count and one.broadcast_bytes for one in outcomes)
        claim(
            f"{count} of {PHONES} phones gone at once, {seeds} times: {sum(one.recoveries for one in outcomes)} recoveries, "
            f"{sum(one.elements for one in outcomes)} rows compared, digests {outcomes[-1].digest} = {ideal.digest}"
        )
