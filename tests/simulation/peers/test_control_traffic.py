"""What coordinating costs: 4 queries on 8 phones each, over the bytes of every exchange that is about no edge (MS-4)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mobile_app.node.loop import SPEAK_S
from shared.hosting.reporting import QUIET_S
from shared.plan.cuts import region_vertices
from shared.plan.deployment import HostedQuery, Placement
from shared.sync.pacing import Pacing
from tests.claims import Claim
from tests.simulation.peers.governed import GovernedNode, GovernedWorld
from tests.simulation.peers.programs import settings

pytestmark = pytest.mark.sim
REGIONS, PHONES = 4, 8
BYTES_PER_S_MAX = 2_000
SETTLED_S = 10.0  # nodes have met and follow the first deployment


class FourRegions(GovernedWorld):
    """Each query is fed by one phone of its region, and runs on others of it."""

    def _queries(self) -> list[HostedQuery]:
        plan, found = self.settings.plan, []
        for region in range(REGIONS):
            ids = [node.id for node in self.nodes[region * PHONES : (region + 1) * PHONES]]
            placed = [
                Placement(vertex.name, (ids[2 + at],), (ids[4 + at],), 1)
                for at, vertex in enumerate(region_vertices(plan))
            ]
            found.append(HostedQuery(f"q{region}", 1, plan, "ecoc", 40, (ids[1],), ids[0], tuple(placed)))
        return found

    def control(self) -> int:
        """As the gateway counts it."""
        return self.gateways[0].control

    def said(self) -> int:
        """As the nodes do."""
        senders = [node.sender for node in self.nodes if isinstance(node, GovernedNode)]
        return sum(sender.control_sent + sender.control_received for sender in senders)


def run_until(world: GovernedWorld, seconds: float) -> None:
    while world.clock.run_one(seconds):
        pass


@pytest.mark.covers("MS-4")
@pytest.mark.soak
def test_four_regions_of_eight_phones_take_less_than_two_kilobytes_a_second(claim: Claim) -> None:
    speak = Pacing(poll_s=SPEAK_S, timeout_s=2.0, backoff_s_min=0.1, backoff_s_max=1.0)
    sources = tuple(region * PHONES + 1 for region in range(REGIONS))
    sparse = replace(
        settings("chain", nodes=REGIONS * PHONES, every_s=1.0), sources=sources, rows=100_000, within_s=1000.0
    )
    world = FourRegions(sparse, speak=speak)
    run_until(world, SETTLED_S)
    before, commits = world.control(), world.outcome.commits
    said = world.said()
    end = SETTLED_S + 2 * QUIET_S
    run_until(world, end)
    at_rest = (world.control() - before) / (end - SETTLED_S)
    counted = world.said()
    commits = world.outcome.commits - commits
    victim = world._placement(0).hosts[0]
    world.by_id[victim].crash(1000.0)
    before = world.control()
    run_until(world, end + 10.0)
    recovering = (world.control() - before) / 10.0
    claim(
        f"{REGIONS * PHONES} nodes at rest: {at_rest:.0f} bytes a second, with {commits} snapshots meanwhile; in the ten "
        f"seconds of a recovery {recovering:.0f}; {world.outcome.recoveries} recovery"
    )
    assert commits > 0, "it works meanwhile"
    assert not world.log.carriers, "no row of theirs goes over the coordinator"
    results = sum(sink.taken for node in world.nodes for sink in node.host.sinks())
    assert results > 0, "they go from node to node"
    assert at_rest < BYTES_PER_S_MAX
    assert world.outcome.recoveries
    both = (counted - said) / (end - SETTLED_S)
    assert abs(both - at_rest) < 0.05 * at_rest, "both sides count the same, but for what is under way"
