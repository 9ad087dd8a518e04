"""The cut: what runs on the device, what on the cloud, and in which vertices."""

from __future__ import annotations

import pytest

import resurge as rs
from resurge import col
from shared.errors import UsageError
from shared.plan.encoding import decode_plan, encode_plan
from shared.plan.placement import check_unhosted, cloud_fragment, device_fragment, region_fragment, sides
from shared.plan.vertices import vertices


def gps() -> rs.Stream:
    return rs.sensor("gps", every="5s")


def names(nodes: tuple) -> list[str]:
    return [node.operator.kind for node in nodes]


@pytest.mark.covers("SO-16")
def test_sync_cuts_the_plan_in_two() -> None:
    up = gps().where(col.accuracy < 50).sync("up")
    plan = rs.plan_of(up.tumbling("1m").aggregate(n=rs.count()).sync_back("trips"))
    device, cloud = device_fragment(plan), cloud_fragment(plan)
    assert names(device.nodes) == ["where"]
    assert [entry.name for entry in device.inputs] == ["gps"]
    assert [(output.name, output.kind) for output in device.outputs] == [("up", "sync")]
    assert names(cloud.nodes) == ["window"]
    assert [entry.name for entry in cloud.inputs] == ["up"]
    assert [(output.name, output.kind) for output in cloud.outputs] == [("trips", "sync_back")]


def test_device_never_travels_and_the_cloud_adds_it() -> None:
    plan = rs.plan_of(gps().sync("up").sync_back("all"))
    assert "device" not in plan.edges[0].schema
    assert "device" not in device_fragment(plan).outputs[0].schema
    assert "device" in cloud_fragment(plan).inputs[0].schema


@pytest.mark.covers("SO-14")
def test_moving_sync_moves_an_operator_and_changes_no_meaning() -> None:
    def program(sync_first: bool) -> rs.Stream:
        thin = gps().significant("lat", "lon", metres=15)
        if sync_first:
            return thin.sync("up").sliding(count=12).aggregate(v=rs.mean("speed"))
        return thin.sliding(count=12).aggregate(v=rs.mean("speed")).sync("up")

    early, late = program(True), program(False)
    assert early.type == late.type
    assert names(device_fragment(rs.plan_of(early.sync_back("a"))).nodes) == ["significant"]
    assert names(device_fragment(rs.plan_of(late.sync_back("a"))).nodes) == ["significant", "window"]


@pytest.mark.covers("SO-15")
def test_results_that_feed_the_device_must_be_stable() -> None:
    trips = gps().sync("up").tumbling("1m").aggregate(n=rs.count())
    with pytest.raises(UsageError, match="placement-stable"):
        rs.plan_of(trips.sync_back("trips").where(col.n > 3).subscribe("alert"))
    plan = rs.plan_of(trips.sync_back("trips", commit="stable").where(col.n > 3).subscribe("alert"))
    device = device_fragment(plan)
    assert {entry.name for entry in device.inputs} == {"gps", "trips"}
    assert {output.name for output in device.outputs} == {"up", "alert"}


@pytest.mark.parametrize(
    ("build", "code"),
    [
        (lambda: gps().sync("up").sync("twice"), "placement-sync"),
        (lambda: gps().sync_back("early"), "placement-sync"),
        (lambda: gps().union(gps().sync("up")), "placement-mixed"),
        (lambda: gps().sync("up").read("barometer"), "placement-sensor"),
        (lambda: gps().gather("near").gather("twice"), "placement-gather"),
        (lambda: gps().sync("up").gather("back"), "placement-gather"),
        (lambda: gps().union(gps().gather("near")), "placement-mixed"),
        (lambda: gps().gather("near").union(gps().sync("up")), "placement-mixed"),
        (lambda: gps().gather("near").sync("up").sync("twice"), "placement-sync"),
        (lambda: gps().gather("near").sync_back("early"), "placement-sync"),
        (lambda: gps().gather("near").read("barometer"), "placement-sensor"),
        (lambda: gps().gather("up").union(gps().gather("up")), "activation-stream"),
        (lambda: gps().gather("up").key_by("device").sync("up"), "activation-stream"),
        (lambda: rs.sensor("cell", every="5s").key_by("tower").tumbling("1m").aggregate(n=rs.count()), "placement-key"),
    ],
)
def test_what_cannot_run_where_it_stands_is_refused_with_its_line(build, code: str) -> None:
    from shared.stream.drafts import Program, collecting, stop_collecting

    program = Program()
    token = collecting(program)
    try:
        build().subscribe("out")
    finally:
        stop_collecting(token)
    with pytest.raises(UsageError, match=r"test_placement.py:\d+") as caught:
        program.plan()
    assert caught.value.code == code


@pytest.mark.covers("SO-16")
def test_operators_without_rekeying_are_one_vertex() -> None:
    up = rs.sensor("cell", every="5s").sync("up")
    first = up.where(col.dbm < 0).tumbling("1m").aggregate(dbm=rs.mean("dbm"), tower=rs.last("tower"))
    by_tower = first.key_by("tower").tumbling("5m").aggregate(dbm=rs.mean("dbm"))
    plan = rs.plan_of(by_tower.subscribe("towers"), first.sync_back("mine"))
    found = vertices(plan)
    assert [vertex.name for vertex in found] == ["mine", "towers"]
    assert found[0].inputs == ("up",)
    assert found[0].key == ("device",)
    assert found[1].key == ("tower",)
    assert found[1].inputs == tuple(name for name in found[0].outputs if "/" in name)


