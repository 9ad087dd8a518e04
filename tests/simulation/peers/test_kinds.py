"""One kind of failure at a time on simulated nodes, and what each promises."""

from __future__ import annotations

import pytest

from tests.claims import Claim
from tests.simulation.peers.checkers import every_checker, newest
from tests.simulation.peers.programs import rows_of, settings, undisturbed
from tests.simulation.peers.world import Fault, PeerWorld, Settings, run

pytestmark = pytest.mark.sim


def terms(world: PeerWorld) -> dict[str, int]:
    return {vertex: running[0].term for vertex, running in newest(world).items()}


@pytest.mark.parametrize(
    ("name", "seeds"),
    [
        ("chain", 1),
        ("sp2", 1),
        *(pytest.param(name, 10, marks=pytest.mark.soak) for name in ("chain", "meeting", "sp2")),
    ],
)
def test_of_two_live_copies_one_may_go_and_nothing_goes_back(name: str, seeds: int, claim: Claim) -> None:
    ideal = undisturbed(name)
    for seed in range(seeds):
        faults = (Fault(0.6, seed % 2, "primary", 60.0),)
        world = PeerWorld(
            settings(name, row="rep-2", seed=seed, duplication=0.1, faults=faults), observers=every_checker()
        )
        outcome = world.run(ideal.elements)
        assert (outcome.violation, outcome.lost, outcome.digest) == ("", 0, ideal.digest), f"seed {seed}"
        assert set(terms(world).values()) == {1}
        assert outcome.crashes == 1
        assert outcome.recoveries, "the copy that is gone was dropped"
    claim(f"{name}: {seeds} hosts lost, {outcome.elements} rows compared, digests {outcome.digest} = {ideal.digest}")


def test_an_operator_that_raises_on_one_host_starts_there_again_then_elsewhere(claim: Claim) -> None:
    ideal = undisturbed("chain")
    faults = (Fault(0.5, 1, "raise"),)
    world = PeerWorld(settings("chain", faults=faults, settle_s=30.0), keep=True, observers=every_checker())
    outcome = world.run(ideal.elements)
    assert (outcome.violation, outcome.lost, outcome.digest) == ("", 0, ideal.digest)
    assert outcome.failed == 2, "where it was, and once more there"
    after = terms(world)
    assert sorted(after.values()) == [1, 3], "the other vertex was left alone"
    claim(f"{outcome.failed} failures, {outcome.elements} rows compared, digests {outcome.digest} = {ideal.digest}")


def test_two_live_nodes_that_do_not_reach_each_other_are_no_longer_neighbours(claim: Claim) -> None:
    ideal = undisturbed("chain")
    world = PeerWorld(settings("chain", faults=(Fault(0.3, 1, "part", 40.0),)), keep=True)
    outcome = world.run(ideal.elements)
    assert (outcome.violation, outcome.lost, outcome.digest) == ("", 0, ideal.digest)
    assert any("does not reach" in line for line in outcome.lines)
    claim(f"{outcome.elements} rows compared in {outcome.seconds:.0f} s, digests {outcome.digest} = {ideal.digest}")


def test_with_host_and_keeper_gone_for_good_the_loss_is_declared_and_the_rest_goes_on(claim: Claim) -> None:
    rows = 1200
    made = Settings(
        settings("chain").plan, rows, rows_of, seed=1, sources=(1,), patience_s=5.0, within_s=60.0,
        faults=(Fault(1.2, 1, "both", 500.0),),
    )  # fmt: skip
    outcome = run(made, keep=True)
    assert not outcome.violation
    assert outcome.crashes == 2
    assert outcome.lost, "what is nowhere any more is counted"
    assert outcome.elements > 174, "and the rest comes"
    claim(f"{outcome.crashes} crashes, {outcome.lost} elements declared lost, {outcome.elements} results")


def test_what_carries_no_rows_stays_small(claim: Claim) -> None:
    outcome = run(settings("meeting", within_s=60.0))
    rate = outcome.control_bytes / outcome.seconds / 5
    claim(f"{rate:.0f} bytes a second and node carry no rows")
    assert 0 < rate < 2048
