"""Which queries read the same edges of a device, and what keeps others apart."""

from __future__ import annotations

from dataclasses import replace

import pytest

import resurge as rs
from mobile_app.node.hosting import promises_to_lose
from resurge import col
from resurge.cli.fleet_query import where_lines
from shared.errors import UsageError
from shared.hosting.given import gathering
from shared.hosting.requests import answer
from shared.hosting.sharing import in_common, joined, joining, why_apart
from shared.hosting.stamps import Run, gather_run, runs_of
from shared.hosting.wiring import EdgeSpec, FedSpec, together, wire
from shared.identity import DeviceId, EdgeKey, edge_id
from shared.language.schema import Schema
from shared.plan.cuts import region_vertices
from shared.plan.deployment import Deployment, HostedQuery, Placement, Spooling
from shared.plan.graph import Plan
from shared.plan.placing import PUSH_DOWN
from shared.sync.sharers import QUERIES_MAX, Sharers, speaks_for
from tests.shared.hosting.test_requests import DESK, HUB, PHONE, SPARE, coordinator, encoded, submit


def program(*conditions: object, gather: str = "g", least: float = 0.0, batch: int = 50, kept: float = 1.0) -> Plan:
    """A device's side with a filter of its own, a gather, and filters behind it."""
    near = rs.sensor("x", every="1s", columns={"v": "float64"}).where(col.v > least)
    rows = near.gather(gather, batch=batch, contract=rs.limited_loss(kept) if kept < 1 else rs.lossless(delay="1h"))
    for condition in conditions:
        rows = rows.where(condition)
    return rs.plan_of(rows.subscribe("out"))


def query(name: str, plan: Plan, **changed: object) -> HostedQuery:
    placed = tuple(Placement(vertex.name, (HUB.node,), (), 1) for vertex in region_vertices(plan))
    made = HostedQuery(name, 1, plan, "ecoc", 500, (PHONE.node,), DESK.node, placed)
    return replace(made, **changed)


FIRST = query("a", program(col.v > 1))
RUNS = runs_of(FIRST.plan, "g", ())
assert RUNS is not None


def test_a_query_that_begins_alike_joins_the_spooling_of_the_one_that_runs() -> None:
    joined = joining(query("b", program(col.v > 2)), [FIRST])
    assert joined.shared == joined.spooling == FIRST.spooling == Spooling("a", 1, False)
    third = joining(query("c", program(col.v > 2)), [joined])
    assert third.shared == FIRST.spooling, "also when the first one is no more"
    elsewhere = query("d", program(), sources=(SPARE.node,))
    assert joining(elsewhere, [FIRST]) is elsewhere


def test_one_that_was_submitted_takes_the_names_of_their_gathers() -> None:
    other = query("b", gathering(program(col.v > 2), ["g.7"]), incarnation=7, submitted=True)
    joined = joining(other, [FIRST])
    assert ([edge.name for edge in joined.plan.gathers], joined.shared) == (["g"], FIRST.spooling)
    assert joining(replace(other, submitted=False), [FIRST]).shared is None, "a file's names are as it says"


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (query("b", program(least=1.0)), "their programs differ up to"),
        (query("b", program(batch=60)), "in other batches"),
        (query("b", program(), row="dist-2"), "recover by"),
        (query("b", program(), every=400), "every 400"),
        (query("b", program(), row="token", every=0), "with its region"),
        (query("b", program(), forward="paths:2"), "several paths"),
    ],
)
def test_what_keeps_queries_apart_is_said(changed: HostedQuery, why: str) -> None:
    assert joining(changed, [FIRST]) is changed
    assert why in why_apart(changed, FIRST)
    fleet = Deployment(PHONE.node, 1, 1, (DESK, PHONE, HUB, SPARE), (FIRST, changed))
    with pytest.raises(UsageError, match="'a' and 'b' gather 'g' from the same device") as refused:
        wire(fleet)
    assert (refused.value.code, why in refused.value.message) == ("deployment-gather", True)


def test_one_that_comes_later_joins_only_where_it_can_read_what_is_there() -> None:
    """A phone may have applied the first one's filters to what it holds."""
    near = replace(FIRST, place=PUSH_DOWN)
    assert joining(query("b", program(col.v > 2)), [near]).shared is None
    assert joining(query("b", program(col.v > 1, col.v < 9)), [near]).shared == near.spooling
    assert joining(query("b", program(col.v > 1)), [replace(FIRST, retired=(program(),))]).shared is None
    second = joining(query("b", program(col.v > 1, col.v < 9)), [near])
    assert joining(query("c", program(col.v > 5)), [near, second]).shared is None
    assert joining(query("c", program(col.v > 5)), [second]).shared is None, "the first one's rows may still be there"


def test_queries_of_a_file_go_on_with_the_spooling_of_one_that_is_no_more_in_it() -> None:
    second = joining(query("b", program(col.v > 2)), [FIRST])
    asked = [query("c", program(col.v > 2, col.v < 9)), query("b", second.plan)]  # a new one, in front
    found = joined(asked, [FIRST, second])
    assert [each.name for each in found] == ["c", "b"]
    assert {each.spooling for each in found} == {FIRST.spooling}
    wire(Deployment(PHONE.node, 1, 1, (DESK, PHONE, HUB, SPARE), found))
    anew = joined(asked, [])
    assert [each.shared for each in anew] == [None, anew[0].spooling]
    other = joined([query("b", program(col.v > 2, least=1.0, gather="other"))], [FIRST, second])
    assert other[0].shared is None, "it gathers something else now"


