"""Which way a device's rows go when theirs is gone: only theirs, and only then."""

from __future__ import annotations

from dataclasses import replace

import pytest

import resurge as rs
from resurge import col
from shared.hosting.alternates import ALTERNATE_S, Alternates
from shared.hosting.edits import edited, without_retired
from shared.hosting.routing import ALTERNATES, RETRY_S, TAKEN, Reach, Routing
from shared.identity import EdgeId
from shared.plan.deployment import Deployment, Hop, HostedQuery, Link, Peer, Placement, Route
from shared.plan.graph import Plan
from shared.wire.status import DeviceStatus, TookStatus

PHONE, HOST, A, B, C = "phone", "host", "a", "b", "c"
HUBS = frozenset({HOST, A, B, C})
ALIVE = HUBS | {PHONE}


def plan(limit: int = 3, count: int = 4) -> Plan:
    rows = rs.sensor("x", every="1s", columns={"x": "float64"}).gather("g").where(col.x > limit)
    return rs.plan_of(rows.sliding(count=count).aggregate(s=rs.sum("x")).subscribe("out"))


QUERY = HostedQuery("q", 1, plan(), "ecoc", 10, (PHONE,), HOST, (Placement("out", (HOST,), (), 1),))


def reach(*neighbours: str, back: bool = True, apart: set[tuple[str, str]] = frozenset(), alive: frozenset[str] = ALIVE) -> Reach:  # type: ignore[assignment]  # fmt: skip
    near = {PHONE: frozenset({PHONE, *neighbours})} if back else {}
    return Reach(alive & HUBS, alive, frozenset(apart), frozenset(), near, frozenset({PHONE} if back else ()))


def ways(query: HostedQuery) -> list[list[str]]:
    return [[hop.node for hop in path] for path in query.route("g", PHONE).paths]


@pytest.mark.covers("NB-10")
def test_a_device_that_is_back_where_it_was_is_left_alone() -> None:
    assert Routing().rerouted(QUERY, reach(HOST, A), 0.0) == (QUERY, [])
    over = replace(QUERY, routes=(Route("g", PHONE, 1, ((Hop(A),),)),))
    assert Routing().rerouted(over, reach(A), 0.0) == (over, [])


@pytest.mark.covers("NB-9", "NB-11")
def test_a_device_that_reaches_only_others_goes_over_one_of_them() -> None:
    query, (event,) = Routing().rerouted(QUERY, reach(B, C), 0.0)
    assert ways(query) == [[B]]
    assert (event.query, event.source, event.paths) == ("q", PHONE, ((B,),))
    assert query.placements == QUERY.placements
    assert query.route("g", PHONE).upto == 0


def test_a_device_keeps_its_operators() -> None:
    over = replace(QUERY, routes=(Route("g", PHONE, 1),))
    query, _ = Routing().rerouted(over, reach(B), 0.0)
    assert query.route("g", PHONE) == Route("g", PHONE, 1, ((Hop(B, 0),),))


def test_a_way_that_fails_behind_its_first_node_is_replaced_and_not_tried_again_soon() -> None:
    routing = Routing()
    over = replace(QUERY, routes=(Route("g", PHONE, 0, ((Hop(B),),)),))
    apart = frozenset({(B, HOST)})
    failed = routing.failed(apart, 0.0)
    query, _ = routing.rerouted(over, replace(reach(B, apart={(B, HOST)}), failed=failed), 0.0)
    assert ways(query) == [[B, A]]
    query, _ = routing.rerouted(over, replace(reach(A, C), failed=routing.failed((), 1.0)), 1.0)
    assert ways(query) == [[A]]
    assert routing.failed((), RETRY_S + 1) == frozenset()


def test_where_links_are_listed_a_way_goes_along_them() -> None:
    linked = frozenset({(A, B), (B, HOST), (C, HOST)})
    query, _ = Routing().rerouted(QUERY, replace(reach(A), linked=linked), 0.0)
    assert ways(query) == [[A, B]]
    query, _ = Routing().rerouted(QUERY, replace(reach(A, C), linked=linked), 0.0)
    assert ways(query) == [[C]]


