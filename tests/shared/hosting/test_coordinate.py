"""When a coordinator takes a query's vertices from a silent node: by the delay that the query promises (EC-15)."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

import resurge as rs
from shared.hosting.coordinate import Coordinator
from shared.hosting.fleet_events import Recovered
from shared.hosting.leaving import Left
from shared.identity import DeviceId, device_id
from shared.language.registry import references
from shared.plan.contracts import LOSSLESS, Contract
from shared.plan.cuts import region_vertices
from shared.plan.deployment import HostedQuery, Link, Peer, Placement
from shared.recovery.delays import (
    RECOVERY_S,
    RECOVERY_S_MAX,
    REMEMBERED_MAX,
    SILENCE_S,
    SILENCE_S_MAX,
    SILENCE_S_MIN,
    RecoveryTimes,
    silence_allowed_s,
)
from shared.wire.status import DeviceStatus, InstanceStatus, KeptStatus

DELAYS = {"patient": "60s", "eager": "12s", "silent": None}


def peer(name: str) -> Peer:
    key = Random(name).randbytes(32)
    return Peer(device_id(key).hex(), name, key, "0" * 40, (), operators=tuple(sorted(references())))


DESK, PHONE, HUB, SPARE = (peer(name) for name in ("desk", "phone", "hub", "spare"))


def query(name: str, contract: Contract) -> HostedQuery:
    near = rs.sensor("x", every="1s", columns={"x": "float64"}).gather(name, within="1s", contract=contract)
    plan = rs.plan_of(near.sliding(count=5).aggregate(m=rs.mean("x")).subscribe(f"{name} out"))
    (vertex,) = region_vertices(plan)
    placed = Placement(vertex.name, (HUB.node,), (SPARE.node,), 1)
    return HostedQuery(name, 1, plan, "ecoc", 100, (PHONE.node,), DESK.node, (placed,))


def coordinator() -> Coordinator:
    found = Coordinator(DESK.node, lambda _data: b"")
    contracts = {
        name: LOSSLESS if delay is None else rs.lossless(delay=delay) for name, delay in DELAYS.items()
    }  # fmt: skip
    found.set_fleet((DESK, PHONE, HUB, SPARE), [query(name, contract) for name, contract in contracts.items()])
    return found


def speak(one: Coordinator, now: float, *peers: Peer, status: DeviceStatus | None = None) -> list[Recovered]:
    for each in peers:
        one.heard(DeviceId(bytes.fromhex(each.node)), now, status or DeviceStatus())
    return [event for event in one.events() if isinstance(event, Recovered)]


@pytest.mark.covers("EC-15")
def test_each_query_gives_a_silent_node_up_when_its_own_delay_would_be_broken() -> None:
    one = coordinator()
    speak(one, 0.0, PHONE, HUB, SPARE)
    moved: dict[str, float] = {}
    for tenth in range(1, 700):
        now = tenth / 10
        for event in speak(one, now, PHONE, SPARE):
            assert set(event.moves.values()) == {SPARE.node}
            moved[event.query] = now
            waits = next(waits for waits in one.waits() if waits.query == event.query)
            assert event.why == f"hub is silent for {waits.silence_s:.3g} s"
    assert moved == {"patient": 60 - 1 - RECOVERY_S, "eager": 12 - 1 - RECOVERY_S, "silent": SILENCE_S}


def test_a_node_that_is_back_within_the_bound_keeps_its_vertices() -> None:
    one = coordinator()
    speak(one, 0.0, PHONE, HUB, SPARE)
    moved = [event.query for tenth in range(1, 400) for event in speak(one, tenth / 10, PHONE, SPARE)]
    assert moved == ["eager", "silent"]
    assert speak(one, 40.0, PHONE, HUB, SPARE) == []
    assert [placed.hosts for each in one.fleet.queries for placed in each.placements if each.name == "patient"] == [
        (HUB.node,)
    ]


@pytest.mark.parametrize(("last_s", "host"), [(56.0, SPARE), (45.0, None)])
def test_nothing_goes_to_a_node_that_is_only_not_given_up_yet(last_s: float, host: Peer | None) -> None:
    """The query with the longest patience gives the hub up. Its keeper is a good place only if it was heard of lately."""
    one = coordinator()
    speak(one, 0.0, PHONE, HUB, SPARE)
    moved = {}
    for second in range(1, 60):
        for event in speak(one, float(second), PHONE, *([SPARE] if second <= last_s else [])):
            moved[event.query] = set(event.moves.values())
    assert (moved["patient"] == {SPARE.node}) is (host is SPARE)
    assert moved["patient"] & {DESK.node, PHONE.node, SPARE.node}


def test_recoveries_are_measured_and_the_next_one_begins_accordingly() -> None:
    one = coordinator()
    speak(one, 0.0, PHONE, HUB, SPARE)
    speak(one, 4.0, PHONE, SPARE)
    assert [event.query for event in speak(one, 8.5, PHONE, SPARE)] == ["eager"]
    vertex = one.fleet.queries[1].placements[0].vertex
    for state, at in (("starting", 9.0), ("running", 9.5)):
        status = DeviceStatus(instances=(InstanceStatus("eager", vertex, 2, state),))
        assert speak(one, at, SPARE, status=status) == []
    assert [round(waits.recovery_s, 6) for waits in one.waits()] == [1.0, 1.0, 1.0]
    assert [waits.silence_s for waits in one.waits()] == [60 - 1 - 1.0, 12 - 1 - 1.0, SILENCE_S]
    assert [waits.delay_s for waits in one.waits()] == [59.0, 11.0, None]


@pytest.mark.covers("NB-3")
def test_a_silent_node_is_waited_for_as_long_as_the_query_says_and_a_phone_keeps_what_only_it_feeds() -> None:
    waiting = replace(query("waiting", rs.lossless(delay="12s")), absent_s=40)
    (placed,) = query("own", LOSSLESS).placements
    own = replace(query("own", LOSSLESS), placements=(replace(placed, hosts=(PHONE.node,)),), absent_s=40)
    shared = replace(own, name="shared", plan=query("shared", LOSSLESS).plan, sources=(PHONE.node, SPARE.node))
    shared = replace(shared, placements=(replace(own.placements[0], vertex="shared out"),))
    one = Coordinator(DESK.node, lambda _data: b"")
    one.set_fleet((DESK, PHONE, HUB, SPARE), [waiting, own, shared])
    speak(one, 0.0, PHONE, HUB, SPARE)
    moved: dict[str, float] = {}
    for second in range(1, 120):
        for event in speak(one, float(second), SPARE):
            if event.moves:
                moved[event.query] = float(second)
    assert moved == {"waiting": 40.0, "shared": 40.0}, "and `own` would be cut off from what its phone brings back"


def running(one: Coordinator, name: str, host: Peer, now: float, state: str = "running") -> None:
    """The host says so of the query's vertex, under its newest term."""
    (placed,) = next(each for each in one.fleet.queries if each.name == name).placements
    speak(
        one, now, host, status=DeviceStatus(instances=(InstanceStatus(name, placed.vertex, placed.term, state, "x"),))
    )


