"""What a person asks of a coordinator: done and stored, or refused by name with nothing changed."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

import pytest

import resurge as rs
from resurge import col
from resurge.cli.fleet_query import plan_of_sql, where_lines
from shared.errors import UsageError
from shared.hosting.coordinate import Coordinator
from shared.hosting.fleet_events import StoreFleet
from shared.hosting.requests import answer
from shared.identity import DeviceId, device_id
from shared.plan.deployment import RETIRED_MAX, Link, Peer, decode_deployment
from shared.plan.encoding import encode_plan
from shared.plan.graph import Plan
from shared.wire.status import DeviceStatus, InstanceStatus


def peer(name: str, **changed: Any) -> Peer:
    key = Random(name).randbytes(32)
    made = Peer(device_id(key).hex(), name, key, "0" * 40, ("tcp://127.0.0.1:9000",))
    return replace(made, **changed)


DESK, PHONE, HUB, SPARE = peer("desk"), peer("phone", capacity=0, addresses=()), peer("hub", capacity=1), peer("spare")
PEERS = (DESK, PHONE, HUB, SPARE)
LINKS = tuple(
    Link((one.node, other.node), lane, cost)
    for one, other, lane, cost in ((PHONE, HUB, "wifi", 2), (HUB, SPARE, "wired", 1), (SPARE, DESK, "wired", 1))
)


def plan(gather: str = "x", merge: str = "ordered") -> Plan:
    near = rs.sensor("x", every="1s", columns={"v": "float64"}).gather(gather)
    mean = near.key_by(merge=merge).sliding(count=5).aggregate(m=rs.mean("v"))
    return rs.plan_of(mean.sliding(count=2).aggregate(m=rs.max("m")).subscribe("peaks"))


def encoded(made: Plan) -> dict[str, Any]:
    return dict(json.loads(encode_plan(made)))


def coordinator(*silent: Peer, now: float = 1.0) -> Coordinator:
    found = Coordinator(DESK.node, lambda _data: b"")
    found.set_fleet(PEERS, [], LINKS)
    for each in PEERS:
        if each not in silent:
            found.heard(DeviceId(bytes.fromhex(each.node)), now, DeviceStatus())
    found.step()
    return found


def submit(one: Coordinator, now: float = 2.0, **changed: Any) -> dict[str, Any]:
    given = {"name": "peaks", "plan": encoded(plan()), "sources": ["phone"]} | changed
    return answer(one, "submit", given, now)


@pytest.mark.covers("NB-2")
def test_a_submitted_query_is_placed_along_the_links_and_stored() -> None:
    one = coordinator()
    said = submit(one)
    assert [each["hosts"] for each in said["vertices"]] == [["hub"], ["spare"]]
    assert [(hop["node"], hop["lane"], hop["cost"]) for hop in said["ways"][0]["hops"]] == [
        ("phone", "", 0), ("hub", "wifi", 2), ("spare", "wired", 1), ("desk", "wired", 1),
    ]  # fmt: skip
    (item,) = one.step().persist
    assert isinstance(item, StoreFleet)
    (query,) = decode_deployment(item.data).queries
    assert (query.name, query.submitted, query.place, query.incarnation) == ("peaks", True, "push-down", 2)
    assert {placed.term for placed in query.placements} == {2}
    assert [edge.name for edge in query.plan.gathers] == ["x.2"]
    lines = list(where_lines(said))
    first, second = (each["vertex"] for each in said["vertices"])
    assert lines[1] == (
        f"  phone (source) --wifi 2--> hub [{first}] --wired 1--> spare [{second}] --wired 1--> desk (sink)"
    )
    assert lines[2].startswith(f"  {first} on hub, kept by ")
    assert lines[2].endswith("the first node with room on the way of phone to desk; phone runs no vertices")
    assert "hub is full" in lines[3]
    assert "  hub: 1 of 1 places taken, reaches spare (wired)" in lines


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"sources": ["nobody"]}, "query-node"),
        ({"sink": "nobody"}, "query-node"),
        ({"on": ["nobody"]}, "query-node"),
        ({"on": ["gone=hub"]}, "query-vertex"),
        ({"place": "sideways"}, "place-strategy"),
        ({"strategy": "hope"}, "deployment-strategy"),
        ({"sources": []}, "query-sources"),
    ],
)
def test_what_a_fleet_does_not_have_is_named_and_nothing_changes(wrong: dict[str, Any], code: str) -> None:
    one = coordinator()
    with pytest.raises(UsageError) as refused:
        submit(one, **wrong)
    assert (refused.value.code, one.fleet.queries, one.step().persist) == (code, (), ())


def test_nodes_without_any_room_are_why_a_query_is_refused() -> None:
    one = coordinator()
    one.set_fleet([replace(each, capacity=0) for each in PEERS], [], LINKS)
    with pytest.raises(UsageError, match="hub has room for 0") as refused:
        submit(one)
    assert refused.value.code == "place-capacity"


def test_explaining_changes_nothing() -> None:
    one = coordinator()
    said = submit(one, dry_run=True)
    assert (said["dry_run"], one.fleet.queries, one.step().persist) == (True, (), ())


def test_queries_are_dropped_and_come_back_as_others() -> None:
    one = coordinator()
    submit(one)
    before = one.fleet.queries[0]
    answer(one, "drop", {"name": "peaks"}, 3.0)
    assert one.fleet.queries == ()
    submit(one)
    after = one.fleet.queries[0]
    assert after.incarnation > before.incarnation
    assert after.placements[0].term > before.placements[0].term, "nothing said of the old one is taken for the new"
    assert after.plan.gathers[0].name != before.plan.gathers[0].name, "its devices number its rows from 0"


def test_a_failure_of_a_dropped_query_is_not_held_against_the_next_of_its_name() -> None:
    one = coordinator()
    submit(one)
    (placed, _) = one.fleet.queries[0].placements
    for now in (3.0, 30.0, 90.0):
        term = one.fleet.queries[0].placements[0].term
        failed = InstanceStatus("peaks", placed.vertex, term, "failed", "it raised")
        for each in PEERS:
            status = DeviceStatus(instances=(failed,) if each is HUB else ())
            one.heard(DeviceId(bytes.fromhex(each.node)), now, status)
    assert one.fleet.queries[0].placements[0].term > placed.term, "it was begun again"
    assert one._recovering._tried
    answer(one, "drop", {"name": "peaks"}, 91.0)
    assert not one._recovering._tried


def test_what_was_submitted_outlives_a_start_with_the_same_file() -> None:
    one = coordinator()
    submit(one)
    (item,) = one.step().persist
    again = Coordinator(DESK.node, lambda _data: b"", stored=item.data)
    again.set_fleet(PEERS, [], LINKS)
    assert [query.name for query in again.fleet.queries] == ["peaks"]


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"place": "nearest"}, "place-strategy"),
        ({"on": ["desk2"]}, "query-node"),
        ({"on": ["hub"]}, "place-capacity"),
        ({"on": ["phone"]}, "place-path"),
        ({"on": ["nothing=hub"]}, "query-vertex"),
        ({"on": ["peaks=attic"]}, "query-node"),
        ({"sources": ["watch"]}, "query-node"),
        ({"sources": []}, "query-sources"),
        ({"sources": "phone"}, "query-request"),
        ({"sink": "attic"}, "query-node"),
        ({"sink": "phone"}, "place-path"),
        ({"name": ""}, "query-request"),
        ({"name": "a/b"}, "plan-name"),
        ({"keepers": 3}, "query-keepers"),
        ({"keepers": "1"}, "query-request"),
        ({"every": 0}, "query-request"),
        ({"speed": 1}, "query-request"),
        ({"absent": "0.5s"}, "query-request"),
        ({"absent": 300}, "query-request"),
        ({"absent": "soon"}, "duration"),
        ({"forward": "paths:1"}, "query-request"),
        ({"forward": 2}, "query-request"),
        ({"strategy": "hope"}, "deployment-strategy"),
        ({"plan": {"format": 1}}, "plan-json"),
        ({"plan": encoded(rs.plan_of(rs.sensor("x", every="1s", columns={"v": "float64"}).sync("x")))}, "query-region"),
        ({"plan": encoded(plan(merge="arrival"))}, "contract-refused"),
        ({"plan": encoded(plan(merge="arrival")), "strategy": "ecoc"}, "deployment-arrival"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_name_and_changes_nothing(changed: dict[str, Any], code: str) -> None:
    one = coordinator()
    before = one.fleet
    with pytest.raises(UsageError) as refused:
        submit(one, **changed)
    assert refused.value.code == code, refused.value
    assert one.fleet == before
    assert one.step().persist == ()


def test_a_node_that_is_silent_or_cut_off_is_not_placed_on() -> None:
    with pytest.raises(UsageError, match="phone has no way to desk") as refused:
        submit(coordinator(HUB, now=100.0), 100.0)
    assert refused.value.code == "place-path"
    one = coordinator()
    one.heard(DeviceId(bytes.fromhex(HUB.node)), 2.0, DeviceStatus(unreachable=(SPARE.node,)))
    with pytest.raises(UsageError, match="phone has no way to desk"):
        submit(one)


def test_names_are_taken_once_and_the_file_has_its_own() -> None:
    one = coordinator()
    submit(one)
    with pytest.raises(UsageError, match="runs already"):
        submit(one)
    with pytest.raises(UsageError, match=r"no query of this name \(it runs: peaks\)"):
        answer(one, "drop", {"name": "other"}, 3.0)
    with pytest.raises(UsageError, match="cannot 'forget'"):
        answer(one, "forget", {}, 3.0)
    (query,) = one.fleet.queries
    answer(one, "drop", {"name": "peaks"}, 3.0)
    one.set_fleet(PEERS, [replace(query, name="kept", submitted=False, plan=plan())], LINKS)
    with pytest.raises(UsageError, match="take it out there") as refused:
        answer(one, "drop", {"name": "kept"}, 3.0)
    assert refused.value.code == "query-in-file"


def test_sql_asks_what_a_fleet_gathers_with_the_devices_part_of_it() -> None:
    one = coordinator()
    submit(one)
    running = answer(one, "queries", {}, 3.0)["queries"]
    made = plan_of_sql("SELECT v * 2 AS twice FROM x WHERE v > 1", "doubled", running)
    found = submit(one, name="doubled", plan=encoded(made))
    assert found["vertices"]
    (first, query) = one.fleet.queries
    assert [sensor.name for sensor in query.plan.sensors] == ["x"]
    assert (found["shares"], query.shared) == (first.name, first.spooling), "what devices gather is the same"
    assert [edge.name for edge in query.plan.gathers] == [f"x.{first.incarnation}"]
    with pytest.raises(UsageError, match="submit a program first"):
        plan_of_sql("SELECT v FROM x", "q", [])
    with pytest.raises(UsageError) as refused:
        plan_of_sql("SELECT v FROM y", "q", running)
    assert refused.value.code == "sql-stream"


def test_single_vertices_go_where_they_are_wanted_and_the_others_where_there_is_room() -> None:
    one = coordinator()
    last = submit(one, dry_run=True)["vertices"][-1]["vertex"]
    said = submit(one, on=[f"{last}=desk"])
    assert [each["hosts"] for each in said["vertices"]] == [["hub"], ["desk"]]
    assert submit(one, name="more", on=["spare", f"{last}=desk"])["vertices"][0]["hosts"] == ["spare"]


def test_where_a_gateway_coordinates_the_sink_is_named_and_nothing_runs_beside_it() -> None:
    one = Coordinator("", lambda _data: b"")
    with pytest.raises(UsageError) as refused:
        submit(one)
    assert refused.value.code == "deployment-peer", "nobody offers to host yet"
    one.set_fleet(PEERS, [], LINKS)
    for changed, code in (({}, "query-sink"), ({"sink": "desk", "place": "cloud-only"}, "place-path")):
        with pytest.raises(UsageError) as refused:
            submit(one, **changed)
        assert refused.value.code == code
    assert [each["hosts"] for each in submit(one, sink="desk")["vertices"]] == [["hub"], ["spare"]]


def test_whoever_notes_what_is_done_is_told_when_nothing_is_refused_any_more() -> None:
    one, told = coordinator(), []

    def note() -> None:
        told.append(len(one.fleet.queries))

    given = {"name": "peaks", "plan": encoded(plan()), "sources": ["phone"]}
    answer(one, "submit", given | {"dry_run": True}, 2.0, checked=note)
    with pytest.raises(UsageError):
        answer(one, "submit", given | {"strategy": "hope"}, 2.0, checked=note)
    assert told == []
    answer(one, "submit", given, 2.0, checked=note)
    answer(one, "drop", {"name": "peaks"}, 2.0, checked=note)
    assert told == [0, 1]


def filtered(limit: float, *, count: int = 5, every: str = "1s", select: bool = False) -> Plan:
    rows = rs.sensor("x", every=every, columns={"v": "float64"}).gather("x").where(col.v > limit).where(col.v < 100)
    rows = rows.select(v=col.v * 2, w=col.v) if select else rows
    return rs.plan_of(rows.sliding(count=count).aggregate(m=rs.mean("v")).subscribe("peaks"))


def test_how_long_to_wait_and_over_how_many_paths_is_said_at_submit() -> None:
    one = coordinator()
    submit(one, absent="5m", forward="paths:3")
    (query,) = one.fleet.queries
    assert (query.absent_s, query.forward, query.paths) == (300, "paths:3", 3)


@pytest.mark.covers("NB-24")
def test_the_filters_of_a_query_are_edited_while_it_runs() -> None:
    one = coordinator()
    submit(one, plan=encoded(filtered(3)), on=["spare"])
    one.step()
    before = one.fleet.queries[0]
    said = answer(one, "edit", {"name": "peaks", "plan": encoded(filtered(7))}, 3.0)
    (after,) = one.fleet.queries
    assert (said["edited"], said["retired"], len(one.step().persist)) == (True, 1, 1)
    assert (after.incarnation, after.placements, after.retired) == (
        before.incarnation,
        before.placements,
        (before.plan,),
    )
    assert after.plan.gathers == before.plan.gathers
    assert [(each["node"], *each["operators"]) for each in said["applied"]] == [
        ("hub", "where v > 7"), ("spare", "where v < 100"),
    ], "hub has room for one of them, on the way"  # fmt: skip
    again = answer(one, "edit", {"name": "peaks", "plan": encoded(filtered(7))}, 4.0)
    assert (again["edited"], one.step().persist) == (False, ())
    assert answer(one, "edit", {"name": "peaks", "plan": encoded(filtered(7, select=True))}, 5.0)["retired"] == 2


@pytest.mark.parametrize(
    ("edit", "words", "code"),
    [
        (filtered(3, count=6), "behind the filters", "query-edit"),
        (filtered(3, every="2s"), "on the device", "query-edit"),
        (plan("y"), "on the device", "query-edit"),
    ],
)
def test_an_edit_of_anything_else_is_refused_and_changes_nothing(edit: Plan, words: str, code: str) -> None:
    one = coordinator()
    submit(one, plan=encoded(filtered(3)))
    before = one.fleet
    with pytest.raises(UsageError) as refused:
        answer(one, "edit", {"name": "peaks", "plan": encoded(edit)}, 3.0)
    assert (refused.value.code, words in refused.value.message) == (code, True), refused.value
    assert one.fleet == before
    for given, other in (
        ({"name": "none", "plan": encoded(edit)}, "query-not-found"),
        ({"name": "peaks", "plan": encoded(edit), "sink": "desk"}, "query-request"),
    ):
        with pytest.raises(UsageError) as refused:
            answer(one, "edit", given, 3.0)
        assert refused.value.code == other


def test_what_devices_may_still_hold_of_earlier_versions_is_never_forgotten() -> None:
    one = coordinator()
    submit(one, plan=encoded(filtered(0)))
    for limit in range(1, RETIRED_MAX + 1):
        answer(one, "edit", {"name": "peaks", "plan": encoded(filtered(limit))}, 3.0)
    with pytest.raises(UsageError, match="earlier versions"):
        answer(one, "edit", {"name": "peaks", "plan": encoded(filtered(50))}, 3.0)
    assert len(one.fleet.queries[0].retired) == RETIRED_MAX
