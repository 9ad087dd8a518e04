"""A new deployment reaches the nodes at once where they can be called, and with their next question where they cannot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.hosting.fleet_events import Recovered
from shared.hosting.messages import Connected
from tests.claims import Claim
from tests.simulation.peers.checkers import Checker, every_checker
from tests.simulation.peers.programs import settings
from tests.simulation.peers.world import PACING, Fault, PeerWorld, SimulatedNode

pytestmark = pytest.mark.sim
SOURCE = 4
ROUND_S = 0.06  # a question and its answer, at the slowest
AT_ONCE_S = 5 * ROUND_S  # a greeting, the news, a question with the deployment for an answer, and turns between them


class Learnt(Checker):
    """How long after the first decision each live node has the deployment, and the moved vertex goes on."""

    def __init__(self) -> None:
        self.decided_at = 0.0
        self.version = 0
        self.had: dict[int, float] = {}
        self.connected_s = 0.0

    def noticed(self, node: SimulatedNode, event: object) -> None:
        if isinstance(event, Recovered) and not self.decided_at:
            coordinator = node.machine.coordinator
            assert coordinator is not None
            self.decided_at, self.version = node.now, coordinator.fleet.version
        elif isinstance(event, Connected) and self.decided_at and not self.connected_s:
            self.connected_s = node.now - self.decided_at

    def look(self, world: PeerWorld) -> str:
        for node in world.nodes if self.decided_at else ():
            if node.up and node.host.version >= self.version:
                self.had.setdefault(node.number, node.now - self.decided_at)
        return ""


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 8))])
def test_live_nodes_learn_of_a_decision_at_once_and_uncalled_ones_within_a_poll(seed: int, claim: Claim) -> None:
    world = replace(settings("chain", row="ecoc", settle_s=30.0), seed=seed, sources=(SOURCE,))
    ideal = PeerWorld(replace(world, settle_s=0.0, within_s=6.0)).run()
    took: dict[tuple[int, ...], Learnt] = {}
    for uncalled in ((), (SOURCE,)):
        learnt = took[uncalled] = Learnt()
        faults = (Fault(1.1 + seed / 7, 0, "primary", 500.0),)
        failing = replace(world, faults=faults, uncalled=uncalled)
        outcome = PeerWorld(failing, observers=[*every_checker(), learnt]).run(ideal.elements)
        assert (outcome.violation, outcome.lost, outcome.digest) == ("", 0, ideal.digest)
        assert outcome.fired == 1
        others = {number: seconds for number, seconds in learnt.had.items() if number not in uncalled}
        assert len(others) == 4 - len(uncalled), "all but the one that is gone"
        assert max(others.values()) < AT_ONCE_S
    claim(
        f"2 hosts lost, {2 * outcome.elements} rows compared, digests {outcome.digest} = {ideal.digest}; the source has the "
        f"deployment after {took[()].had[SOURCE]:.2f} s, uncalled after {took[SOURCE,].had[SOURCE]:.2f} s; the vertex goes on "
        f"after {took[()].connected_s:.2f} s"
    )
    assert took[SOURCE,].had[SOURCE] < PACING.poll_s + AT_ONCE_S
    assert 0 < took[()].connected_s < 2 * AT_ONCE_S
