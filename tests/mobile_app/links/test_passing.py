"""Exchanges that go by way of the node that coordinates, over ZeroMQ on this machine."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Any

import pytest

from mobile_app.links import peers as peer_links
from mobile_app.links.peers import CurveKeys, PeerLinks
from shared.hosting.messages import Answer, Ask, Unreachable
from shared.plan.deployment import Peer
from shared.sync.receiver import Arrival, Reply
from tests.patience import wait_until

HUB, ONE, OTHER, NOBODY = "aa" * 16, "bb" * 16, "cc" * 16, "dd" * 16
PATIENCE_S = 10.0


@pytest.fixture
def links() -> Iterator[dict[str, PeerLinks]]:
    """The hub passes on; the two phones have no address, so nobody can call them."""
    keys = {node: CurveKeys.generate() for node in (HUB, ONE, OTHER)}

    def peers(address: tuple[str, ...]) -> list[Peer]:
        return [
            Peer(node, node[:2], b"k" * 32, each.public, address if node == HUB else ()) for node, each in keys.items()
        ]

    hub = PeerLinks("tcp://127.0.0.1:*", keys[HUB], peers(()), lambda: None)
    found = {HUB: hub}
    found |= {
        node: PeerLinks("tcp://127.0.0.1:*", keys[node], peers((hub.address,)), lambda: None) for node in (ONE, OTHER)
    }
    try:
        yield found
    finally:
        for each in found.values():
            each.close()


def next_of(links: PeerLinks) -> Any:
    return links.arrivals.get(timeout=PATIENCE_S)


def call(links: dict[str, PeerLinks], node: str) -> None:
    """As it reports to its coordinator."""
    links[node].send(Ask(HUB, b"report"))
    arrival = next_of(links[HUB])
    links[HUB].send(Reply(arrival.handle, b"good"))
    assert bytes(next_of(links[node]).body) == b"good"


@pytest.mark.covers("MS-31")
def test_two_phones_that_nobody_can_call_speak_by_way_of_the_node_that_coordinates(links: dict[str, PeerLinks]) -> None:
    call(links, ONE)
    call(links, OTHER)
    links[ONE].send(Ask(OTHER, b"rows"))
    assert next_of(links[ONE]) == Unreachable(OTHER)
    for number in range(3):
        body = b"rows %d" % number * 10_000
        links[ONE].send(Ask(OTHER, body, follows=number > 0, by=HUB))
        arrival = next_of(links[OTHER])
        assert isinstance(arrival, Arrival)
        assert bytes(arrival.body) == body
        links[OTHER].send(Reply(arrival.handle, b"receipt %d" % number))
        answer = next_of(links[ONE])
        assert answer == Answer(OTHER, b"receipt %d" % number, urgent=True)
    assert links[HUB].arrivals.empty(), "what is passed on is not for who passes it on"
    counted = links[HUB].passing
    assert (counted.passed, counted.refused) == (3, 0)


def test_a_knock_that_nobody_hears_does_not_end_the_urgent_lane(links: dict[str, PeerLinks]) -> None:
    links[ONE].send(Ask(OTHER, b""))
    with pytest.raises(queue.Empty):
        links[ONE].arrivals.get(timeout=0.3)


def test_nothing_is_passed_on_to_who_is_not_in_the_fleet_or_has_not_called(links: dict[str, PeerLinks]) -> None:
    call(links, ONE)
    for to in (NOBODY, OTHER):
        links[ONE].send(Ask(to, b"rows", by=HUB))
    call(links, ONE)  # behind those two
    counted = links[HUB].passing
    assert (counted.passed, counted.refused) == (0, 2)
    assert links[OTHER].arrivals.empty()


@pytest.mark.parametrize("called", [False, True], ids=["never called", "called long ago"])
def test_a_node_that_can_call_the_other_end_passes_on_to_it(called: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {node: CurveKeys.generate() for node in (HUB, ONE, OTHER)}
    found: dict[str, PeerLinks] = {}

    def peers() -> list[Peer]:
        return [
            Peer(node, node[:2], b"k" * 32, each.public, (found[node].address,) if node in found else ())
            for node, each in keys.items()
        ]

    try:
        for node in (OTHER, HUB, ONE):
            found[node] = PeerLinks("tcp://127.0.0.1:*", keys[node], peers(), lambda: None)
        if called:
            monkeypatch.setattr(peer_links, "CALLED_S", 0.0)
            found[OTHER].meet(peers())
            call(found, OTHER)
            found[OTHER].renew([HUB])
        for number in range(3):
            found[ONE].send(Ask(OTHER, b"rows %d" % number, follows=number > 0, by=HUB))
            arrival = next_of(found[OTHER])
            assert bytes(arrival.body) == b"rows %d" % number
            found[OTHER].send(Reply(arrival.handle, b"receipt %d" % number))
            assert next_of(found[ONE]) == Answer(OTHER, b"receipt %d" % number, urgent=True)
        assert (found[HUB].passing.passed, found[HUB].passing.refused) == (3, 0)
        assert found[HUB].arrivals.empty()
        found[HUB].meet([each for each in peers() if each.node != OTHER])
        found[ONE].send(Ask(OTHER, b"rows", by=HUB))
        wait_until(lambda: found[HUB].passing.refused == 1, "who left the fleet is passed nothing")
        found[HUB].meet([each for each in peers() if each.node != ONE])
        found[ONE].send(Ask(OTHER, b"rows", by=HUB))  # over the connection that it has
        wait_until(lambda: found[HUB].passing.refused == 2, "nor is anything of who has left")
    finally:
        for each in found.values():
            each.close()
