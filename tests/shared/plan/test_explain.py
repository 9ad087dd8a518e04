"""`resurge plan FILE` says what a program means: graph, cut, vertices, reasons; and draws it."""

from __future__ import annotations

import json
import re
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

contracts:
  up: lossless within 10m (LOLE, LIDE(10m), IASO)
      local, a snapshot at least every 500000 elements; the cheapest of 1 that keep it (2 asked): 0 bytes per element \
for it, recovery in 18 s of 10m allowed

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


def test_a_promise_that_nothing_keeps_is_refused_with_the_nearest_strategy(tmp_path) -> None:
    (tmp_path / "hasty.py").write_text(PROGRAM.replace('delay="10m"', 'delay="30s"'))
    done = resurge_plan(str(tmp_path / "hasty.py"), "--output", str(tmp_path / "plan.json"))
    assert done.returncode == 1
    assert (
        "sync 'up' promises what cannot be kept: no strategy keeps it; the nearest is local, which lacks" in done.stderr
    )
    assert "[contract-refused]" in done.stderr
    assert not (tmp_path / "plan.json").exists()


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
    ((first_cloud, *between),) = found.cuts
    assert between == ["device", "cloud"]
    cloud = {number for number, side in sides(plan).items() if side == "cloud"}
    assert all((found.cells[number][0] >= first_cloud) == (number in cloud) for number in found.cells)
    ET.fromstring(svg(plan))


REGION = """plan 'program', version 1, 11 operators

on each device:
    0  appended x   [FILE]
    1  gather x: batches of 60 rows or 1s  <- 0   [FILE]

in the region:
    2  key by cell (ordered)  <- 1   [FILE]
    3  tumbling 1m: v=mean(v)  <- 2   [FILE]
    4  where v > 1.5  <- 3   [FILE]
    5  subscribe hot  <- 4   [FILE]
    6  sliding 3 rows: v=max(v)  <- 3   [FILE]
    7  where v > 0.0  <- 6   [FILE]
    8  sync peaks: batches of 60 rows or 1m  <- 7   [FILE]

on the cloud:
    9  tumbling 1h: n=count()  <- 8   [FILE]
   10  subscribe counts  <- 9   [FILE]

cut:
  device -> region  x (v float64, cell int64); lossless within 5s: where the region is full, the device waits
  region -> cloud  peaks (cell int64, window_start int64, window_end int64, v float64, complete bool); lossless: spooled \
until receipt, evict query

vertices in the region, placed one by one:
  'hot': operators 2, 3, 4; keeps state by (cell), merges ordered
      reads x; gives hot, hot/3
  'peaks': operators 6, 7; keeps state by (cell), merges ordered
      reads hot/3; gives peaks

vertices on the cloud:
  'counts' by (cell): operators 9
      reads peaks; gives counts
      reads its edge as it comes

recovery on the cloud, by partial rollback from recorded outputs:
  'counts' fails alone: it is deterministic, so its replay gives the same rows
"""


def three_sides() -> rs.Plan:
    x = rs.stream("x", {"v": "float64", "cell": "int64"}).gather("x", contract=rs.lossless(delay="5s"))
    cells = x.key_by("cell").tumbling("1m").aggregate(v=rs.mean("v"))
    hot = cells.where(col.v > 1.5).subscribe("hot")
    peaks = cells.sliding(count=3).aggregate(v=rs.max("v")).where(col.v > 0.0).sync("peaks")
    return rs.plan_of(hot, peaks.tumbling("1h").aggregate(n=rs.count()).subscribe("counts"))


def test_the_region_is_explained_between_device_and_cloud() -> None:
    text = re.sub(r"\[test_explain.py:\d+\]", "[FILE]", explain(three_sides()))
    assert text == REGION


def test_a_cycle_in_the_region_is_told() -> None:
    loop = rs.feedback("loop", {"v": "float64"})
    both = rs.stream("x", {"v": "float64"}).gather("x").union(loop, merge="logged")
    high = both.state({"v_last": 0.0}, keep=True, v_last=col.v).select("v").where(col.v > 90)
    high.feed(loop)
    text = explain(rs.plan_of(high.subscribe("high")))
    assert "merges logged" in text
    assert "on a cycle: feedback loop" in text


def test_three_sides_are_drawn_from_left_to_right() -> None:
    plan = three_sides()
    found = layout(plan)
    assert [cut[1:] for cut in found.cuts] == [("device", "region"), ("region", "cloud")]
    bounds = [0, *(column for column, _, _ in found.cuts), 1_000]
    for number, side in sides(plan).items():
        at = ("device", "region", "cloud").index(side)
        assert bounds[at] <= found.cells[number][0] < bounds[at + 1]
    drawn = svg(plan)
    ET.fromstring(drawn)
    assert drawn.count('class="cut"') == 2
    assert "vertex hot by cell" in drawn
