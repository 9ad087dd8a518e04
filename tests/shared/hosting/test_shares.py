"""Who applies which filters on the way: as much as there is room for, from the device on."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

import resurge as rs
from resurge import col
from resurge.cli.fleet_query import where_lines
from shared.hosting.asked_query import AskedQuery, place_query
from shared.hosting.coordinate import Coordinator
from shared.hosting.requests import answer
from shared.hosting.shares import applied, loads
from shared.identity import DeviceId
from shared.plan.deployment import Hop, HostedQuery, Link, Peer, Route
from shared.plan.encoding import encode_plan
from shared.plan.graph import Plan
from shared.plan.placing import shares
from shared.plan.topology import Topology
from shared.spool.entry import DataEntry
from shared.wire.status import BackStatus, DeviceStatus
from tests.claims import Claim
from tests.shared.hosting.test_requests import peer
from tests.simulation.peers.world import Settings
from tests.simulation.walks.world import ROWS, Walk, WalkWorld, rows_of

FILTER_1, FILTER_2 = "where vx > 0", "where az > 1"


def query_1() -> Plan:
    """The paper's: two filters over a recording."""
    rows = rs.sensor("player", every="1ms", columns={"vx": "float64", "az": "float64"}).gather("player")
    return rs.plan_of(rows.where(col.vx > 0).where(col.az > 1).subscribe("out"))


def workers(room: int, **rooms: int) -> dict[str, Peer]:
    """The paper's nine nodes: worker 8 is the source, which others do not call; worker 0 coordinates."""
    found = {f"w{number}": peer(f"w{number}", capacity=rooms.get(f"w{number}", 0)) for number in range(8)}
    return found | {"w8": peer("w8", capacity=room, addresses=())}


def links(peers: dict[str, Peer], *names: str) -> list[Link]:
    pairs = [each.split("-") for each in ("w0-w1", "w1-w2", "w1-w3", "w2-w5", "w3-w6", *names)]
    return [Link((peers[one].node, peers[other].node), "wired", 1) for one, other in pairs]


def placed(peers: dict[str, Peer], listed: list[Link], **asked: Any) -> HostedQuery:
    given = {"place": "push-down", "strategy": "none", "keepers": 0} | asked
    query = AskedQuery("q", query_1(), (peers["w8"].node,), peers["w0"].node, **given)
    return place_query(query, Topology([*peers.values()], listed, cloud=peers["w0"].node))[0]


def told(query: HostedQuery, peers: dict[str, Peer]) -> list[tuple[str, ...]]:
    names = {each.node: each.name for each in peers.values()}
    return [(names[each.node], *each.operators) for each in applied(query)]


@pytest.mark.covers("NB-2", "NB-17")
@pytest.mark.parametrize(
    ("link", "room", "rooms", "expected"),
    [
        ("w5-w8", 1, {"w5": 1}, [("w8", FILTER_1), ("w5", FILTER_2)]),  # left
        ("w6-w8", 1, {"w6": 1}, [("w8", FILTER_1), ("w6", FILTER_2)]),  # middle: the same operator
        ("w2-w8", 0, {"w2": 1, "w1": 1}, []),  # right: none of it, and the first node with room has both
    ],
)
def test_the_filters_of_query_1_are_split_as_in_figure_4(
    link: str, room: int, rooms: dict[str, int], expected: list[tuple[str, ...]]
) -> None:
    peers = workers(room, **rooms)
    query = placed(peers, links(peers, link))
    assert told(query, peers) == expected


@pytest.mark.covers("NB-2")
def test_a_node_between_applies_its_part_where_rows_go_along_links() -> None:
    peers = workers(1, w5=1, w2=1, w1=1)
    query = placed(peers, links(peers, "w5-w8"), on=(peers["w1"].node,))
    (route,) = query.routes
    assert route == Route("player", peers["w8"].node, 1, ((Hop(peers["w5"].node, 2), Hop(peers["w2"].node, 0)),))
    assert told(query, peers) == [("w8", FILTER_1), ("w5", FILTER_2)]
    assert loads([query]) == {peers["w8"].node: 1, peers["w5"].node: 1, peers["w1"].node: 1}
    assert loads([query], without=("q", "player")) == {peers["w1"].node: 1}


@pytest.mark.parametrize("place", ["spread", "top-down", "cloud-only"])
def test_other_strategies_leave_the_filters_where_the_rows_are_read(place: str) -> None:
    peers = workers(2, w5=2, w2=2, w0=1)
    assert placed(peers, links(peers, "w5-w8"), place=place).routes == ()


def test_a_device_that_reads_its_rows_itself_sends_none() -> None:
    peers = workers(1, w0=1) | {"w8": peer("w8", capacity=1)}
    query = placed(peers, links(peers, "w5-w8"))
    assert query.placements[0].hosts == (peers["w8"].node,)
    assert query.routes == ()


def test_a_run_is_shared_out_by_what_is_left_of_each_room() -> None:
    room = {"phone": 1, "full": -1, "hub": 5}
    filters = [False] * 4
    assert shares("push-down", filters, ("phone", "full", "hub", "last"), room) == (1, 0, 4, 0)
    assert shares("bottom-up", filters, ("stranger", "phone"), room) == (0, 1)
    assert shares("spread", filters, ("phone", "hub"), room) == (0, 0)


def test_no_node_ends_with_a_projection_that_only_makes_rows_wider() -> None:
    room = {"phone": 1, "hub": 5}
    assert shares("push-down", [True, False], ("phone", "hub"), room) == (0, 2)
    assert shares("push-down", [False, True, True], ("phone", "hub"), room) == (1, 0)


