"""Datagrams between nodes over real sockets, the ways that they take, and members that mean harm."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import replace

import pytest

from mobile_app.links import broadcast as links
from mobile_app.links.broadcast import BroadcastLink, Way
from resurge.up.free_ports import free_ports
from shared.errors import PeerError
from shared.identity import DeviceId, EdgeId, EdgeKey
from shared.plan.deployment import Peer
from shared.region.blocks import Blocks
from shared.region.broadcast import SENDER_BYTES_MAX, Broadcast
from shared.wire.broadcast import Announce, Announcement, Bitmap, Block
from tests.claims import Claim
from tests.patience import wait_until
from tests.simulation.region.world import Loss, Member, RegionWorld


@contextlib.contextmanager
def opened(nodes: list[str]) -> Iterator[dict[str, BroadcastLink]]:
    ports = dict(zip(nodes, free_ports(len(nodes)), strict=True))
    found = {node: BroadcastLink(f"tcp://127.0.0.1:{port}", node, lambda: None) for node, port in ports.items()}
    peers = [Peer(node, node[:4], bytes(32), "0" * 40, (f"tcp://127.0.0.1:{port}",)) for node, port in ports.items()]
    try:
        for link in found.values():
            link.meet(peers)
        for link in found.values():
            wait_until(lambda link=link: len(link._heard) == len(nodes) - 1, "every node heard a probe")  # type: ignore[misc]
        yield found
    finally:
        for link in found.values():
            link.close()


NODES = [f"{number:032x}" for number in range(1, 5)]


def test_nodes_find_out_on_which_ways_they_hear_each_other_and_use_the_cheapest(claim: Claim) -> None:
    with opened(NODES) as found:
        one, *others = found.values()
        used = []
        for way in Way:
            wait_until(lambda way=way: all(way in one._heard[node] for node in NODES[1:]), f"{way.name} was heard")  # type: ignore[misc]
        for way in Way:
            body = bytes([way]) * 900
            one._heard = {node: {Way.EACH, way} for node in NODES[1:]}
            assert one.way(NODES[1:]) is way
            one.send(Broadcast(tuple(NODES[1:]), body))
            for other in others:
                wait_until(lambda other=other: other.arrivals, f"{way.name} arrives")  # type: ignore[misc]
                assert other.arrivals.popleft().body == body
            used.append(way.name)
        one._heard[NODES[1]] = {Way.EACH}
        assert one.way(NODES[1:]) is Way.EACH, "one of them hears no broadcast"
        assert one.way(NODES[2:3]) is Way.EACH, "for one node alone nobody else need listen"
        claim(f"three receivers each on {', '.join(used)}")


def test_a_stranger_s_probe_and_a_flood_change_nothing(monkeypatch: pytest.MonkeyPatch, claim: Claim) -> None:
    monkeypatch.setattr(links, "WAITING_MAX", 50)
    with opened(NODES[:2]) as found, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        victim = found[NODES[1]]
        place = ("127.0.0.1", victim._port)
        heard = {node: set(ways) for node, ways in victim._heard.items()}
        stranger.sendto(found[NODES[0]]._probe_body(2, Way.BROADCAST, b"wrong"), place)
        stranger.sendto(b"RP" + bytes(28), place)
        for _ in range(500):
            stranger.sendto(bytes(1500), place)
        wait_until(lambda: victim.dropped, "what does not fit is dropped")
        assert len(victim.arrivals) == 50
        assert {node: set(ways) for node, ways in victim._heard.items()} == heard
        assert all(len(each.body) <= 1041 for each in victim.arrivals), "no more of a datagram is read than a block"
        claim(f"{victim.dropped} datagrams of a flood dropped, 50 wait")


class LinkedWorld(RegionWorld):
    """The region of the simulator, with its datagrams on real sockets and a member that injects its own."""

    def __init__(self, settings: Loss, found: dict[str, BroadcastLink], hostile: socket.socket) -> None:
        self.links: dict[str, BroadcastLink] = {}
        super().__init__(settings)
        self.links = dict(zip((member.id for member in self.members), found.values(), strict=True))
        self._numbers = dict(zip((member.id for member in self.members), found, strict=True))
        self.hostile = hostile
        self.expected = dict.fromkeys(self.links, 0)
        self.came = dict.fromkeys(self.links, 0)
        self.injected = 0

    def broadcast(self, message: Broadcast) -> None:
        self.outcome.sent.datagrams += len(message.body)
        block = Block.of(message.body)
        for node in message.nodes:  # before the true one, under its number
            self.inject(node, block._replace(data=bytes(len(block.data))).datagram())
            self.inject(node, block._replace(id=b"no such!").datagram())
        self.links[self.sender.id].send(message._replace(nodes=tuple(self._numbers[node] for node in message.nodes)))
        for node in message.nodes:
            self.expected[node] += 1

    def inject(self, node: str, body: bytes) -> None:
        self.injected += 1
        self.expected[node] += 1
        self.hostile.sendto(body, ("127.0.0.1", self.links[node]._port))

    def _asked(self, sender: Member, to: Member, frames: object) -> None:
        self.listen(to)
        super()._asked(sender, to, frames)  # type: ignore[arg-type]

    def listen(self, to: Member) -> None:
        """Until everything that was sent to it has come."""
        link = self.links[to.id]
        wait_until(lambda: self.came[to.id] + len(link.arrivals) >= self.expected[to.id], "datagrams arrive")
        while link.arrivals:
            self.came[to.id] += 1
            to.lane.datagram(link.arrivals.popleft().body, self.clock.now)
        to.drive()


@pytest.mark.parametrize("way", Way, ids=lambda way: way.name.lower())
def test_forged_blocks_on_the_air_cost_bytes_and_change_nothing(way: Way, claim: Claim) -> None:
    with opened(NODES) as found, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as hostile:
        world = LinkedWorld(Loss(receivers=3, state_bytes=30_000), found, hostile)
        first = found[NODES[0]]
        first._heard = {node: {way} for node in NODES[1:]}
        outcome = world.run()
        assert (outcome.violation, outcome.kept) == ("", 3), "every copy is the true one"
        refused = {code: sum(each.lane.receiving.refused[code] for each in world.members) for code in CODES}
        assert all(refused.values()), refused
        claim(f"{way.name}: {world.injected} blocks injected, refused {refused}, {outcome.kept} true copies kept")


CODES = ("broadcast-hash", "broadcast-unannounced")


def announced_by(member: Member, world: RegionWorld, **other: object) -> Announcement:
    blocks = Blocks(bytes(5000))
    made = Announcement(world.state.key, member.device, 3, 0, 1, 5000, blocks.root)
    made = replace(made, **other)  # type: ignore[arg-type]
    return replace(made, signature=member.keys.sign(made.signed()))


@pytest.mark.parametrize(
    ("code", "other"),
    [
        ("broadcast-unread", {"key": EdgeKey(DeviceId(b"z" * 16), 1, EdgeId(7))}),  # another region
        ("broadcast-sender", {"term": 2}),  # a roster from before
        ("broadcast-quota", {"length": SENDER_BYTES_MAX + 1}),
    ],
)
def test_an_announcement_that_is_not_for_this_region_or_too_large_is_refused(
    code: str, other: dict[str, object]
) -> None:
    world = RegionWorld(Loss(receivers=3))
    receiver = world.members[1]
    said = Announce(world.sender.device, announced_by(world.sender, world, **other))
    with pytest.raises(PeerError, match=code):
        receiver.lane.hear(said.frame(), 0.0)
    assert receiver.lane.receiving.bits(said.announcement, has_all=False).bits == 0


def test_who_does_not_run_the_vertex_or_was_taken_out_announces_nothing() -> None:
    world = RegionWorld(Loss(receivers=3))
    receiver, hostile = world.members[1], world.members[2]
    with pytest.raises(PeerError, match="broadcast-sender"):
        receiver.lane.hear(Announce(hostile.device, announced_by(hostile, world)).frame(), 0.0)
    in_its_name = replace(announced_by(hostile, world), sender=world.sender.device)
    with pytest.raises(PeerError, match="broadcast-signature"):
        receiver.lane.hear(Announce(hostile.device, in_its_name).frame(), 0.0)
    true = Announce(hostile.device, announced_by(world.sender, world))
    assert receiver.lane.hear(true.frame(), 0.0), "what its sender signed anybody may pass on"
    del world.peers[world.sender.id]
    with pytest.raises(PeerError, match="broadcast-sender"):
        receiver.lane.hear(true.frame(), 0.0)


def test_a_member_that_lies_about_what_it_has_costs_bytes_and_no_copy(claim: Claim) -> None:
    class Lying(RegionWorld):
        says: int | None = 0

        def _answered(self, sender: Member, node: str, answers: object) -> None:
            if node == self.members[1].id and sender is self.sender:
                sendings = self.sender.lane._under_way.values()
                for sending in [each.sending for each in sendings]:
                    id, blocks = sending.announcement.id, len(sending.blocks)
                    bits = (1 << blocks) - 1 if self.says is None else self.says
                    sender.lane.bitmap(node, Bitmap(self.members[1].device, id, bits, blocks), self.clock.now)
                sender.drive()
                return
            super()._answered(sender, node, answers)  # type: ignore[arg-type]

    honest = RegionWorld(Loss(receivers=5, state_bytes=200_000, loss=0.05)).run()
    for says in (0, None):
        world = Lying(Loss(receivers=5, state_bytes=200_000, loss=0.05))
        world.says = says
        outcome = world.run()
        key = world.state.key
        assert [member.keeper.through.get(key, 0) for member in world.members[2:]] == [1, 1, 1, 1]
        assert outcome.sent.datagrams < 3 * honest.sent.datagrams
        claim(
            f"says it has {'all' if says is None else 'nothing'}: {outcome.sent.ratio:.2f} bytes sent per byte of state"
        )
    sending = RegionWorld(Loss(receivers=3))
    sending._snapshot()
    announcement = sending.sender.lane._under_way[sending.state.key.edge].sending.announcement
    with pytest.raises(PeerError, match="broadcast-bitmap"):
        sending.sender.lane.bitmap(sending.members[1].id, Bitmap(DeviceId(bytes(16)), announcement.id, 1, 9), 0.0)
