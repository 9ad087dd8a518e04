"""What passes on which edge and lane: state to its keepers, rows to where a vertex went, control to who coordinates."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from shared.hosting.instance import Instance
from shared.hosting.kept_snapshot import KeptSnapshot
from shared.hosting.messages import Answer
from shared.sync.exchange import NOT_READ
from shared.sync.receiver import Arrival
from shared.wire.envelope import ENVELOPE, MAC_BYTES, is_envelope
from shared.wire.frame import FrameType, decode_all, decode_one
from tests.claims import Claim
from tests.simulation.peers.checkers import every_checker
from tests.simulation.peers.governed import GovernedNode, GovernedWorld
from tests.simulation.peers.programs import settings, undisturbed
from tests.simulation.peers.world import Fault, PeerWorld, SimulatedNode

pytestmark = pytest.mark.sim
ROWS = {FrameType.DATA, FrameType.TOMBSTONE, FrameType.FRONTIER, FrameType.DECLARE, FrameType.MARK, FrameType.EXTEND}
ORDERS = {FrameType.DEPLOYMENT, FrameType.PLAN, FrameType.HINT, FrameType.STATUS}


@pytest.mark.covers("EC-28")
def test_a_vertex_goes_to_who_kept_its_snapshot_and_its_streams_follow(claim: Claim) -> None:
    one = PeerWorld(settings("chain", faults=(Fault(1.0, 2, "crash", 60.0),), settle_s=90.0), observers=every_checker())
    coordinator = one.nodes[0].machine.coordinator
    assert coordinator is not None
    (before,) = coordinator.fleet.queries
    failed = one.nodes[2]
    (moved,) = [placed for placed in before.placements if placed.hosts == (failed.id,)]
    while one.clock.run_one(59.0):
        pass
    (now,) = coordinator.fleet.queries
    (placed,) = [placed for placed in now.placements if placed.vertex == moved.vertex]
    (host,) = placed.hosts
    assert host in moved.keepers, "the backup is the target"
    backup = one.by_id[host]
    (spec,) = [each.spec for each in backup.host.instances() if each.vertex == moved.vertex]
    for each in spec.inputs.values():
        maker = next(node for node in one.nodes if each.edge.key.edge in node.host.here.makers)
        carried = {
            node for node, edges in maker.host.calling.carried.items() if any(e.key == each.edge.key for e, _ in edges)
        }
        assert carried == {host}, "who makes what it reads sends it there, and nowhere else"
        assert failed.id not in maker.host.outbox._readers[each.edge.key.edge]
    for output in spec.outputs.values():
        (reader,) = output.readers
        term = one.by_id[reader].host.taking.producer_term
        assert (term(backup.device, output.key), term(failed.device, output.key)) == (placed.term, NOT_READ)
    assert placed.term > moved.term
    outcome, ideal = one.run(undisturbed("chain").elements), undisturbed("chain")
    assert (outcome.violation, outcome.digest) == ("", ideal.digest)
    claim(
        f"1 crash, {len(spec.inputs)} and {len(spec.outputs)} streams follow a vertex; {outcome.elements} rows compared, "
        f"digests {outcome.digest} = {ideal.digest}"
    )


@pytest.mark.covers("EC-3")
def test_the_state_of_a_vertex_is_a_stream_that_its_keepers_read(claim: Claim, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every element has its number there, and what a reader puts together is the state as it was frozen."""
    frozen: dict[tuple[str, int, str], list[KeptSnapshot]] = {}
    kept = Instance.kept

    def noted(instance: Instance, *arguments: Any) -> KeptSnapshot:
        found = kept(instance, *arguments)
        frozen.setdefault(found.identity, []).append(found)
        return found

    monkeypatch.setattr(Instance, "kept", noted)
    one = PeerWorld(settings("chain", settle_s=30.0), observers=every_checker())
    assert not one.run(undisturbed("chain").elements).violation
    read = 0
    for node in one.nodes:
        keeper = node.host.here.keeper
        for key, spec in keeper._specs.items():
            made = frozen[spec.identity]
            assert keeper.newest(spec.identity) == made[-1]
            assert made[-1].state
            elements = len(made)  # one each: a small snapshot, or what changed since the one before it, is one piece
            assert (keeper.taken[key], keeper.through[key]) == (elements, elements)
            read += elements
    assert read > len(frozen)
    claim(f"{read} elements of {len(frozen)} vertices' state streams read")


class Listening(GovernedWorld):
    """Notes what kinds of frames pass between nodes, and between nodes and the gateway."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        self.between_nodes: Counter[FrameType] = Counter()
        self.with_gateway: Counter[FrameType] = Counter()
        super().__init__(*arguments, **more)

    def carry(self, sender: SimulatedNode, to: SimulatedNode, message: object, boot: int | None) -> None:
        if isinstance(message, Arrival | Answer) and message.body:
            self.between_nodes.update(kinds(bytes(message.body)))
        super().carry(sender, to, message, boot)

    def to_gateway(self, node: GovernedNode, body: bytes) -> None:
        self.with_gateway.update(kinds(body))
        super().to_gateway(node, body)

    def to_node(self, number: int, boot: int, body: bytes) -> None:
        self.with_gateway.update(kinds(body))
        super().to_node(number, boot, body)


def kinds(body: bytes) -> list[FrameType]:
    if not is_envelope(body):
        return [decode_one(body)[0].type]
    return [frame.type for frame in decode_all(memoryview(body)[ENVELOPE.size : -MAC_BYTES])]


@pytest.mark.covers("NB-16")
def test_orders_go_between_the_gateway_and_nodes_and_rows_from_node_to_node(claim: Claim) -> None:
    """The one lane is calls to the gateway (HTTP), the other ZeroMQ between nodes: neither carries the other's."""
    one = Listening(settings("chain", faults=(Fault(1.0, 2, "crash", 20.0),), settle_s=60.0), observers=every_checker())
    ideal = undisturbed("chain")
    outcome = one.run(ideal.elements)
    assert (outcome.violation, outcome.digest) == ("", ideal.digest)
    assert one.with_gateway[FrameType.DEPLOYMENT] > len(one.nodes), "all were told, and some again after the crash"
    assert one.with_gateway[FrameType.STATUS]
    assert not {*one.with_gateway} & (ROWS - {FrameType.DECLARE})
    assert one.between_nodes[FrameType.DATA]
    assert not {*one.between_nodes} & (ORDERS - {FrameType.STATUS})
    claim(
        f"{one.between_nodes[FrameType.DATA]} batches from node to node, {one.with_gateway[FrameType.DEPLOYMENT]} "
        f"deployments from the gateway; 1 crash, {outcome.elements} rows compared, digests {outcome.digest} = "
        f"{ideal.digest}"
    )
