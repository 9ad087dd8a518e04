"""A snapshot for which a node has no room: its vertex runs on and says so, or it waits until there is some."""

from __future__ import annotations

import pytest

from shared.hosting import here, taking
from shared.hosting.fleet_watch import FleetWatch
from tests.claims import Claim
from tests.simulation.peers.checkers import Snapshots, every_checker
from tests.simulation.peers.programs import settings, undisturbed
from tests.simulation.peers.world import Fault, PeerWorld

pytestmark = pytest.mark.sim
ROOM = 10_000  # the whole state of the query gets twice as large


def give_room(monkeypatch: pytest.MonkeyPatch, made: int, credit: int) -> None:
    """To every node, for what its vertices make; so much of it before no more is taken."""
    monkeypatch.setattr(here, "MADE_BYTES", made)
    for module in (here, taking):
        monkeypatch.setattr(module, "CREDIT_BYTES", credit)


def test_a_vertex_whose_snapshot_is_too_large_runs_on_and_says_so(
    claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    ideal = undisturbed("many")
    give_room(monkeypatch, ROOM, ROOM // 3)
    checkers = [checker for checker in every_checker() if not isinstance(checker, Snapshots)]  # one stays pending
    world = PeerWorld(settings("many", row="ecoc", every=60, settle_s=5.0), observers=checkers)
    outcome = world.run(ideal.elements)
    assert (outcome.violation, outcome.digest) == ("", ideal.digest)
    assert not outcome.failed
    ((instance,),) = (node.host.instances() for node in world.nodes if node.host.instances())
    assert "snapshot-too-large" in instance.unstored
    stored = sum(instance.checkpoints.permanent.inputs.values())
    assert 0 < stored < instance.taken[next(iter(instance.taken))], "the last one that had room counts"
    assert len(instance.checkpoints.pending) <= 1, "states do not pile up"
    first = world.nodes[0]
    watch = FleetWatch(first.host, first.machine.coordinator, now_us=0)
    (placed,) = watch.status(first.now, 1).placements
    assert placed.state == "running"
    assert "snapshot-too-large" in placed.why
    claim(f"{outcome.elements} rows compared; {outcome.commits} snapshots stored, then: {placed.why}")


def test_a_snapshot_waits_while_rows_take_its_room(claim: Claim, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads the rows is cut off for some seconds, so that they pile up, and snapshots take them along."""
    ideal = undisturbed("many")
    give_room(monkeypatch, 40_000, 18_000)
    faults = (Fault(0.3, 0, "cut", 4.0),)
    world = PeerWorld(
        settings("many", row="uncoordinated", every=60, faults=faults, settle_s=30.0), observers=every_checker()
    )
    waited = False
    while world.clock.run_one(4.0):
        waited |= any(node.host.snapshots._without_room for node in world.nodes)
    assert waited
    outcome = world.run(ideal.elements)
    assert (outcome.violation, outcome.failed, outcome.digest) == ("", 0, ideal.digest)
    assert not any(node.host.snapshots._without_room for node in world.nodes)
    claim(f"1 sink cut off, {outcome.commits} snapshots stored; {outcome.elements} rows compared")


def test_changes_that_were_refused_keep_no_room_from_the_whole_one(
    claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is room for a whole one alone. With the changes still there it would wait for ever, and so would all later
    ones."""
    ideal = undisturbed("many")
    give_room(monkeypatch, 23_500, 6_666)
    faults = (Fault(3.6, 0, "older", 0.2),)
    world = PeerWorld(
        settings("many", row="ecoc", every=60, every_s=0.3, settle_s=30.0, faults=faults), observers=every_checker()
    )
    outcome = world.run(ideal.elements)
    assert (outcome.violation, outcome.digest) == ("", ideal.digest)
    assert sum(node.host.refused["snapshot-base"] for node in world.nodes) == 1
    assert not any(node.host.snapshots._without_room for node in world.nodes)
    ((instance,),) = (node.host.instances() for node in world.nodes if node.host.instances())
    read = sum(instance.checkpoints.permanent.inputs.values())
    assert read == outcome.elements
    claim(f"{outcome.commits} snapshots stored, the last of {read} of {outcome.elements} rows")