def test_a_vertex_whose_host_died_is_remembered_as_moved_with_the_seconds_until_it_worked_again() -> None:
    one = coordinator()
    speak(one, 0.0, PHONE, HUB, SPARE)
    speak(one, 4.0, PHONE, SPARE)
    assert one.recoveries() == ()
    speak(one, 8.5, PHONE, SPARE)
    (begun,) = one.recoveries()
    assert (begun.move.query, begun.move.before, begun.move.after) == ("eager", ("hub",), ("spare",))
    assert (begun.kind, begun.took_s) == ("moved", None), "it does not work yet"
    running(one, "eager", SPARE, 9.0, "starting")
    assert [each.took_s for each in one.recoveries()] == [None]
    running(one, "eager", SPARE, 9.75)
    assert one.recoveries() == (replace(begun, took_s=1.25),)
    again = Coordinator(DESK.node, lambda _data: b"", stored=one.step().persist[-1].data, now=20.0)
    assert again.recoveries() == (begun,), "how long it took only that coordinator knew"
    one.set_queries([each for each in one.fleet.queries if each.name != "eager"])
    assert [each for each in one.recoveries() if each.move.query == "eager"] == [], "it runs no more"


@pytest.mark.parametrize(("strategy", "kind"), [("ecoc", "restarted"), ("token", "rolled back")])
def test_a_vertex_that_began_again_where_it_was_is_not_called_moved(strategy: str, kind: str) -> None:
    one = Coordinator(DESK.node, lambda _data: b"")
    one.set_fleet((DESK, PHONE, HUB, SPARE), [replace(query("q", LOSSLESS), row=strategy)])
    speak(one, 0.0, PHONE, HUB, SPARE)
    running(one, "q", HUB, 1.0, "failed")
    running(one, "q", HUB, 1.75)
    assert [(each.kind, each.move.after, each.took_s) for each in one.recoveries()] == [(kind, ("hub",), 0.75)]