def test_a_way_that_a_device_found_itself_stays_when_no_link_is_listed_for_it() -> None:
    listed = frozenset({(A, HOST), (HOST, A)})
    query, _ = Routing().rerouted(QUERY, replace(reach(A), linked=listed), 0.0)
    assert ways(query) == [[A]]
    assert Routing().rerouted(query, replace(reach(back=False), linked=listed), 1.0) == (query, [])
    gone = replace(reach(back=False, apart={(A, HOST)}), linked=listed)
    assert Routing().rerouted(query, gone, 1.0) == (query, []), "there is no other"


def test_when_nothing_leads_there_the_way_stays() -> None:
    assert Routing().rerouted(QUERY, reach(), 0.0) == (QUERY, [])


def test_a_silent_device_keeps_its_way() -> None:
    over = replace(QUERY, routes=(Route("g", PHONE, 0, ((Hop(B),),)),))
    away = reach(back=False, alive=ALIVE - {PHONE, B})
    assert Routing().rerouted(over, away, 0.0) == (over, [])


@pytest.mark.covers("NB-14", "NB-15")
def test_several_paths_share_no_node_and_end_when_the_device_has_nothing_left() -> None:
    query, _ = Routing().rerouted(replace(QUERY, forward="paths:2"), reach(A, B), 0.0)
    assert ways(query) == [[A], [B]]
    assert Routing().rerouted(query, reach(A, B), 0.0) == (query, [])
    query, (event,) = Routing().rerouted(query, reach(back=False), 1.0)
    assert ways(query) == [[A]]
    assert event.why == "what it brought back has arrived"


def test_another_path_is_added_when_the_device_finds_another_neighbour() -> None:
    routing = Routing()
    query, _ = routing.rerouted(replace(QUERY, forward="paths:2"), reach(A), 0.0)
    assert ways(query) == [[A]]
    query, (event,) = routing.rerouted(query, reach(A, C), 1.0)
    assert (ways(query), event.why) == ([[A], [C]], "there is another way beside it")
    there = replace(QUERY, forward="paths:2", routes=(Route("g", PHONE, 0, ((Hop(A),),)),))
    assert Routing().rerouted(there, reach(A, C), 0.0) == (there, []), "it is back where it was"


def test_of_several_paths_one_that_fails_is_replaced() -> None:
    query, _ = Routing().rerouted(replace(QUERY, forward="paths:2"), reach(A, B), 0.0)
    query, _ = Routing().rerouted(query, reach(B, C), 1.0)
    assert ways(query) == [[B], [C]]


def test_a_query_that_is_edited_before_its_windows_remembers_what_it_was() -> None:
    moved = replace(QUERY, placements=(Placement("out", (A,), (), 3),), routes=(Route("g", PHONE, 1),))
    after = edited(moved, replace(QUERY, plan=plan(5)), ALIVE)
    assert (after.placements, after.routes, after.retired) == (moved.placements, moved.routes, (moved.plan,))
    again = edited(after, replace(QUERY, plan=plan(5)), ALIVE)
    assert again == after
    assert without_retired(after, 7, {PHONE: DeviceStatus(plan=6)}) == after
    assert without_retired(after, 7, {PHONE: DeviceStatus(plan=7, stamps=(9,))}) == after
    assert without_retired(after, 7, {}) == after
    assert without_retired(after, 7, {PHONE: DeviceStatus(plan=7)}).retired == ()


def test_an_edit_of_windows_retires_nothing() -> None:
    assert edited(QUERY, replace(QUERY, plan=plan(5, 8)), ALIVE).retired == ()


def test_ways_over_nodes_that_the_fleet_has_no_more_go() -> None:
    before = replace(QUERY, routes=(Route("g", PHONE, 1, ((Hop(A),), (Hop(B),))),))
    assert edited(before, QUERY, ALIVE - {A}).routes == (Route("g", PHONE, 1, ((Hop(B),),)),)
    assert edited(before, QUERY, ALIVE - {A, B}).routes == (Route("g", PHONE, 1, ((),)),)


# --- alternates -----------------------------------------------------------------------------------------------------


