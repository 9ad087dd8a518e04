"""A person asks that a vertex runs on another node: what is refused by name, what a dry run says, and when it happens."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

import resurge as rs
from resurge.examples.peers.beats import beats
from shared.errors import UsageError
from shared.hosting.coordinate import Coordinator
from shared.hosting.planned_moves import ASKED, WITHIN_S, MoveEnded
from shared.identity import DeviceId, device_id
from shared.language.registry import references
from shared.moves import GIVEN_UP, MOVED, PREVIEW, REFUSED, UNDER_WAY, MoveRequest
from shared.plan.cuts import region_vertices
from shared.plan.deployment import HostedQuery, Peer, Placement, decode_deployment, encode_deployment
from shared.wire.status import DeviceStatus, InstanceStatus, KeptStatus

PLAN = rs.plan_of(beats)
BAND = next(each.name for each in region_vertices(PLAN) if "ecg_band" in each.name)
ADDRESS = ("tcp://192.0.2.7:7301",)


def peer(name: str) -> Peer:
    key = Random(name).randbytes(32)
    return Peer(device_id(key).hex(), name, key, "0" * 40, ADDRESS, operators=tuple(sorted(references())))


DESK, PHONE, HUB, SPARE = (peer(name) for name in ("desk", "phone", "hub", "spare"))
FULL, BARE = replace(peer("full"), capacity=0), replace(peer("bare"), operators=())
AWAY, SHY = peer("away"), replace(peer("shy"), addresses=())
ALL = (DESK, PHONE, HUB, SPARE, FULL, BARE, AWAY, SHY)


def query(row: str = "ecoc", hosts: tuple[str, ...] = (HUB.node,)) -> HostedQuery:
    placed = [Placement(vertex.name, hosts, (DESK.node,), 1) for vertex in region_vertices(PLAN)]
    return HostedQuery("q", 1, PLAN, row, 100, (PHONE.node,), DESK.node, tuple(placed))


class World:
    """A coordinator, and what its nodes say to it."""

    def __init__(self, row: str = "ecoc", hosts: tuple[str, ...] = (HUB.node,)) -> None:
        self.coordinator = Coordinator(DESK.node, lambda _data: b"")
        self.coordinator.set_fleet(ALL, [query(row, hosts)])
        self.events: list[object] = []
        for each in (PHONE, HUB, SPARE, FULL, BARE, SHY):
            self.say(each, 0.0)

    def say(self, who: Peer, now: float, state: str = "running", **more: object) -> None:
        fleet = self.coordinator.fleet
        instances = tuple(
            InstanceStatus("q", one.vertex, one.term, state, "", 0, 7, 2048)
            for one in fleet.queries[0].placements
            if who.node in one.hosts
        )
        status = DeviceStatus(**{"instances": instances, "plan": fleet.version, **more})  # type: ignore[arg-type]
        self.coordinator.heard(DeviceId(bytes.fromhex(who.node)), now, status)
        self.events += self.coordinator.events()

    def placed(self, vertex: str = BAND) -> Placement:
        return next(one for one in self.coordinator.fleet.queries[0].placements if one.vertex == vertex)

    def ask(self, now: float = 1.0, **more: object) -> str:
        request = MoveRequest(**{"query": "q", "vertex": BAND, "to": "spare", **more})  # type: ignore[arg-type]
        return self.coordinator.move(request, now).state


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"query": "other"}, "move-query"),
        ({"vertex": "nothing"}, "move-vertex"),
        ({"vertex": "ecg"}, "move-source"),
        ({"to": "nowhere"}, "move-node"),
        ({"leaving": "spare"}, "move-node"),
        ({"to": "hub"}, "move-already-there"),
        ({"to": "full"}, "move-capacity"),
        ({"to": "bare"}, "move-operator"),
        ({"to": "away", "now": 60.0}, "move-silent"),
        ({"to": "shy"}, "move-unreachable"),
    ],
)
def test_what_cannot_be_is_refused_by_name_and_changes_nothing(asked: dict[str, object], code: str) -> None:
    world = World()
    if "now" in asked:
        world.say(HUB, 59.0)
    before = world.coordinator.fleet
    with pytest.raises(UsageError) as caught:
        world.ask(**asked)  # type: ignore[arg-type]
    assert caught.value.code == code
    assert world.coordinator.fleet == before


def test_a_request_that_comes_again_is_answered_once_and_a_refusal_is_an_answer() -> None:
    world = World()
    for _ in range(2):
        world.coordinator.asked([MoveRequest("q", BAND, "full", id="7"), MoveRequest("q", BAND, "spare", id="8")], 1.0)
    assert [(one.request.id, one.state, one.code) for one in world.coordinator.answers()] == [
        ("7", REFUSED, "move-capacity"),
        ("8", UNDER_WAY, ""),
    ]


def test_a_vertex_that_does_not_run_or_is_cut_off_is_not_moved() -> None:
    world = World()
    world.say(HUB, 1.0, "starting")
    with pytest.raises(UsageError, match="move-not-running"):
        world.ask()
    world.say(HUB, 1.0)
    world.say(SPARE, 1.0, unreachable=(PHONE.node,))
    with pytest.raises(UsageError, match="move-unreachable"):
        world.ask()


def test_a_dry_run_says_what_would_happen_and_changes_nothing() -> None:
    world = World()
    before = world.coordinator.fleet
    assert world.ask(dry_run=True) == PREVIEW
    assert world.coordinator.fleet == before
    (answer,) = world.coordinator.answers()
    preview = answer.preview
    assert preview is not None
    assert (preview.before, preview.after, preview.state_bytes) == (("hub",), ("spare",), 2048)
    assert (preview.copies, preview.runs_there, preview.runs_here) == (2, 1, len(before.queries[0].placements) - 1)
    assert preview.streams
    assert preview.pause_s == round(world.coordinator.waits()[0].recovery_s, 1)


def offer(number: int, term: int = 1) -> tuple[KeptStatus, ...]:
    return (KeptStatus("q", BAND, term, number),)


def test_it_moves_once_the_other_node_has_what_its_host_offers_and_no_earlier() -> None:
    world = World()
    assert world.ask() == UNDER_WAY
    version = world.coordinator.fleet.version
    assert decode_deployment(encode_deployment(world.coordinator.fleet)) == world.coordinator.fleet
    assert world.placed().to == SPARE.node
    assert world.ask() == UNDER_WAY, "asked twice, it is done once"
    with pytest.raises(UsageError, match="move-under-way"):
        world.ask(to="desk")
    world.say(SPARE, 2.0, kept=offer(90))
    assert world.placed().to == SPARE.node, "its host has offered nothing"
    world.say(HUB, 2.0, offered=offer(100), plan=version - 1)
    assert world.placed().to == SPARE.node, "of an older deployment, it may have been taken back"
    world.say(HUB, 2.0, offered=offer(100))
    assert world.placed().to == SPARE.node, "the other node has an older one"
    world.say(SPARE, 2.0, kept=offer(100))
    assert world.placed() == Placement(BAND, (SPARE.node,), (DESK.node,), 2)
    assert {one.term for one in world.coordinator.fleet.queries[0].placements if one.vertex != BAND} == {1}
    assert [(one.why, one.before, one.after) for one in world.coordinator.fleet.moves] == [
        (ASKED, ("hub",), ("spare",))
    ]
    assert world.events == [MoveEnded("q", BAND, SPARE.node, "")]
    assert {one.state for one in world.coordinator.answers()} == {MOVED}


def test_without_snapshots_it_begins_with_the_very_state_that_was_handed_over() -> None:
    world = World("none")
    world.ask()
    world.say(SPARE, 2.0, kept=offer(100))
    world.say(HUB, 2.0, offered=offer(100))
    assert (world.placed().hosts, world.placed().handed) == ((SPARE.node,), 100)
    assert decode_deployment(encode_deployment(world.coordinator.fleet)) == world.coordinator.fleet


def test_of_two_copies_the_named_one_goes_and_all_who_run_it_next_have_its_state() -> None:
    world = World("rep-2", (HUB.node, PHONE.node))
    world.ask(leaving="phone")
    assert world.placed().next_hosts == (HUB.node, SPARE.node)
    world.say(PHONE, 2.0, offered=offer(100))
    world.say(SPARE, 2.0, kept=offer(100))
    assert world.placed().to == SPARE.node
    world.say(HUB, 2.0, kept=offer(100))
    assert world.placed().hosts == (HUB.node, SPARE.node)


@pytest.mark.parametrize(("silent", "why"), [(True, "spare is silent"), (False, "it was not ready within")])
def test_a_move_that_comes_to_nothing_is_given_up_and_the_vertex_stays(silent: bool, why: str) -> None:
    world = World()
    world.ask()
    until = 2.0
    while world.placed().to and until < 2 * WITHIN_S:
        until += 1.0
        for each in (PHONE, HUB, FULL, BARE, SHY, AWAY, *(() if silent else (SPARE,))):
            world.say(each, until)
    assert (world.placed().hosts, world.placed().term) == ((HUB.node,), 1)
    (answer,) = world.coordinator.answers()
    assert (answer.state, answer.why.startswith(why)) == (GIVEN_UP, True), answer
    assert until < (20.0 if silent else 2 * WITHIN_S)


def test_a_vertex_that_fails_meanwhile_is_recovered_and_not_moved() -> None:
    world = World()
    world.say(AWAY, 1.0)
    world.ask()
    world.say(SPARE, 2.0, kept=offer(100))
    world.say(HUB, 2.0, "failed", kept=offer(90))
    assert (world.placed().to, world.placed().term) == ("", 2)
    assert [each.why.partition(":")[0] for each in world.events if isinstance(each, MoveEnded)] == [
        "the vertex was recovered meanwhile"
    ]


def test_a_coordinator_that_was_killed_midway_goes_on() -> None:
    world = World()
    world.ask()
    stored = world.coordinator.step().persist[-1].data
    world.coordinator = Coordinator(DESK.node, lambda _data: b"", stored=stored)
    world.coordinator.set_fleet(ALL, [query()])
    world.say(HUB, 1.0, offered=offer(100))
    world.say(SPARE, 1.0, kept=offer(100))
    assert (world.placed().hosts, world.placed().term) == ((SPARE.node,), 2)


def test_a_move_to_a_node_that_left_the_fleet_is_over() -> None:
    world = World()
    world.ask()
    world.coordinator.set_fleet([each for each in ALL if each != SPARE], [query()])
    assert (world.placed().to, world.placed().hosts) == ("", (HUB.node,))