def test_how_long_each_recovery_took_is_known_of_the_last_ones_only() -> None:
    times = RecoveryTimes()
    for term in range(REMEMBERED_MAX + 2):
        times.began("q", "v", term, float(term))
        times.runs("q", "v", term, term + 0.5)
    known = [term for term in range(REMEMBERED_MAX + 3) if times.took_s("q", "v", term) == 0.5]
    assert known == list(range(2, REMEMBERED_MAX + 2))
    assert times.took_s("q", "other", 5) is None
    times.began("q", "slow", 1, 0.0)
    times.runs("q", "slow", 1, 1e4)
    assert times.took_s("q", "slow", 1) == 1e4, "as it was, whatever the average makes of it"


def test_a_moving_average_that_one_long_wait_does_not_spoil() -> None:
    times = RecoveryTimes()
    for term, took_s in enumerate((2.0, 2.0, 4.0)):
        times.began("q", "v", term, 10.0)
        times.runs("q", "v", term, 10.0 + took_s)
        times.runs("q", "v", term, 99.0)  # it goes on running
    assert (round(times.average_s, 6), times.measured) == (2.6, 3)
    times.began("q", "v", 8, 0.0)
    times.runs("q", "v", 7, 1.0)  # of an earlier term
    times.runs("q", "v", 8, 1e6)
    assert times.average_s < RECOVERY_S_MAX / 3


@pytest.mark.parametrize(
    ("left_s", "recovery_s", "expected"),
    [(None, 3.0, 10.0), (20.0, 3.0, 17.0), (5.0, 3.0, SILENCE_S_MIN), (86_400.0, 3.0, SILENCE_S_MAX)],
)
def test_how_long_a_node_may_be_silent_has_limits(left_s: float | None, recovery_s: float, expected: float) -> None:
    assert silence_allowed_s(left_s, recovery_s, usual_s=SILENCE_S, least_s=SILENCE_S_MIN) == expected


@pytest.mark.parametrize("spare_speaks", [True, False])
def test_a_coordinator_that_was_restarted_first_hears_who_has_which_snapshot(spare_speaks: bool) -> None:
    stored = coordinator().step().persist[-1].data
    one = Coordinator(DESK.node, lambda _data: b"", stored=stored, now=100.0)
    vertex = one.fleet.queries[0].placements[0].vertex
    lost = DeviceStatus(
        instances=(InstanceStatus("patient", vertex, 1, "lost"),), kept=(KeptStatus("patient", vertex, 1, 2),)
    )
    assert speak(one, 100.1, HUB, status=lost) == []
    assert speak(one, 100.2, PHONE) == []
    if spare_speaks:
        newer = DeviceStatus(kept=(KeptStatus("patient", vertex, 1, 9),))
        assert [event.moves for event in speak(one, 101.0, SPARE, status=newer)] == [{vertex: SPARE.node}]
    else:
        assert speak(one, 105.0, HUB, status=lost) == []
        assert speak(one, 109.5, HUB, PHONE, status=lost) == []
        assert one.next_wake() == 100.0 + SILENCE_S
        assert [event.moves for event in speak(one, 100.0 + SILENCE_S, PHONE)] == [{vertex: HUB.node}]


def reached(name: str, **changed: object) -> Peer:
    return replace(peer(name), addresses=(f"tcp://127.0.0.1:{7300 + len(name)}",), **changed)  # type: ignore[arg-type]


