"""`resurge plan FILE` says what a program means: graph, cut, vertices, reasons; and draws it."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

import resurge as rs
from resurge import col
from shared.plan.drawing import svg
from shared.plan.encoding import decode_plan
from shared.plan.explain import explain
from shared.plan.layout import layout
from shared.plan.placement import sides

PROGRAM = """import resurge as rs
from resurge import col

gps = rs.sensor("gps", every="5s").where(col.accuracy < 50).where(col.speed >= 0)
up = gps.sync("up", contract=rs.lossless(delay="10m"))
trips = up.session(gap="5m", lateness="1h").aggregate(km=rs.path_km("lat", "lon"), device_mode=rs.last("bearing"))
trips.sync_back("my_trips")
"""

EXPLAINED = """plan 'trips', version 1, 5 operators

on each device:
    0  sensor gps every 5s   [trips.py:4]
    1  where (accuracy < 50) and (speed >= 0)  <- 0   [trips.py:4]
    2  sync up: batches of 60 rows or 1m  <- 1   [trips.py:5]

on the cloud:
    3  session gap 5m: km=path_km(lat, lon), device_mode=last(bearing), corrections for 1h  <- 2   [trips.py:6]
    4  sync back my_trips (commit latest)  <- 3   [trips.py:7]

cut:
  device -> cloud  up (lat float64, lon float64, altitude float64, accuracy float64, speed float64, bearing float64); \
lossless within 10m: spooled until receipt, evict query
  cloud -> device  my_trips; latest revision, corrected if rolled back

vertices on the cloud:
  'my_trips' by (device): operators 3
      reads up; gives my_trips
      reads its edge as it comes

recovery on the cloud, by partial rollback from recorded outputs:
  'my_trips' fails alone: it is deterministic, so its replay gives the same rows

rewritten:
  neighbouring wheres fused (trips.py:4)
"""


def resurge_plan(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "resurge", "plan", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.covers("SO-16")
def test_the_command_explains_draws_and_prints_the_plan(tmp_path) -> None:
    (tmp_path / "trips.py").write_text(PROGRAM)
    done = resurge_plan(str(tmp_path / "trips.py"), "--svg", str(tmp_path / "plan.svg"))
    assert done.stdout == EXPLAINED
    root = ET.fromstring((tmp_path / "plan.svg").read_text())
    assert root.tag.endswith("svg")
    done = resurge_plan(str(tmp_path / "trips.py"), "--json")
    document = done.stdout.splitlines()[-1]
    assert decode_plan(document.encode()).name == "trips"
    assert json.loads(document)["format"] == 1


def test_a_wrong_program_ends_in_one_line_that_names_the_place(tmp_path) -> None:
    (tmp_path / "wrong.py").write_text(PROGRAM.replace("col.speed", "col.sped"))
    done = resurge_plan(str(tmp_path / "wrong.py"))
    assert done.returncode == 1
    assert "'sped' is not in this stream" in done.stderr
    assert "wrong.py:4" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_drawing_escapes_what_users_write_and_frames_each_vertex() -> None:
    up = rs.sensor("cell", every="5s").where(col.tower != "<&>").sync("up")
    plan = rs.plan_of(up.key_by("tower").tumbling("1m").aggregate(n=rs.count()).subscribe("by tower"))
    drawing = svg(plan)
    assert "&lt;&amp;&gt;" in drawing
    assert "vertex by tower by tower" in drawing
    assert 'class="cut"' in drawing
    ET.fromstring(drawing)


def test_a_cycle_is_drawn_and_explained() -> None:
    loop = rs.feedback("loop", {"lat": "float64"})
    both = rs.sensor("gps", every="5s").select("lat").union(loop, merge="arrival")
    both.where(col.lat > 90).feed(loop)
    plan = rs.plan_of(both)
    assert "edge back" in svg(plan)
    assert "everything runs on the device" in explain(plan)


@pytest.mark.covers("SO-30")
def test_a_vertex_that_merges_by_arrival_takes_its_readers_with_it() -> None:
    up = rs.sensor("cell", every="5s").sync("up")
    crowd = up.key_by("tower", merge="arrival").tumbling("1m").aggregate(n=rs.count(), device=rs.last("device"))
    back = crowd.key_by("device").tumbling("1h").aggregate(n=rs.sum("n"))
    text = explain(rs.plan_of(crowd.subscribe("crowd"), back.sync_back("mine")))
    assert "'crowd' takes 'mine' with it: it merges by arrival" in text
    assert "'mine' fails alone" in text


def test_no_arrow_of_the_picture_runs_under_a_box() -> None:
    x = rs.stream("x", {"v": "float64", "cell": "int64"}).sync("x")
    loop = rs.feedback("loop", {"v": "float64", "cell": "int64"})
    both = x.union(loop, merge="arrival")
    both.where(col.v < 4).feed(loop)
    cells = both.key_by("cell").tumbling("1m").aggregate(n=rs.count())
    asked = rs.timer("30s").with_latest(rs.sensor("light", every="5s").significant("lux", change=5.0)).read("gps")
    late = cells.key_by().tumbling("1h").aggregate(top=rs.top_k("cell", 3))
    plan = rs.plan_of(
        late,
        cells.subscribe("cells"),
        both.tumbling("1h").aggregate(v=rs.max("v")).sync_back("mine"),
        asked.sync("gps"),
    )
    found = layout(plan)
    waypoints = [cell for arrow in found.arrows for cell in arrow.waypoints]
    cells_used = [*found.cells.values(), *waypoints]
    assert len(cells_used) == len(set(cells_used))
    assert waypoints  # there is an arrow across a column
    for arrow in found.arrows:
        columns = [
            found.cells[arrow.source][0],
            *(column for column, _ in arrow.waypoints),
            found.cells[arrow.target][0],
        ]
        assert columns == list(range(columns[0], columns[0] + len(columns)))
    cloud = {number for number, side in sides(plan).items() if side == "cloud"}
    assert all((found.cells[number][0] >= found.first_cloud) == (number in cloud) for number in found.cells)
    ET.fromstring(svg(plan))
