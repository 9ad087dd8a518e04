"""What each rewrite does, and where it must not. That answers stay the same is shown in tests/properties."""

from __future__ import annotations

import pytest

import resurge as rs
from resurge import col, state
from shared.plan.graph import Plan
from shared.plan.rewrites import rewrite


@rs.operator("rewrites_dice", takes={"lat": "float64"}, gives={"lat": "float64"}, deterministic=False)
def dice(columns):
    return {"lat": columns["lat"]}


def gps() -> rs.Stream:
    return rs.sensor("gps", every="5s")


def shapes(plan: Plan) -> list[str]:
    return [node.operator.describe() for node in plan.nodes]


@pytest.mark.covers("SO-18")
def test_the_same_computation_written_twice_is_done_once() -> None:
    source = gps().sync("up")
    speeds = [source.tumbling("1m").aggregate(v=rs.mean("speed")) for _ in range(2)]
    plan = rs.plan_of(speeds[0].where(col.v > 1).sync_back("fast"), speeds[1].where(col.v < 1).sync_back("slow"))
    assert sum("tumbling" in shape for shape in shapes(plan)) == 1


def test_constants_that_only_look_equal_are_not_shared() -> None:
    source = gps()
    plan = rs.plan_of(source.select(x=col.lat * 0.0), source.select(x=col.lat * -0.0))
    assert sum("select" in shape for shape in shapes(plan)) == 2


def test_what_is_not_deterministic_is_never_shared() -> None:
    source = gps()
    plan = rs.plan_of(source.apply("rewrites_dice"), source.apply("rewrites_dice"))
    assert sum("dice" in shape for shape in shapes(plan)) == 2


def test_a_filter_moves_before_a_projection_that_only_renames() -> None:
    plan = rs.plan_of(gps().select(north=col.lat, kmh=col.speed * 3.6).where(col.north > 47))
    assert shapes(plan)[1:3] == ["where lat > 47", "select device, north=lat, kmh=speed * 3.6"]


def test_a_filter_stays_behind_what_it_would_compute_twice() -> None:
    plan = rs.plan_of(gps().select(kmh=col.speed * 3.6).where(col.kmh > 5))
    assert shapes(plan)[1:3] == ["select device, kmh=speed * 3.6", "where kmh > 5"]


def test_a_filter_moves_into_every_branch_of_a_union() -> None:
    other = rs.sensor("gps2", every="1s", columns=dict.fromkeys(("lat", "lon"), "float64"))
    plan = rs.plan_of(gps().select("lat", "lon").union(other.select("lat", "lon")).where(col.lat > 0))
    assert shapes(plan).count("where lat > 0") == 2
    assert shapes(plan)[-2].startswith("union")


def test_a_filter_on_the_key_moves_before_keyed_state_and_others_do_not() -> None:
    counted = gps().state({"n": 0}, n=state.n + 1)
    assert shapes(rs.plan_of(counted.where(col.device == "a")))[1] == "where device == 'a'"
    assert shapes(rs.plan_of(counted.where(col.n > 3)))[1] == "state n"


def test_nothing_moves_across_gather() -> None:
    near = gps().gather("near")
    plan = rs.plan_of(near.where(col.accuracy < 50).key_by().select("lat").tumbling("1m").aggregate(v=rs.max("lat")))
    assert shapes(plan)[1].startswith("gather near")
    assert plan.gathers[0].schema.names == ("lat", "lon", "altitude", "accuracy", "speed", "bearing")
    both = rs.plan_of(near.where(col.accuracy < 50).subscribe("a"), gps().where(col.accuracy < 50).subscribe("b"))
    assert sum(shape.startswith("where") for shape in shapes(both)) == 2, "the same filter on two sides is two"


def test_nothing_moves_across_sync() -> None:
    plan = rs.plan_of(gps().sync("up").where(col.accuracy < 50).select("lat").sync_back("x"))
    assert shapes(plan)[1].startswith("sync up")
    assert len(plan.edges[0].schema.names) == 6


def test_a_stream_that_somebody_else_reads_is_left_alone() -> None:
    chosen = gps().select("lat", "lon")
    plan = rs.plan_of(chosen.subscribe("all"), chosen.where(col.lat > 0).subscribe("north"))
    assert shapes(plan).index("where lat > 0") > shapes(plan).index("select device, lat, lon")


def test_columns_that_nothing_reads_are_dropped_before_rows_change_their_place() -> None:
    cell = (
        rs.sensor("cell", every="5s")
        .sync("up")
        .sliding(count=3)
        .aggregate(dbm=rs.mean("dbm"), tower=rs.last("tower"), first=rs.first("tower"))
    )
    plan = rs.plan_of(cell.key_by("tower").tumbling("1m").aggregate(n=rs.count()))
    narrow = next(shape for shape in shapes(plan) if shape.startswith("select"))
    assert narrow == "select device, tower"


def test_rewriting_twice_changes_nothing_more() -> None:
    wide = gps().select("lat", a=col.lat + 1, b=col.lon + 1).where(col.lat > 0).where(col.lat < 9).select("a")
    plan = rs.plan_of(wide.tumbling("1m").aggregate(a=rs.mean("a")))
    again = rewrite(plan)
    assert again.plan == plan
    assert again.notes == ()
