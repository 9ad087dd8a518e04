"""Vertices of simulated nodes that move because a person asked, while nodes stop, links break and the coordinator is
killed: nothing is lost, each number comes once, and nobody else notices."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from shared.hosting.planned_moves import ASKED
from tests.claims import Claim
from tests.simulation.peers.checkers import every_checker, newest
from tests.simulation.peers.programs import PROGRAMS, settings, undisturbed
from tests.simulation.peers.world import Fault, PeerWorld
from tests.simulation.peers.worlds import outcome_of

pytestmark = pytest.mark.sim
WITHOUT_SNAPSHOTS = ("none", "ring", "rep-2")
CASES = [
    (name, row)
    for name, program in PROGRAMS.items()
    for row in (*program.strategies, *(WITHOUT_SNAPSHOTS if name in ("chain", "meeting", "sp2") else ()))
]
QUICK = [("chain", "ecoc", range(2)), ("sp3", "extended-ecoc", range(1, 2)), ("chain", "none", range(1, 3))]
MANY = range(2000, 2000 + int(os.environ.get("SIM_SEEDS", "500")) // len(CASES) + 1)
PAUSE_S_MAX = 2.0


@pytest.mark.parametrize(
    ("name", "row", "seeds"),
    [*QUICK, *(pytest.param(name, row, MANY, marks=pytest.mark.soak) for name, row in CASES)],
)
def test_moves_among_failures_change_no_result(name: str, row: str, seeds: range, claim: Claim) -> None:
    ideal = undisturbed(name)
    outcomes = [outcome_of(name, row, seed, world="moving") for seed in seeds]
    broken = [f"seed {seed}: {one.violation}" for seed, one in zip(seeds, outcomes, strict=True) if one.violation]
    assert not broken, f"{name} under {row}: " + "; ".join(broken)
    kinds, moved = sum((one.kinds for one in outcomes), Counter()), sum(one.moved for one in outcomes)
    claim(
        f"{name} under {row}: {len(outcomes)} worlds, {sum(one.fired for one in outcomes)} faults "
        f"{dict(sorted(kinds.items()))}, {moved} moves, {sum(one.given_up for one in outcomes)} given up, "
        f"{sum(one.elements for one in outcomes)} rows compared, digests {outcomes[-1].digest} = {ideal.digest}"
    )
    assert moved


@pytest.mark.parametrize(
    "row",
    ["ecoc", "none", "rep-2", *(pytest.param(row, marks=pytest.mark.soak) for row in ("local", "dist-2", "ring"))],
)
def test_a_vertex_moves_there_and_back_and_its_stream_pauses_for_less_than_two_seconds(row: str, claim: Claim) -> None:
    ideal = undisturbed("chain")
    moves = tuple(Fault(at, 0, "move", 0.0, to=to) for at, to in ((1.0, 3), (4.0, 4), (7.0, 1)))
    world = PeerWorld(settings("chain", row=row, every_s=0.4, faults=moves), observers=every_checker())
    outcome = world.run(ideal.elements)
    assert (outcome.violation, outcome.lost, outcome.digest) == ("", 0, ideal.digest)
    assert (outcome.moved, outcome.given_up, outcome.recoveries) == (3, 0, 0)
    terms = {vertex: running[0].term for vertex, running in newest(world).items()}
    assert sorted(terms.values()) == [1, 4], "the other vertex was left alone"
    coordinator = world.nodes[0].machine.coordinator
    assert coordinator is not None
    assert [move.why for move in coordinator.fleet.moves] == [ASKED] * 3
    claim(
        f"{row}: {outcome.moved} moves, longest pause {outcome.pause_s:.2f} s where rows come every 0.4 s, "
        f"{outcome.elements} rows compared, digests {outcome.digest} = {ideal.digest}"
    )
    assert outcome.pause_s < PAUSE_S_MAX


@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(20), marks=pytest.mark.soak)])
@pytest.mark.parametrize(("kind", "ended"), [("meet", "given up"), ("leave", "recovered")], ids=["target", "old host"])
def test_when_one_side_of_a_move_stops_the_vertex_stays_or_is_recovered(
    kind: str, ended: str, seeds: range, claim: Claim
) -> None:
    ideal = undisturbed("chain")
    stops = Fault(1.0, 0, kind, 30.0, to=3)
    for seed in seeds:
        world = PeerWorld(settings("chain", seed=seed, every_s=0.2, faults=(stops,)), observers=every_checker())
        outcome = world.run(ideal.elements)
        assert (outcome.violation, outcome.lost, outcome.digest) == ("", 0, ideal.digest), seed
        assert outcome.crashes == 1
        assert outcome.moved + outcome.given_up == 1
    claim(
        f"{kind}: {len(seeds)} nodes stopped midway ({ended}), {outcome.elements} rows compared, digest {outcome.digest}"
    )


def test_a_coordinator_that_is_killed_midway_goes_on_with_the_move(claim: Claim) -> None:
    ideal = undisturbed("chain")
    for row in ("ecoc", "none"):
        faults = (Fault(1.0, 0, "move", 0.0, to=3), Fault(1.05, 0, "crash", 1.0))
        world = PeerWorld(settings("chain", row=row, every_s=0.2, faults=faults), observers=every_checker())
        outcome = world.run(ideal.elements)
        assert (outcome.violation, outcome.lost, outcome.digest) == ("", 0, ideal.digest)
        assert (outcome.crashes, outcome.moved) == (1, 1)
        claim(f"{row}: killed midway, {outcome.elements} rows compared, digests {outcome.digest} = {ideal.digest}")
