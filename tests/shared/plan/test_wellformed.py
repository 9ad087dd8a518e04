"""Seven wrong graphs, seven errors, each naming the user's line (EC-5, EC-6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

import resurge as rs
from resurge import col
from shared.errors import UsageError
from shared.language.registry import references
from shared.plan.operators import Subscribe
from shared.plan.wellformed import check_activation, check_plan
from shared.stream.drafts import Program, collecting, stop_collecting


@rs.operator("wellformed_slow", takes={"lat": "float64"}, gives={"lat": "float64"}, takes_at_least="10ms")
def slow(columns):
    return {"lat": columns["lat"]}


@rs.operator(
    "wellformed_two", takes={"left": {"lat": "float64"}, "right": {"hpa": "float64"}}, gives={"lat": "float64"}
)
class Two:
    def process(self, port, row):
        yield row

    def snapshot(self):
        return b""

    def restore(self, state):
        pass


@rs.operator(
    "wellformed_split", takes={"lat": "float64"}, gives={"north": {"lat": "float64"}, "south": {"lat": "float64"}}
)
class Split(Two):
    pass


def gps() -> rs.Stream:
    return rs.sensor("gps", every="5s")


def input_port_without_edge() -> None:
    gps().apply("wellformed_two").subscribe("out")


def feedback_never_fed() -> None:
    loop = rs.feedback("loop", {"lat": "float64"})
    gps().select("lat").union(loop, merge="arrival").subscribe("out")


def feedback_fed_twice() -> None:
    loop = rs.feedback("loop", {"lat": "float64"})
    both = gps().select("lat").union(loop, merge="arrival")
    both.subscribe("out")
    both.feed(loop)
    both.where(col.lat > 0).feed(loop)


def output_goes_nowhere() -> None:
    gps().subscribe("out")
    gps().where(col.accuracy < 50)


def output_port_goes_nowhere() -> None:
    gps().apply("wellformed_split").port("north").subscribe("out")


def alphabets_differ() -> None:
    gps().union(rs.sensor("barometer", every="1s")).subscribe("out")


def feedback_of_other_columns() -> None:
    loop = rs.feedback("loop", {"lat": "float64"})
    both = gps().select("lat").union(loop, merge="arrival")
    both.subscribe("out")
    both.select(lat=col.lat.cast("float32")).feed(loop)


def outside_to_outside() -> None:
    gps().subscribe("out").subscribe("again")


def faster_than_its_type() -> None:
    gps().apply("wellformed_slow", within="1ms").subscribe("out")


def two_streams_for_one_edge() -> None:
    gps().sync("up").sync_back("a")
    rs.sensor("barometer", every="1s").sync("up").sync_back("b")


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        pytest.param(input_port_without_edge, "graph-input", marks=pytest.mark.covers("EC-5")),
        (feedback_never_fed, "graph-input"),
        (feedback_fed_twice, "graph-input"),
        pytest.param(output_goes_nowhere, "graph-output", marks=pytest.mark.covers("EC-5")),
        (output_port_goes_nowhere, "graph-output"),
        pytest.param(alphabets_differ, "graph-alphabet", marks=pytest.mark.covers("EC-5")),
        (feedback_of_other_columns, "graph-alphabet"),
        pytest.param(outside_to_outside, "graph-outside", marks=pytest.mark.covers("EC-5")),
        pytest.param(faster_than_its_type, "graph-delay", marks=pytest.mark.covers("EC-2", "EC-5")),
        pytest.param(two_streams_for_one_edge, "activation-stream", marks=pytest.mark.covers("EC-6")),
    ],
)
def test_a_wrong_graph_gives_its_own_error_with_the_users_line(wrong: Callable[[], None], code: str) -> None:
    with pytest.raises(UsageError) as caught:
        written(wrong)
    assert caught.value.code == code
    assert "test_wellformed.py:" in str(caught.value)
    line = int(str(caught.value).split("test_wellformed.py:")[1].split()[0])
    start = wrong.__code__.co_firstlineno
    assert start < line <= start + 6


def written(program_text: Callable[[], None]) -> rs.Stream:
    program = Program()
    token = collecting(program)
    try:
        program_text()
    finally:
        stop_collecting(token)
    return program.plan()


@pytest.mark.covers("EC-6")
def test_an_operator_that_is_not_installed_where_its_vertex_runs_is_refused_by_name() -> None:
    plan = rs.plan_of(gps().apply("wellformed_slow").sync("up").apply("wellformed_slow").sync_back("back"))
    everything = references()
    check_activation(plan, {"device": everything, "cloud": everything})
    with pytest.raises(
        UsageError, match=r"wellformed_slow@1, which is not on the device.*test_wellformed.py"
    ) as caught:
        check_activation(plan, {"device": everything - {"wellformed_slow@1"}, "cloud": everything})
    assert caught.value.code == "activation-operator"
    check_activation(plan, {"cloud": everything})  # the device's own matter


def test_the_same_rule_holds_for_plans_that_arrive_as_data() -> None:
    plan = rs.plan_of(gps().subscribe("out"))
    sink = plan.nodes[-1]
    again = replace(sink, id=sink.id + 1, operator=Subscribe("again"), inputs=(sink.id,))
    with pytest.raises(UsageError, match="graph-outside"):
        check_plan(replace(plan, nodes=(*plan.nodes, again)))


@pytest.mark.covers("EC-4")
def test_a_closed_cycle_and_two_edges_between_two_vertices_are_well_formed() -> None:
    loop = rs.feedback("loop", {"lat": "float64"})
    both = gps().select("lat").union(loop, merge="arrival")
    sink = both.where(col.lat > 90).feed(loop)
    doubled = both.union(both)  # a multigraph: two edges from one vertex to another
    plan = rs.plan_of(sink, doubled)
    assert plan.sinks[0].operator.name == "out"


@pytest.mark.covers("EC-7")
def test_a_stream_has_one_producer_and_any_number_of_consumers() -> None:
    source = gps()
    plan = rs.plan_of(source.where(col.lat > 0).subscribe("north"), source.where(col.lat < 0).subscribe("south"))
    assert len(plan.consumers(0)) == 2
    assert all(len(node.inputs) <= 1 for node in plan.nodes)


def test_the_same_sensor_written_twice_is_one_stream() -> None:
    plan = rs.plan_of(gps().where(col.lat > 0).subscribe("a"), gps().where(col.lat < 0).subscribe("b"))
    assert len(plan.sensors) == 1
