"""A query that promises a delay: what is back in time does not move, what is not moves in time (EC-15)."""

from __future__ import annotations

from dataclasses import replace

import pytest

import resurge as rs
from shared.hosting.messages import SinkTook
from shared.plan.graph import Plan
from tests.claims import Claim
from tests.simulation.peers.checkers import Checker, every_checker
from tests.simulation.peers.programs import rows_of
from tests.simulation.peers.world import Fault, PeerWorld, Settings, SimulatedNode

pytestmark = pytest.mark.sim
BOUND_S = 20.0
ROWS = 240  # four seconds of them: at the failure most have come
USUAL_S = 60.0  # the fleet's own patience, much too long for the promise


def program(delay: str | None) -> Plan:
    contract = rs.lossless(delay=delay)
    near = rs.sensor("x", every="33ms", columns={"x": "float64"}).gather("g", within="250ms", contract=contract)
    return rs.plan_of(near.sliding(count=5).aggregate(m=rs.mean("x")).subscribe("out"))


class Gaps(Checker):
    """The longest time without a result, while there should be some."""

    def __init__(self) -> None:
        self.last_at = self.longest_s = 0.0

    def noticed(self, node: SimulatedNode, event: object) -> None:
        if isinstance(event, SinkTook):
            self.longest_s = max(self.longest_s, node.now - self.last_at)
            self.last_at = node.now


def settings(delay: str | None, *faults: Fault) -> Settings:
    return Settings(program(delay), ROWS, rows_of, sources=(2,), batch=3, faults=faults, settle_s=30.0, within_s=200.0)


@pytest.mark.covers("EC-15")
def test_what_is_back_within_the_bound_does_not_move(claim: Claim) -> None:
    """The hub of the query is cut off for eight seconds; nodes of this fleet are usually given up after four."""
    ideal = PeerWorld(replace(settings(None), within_s=8.0)).run()
    for delay, moves in ((f"{BOUND_S:g}s", False), (None, True)):
        placed = PeerWorld(settings(delay))
        host = placed.by_id[placed._placement(0).hosts[0]].number
        fault = Fault(2.0, host, "cut", 8.0)
        outcome = PeerWorld(settings(delay, fault), observers=every_checker()).run(ideal.elements)
        assert (outcome.violation, outcome.lost, outcome.digest) == ("", 0, ideal.digest)
        assert (outcome.recoveries > 0) is moves, f"a bound of {delay}"
    claim(f"2 faults, {2 * outcome.elements} rows compared, digests {outcome.digest} = {ideal.digest}")


@pytest.mark.covers("EC-15")
def test_what_stays_away_is_moved_in_time_to_keep_the_bound(claim: Claim) -> None:
    ideal = PeerWorld(replace(settings(None), within_s=8.0)).run()
    longest = {}
    for delay in (f"{BOUND_S:g}s", None):
        gaps = Gaps()
        world = PeerWorld(settings(delay, Fault(2.0, 0, "primary", 500.0)), observers=[*every_checker(), gaps])
        coordinator = world.nodes[0].machine.coordinator
        assert coordinator is not None
        coordinator._presence.silence_s = USUAL_S
        outcome = world.run(ideal.elements)
        assert (outcome.violation, outcome.lost, outcome.digest) == ("", 0, ideal.digest)
        longest[delay] = gaps.longest_s
    claim(
        f"2 hosts lost, {2 * outcome.elements} rows compared, digests {outcome.digest} = {ideal.digest}; longest pause "
        f"{longest[f'{BOUND_S:g}s']:.1f} s of {BOUND_S:g} s promised, {longest[None]:.1f} s without a promise"
    )
    assert longest[f"{BOUND_S:g}s"] <= BOUND_S < longest[None]
