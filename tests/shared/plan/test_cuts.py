"""The region cut finely: what stands in one vertex, what its edges are, and which of them lie on a cycle."""

from __future__ import annotations

import resurge as rs
from resurge import col, state
from shared.plan.cuts import back_edges, cycle_inputs, is_stateless, region_vertices
from shared.plan.fragments import Vertex


@rs.operator("cuts_split", takes={"v": "float64"}, gives={"low": {"v": "float64"}, "high": {"v": "float64"}})
class Split:
    def process(self, port, row):
        yield ("low" if row["v"] < 5 else "high", {"v": row["v"]})

    def snapshot(self):
        return b""

    def restore(self, state):
        pass


def x(name: str = "x") -> rs.Stream:
    return rs.stream(name, {"v": "float64"}).gather(name)


def cut(*sinks: rs.Stream | rs.Sink) -> dict[str, Vertex]:
    found = {vertex.name: vertex for vertex in region_vertices(rs.plan_of(*sinks))}
    made: set[str] = set()
    for vertex in found.values():
        assert vertex.fragment.side == "region"
        assert all(name in made or "/" not in name for name in vertex.inputs), "producers come first"
        made.update(vertex.outputs)
    return found


def kinds(vertex: Vertex) -> list[str]:
    return [node.operator.kind for node in vertex.operators]


def test_a_vertex_is_one_operator_with_state_the_run_before_it_and_its_stateless_tail() -> None:
    first = x().where(col.v > 0).select(w=col.v * 2).tumbling("1m").aggregate(w=rs.mean("w"))
    second = first.where(col.w > 1).key_by().sliding(count=3).aggregate(w=rs.max("w")).where(col.w < 9)
    found = cut(second.subscribe("peaks"))
    assert {name: kinds(vertex) for name, vertex in found.items()} == {
        "window": ["where", "select", "window"],
        "peaks": ["where", "select", "key_by", "window", "where"],
    }
    assert found["window"].inputs == ("x",)
    assert found["peaks"].inputs == found["window"].outputs
    assert [output.kind for output in found["peaks"].fragment.outputs] == ["subscribe"]


def test_what_two_operators_read_stands_with_its_maker_or_by_itself() -> None:
    shared = x().where(col.v > 0)
    found = cut(
        shared.tumbling("1m").aggregate(n=rs.count()).subscribe("n"), shared.sliding(count=2).mean("v").subscribe("m")
    )
    assert {name: kinds(vertex) for name, vertex in found.items()} == {
        "where": ["where"],
        "n": ["window"],
        "m": ["window"],
    }
    assert is_stateless(found["where"])
    assert not is_stateless(found["n"])
    made = x().tumbling("1m").aggregate(v=rs.mean("v")).where(col.v > 0)
    found = cut(made.sliding(count=2).mean("v").subscribe("a"), made.significant("v", change=1.0).subscribe("b"))
    assert kinds(found["window"]) == ["window", "where"]
    assert len(found) == 3


def test_output_ports_stand_with_their_operator() -> None:
    both = x().apply("cuts_split")
    low, high = both.port("low").where(col.v > 1), both.port("high")
    found = cut(low.sliding(count=2).mean("v").subscribe("low"), high.subscribe("high"))
    # A vertex is called after its first sink.
    assert {name: kinds(vertex) for name, vertex in found.items()} == {
        "high": ["apply", "port", "port"],
        "low": ["where", "window"],
    }


def test_what_goes_straight_to_a_sink_has_a_vertex_that_carries_it() -> None:
    found = cut(x().sync("up").subscribe("all"), x("y").subscribe("near"))
    assert {name: (vertex.inputs, kinds(vertex)) for name, vertex in found.items()} == {
        "up": (("x",), []),
        "near": (("y",), []),
    }
    assert all(is_stateless(vertex) for vertex in found.values())


def test_a_key_that_only_parts_keeps_no_state_and_one_that_merges_does() -> None:
    assert is_stateless(cut(x().key_by("device").where(col.v > 0).subscribe("a"))["a"])
    assert not is_stateless(cut(x().key_by().where(col.v > 0).subscribe("a"))["a"])


def loop() -> tuple[rs.Stream, rs.Stream]:
    fed = rs.feedback("loop", {"v": "float64"})
    both = x().union(fed, merge="logged")
    return fed, both.state({"n": 0}, keep=True, n=state.n + 1)


def test_edges_on_a_cycle_are_found_and_no_others() -> None:
    fed, counted = loop()
    mean = counted.sliding(count=3).aggregate(v=rs.mean("v"))
    mean.where(col.v > 5).select("v").feed(fed)
    aside = counted.where(col.v > 9).sliding(count=2).aggregate(v=rs.sum("v"))
    found = cut(mean.subscribe("mean"), aside.subscribe("aside"))
    vertices = tuple(found.values())
    assert back_edges(vertices) == {"feedback loop", *found["union"].outputs, *found["state"].outputs}
    assert cycle_inputs(vertices)["union"] == {"feedback loop"}
    assert cycle_inputs(vertices)["mean"] == set(found["state"].outputs)
    assert cycle_inputs(vertices)["aside"] == set(), "it reads an edge of the cycle, and gives nothing back"
    assert found["union"].merge == "logged"


def test_a_vertex_that_feeds_itself_lies_on_a_cycle() -> None:
    fed = rs.feedback("loop", {"v": "float64"})
    both = x().union(fed, merge="logged")
    both.where(col.v > 9).select(v=col.v / 2).feed(fed)
    found = cut(both.subscribe("all"))
    assert cycle_inputs(tuple(found.values())) == {"all": {"feedback loop"}}


def test_without_a_cycle_there_are_no_back_edges() -> None:
    assert back_edges(tuple(cut(x().tumbling("1m").aggregate(n=rs.count()).subscribe("n")).values())) == frozenset()
    assert back_edges(()) == frozenset()


def test_a_plan_without_a_region_has_no_vertices_there() -> None:
    assert region_vertices(rs.plan_of(rs.stream("x", {"v": "float64"}).sync("x"))) == ()