@pytest.mark.covers("SO-7")
def test_key_by_straight_after_sync_reads_the_edge_itself() -> None:
    plan = rs.plan_of(rs.sensor("cell", every="5s").sync("up").key_by("tower").tumbling("1m").aggregate(n=rs.count()))
    found = vertices(plan)
    assert [(vertex.inputs, vertex.key) for vertex in found] == [(("up",), ("tower",))]


def test_a_way_out_to_another_key_and_back_makes_no_cycle_of_vertices() -> None:
    up = rs.sensor("cell", every="5s").sync("up")
    mine = up.tumbling("1m").aggregate(tower=rs.last("tower"))
    crowd = mine.key_by("tower").tumbling("1m").aggregate(n=rs.count(), device=rs.last("device"))
    both = mine.with_latest(crowd.key_by("device").select("n"))
    found = vertices(rs.plan_of(both.sync_back("crowded")))
    made: set[str] = {"up"}
    for vertex in found:
        assert set(vertex.inputs) <= made
        made |= set(vertex.outputs)
    assert len(found) == 3


def test_an_edge_straight_to_a_sink_still_has_a_vertex() -> None:
    found = vertices(rs.plan_of(gps().sync("up").sync_back("echo")))
    assert [(vertex.name, vertex.inputs, vertex.outputs) for vertex in found] == [("echo", ("up",), ("echo",))]


def test_merge_mode_and_determinism_of_a_vertex_are_those_of_its_weakest_operator() -> None:
    up = rs.sensor("cell", every="5s").sync("up")
    plan = rs.plan_of(up.key_by("tower", merge="arrival", idle_after="10m").tumbling("1m").aggregate(n=rs.count()))
    (vertex,) = vertices(plan)
    assert vertex.merge == "arrival"
    assert vertex.idle_after_us == 600_000_000
    assert vertex.deterministic


def test_gather_puts_a_region_between_device_and_cloud() -> None:
    near = gps().where(col.accuracy < 50).gather("near")
    mean = near.key_by().tumbling("1m").aggregate(v=rs.mean("speed"))
    plan = rs.plan_of(mean.subscribe("mean"), near.where(col.speed > 9).sync("fast").sync_back("mine"))
    device, region, cloud = device_fragment(plan), region_fragment(plan), cloud_fragment(plan)
    assert names(device.nodes) == ["where"]
    assert [(output.name, output.kind, "device" in output.schema) for output in device.outputs] == [
        ("near", "gather", False)
    ]
    assert [(entry.name, "device" in entry.schema) for entry in region.inputs] == [("near", True)]
    assert names(region.nodes) == ["key_by", "window", "where"]
    # Behind a gather the frame no longer says whose row it is: `device` travels.
    assert [(output.name, output.kind, "device" in output.schema) for output in region.outputs] == [
        ("mean", "subscribe", False),
        ("fast", "sync", True),
    ]
    assert "device" in plan.edges[0].schema
    assert [entry.name for entry in cloud.inputs] == ["fast"]
    assert [edge.name for edge in plan.gathers] == ["near"]
    assert plan.gathers[0].schema == device.outputs[0].schema


def test_a_region_that_nobody_hosts_is_refused_with_its_line() -> None:
    plan = rs.plan_of(gps().gather("near").subscribe("all"))
    with pytest.raises(UsageError, match=r"'near'.*test_placement.py:\d+") as caught:
        check_unhosted(plan)
    assert caught.value.code == "placement-region"
    check_unhosted(rs.plan_of(gps().sync("up").subscribe("all")))


def test_a_cycle_in_the_region_has_the_regions_side() -> None:
    loop = rs.feedback("loop", {"v": "float64"})
    both = rs.stream("x", {"v": "float64"}).gather("x").union(loop, merge="logged")
    both.where(col.v > 9).select(v=col.v / 2).feed(loop)
    plan = rs.plan_of(both.subscribe("all"))
    region = region_fragment(plan)
    assert {entry.name for entry in region.inputs} == {"x", "feedback loop"}
    assert {output.kind for output in region.outputs} == {"feed", "subscribe"}


@pytest.mark.parametrize("options", [{"batch": 0}, {"batch": 2_000_000}])
def test_a_gathers_batches_are_bounded(options: dict) -> None:
    with pytest.raises(UsageError) as caught:
        gps().gather("near", **options)
    assert caught.value.code == "gather-batch"


@pytest.mark.parametrize("verb", ["sync", "gather"])
def test_a_filter_that_moved_into_a_cycles_union_stays_on_its_side(verb: str) -> None:
    loop = rs.feedback("loop", {"v": "float64"})
    x = getattr(rs.stream("x", {"v": "float64"}), verb)("x")
    high = x.union(loop, merge="logged").where(col.v > 0).significant("v", change=0.1)
    high.feed(loop)
    plan = rs.plan_of(high.subscribe("high"))
    before_union = [node for node in plan.nodes if node.operator.kind == "where"]
    assert len(before_union) == 2, "one filter for each branch"
    again = decode_plan(encode_plan(plan))
    side = "cloud" if verb == "sync" else "region"
    assert {sides(again)[node.id] for node in before_union} == {side}


def test_a_feedback_from_another_side_is_refused() -> None:
    loop = rs.feedback("loop", {"v": "float64"})
    x = rs.stream("x", {"v": "float64"})
    x.where(col.v > 9).feed(loop)
    with pytest.raises(UsageError) as caught:
        rs.plan_of(x.gather("x").union(loop, merge="logged").subscribe("all"))
    assert caught.value.code == "placement-mixed"