def test_operators_are_applied_on_the_way_as_far_as_all_have_them() -> None:
    def run(*conditions: object) -> Run:
        found = gather_run(region_vertices(program(*conditions)), "g")
        assert found is not None
        return found

    runs = [run(col.v > 1, col.v < 9), run(col.v > 1, col.v < 8, col.v > 2), run(col.v > 1), run()]
    assert [in_common(runs[:count]) for count in (1, 2, 3, 4)] == [2, 1, 1, 0]


def test_an_edge_is_read_by_one_way_of_every_query() -> None:
    key = EdgeKey(DeviceId(bytes(16)), 1, edge_id("g"))

    def fed(name: str, ends: tuple[str, ...], *ways: tuple[str, ...]) -> FedSpec:
        readers = {node: 2 if node in ends else 0 for way in ways for node in way}
        edge = EdgeSpec("g", key, Schema.of({"v": "float64"}), "phone", {"phone": 0}, readers, ways)
        return FedSpec(query(name, program()), edge, RUNS, 0, ends)

    one, other = fed("a", ("b", "c"), ("a",), ("b", "c")), fed("b", ("d",), ("c",))
    sharers = Sharers((("a", 1), ("b", 1)))
    found = together([one, other], sharers)
    assert found.ways == (("a", "c"), ("b", "c"))
    assert found.readers == {
        "a": sharers.expected({}, ["a"]), "b": sharers.expected({"a": 2}, []), "c": sharers.expected({"a": 2}, ["b"]),
    }, "what a node said for one of them is told from what it says for both"  # fmt: skip
    assert together([one], None) is one.edge


def test_a_receipt_counts_where_it_speaks_for_all_who_read_there() -> None:
    sharers = Sharers((("a", 1), ("b", 1), ("c", 2)))
    both = sharers.expected({"a": 3}, ["b"])
    assert speaks_for(both, 9, sharers.readers({"a": 3}), sharers.carried(["b"]))
    assert speaks_for(both, 9, sharers.readers({"a": 3}), sharers.carried(["b", "c"])), "more may only say less"
    for readers, carried in (({"a": 3}, []), ({"a": 3}, ["c"]), ({"a": 4}, ["b"]), ({"b": 3}, ["b"]), ({}, ["b"])):
        assert not speaks_for(both, 3, sharers.readers(readers), sharers.carried(carried)), "it had another part in it"
    again = Sharers((("a", 1), ("b", 1), ("c", 3)))
    assert not speaks_for(both, 3, again.readers({"a": 3}), again.carried(["b"])), "one of them began anew"
    assert not speaks_for(both, 3, 0, 0), "of an edge that nobody shares"
    assert [speaks_for(*each, 0, 0) for each in ((3, 3), (3, 4), (0, 4))] == [True, False, True], "as ever there"


def test_of_more_queries_than_a_receipt_has_room_for_the_next_spools_for_itself() -> None:
    running = [replace(FIRST, name=f"q{number}", shared=FIRST.spooling) for number in range(QUERIES_MAX - 1)]
    assert joining(query("last", program(col.v > 2)), [FIRST, *running[:-1]]).shared == FIRST.spooling
    assert joining(query("more", program(col.v > 2)), [FIRST, *running]).shared is None


def test_ways_of_many_queries_over_the_same_nodes_are_no_more_than_those_of_one() -> None:
    """Each takes the rows from one of two nodes. Every choice of one way per query would be 2 ** 40."""
    key = EdgeKey(DeviceId(bytes(16)), 1, edge_id("g"))
    ways = (("a",), ("b",))
    edge = EdgeSpec("g", key, Schema.of({"v": "float64"}), "phone", {"phone": 0}, {"a": 1, "b": 1}, ways)
    queries = [query(f"q{number:02}", program()) for number in range(QUERIES_MAX)]
    sharers = Sharers(tuple((each.name, 1) for each in queries))
    found = together([FedSpec(each, edge, RUNS, 0, ("a", "b")) for each in queries], sharers)
    assert found.ways == ways
    assert found.readers == dict.fromkeys("ab", sharers.expected({each.name: 1 for each in queries}, []))


def test_the_strictest_promise_holds_for_what_is_shared() -> None:
    loose, looser = (query("b", program(kept=kept), row="none") for kept in (0.9, 0.5))
    assert promises_to_lose([loose, looser]) == {"g": 0.9}
    assert promises_to_lose([looser]) == {"g": 0.5}
    assert promises_to_lose([looser, query("c", program(), row="none")]) == {}, "one of them makes the device wait"


def test_a_submitted_query_says_whose_rows_it_reads_and_is_edited_under_their_names() -> None:
    one = coordinator()
    given = encoded(program(col.v > 1))
    assert submit(one, name="first", plan=given)["shares"] == ""
    said = submit(one, name="second", plan=given)
    assert (said["shares"], list(where_lines(said))[1]) == ("first", "  shares the rows of first")
    first, second = one.fleet.queries
    assert second.plan.gathers == first.plan.gathers
    again = [placed.term for placed in second.placements]
    assert again == [second.incarnation] * len(again), "its vertices are its own"
    answer(one, "drop", {"name": "first"}, 3.0)
    said = answer(one, "edit", {"name": "second", "plan": encoded(program(col.v > 3))}, 3.0)
    assert said["edited"]
    (left,) = one.fleet.queries
    assert (left.shared, left.plan.gathers) == (first.spooling, first.plan.gathers)
