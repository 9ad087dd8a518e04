"""Vertices of a fleet that its gateway coordinates: moved because a person asked the gateway, or because their node was
revoked. Nothing is lost, each number comes once."""

from __future__ import annotations

import os

import pytest

from shared.hosting.planned_moves import ASKED
from tests.claims import Claim
from tests.simulation.peers.checkers import every_checker
from tests.simulation.peers.governed import FollowsNothingOlder, GovernedWorld
from tests.simulation.peers.programs import settings, undisturbed
from tests.simulation.peers.world import Fault

pytestmark = pytest.mark.sim
SEEDS = range(100, 100 + int(os.environ.get("GOVERNED_SEEDS", "50")))
MOVES = tuple(Fault(at, 0, "move", 0.0, to=to) for at, to in ((1.0, 3), (4.0, 4), (7.0, 1)))
DISTURBED = (
    Fault(1.0, 0, "move", 0.0, to=3), Fault(1.3, 0, "gateway", 1.0), Fault(4.0, 1, "move", 0.0, to=4),
    Fault(4.2, 3, "crash", 9.0), Fault(9.0, 0, "move", 0.0, to=2),
)  # fmt: skip


def world_of(row: str, seed: int, faults: tuple[Fault, ...]) -> GovernedWorld:
    made = settings("chain", row=row, seed=seed, every_s=0.4, faults=faults, settle_s=60.0)
    return GovernedWorld(made, observers=[*every_checker(), FollowsNothingOlder()])


@pytest.mark.parametrize("row", ["ecoc", "none"])
def test_a_person_asks_the_gateway_and_the_vertex_moves_without_loss(row: str, claim: Claim) -> None:
    ideal = undisturbed("chain")
    world = world_of(row, 1, MOVES)
    outcome = world.run(ideal.elements)
    claim(
        f"{row}: {outcome.moved} moves asked of the gateway, {outcome.elements} rows compared, digests "
        f"{outcome.digest} = {ideal.digest}"
    )
    assert (outcome.violation, outcome.lost, outcome.digest) == ("", 0, ideal.digest)
    assert (outcome.moved, outcome.given_up, outcome.recoveries) == (3, 0, 0)
    fleet = world.ruling.coordinator.fleet
    assert [move.why for move in fleet.moves] == [ASKED] * 3
    assert sorted(placed.term for placed in fleet.queries[0].placements) == [1, 4], "the other was left alone"


@pytest.mark.parametrize("seeds", [range(2), pytest.param(SEEDS, marks=pytest.mark.soak)], ids=["two", "many"])
def test_moves_among_failures_of_nodes_and_of_the_gateway_change_no_result(seeds: range, claim: Claim) -> None:
    ideal = undisturbed("chain")
    fired = moved = elements = 0
    for seed in seeds:
        outcome = world_of("ecoc", seed, DISTURBED).run(ideal.elements)
        assert (outcome.violation, outcome.lost, outcome.digest) == ("", 0, ideal.digest), seed
        fired, moved, elements = fired + outcome.fired, moved + outcome.moved, elements + outcome.elements
    claim(
        f"{len(seeds)} seeds, {fired} faults, {moved} moves, {elements} rows compared, digest {ideal.digest} = {ideal.digest}"
    )
    assert fired
    assert moved


@pytest.mark.covers("NB-1")
@pytest.mark.parametrize("row", ["ecoc", "local", pytest.param("dist-2", marks=pytest.mark.soak)])
@pytest.mark.parametrize("seeds", [range(1), pytest.param(SEEDS, marks=pytest.mark.soak)], ids=["one", "many"])
def test_a_revoked_nodes_vertices_move_at_once_and_it_is_a_stranger_to_all(
    row: str, seeds: range, claim: Claim
) -> None:
    """It goes on running, with all its keys. Under `local` only it had the snapshot: what that means is said as a loss."""
    ideal = undisturbed("chain")
    fired = elements = lost = 0
    for seed in seeds:
        world = world_of(row, seed, (Fault(3.0, 0, "revoke", 0.0),))
        outcome = world.run(None if row == "local" else ideal.elements)
        fired, elements, lost = fired + outcome.fired, elements + outcome.elements, lost + outcome.lost
        (gone,) = world.revoked
        fleet = world.ruling.coordinator.fleet
        assert outcome.violation == "", seed
        assert gone not in {peer.node for peer in fleet.peers}
        assert not any(gone in (*each.hosts, *each.keepers) for each in fleet.queries[0].placements)
        assert [move.why for move in fleet.moves] == [f"{world.by_id[gone].name} was revoked"]
        assert not any(gone in node.host.here.peers for node in world.nodes if node.id != gone)
        if row != "local" or not outcome.lost:
            assert (outcome.lost, outcome.digest) == (0, ideal.digest)
    claim(
        f"{row}: {len(seeds)} seeds, {fired} nodes revoked, {elements} rows compared, {lost} said to be lost, digests "
        f"{outcome.digest} = {ideal.digest}"
    )
    assert fired
    assert elements


def test_when_a_device_is_revoked_what_others_feed_goes_on_without_it(claim: Claim) -> None:
    """Rows of two devices meet. Without one of them every window still ends, and it is no member any more."""
    ideal = undisturbed("meeting")
    faults = (Fault(2.0, 0, "revoke source", 0.0),)
    made = settings("meeting", row="ecoc", seed=3, every_s=0.4, faults=faults, settle_s=60.0)
    world = GovernedWorld(made, observers=[FollowsNothingOlder()])
    outcome = world.run(ideal.elements)
    (gone,) = world.revoked
    fleet = world.ruling.coordinator.fleet
    rows, _ = world.results()
    claim(f"1 device revoked, {outcome.elements} rows compared with {ideal.elements}, digest {outcome.digest}")
    assert outcome.violation == ""
    assert len(rows) == ideal.elements, "nobody waits for what it would have sent"
    assert outcome.digest != ideal.digest, "and its rows are missing in them"
    assert fleet.queries[0].sources == (world.nodes[1].id,)
    assert gone not in {peer.node for peer in fleet.peers}