DESK, HOST, A, B = peer("desk", capacity=0), peer("host"), peer("a", capacity=1), peer("b", capacity=1)
PHONE = peer("phone", capacity=1, addresses=())


class Walking:
    """A coordinator with one submitted query; the phone says where it is."""

    def __init__(self) -> None:
        self.coordinator = Coordinator(DESK.node, lambda _data: b"")
        self.coordinator.set_fleet((DESK, HOST, A, B, PHONE), [])
        self.now = 1.0
        self._hear()

    def _hear(self, back: BackStatus | None = None) -> None:
        self.now += 1.0
        for each in (HOST, A, B, PHONE):
            said = DeviceStatus(back=back if each is PHONE else None)
            self.coordinator.heard(DeviceId(bytes.fromhex(each.node)), self.now, said)

    def submit(self, **changed: Any) -> dict[str, Any]:
        plan = json.loads(encode_plan(query_1()))
        given = {"name": "q", "plan": plan, "sources": ["phone"], "sink": "host", "on": ["host"], "strategy": "none"}
        return answer(self.coordinator, "submit", given | {"keepers": 0} | changed, self.now)

    @property
    def gather(self) -> str:
        return self.coordinator.fleet.queries[0].plan.gathers[0].name

    def walk(self, *near: Peer) -> Route:
        self._hear(BackStatus(("q",), tuple(each.node for each in near)))
        query = next(each for each in self.coordinator.fleet.queries if each.name == "q")
        (route,) = query.routes
        return replace(route, alternates=())

    def offer(self, room: int) -> None:
        """The phone has another room from now on."""
        fleet = self.coordinator.fleet
        peers = [replace(each, capacity=room) if each.node == PHONE.node else each for each in fleet.peers]
        self.coordinator.set_fleet(peers, fleet.queries)


@pytest.mark.covers("NB-12")
def test_a_phone_that_is_back_elsewhere_has_the_same_operators_or_more_or_fewer() -> None:
    world = Walking()
    said = world.submit()
    assert said["applied"] == [
        {"source": "phone", "node": "phone", "operators": [FILTER_1]},
        {"source": "phone", "node": "host", "operators": [FILTER_2]},
    ]
    assert f"  rows of phone: {FILTER_1} on phone; {FILTER_2} on host" in where_lines(said)
    assert world.walk(A) == Route(world.gather, PHONE.node, 1, ((Hop(A.node, 2),),)), "the same; the rest on the way"
    world.offer(2)
    assert world.walk(A).upto == 1, "nothing changes where the way holds"
    assert world.walk(B) == Route(world.gather, PHONE.node, 2, ((Hop(B.node, 0),),)), "more"
    world.offer(0)
    assert world.walk(A) == Route(world.gather, PHONE.node, 0, ((Hop(A.node, 1),),)), "fewer"


def test_what_others_apply_leaves_less_room() -> None:
    world = Walking()
    world.submit()
    said = world.submit(name="r")
    assert said["applied"] == [], "the phone has no room left"
    phone = next(each for each in said["nodes"] if each["name"] == "phone")
    assert (phone["runs"], phone["capacity"]) == (1, 1)


def test_a_start_with_the_same_file_leaves_ways_as_they_are() -> None:
    world = Walking()
    world.submit()
    world.walk(A)
    fleet = world.coordinator.fleet
    (routes,) = (query.routes for query in fleet.queries)
    fresh = [replace(query, routes=(Route(world.gather, PHONE.node, 1),)) for query in fleet.queries]
    world.coordinator.set_fleet(fleet.peers, fresh)
    assert world.coordinator.fleet.queries[0].routes == routes


def kept() -> Plan:
    """A fifth of the rows, or so, is kept."""
    rows = rs.sensor("x", every="33ms", columns={"x": "float64"}).gather("g")
    return rs.plan_of(rows.where(col.x > 5).where(col.x < 9).sliding(count=4).aggregate(s=rs.sum("x")).subscribe("out"))


class Counted(WalkWorld):
    """Counts the bytes that phones spool of the first query's gather."""

    spooled = 0

    def _deploy(self) -> None:
        self._plan = kept()
        super()._deploy()

    def _sense(self, number: int) -> None:
        node = self.nodes[number]
        heads = {spec.key.edge: node.host.head(spec.key) for spec in node.host.gathers() if spec.name == "g"}
        super()._sense(number)
        new = [each for edge, head in heads.items() for each in node.spool.pending(edge) if each.lo >= head]
        self.spooled += sum(each.payload_bytes for each in new if isinstance(each, DataEntry))


@pytest.mark.covers("NB-4", "NB-12")
def test_a_phone_that_filters_sends_fewer_bytes_and_the_results_are_the_same(claim: Claim) -> None:
    settings = Settings(kept(), ROWS, rows_of, nodes=7, sources=(1, 2), row="ecoc", every=32, batch=60, within_s=30.0)
    worlds, outcomes = [], []
    for room in (0, 5):
        world = Counted(Walk(settings, (), "dynamic", 0, room=room))
        outcomes.append(world.run())
        worlds.append(world)
    bare, filtering = worlds
    assert [len(world.results()[0]) for world in worlds] == [outcomes[0].elements] * 2
    assert outcomes[0].digest == outcomes[1].digest
    claim(f"{bare.spooled} bytes spooled by phones without room, {filtering.spooled} with room for both filters")
    assert 0 < filtering.spooled < 0.5 * bare.spooled
