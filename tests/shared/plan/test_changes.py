"""Whose state is kept when a program is replaced."""

from __future__ import annotations

from dataclasses import replace

import pytest

import resurge as rs
from resurge import col
from shared.plan.changes import changes, same_program
from shared.plan.encoding import decode_plan, encode_plan


def program(*, every="5s", good=50, gap="1m", extra_filter=False, second=True, wide=False):
    gps = rs.sensor("gps", every=every).where(col.accuracy < good)
    if extra_filter:
        gps = gps.where(col.speed > 0)
    up = (gps if wide else gps.select("lat", "lon")).sync("gps")
    one = up.tumbling(gap).aggregate(points=rs.count()).sync_back("points")
    charging = rs.sensor("battery", every="1m").sync("battery").key_by("charging")
    two = charging.tumbling("1m").aggregate(n=rs.count()).subscribe("busy")
    return rs.plan_of(one, *([two] if second else []))


def how(before, after):
    return {each.name: each.how for each in changes(before, after).vertices}


def test_lines_and_versions_are_no_change():
    plan = program()
    moved = replace(plan, version=7, nodes=tuple(replace(n, line=replace(n.line, line=1)) for n in plan.nodes))
    assert same_program(plan, moved)
    assert changes(plan, decode_plan(encode_plan(moved))).same
    assert set(how(plan, moved).values()) == {"kept"}


def test_another_filter_on_the_phone_keeps_what_spark_has():
    found = changes(program(), program(good=20))
    assert (found.same, found.device_kept) == (False, False)
    assert found.of("kept") == tuple(each.name for each in found.vertices)


def test_reading_a_sensor_less_often_keeps_the_state_of_phones():
    found = changes(program(), program(every="10s"))
    assert (found.same, found.device_kept) == (False, True)


def test_another_window_starts_its_vertex_anew_and_no_other():
    found = changes(program(), program(gap="5m"))
    assert found.of("anew") == ("points",)
    assert "busy" in found.of("kept")
    (why,) = [each.why for each in found.vertices if each.how == "anew"]
    assert why == "it computes something else"


def test_ids_that_moved_are_no_change_of_a_vertex():
    assert "points" in changes(program(), program(extra_filter=True)).of("kept")


def test_other_columns_on_an_edge_start_its_readers_anew():
    found = changes(program(), program(wide=True))
    assert found.edges_reshaped == ("gps",)
    assert [(each.name, each.why) for each in found.vertices if each.how == "anew"] == [
        ("points", "edge 'gps' has other columns")
    ]


def test_what_came_and_what_went_is_named():
    less = changes(program(), program(second=False))
    assert (less.sinks_gone, less.of("gone")) == (("busy",), ("busy",))
    more = changes(program(second=False), program())
    assert (more.sinks_new, more.of("new")) == (("busy",), ("busy",))


def test_a_vertex_below_one_that_starts_anew_starts_anew_too():
    def chained(window):
        up = rs.sensor("gps", every="5s").select("lat", "lon").sync("gps")
        by_cell = up.extend(cell=rs.floor(col.lat * 1000).cast("int64")).key_by("cell")
        cells = by_cell.tumbling(window).aggregate(n=rs.count())
        return rs.plan_of(cells.key_by("n").tumbling("10m").aggregate(cells=rs.count()).subscribe("sizes"))

    found = {each.name: each for each in changes(chained("1m"), chained("2m")).vertices}
    assert found["sizes"].how == "anew"
    assert "which starts anew" in found["sizes"].why


@pytest.mark.parametrize("sensor", ["accelerometer", "battery"])
def test_a_sensor_that_phones_are_asked_for_is_named(sensor):
    counted = rs.sensor(sensor, every="5s").sync("other").tumbling("1m").aggregate(n=rs.count())
    found = changes(program(second=False), rs.plan_of(counted.sync_back("o")))
    assert (found.sensors_new, found.sensors_gone, found.edges_new, found.edges_gone) == (
        (sensor,), ("gps",), ("other",), ("gps",),
    )  # fmt: skip