def fleet(*routes: Route, links: tuple[tuple[str, str], ...] = (), placed: tuple[str, ...] = (HOST,)) -> Deployment:
    peers = tuple(
        Peer(node, node, b"", "", ("tcp://192.0.2.1:1",), capacity=0 if node == PHONE else 4) for node in sorted(ALIVE)
    )
    query = replace(QUERY, routes=routes, placements=(Placement("out", placed, (), 1),))
    return Deployment(HOST, 1, 1, peers, (query,), links=tuple(Link(link, "wifi", 2) for link in links))


def alternates(listed: Deployment) -> list[list[str]]:
    return [[hop.node for hop in path] for path in listed.queries[0].route("g", PHONE).alternates]


def test_alternates_share_no_node_with_the_way_or_with_each_other() -> None:
    listed = Routing().listed(fleet())
    assert alternates(listed) == [[A], [B]]
    assert Routing().listed(listed) == listed, "nothing but the fleet decides"
    over = Routing().listed(fleet(Route("g", PHONE, 1, ((Hop(A),),))))
    assert alternates(over) == [[], [B]], "directly, or over another one"
    assert over.queries[0].route("g", PHONE).upto == 1
    assert alternates(Routing().listed(fleet(placed=(PHONE,)))) == [], "what it reads itself goes nowhere"
    assert alternates(Routing().listed(fleet(Route("g", PHONE, 0, ((Hop(A),),)), placed=(HOST, A)))) == [[B], [C]]


def test_alternates_go_along_listed_links() -> None:
    links = ((PHONE, HOST), (PHONE, A), (A, B), (B, HOST))
    assert alternates(Routing().listed(fleet(links=links))) == [[A, B]]
    assert len(alternates(Routing().listed(fleet()))) == ALTERNATES


def test_a_way_that_a_device_took_by_itself_is_adopted_if_it_was_listed() -> None:
    query = Routing().listed(fleet()).queries[0]
    took = TookStatus("q", "g", (B,))
    adopted, (event,) = Routing.adopted(query, PHONE, [took], 5.0)
    assert ways(adopted) == [[B]]
    assert (event.source, event.paths, event.why) == (PHONE, ((B,),), TAKEN)
    assert adopted.placements == query.placements
    for other in (TookStatus("q", "g", (C,)), TookStatus("p", "g", (B,)), TookStatus("q", "h", (B,))):
        assert Routing.adopted(query, PHONE, [other], 5.0) == (query, [])
    replaced, _ = Routing().rerouted(adopted, reach(C), 6.0)
    assert ways(replaced) == [[C]], "what does not hold is replaced like any other way"


def test_a_device_turns_to_what_it_reaches_once_its_rows_have_waited_and_then_to_the_next() -> None:
    alternates, edge = Alternates(), EdgeId(7)
    deployed = replace(Routing().listed(fleet()), node=PHONE)
    route = deployed.queries[0].route("g", PHONE)
    assert not alternates.look("q", edge, (3, 9), 10.0)
    assert not alternates.look("q", edge, (4, 9), 11.0), "it goes on, if slowly"
    assert alternates.next_wake() == 11.0 + ALTERNATE_S
    assert alternates.look("q", edge, (4, 9), 11.0 + ALTERNATE_S)
    assert alternates.next_wake() is None, "only an answer changes anything now"
    assert not alternates.turn("q", edge, route, lambda _path: False, 14.0)
    assert alternates.applied(deployed) is deployed
    assert alternates.turn("q", edge, route, lambda path: path == (B,), 14.0)
    turned = alternates.applied(deployed)
    assert ways(turned.queries[0]) == [[B]]
    assert alternates.status() == (TookStatus("q", "g", (B,)),)
    assert not alternates.look("q", edge, (4, 9), 14.5), "another way gets its time"
    assert alternates.turn("q", edge, turned.queries[0].route("g", PHONE), lambda _path: True, 17.0)
    assert ways(alternates.applied(deployed).queries[0]) == [[A]], "the one that has not been tried"
    alternates.forget()
    assert (alternates.applied(deployed), alternates.status()) == (deployed, ())