@pytest.mark.covers("NB-2")
@pytest.mark.parametrize("strategy", ["dist-2", "none"])
@pytest.mark.parametrize(("room", "goes_to"), [(64, "near"), (1, "far")], ids=["cheapest", "next, as it is full"])
def test_a_failed_hosts_vertices_go_where_their_rows_go_at_the_least_cost(
    strategy: str, room: int, goes_to: str
) -> None:
    """The node near the phone and the sink is the busier one; with as many vertices as it may run, it is passed over."""
    desk, hub, far = reached("desk", capacity=0), reached("hub"), reached("far")
    near = reached("near", capacity=room)
    peers = (desk, PHONE, hub, far, near)
    links = [
        Link((one.node, other.node), lane, cost)
        for one, other, lane, cost in (
            (PHONE, hub, "wifi", 2), (PHONE, near, "wifi", 2), (PHONE, far, "cellular", 10), (hub, desk, "wired", 1),
            (near, desk, "wired", 1), (far, desk, "wired", 1), (hub, near, "wired", 1), (hub, far, "wired", 1),
        )
    ]  # fmt: skip
    first = query("loud", LOSSLESS)
    (placed,) = first.placements
    kept = (far.node, near.node) if strategy == "dist-2" else ()
    first = replace(
        first, row=strategy, sink=desk.node, place="push-down",
        placements=(replace(placed, hosts=(hub.node,), keepers=kept),),
    )  # fmt: skip
    other = query("other", LOSSLESS)
    busy = replace(other.placements[0], hosts=(near.node,), keepers=(far.node,))
    one = Coordinator(desk.node, lambda _data: b"")
    one.set_fleet(peers, [first, replace(other, sink=desk.node, placements=(busy,))], links)
    for second in range(1, 60):
        speak(one, float(second), PHONE, far, near, *([hub] if second == 1 else []))
    moved = one.fleet.queries[0].placements[0]
    assert [each.name for each in peers if each.node in moved.hosts] == [goes_to]
    assert moved.term == 2


def test_a_node_that_the_fleet_lists_no_more_leaves_once_what_it_had_is_elsewhere() -> None:
    kept = query("kept", LOSSLESS)
    one = Coordinator("", lambda _data: b"")
    one.set_fleet((DESK, PHONE, HUB, SPARE), [kept])
    speak(one, 1.0, DESK, PHONE, HUB, SPARE)
    assert HUB.node in one.fleet.queries[0].placements[0].hosts
    one.set_fleet((DESK, PHONE, SPARE), [kept])
    assert HUB in one.fleet.peers, "it has a vertex"
    speak(one, 1.1, DESK, PHONE, SPARE)
    one.wake(1.2)
    assert one.fleet.queries[0].placements[0].hosts == (SPARE.node,)
    assert [peer.name for peer in one.fleet.peers] == ["desk", "phone", "spare"]


def test_a_node_that_is_revoked_leaves_with_what_ends_on_it_and_the_others_do_not_wait() -> None:
    fed, kept = query("fed", LOSSLESS), query("kept", LOSSLESS)
    fed = replace(fed, sources=(PHONE.node, HUB.node))
    kept = replace(kept, sink=HUB.node)
    one = Coordinator("", lambda _data: b"")
    one.set_fleet((DESK, PHONE, HUB, SPARE), [fed, kept], [Link((PHONE.node, HUB.node), "wifi", 2)])
    speak(one, 1.0, DESK, PHONE, HUB, SPARE)
    one.part_with([HUB.node])
    one.wake(1.1)
    (left, *_) = [event for event in one.events() if isinstance(event, Left)]
    assert left.ended == ("kept",)
    (stays,) = one.fleet.queries
    assert (stays.name, stays.sources, stays.placements[0].hosts, stays.placements[0].term) == (
        "fed", (PHONE.node,), (SPARE.node,), 2,
    )  # fmt: skip
    assert [peer.name for peer in one.fleet.peers] == ["desk", "phone", "spare"]
    assert one.fleet.links == ()
    assert one.fleet.moves[-1].why == "hub was revoked"
    speak(one, 1.2, HUB)
    assert HUB.node not in one.alive(1.2), "whatever it says"
    one.part_with([DESK.node, PHONE.node, SPARE.node, HUB.node])
    one.wake(1.3)
    assert one.fleet.queries == (), "nobody is left to run anything"
