"""The plan drawn: what runs where, who goes back, and nothing a name could smuggle in."""

from __future__ import annotations

import re

import resurge as rs
from cloud_backend.dashboard.drawing.plan_graph import RollbackSet, plan_graph


def plan():
    up = rs.sensor("gps", every="1s").sync("gps", batch=4)
    mine = up.key_by("device").tumbling("2s").aggregate(km=rs.path_km("lat", "lon"))
    return rs.plan_of(
        mine.sync_back("my_trips"), mine.key_by().tumbling("4s").aggregate(km=rs.sum("km")).subscribe("all")
    )


def vertex(name: str, *, sources=(), inputs=("gps",), sinks=(), **state):
    part = {"range": "0-512", "position": 9, "epochs_behind": 0, "parked": "", "running_again": False} | state
    return {
        "name": name, "key": ["device"], "sources": list(sources), "inputs": list(inputs), "sinks": list(sinks),
        "position": 9, "epochs_behind": 0, "ranges": [part, part | {"range": "512-1024"}],
    }  # fmt: skip


def test_the_drawing_goes_from_the_device_over_the_cut_to_the_sinks():
    drawn = plan_graph(
        plan(), [vertex("my_trips", sinks=["my_trips"]), vertex("all", sources=["my_trips"], inputs=["x"])]
    )
    assert drawn.index("sensor gps") < drawn.index("sync gps") < drawn.index(">my_trips<") < drawn.index(">all<")
    assert "the cut" in drawn
    assert drawn.count('class="range fine"') == 4


def test_a_rollback_set_is_drawn_and_said():
    vertices = [vertex("my_trips"), vertex("all", sources=["my_trips"], inputs=["x"])]
    drawn = plan_graph(plan(), vertices, RollbackSet(["all 0-512"], {"my_trips": 4}))
    assert re.search(r'class="vertex in-R">.*>all<', drawn)
    assert re.search(r'class="vertex in-E">.*>my_trips<', drawn)
    assert "vertex all at epoch 9, goes back" in drawn
    assert "in the rollback set" in drawn


def test_a_range_says_why_it_cannot_go_on():
    drawn = plan_graph(plan(), [vertex("my_trips", parked="operator: <script>")])
    assert "cannot go on: operator: &lt;script&gt;" in drawn
    assert "<script>" not in drawn


def test_feedback_between_vertices_ends_and_draws():
    drawn = plan_graph(plan(), [vertex("a", sources=["b"]), vertex("b", sources=["a"], inputs=[])])
    assert ">a<" in drawn
    assert ">b<" in drawn
