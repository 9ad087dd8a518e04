"""What others should not send: refused by name, counted, and nothing is lost by it."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import cast

import pytest

import resurge as rs
from shared.errors import PeerError, UsageError
from shared.hosting.coordinate import Coordinator
from shared.hosting.kept_snapshot import pieces
from shared.identity import device_id
from shared.plan.deployment import HostedQuery, Placement, encode_deployment
from shared.sync.exchange import LogRecord
from shared.sync.receiver import Arrival
from shared.sync.session import DeviceSession, GatewaySession
from shared.wire.frame import FrameType, encode, payload_digest
from shared.wire.messages import Data
from tests.claims import Claim
from tests.simulation.keys import ToyKeys
from tests.simulation.peers.checkers import every_checker
from tests.simulation.peers.programs import settings, undisturbed
from tests.simulation.peers.world import Fault, PeerWorld, SimulatedNode, ToyPeerKeys

pytestmark = pytest.mark.sim
UNUSED = 4  # runs and keeps nothing of the program


def world(*faults: Fault) -> PeerWorld:
    return PeerWorld(settings("chain", faults=faults, settle_s=30.0), observers=every_checker())


def coordinator_of(one: PeerWorld) -> Coordinator:
    found = one.nodes[0].machine.coordinator
    assert found is not None
    return found


def run_on(one: PeerWorld, claim: Claim, what: str) -> None:
    """As if nothing had happened."""
    ideal = undisturbed("chain")
    outcome = one.run(ideal.elements)
    assert (outcome.violation, outcome.lost, outcome.digest) == ("", 0, ideal.digest)
    claim(f"{what}; {outcome.elements} rows compared, digests {outcome.digest} = {ideal.digest}")


def until(one: PeerWorld, seconds: float) -> None:
    while one.clock.run_one(seconds):
        pass


def said_to(node: SimulatedNode, body: bytes) -> str | None:
    """Why a node refuses this body."""
    node.host.receive(Arrival("somebody", body), node.now)
    (reply,) = (each for each in node.host.step(node.now).send if getattr(each, "handle", None) == "somebody")
    return reply.refused  # type: ignore[union-attr]


def test_a_stranger_is_refused(claim: Claim) -> None:
    one = world()
    until(one, 0.5)
    keys = ToyKeys(Random("stranger"), one.known)
    for node in one.nodes:
        session = DeviceSession(ToyPeerKeys(keys).calling(node.keys.public_key), device_id(keys.public_key), 1)
        assert said_to(node, session.hello()) == "device-unknown"
        assert node.host.refused["device-unknown"] == 1
    run_on(one, claim, f"{len(one.nodes)} greetings of a stranger refused")


def test_a_peer_that_was_taken_out_of_the_fleet_is_a_stranger_at_once(claim: Claim) -> None:
    one = world()
    until(one, 1.0)
    first, gone = one.nodes[0].host, one.nodes[UNUSED]
    assert not first.refused["device-unknown"]
    fleet = coordinator_of(one)
    fleet.set_fleet([node.peer for node in one.nodes if node is not gone], fleet.fleet.queries)
    until(one, 3.0)
    assert first.refused["session-unknown"], "the session it had is over"
    assert first.refused["device-unknown"], "and it gets no other"
    assert gone.id not in {peer.node for peer in first.peers()}
    run_on(one, claim, f"{first.refused['device-unknown']} greetings of a revoked peer refused")


def test_a_deployment_that_is_played_again_changes_nothing(claim: Claim) -> None:
    one = world()
    until(one, 0.5)
    host, fleet = one.nodes[2].host, coordinator_of(one)
    old, encoded = fleet.deployment(host.node)
    newer = replace(old, version=old.version + 1)
    host.deploy(newer, encode_deployment(newer), 0.5)
    running = host.instances()
    with pytest.raises(PeerError, match="deployment-stale"):
        host.deploy(old, encoded, 0.5)
    host.following.try_deploy(encoded, 0.5, b"")
    deposed = replace(newer, version=9, lease=0)
    host.following.try_deploy(encode_deployment(deposed), 0.5, b"")
    assert host.refused["deployment-stale"] == 2
    assert (host.version, host.instances()) == (newer.version, running)
    fleet._kept.fleet = replace(fleet.fleet, version=newer.version)
    run_on(one, claim, "2 old deployments refused")


def test_what_a_deposed_vertex_still_sends_is_not_taken(claim: Claim) -> None:
    """Its node was cut off, not dead: it makes and sends what somebody else makes meanwhile."""
    one = world(Fault(0.5, 2, "cut", 9.0))
    run_on(one, claim, "1 node cut off")
    assert one.outcome.recoveries
    assert sum(node.host.receiver.stale for node in one.nodes), "it has tried"


def test_a_forged_piece_of_a_snapshot_is_not_kept(claim: Claim) -> None:
    one = world()
    until(one, 1.0)
    keeper = next(node for node in one.nodes if node.host.here.keeper.held())
    host = keeper.host
    (kept, *_), (spec, *_) = host.here.keeper.held(), host.here.keeper._specs.values()
    key, taken = spec.edge.key, host.here.keeper.taken[spec.edge.key]
    whole = replace(kept, onto=())
    other = replace(whole, vertex="another")
    for piece in (pieces(whole.encode())[0][:-1] + b"!", pieces(other.encode())[0], b"no piece at all"):
        frame = Data(
            key.device, key.incarnation, key.edge, taken, taken + 1, 0, spec.edge.schema.id, 0, 0, piece, term=spec.term
        ).frame()  # fmt: skip
        record = LogRecord(encode(frame), key, taken, taken + 1, int(FrameType.DATA), payload_digest(frame.payload))
        host.taking.take(cast(GatewaySession, None), record)
        assert host.here.keeper.held()[0] == kept
    assert host.refused["snapshot-piece"] == 3
    host.here.keeper.taken[key] = taken
    run_on(one, claim, "3 forged pieces refused")


def test_a_plan_that_no_node_can_run_is_refused_and_what_runs_goes_on(claim: Claim) -> None:
    one = world()
    until(one, 0.5)
    fleet = coordinator_of(one)
    before = fleet.fleet
    plan = rs.load_program("resurge/examples/peers/beats.py")
    nodes = [replace(node.peer, operators=()) for node in one.nodes]
    placed = [Placement(name, (nodes[1].node,), (), 1) for name in ("ecg_band", "beats")]
    query = HostedQuery("beats", 1, plan, "ecoc", 100, (nodes[1].node,), nodes[0].node, tuple(placed))
    with pytest.raises(UsageError, match="deployment-operator"):
        fleet.set_fleet(nodes, [*before.queries, query])
    assert fleet.fleet == before
    run_on(one, claim, "1 plan refused")
