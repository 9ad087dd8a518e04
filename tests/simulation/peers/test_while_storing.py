"""A vertex goes on while its part of a cut is on its way to all who keep it."""

from __future__ import annotations

import pytest

from tests.claims import Claim
from tests.simulation.peers.checkers import Checker
from tests.simulation.peers.programs import settings, undisturbed
from tests.simulation.peers.world import PeerWorld
from tests.simulation.peers.worlds import every_checker

pytestmark = pytest.mark.sim


class Meanwhile(Checker):
    """How many rows each vertex takes from the moment its snapshot is sent until all keepers have it."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, object], int] = {}
        self.took: dict[str, int] = {}

    def look(self, world: PeerWorld) -> str:
        for node in world.nodes:
            for one in node.host.instances() if node.up else ():
                storing = node.host.snapshots.storing.get(one.spec.identity)
                if storing is not None:
                    taken = sum(one.taken.values())
                    since = self._since.setdefault((one.vertex, storing.id), taken)
                    self.took[one.vertex] = max(self.took.get(one.vertex, 0), taken - since)
        return ""


@pytest.mark.covers("MS-12")
def test_vertices_take_rows_while_their_part_of_a_cut_is_sent(claim: Claim) -> None:
    """Four of ten datagrams are lost, so that it takes a while."""
    meanwhile = Meanwhile()
    setting = settings(
        "wide", row="token", seed=1, nodes=6, every_s=0.05, batch=4, cut_s=1.0, heard=0.4, within_s=60.0, settle_s=1.0
    )
    world = PeerWorld(setting, observers=[*every_checker(), meanwhile])
    outcome = world.run(undisturbed("wide").elements)
    assert not outcome.violation
    assert outcome.digest == undisturbed("wide").digest
    assert outcome.cuts
    claim(f"{outcome.cuts} cuts; at most {meanwhile.took} rows were taken while one part was sent to its keepers")
    assert len(meanwhile.took) > 1
    assert all(meanwhile.took.values()), "none waits for its keepers"
