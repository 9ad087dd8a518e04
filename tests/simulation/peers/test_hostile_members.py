"""A member of a region that turns on it: what it sends on others' edges is refused and counted, and nothing changes."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from shared.hosting.initiators import cut_initiator, number_of
from shared.sync.receiver import Arrival, Reply
from shared.sync.session import DeviceSession
from shared.wire.envelope import is_envelope
from shared.wire.frame import decode_one, encode
from shared.wire.messages import Data, MarkMessage
from tests.claims import Claim
from tests.simulation.peers import regions
from tests.simulation.peers.world import SimulatedNode, ToyPeerKeys

pytestmark = pytest.mark.sim
PHONES, ROWS = 6, 150


class Overheard(regions.RegionsWorld):
    """What the camera sends to each phone is recorded, as somebody who passes it on could."""

    def __init__(self, *arguments: int, **more: int) -> None:
        self.heard: dict[str, list[bytes]] = {}
        super().__init__(*arguments, **more)  # type: ignore[arg-type]

    def carry(self, sender: SimulatedNode, to: SimulatedNode, message: object, boot: int | None) -> None:
        if isinstance(message, Arrival) and sender.number == 1 and is_envelope(message.body):
            self.heard.setdefault(to.id, []).append(bytes(message.body))
        super().carry(sender, to, message, boot)


def until(world: regions.RegionsWorld, cut: int) -> None:
    coordinator = world.nodes[0].machine.coordinator
    assert coordinator is not None
    while not coordinator.fleet.queries or coordinator.fleet.queries[0].cuts.complete < cut:
        assert world.clock.run_one(30.0), "no cut is complete"


def said(node: SimulatedNode, body: bytes) -> Reply:
    """What a node answers to somebody who sends this."""
    node.host.receive(Arrival("somebody", body), node.now)
    (reply,) = (each for each in node.host.step(node.now).send if getattr(each, "handle", None) == "somebody")
    assert isinstance(reply, Reply)
    return reply


class Member:
    """Somebody with the keys of a member, in a session of its own with another."""

    def __init__(self, world: regions.RegionsWorld, own: SimulatedNode, to: SimulatedNode) -> None:
        self._to = to
        self._keys, self._device = ToyPeerKeys(own.keys).calling(to.keys.public_key), own.host.device
        reply = self.greet()
        assert reply.refused is None
        assert self._session.welcome(decode_one(reply.body)[0], world.clock.now)

    def greet(self) -> Reply:
        session = DeviceSession(self._keys, self._device, 1)
        reply = said(self._to, session.hello())
        if reply.refused is None:
            self._session = session
        return reply

    def send(self, frames: Iterable[bytes]) -> Reply:
        return said(self._to, self._session.seal(frames))


def positions(node: SimulatedNode) -> list[object]:
    """What a forged frame would change."""
    copies = [(copy.taken, copy.newest_cut) for copy in node.host.here.copies.values()]
    return [*copies, *((one.vertex, dict(one.taken), one.checkpoints.pending) for one in node.host.instances())]


def run_on(world: regions.RegionsWorld, claim: Claim, what: str) -> None:
    """As if nothing had happened."""
    expected, ideal = regions.undisturbed(1, PHONES, ROWS)
    began = world._hosted("place0").placements[0].term
    outcome = world.run(expected)
    assert not outcome.violation
    assert world.digests() == ideal
    assert {placed.term for placed in world._hosted("place0").placements} == {began}, "nobody goes back"
    claim(f"{what}; digests {world.digests()} = {ideal}")


def roles(world: regions.RegionsWorld) -> tuple[SimulatedNode, SimulatedNode]:
    """A member that is idle, and one that runs the vertex which reads the camera."""
    running = {one.vertex: node for node in world.nodes for one in node.host.instances()}
    idle = next(node for node in world.nodes[2:] if node not in running.values())
    return idle, running["window"]


def test_a_token_or_rows_of_a_member_that_does_not_make_that_edge_are_refused_and_counted(claim: Claim) -> None:
    world = regions.RegionsWorld(1, PHONES, PHONES, rows=ROWS)
    until(world, 1)
    hostile, victim = roles(world)
    (copy, *_) = victim.host.here.copies.values()
    key, query = copy.spec.edge.key, world._hosted("place0")
    initiator = number_of(cut_initiator(query.name, query.incarnation))
    member, before, stale = Member(world, hostile, victim), positions(victim), victim.host.receiver.stale
    numbers = (query.cuts.complete, query.cuts.begun, query.cuts.begun + 1)  # one that was, one nobody began
    forged = [
        MarkMessage(key.device, key.incarnation, key.edge, copy.taken, number, initiator, term, aligned=True).frame()
        for number in numbers
        for term in (0, 1)
    ]
    forged += [
        Data(
            key.device, key.incarnation, key.edge, copy.taken, copy.taken + 5, 5, copy.spec.edge.schema.id, 0, 0, b"!"
        ).frame()
    ]
    for frame in forged:
        assert member.send([encode(frame)]).refused is None, "the session is that of a member"
    assert victim.host.receiver.stale - stale == len(forged), "counted, each of them"
    assert positions(victim) == before
    run_on(world, claim, f"{len(forged) - 1} forged tokens and 1 batch refused")


def test_tokens_and_rows_that_were_recorded_and_are_played_again_change_nothing(claim: Claim) -> None:
    world = Overheard(1, PHONES, PHONES, rows=ROWS)
    until(world, 2)
    _, victim = roles(world)
    recorded, before = world.heard[victim.id], positions(victim)
    for body in recorded:
        said(victim, body)
    assert positions(victim) == before
    assert victim.host.receiver.replayed == len(recorded) > 10, "counted, each of them"
    run_on(
        world, claim, f"{len(recorded)} exchanges of the camera, with its rows and tokens, played again and not taken"
    )


def test_a_member_that_is_taken_out_of_the_fleet_injects_nothing_any_more(claim: Claim) -> None:
    world = regions.RegionsWorld(1, PHONES, 3, rows=ROWS)
    until(world, 1)
    hostile, victim = roles(world)
    member = Member(world, hostile, victim)
    (copy, *_) = victim.host.here.copies.values()
    key, query = copy.spec.edge.key, world._hosted("place0")
    mark = MarkMessage(
        key.device, key.incarnation, key.edge, copy.taken, 99, number_of(cut_initiator("place0", query.incarnation))
    )
    coordinator = world.nodes[0].machine.coordinator
    assert coordinator is not None
    peers = [node.peer for node in world.nodes if node is not hostile]
    coordinator.set_fleet(peers, [], regions=[world.region(0)])
    hostile.crash(400.0)  # its own node is out of the way; whoever has its keys is not
    world._last_fault = lambda: 0.0  # type: ignore[method-assign]
    end = world.clock.now + 3.0
    while world.clock.run_one(end):
        pass
    before = positions(victim)
    codes = {member.send([encode(mark.frame())]).refused, member.greet().refused}
    assert codes == {"session-unknown", "device-unknown"}
    assert all(victim.host.refused[code] for code in codes)
    assert positions(victim) == before
    assert hostile.id not in {*world._hosted("place0").members}
    run_on(world, claim, f"a token in the session it had and a new greeting refused: {sorted(filter(None, codes))}")
