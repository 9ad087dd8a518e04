"""A world of several nodes from a seed: what fails in it, what its sinks should hold, and what is wrong with it."""

from __future__ import annotations

from random import Random

from tests.simulation.peers.checkers import every_checker
from tests.simulation.peers.programs import settings, undisturbed
from tests.simulation.peers.world import ALL_KINDS, Outcome, Settings, faults_of, run

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
