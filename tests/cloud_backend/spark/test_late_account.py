"""Late rows of a job: counted in the manifest with the epoch that left them out, kept through kills, splits and
rollbacks, and shown by command line, page and API."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

import resurge as rs
from cloud_backend.spark.job_facts import job_facts
from cloud_backend.spark.rollback.roll_back import roll_back
from resurge.cli.job import app
from shared.plan.graph import Plan
from tests.cloud_backend.spark.task.test_state_by_key import split
from tests.spark.worlds import SECOND, World


def plan() -> Plan:
    up = rs.sensor("walk", every="1s", columns={"x": "float64", "cell": "int64"}).sync("walk", batch=20)
    opened = up.key_by("cell", idle_after="20s").tumbling("10s", lateness="5s")
    return rs.plan_of(opened.aggregate(n=rs.count()).subscribe("cells"), opened.late().subscribe("late"), name="cells")


def left_behind(tmp_path: Path) -> World:
    """The third device is silent for two minutes, so that nobody waits for it; then it sends what it has."""
    world = World(tmp_path, plan(), devices=3)
    driver = world.driver()
    world.append()
    driver.drain()
    silent, seen = world.ids.pop(), world.next.pop()
    world.devices = 2
    for _ in range(4):
        world.append()
        driver.drain()
    world.devices, world.ids, world.next = 3, [*world.ids, silent], [*world.next, seen]
    world.append()
    driver.drain()
    return world


def late(world: World) -> int:
    return sum(int(each["rows"]) for each in job_facts(world.store_dir)["late"])


def test_late_rows_of_a_job_are_counted_published_and_shown(tmp_path: Path) -> None:
    world = left_behind(tmp_path)
    rows = world.results.latest("late")
    assert len(rows) == late(world) > 0
    assert all(row.window_start_us < 145 * SECOND for row in rows)  # the others had come to 150 s
    (entry,) = job_facts(world.store_dir)["late"]
    assert entry["operator"].startswith("tumbling 10s")
    assert entry["reason"] == "more than 5s behind the frontier"
    said = CliRunner().invoke(app, ["status", "--store", str(world.store_dir)]).output
    assert f"late rows: {len(rows)}" in said
    assert "more than 5s behind the frontier: tumbling 10s" in said
    assert json.loads(CliRunner().invoke(app, ["status", "--store", str(world.store_dir), "--json"]).output)["late"]


def test_the_count_survives_a_new_driver_a_split_and_a_rollback(tmp_path: Path) -> None:
    world = left_behind(tmp_path)
    driver = world.driver()
    (vertex,) = [name for name in driver.graph.order if driver.graph.vertices[name].key == ("cell",)]
    split(driver, vertex)
    before = late(world)
    world.append()
    driver.drain()
    counted = late(world)
    # Both halves start from one state, and only one goes on with its count; the third device is late again.
    assert counted == len(world.results.latest("late")) == before + 30
    roll_back(world.store_dir, vertex, 6)
    world.driver().drain()
    assert late(world) == len(world.results.latest("late")) == counted
