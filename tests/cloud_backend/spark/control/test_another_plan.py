"""A job goes on with another plan: what is the same keeps its state, what is not starts anew, nothing is skipped."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import resurge as rs
from cloud_backend.spark.manifest.manifest import ManifestLog
from cloud_backend.spark.manifest.plans import PlanFile, stored_plan
from cloud_backend.spark.manifest.quarantine import quarantined_count
from cloud_backend.spark.rollback.roll_back import roll_back
from cloud_backend.spark.rollback.undo import undo, undoable
from cloud_backend.spark.storage.store import Store
from shared.errors import UsageError
from shared.plan.encoding import encode_plan
from shared.plan.graph import Plan
from tests.spark.worlds import SECOND, World


def walks(window: str = "10s", *, total: str = "20s", more: bool = False, version: int = 1) -> Plan:
    """Two vertices that know nothing of each other, by device and by cell, and a third with `more`."""
    up = rs.sensor("walk", every="1s", columns={"x": "float64", "cell": "int64"}).sync("walk", batch=20)
    mine = up.tumbling(window).aggregate(n=rs.count()).subscribe("mine")
    cells = up.key_by("cell").tumbling(total).aggregate(n=rs.count()).subscribe("cells")
    sums = up.key_by("cell").tumbling("10s").aggregate(total=rs.sum("x")).subscribe("sums")
    return rs.plan_of(mine, cells, *([sums] if more else []), version=version, name="walks")


def rows(world: World, sink: str) -> dict[tuple[str, int], int]:
    return {(str(row.key), row.window_start_us): row.values["n"] for row in world.results.current() if row.sink == sink}


def test_what_is_the_same_keeps_its_state_and_what_is_not_starts_anew(tmp_path):
    world = World(tmp_path, walks())
    driver = world.started(3)
    world.append(35)  # windows are open: 125 s of 20 s windows
    driver.drain()
    before = rows(world, "mine")
    driver.take(walks("30s", version=2))
    driver.drain()
    assert driver.graph.plan.version == 2
    world.append(40)
    driver.drain()
    plain = World(tmp_path / "plain", walks())
    plain.started(3)
    plain.append(35)
    plain.append(40)
    plain.driver().drain()
    assert rows(world, "cells") == rows(plain, "cells")  # as if nothing had happened: the open window was kept
    after = rows(world, "mine")
    assert before.items() <= after.items()
    lineage = next(iter(driver.manifest.vertices["mine"].values()))
    assert lineage.first == 5
    assert lineage.term > 0  # what it says about a window that was told before counts
    assert max(after.values()) > 10  # thirty seconds


def test_the_plan_changes_between_two_epochs_and_leaves_nothing_out(tmp_path):
    world = World(tmp_path, walks())
    driver = world.driver()
    world.append()
    assert driver.step()  # cut and run a part of it
    driver.take(walks("30s", version=2))
    world.append()
    driver.drain()
    entries = [json.loads(driver.store.entry(number)) for number in driver.store.entry_numbers()]
    (change,) = [entry for entry in entries if entry["kind"] == "plan" and entry["n"] > 2]
    assert change["anew"] == ["mine"]
    assert "gone" not in change
    cut_before = [entry["epoch"] for entry in entries if entry["kind"] == "cut" and entry["n"] < change["n"]]
    done_before = [
        next(iter(entry["ranges"].values()))["epoch"]
        for entry in entries
        if entry["kind"] == "commit" and entry["vertex"] == "mine" and entry["n"] < change["n"]
    ]
    assert set(done_before) == set(cut_before) == set(range(1, change["from"]))


def test_a_vertex_that_is_gone_no_longer_holds_the_log(tmp_path):
    world = World(tmp_path, walks(more=True))
    driver = world.started(2)
    driver.take(walks(version=2))
    driver.drain()
    assert "sums" not in driver.manifest.vertices
    world.append()
    driver.drain()
    assert driver.manifest.position("cells") == driver.manifest.last_cut == 3
    use = json.loads((world.store_dir / "stable.json").read_bytes())
    assert use["read"] == driver.manifest.cuts[3].ends["0"]
    driver.take(walks(more=True, version=3))  # and comes back
    world.append()
    driver.drain()
    assert any(row.sink == "sums" and row.revision >> 32 for row in world.results.current())


def test_a_job_that_was_stopped_finishes_under_its_plan_before_it_takes_the_new_one(tmp_path):
    world = World(tmp_path, walks())
    driver = world.driver()
    world.append()
    driver.step()
    world.plan = walks("30s", version=2)
    again = world.driver()
    assert again.graph.plan.version == 1
    again.drain()
    assert again.graph.plan.version == 2
    assert rows(world, "mine")  # what the first plan had left to say was said


def test_a_corrected_plan_outlives_a_restart_with_the_old_file(tmp_path):
    world = World(tmp_path, walks())
    driver = world.started(2)
    roll_back(world.store_dir, "mine", 1, fixed=walks("10s"))
    driver.drain()
    assert driver.graph.plan.version == 2
    again = world.driver()  # the file still says version 1
    again.drain()
    assert again.graph.plan.version == 2
    again.take(walks("30s", version=3))
    again.drain()
    assert again.graph.plan.version == 3


def test_a_rollback_from_before_a_change_cannot_be_taken_back(tmp_path):
    world = World(tmp_path, walks())
    driver = world.started(3)
    done = roll_back(world.store_dir, "mine", 1)
    driver.drain()
    assert undoable(driver.manifest, driver.manifest.rollbacks[-1])
    driver.take(walks("30s", version=2))
    driver.drain()
    with pytest.raises(UsageError, match="undo-unknown"):
        undo(world.store_dir, done.entry)
    world.append()
    driver.drain()
    roll_back(world.store_dir, "cells", 1)  # the one that was kept goes back beyond the change
    driver.drain()
    assert driver.manifest.position("cells") == driver.manifest.last_cut
    assert ManifestLog(Store(world.store_dir)).state.to_json() == driver.manifest.to_json()


def test_a_plan_file_is_read_again_when_it_was_replaced(tmp_path, caplog):
    path = tmp_path / "plan.bin"
    path.write_bytes(encode_plan(walks()))
    file = PlanFile(path)
    assert file.read().version == 1
    assert file.newer() is None
    fresh = tmp_path / "fresh"
    fresh.write_bytes(encode_plan(walks(version=2)))
    fresh.replace(path)
    assert file.newer().version == 2
    assert file.newer() is None
    path.write_bytes(b"{}")
    assert file.newer() is None
    assert "the plan at hand goes on" in caplog.text
    path.unlink()
    assert file.newer() is None


def test_lines_that_moved_change_no_state(tmp_path):
    world = World(tmp_path, walks())
    driver = world.started(2)
    moved = walks()
    moved = replace(moved, nodes=tuple(replace(each, line=replace(each.line, line=9)) for each in moved.nodes))
    driver.take(moved)
    driver.drain()
    assert stored_plan(driver.store, driver.manifest.plan).nodes[0].line.line == 9
    assert {lineage.first for each in driver.manifest.vertices.values() for lineage in each.values()} == {1}


def grown(columns: dict[str, str], version: int = 1, **missing: int) -> Plan:
    up = rs.sensor("walk", every="1s", columns=columns).sync("walk", batch=20, missing=missing)
    sums = {"total": rs.sum("x")} | ({"steps": rs.sum("steps")} if "steps" in columns else {})
    return rs.plan_of(up.tumbling("10s").aggregate(n=rs.count(), **sums).subscribe("mine"), version=version)


def test_old_and_new_phones_deliver_side_by_side_after_a_column_is_added_and_one_is_wider(tmp_path, claim):
    world = World(tmp_path, grown({"x": "float32", "cell": "int32"}))
    world.declare()
    driver = world.started(1)
    before, new = world.plan, grown({"x": "float64", "cell": "int64", "steps": "int64"}, 2, steps=0)
    driver.take(new)
    driver.drain()
    world.append(30)  # phones that have not heard of it
    driver.drain()
    world.plan = new
    world.declare()
    world.append(30, steps=2)  # those that have
    world.plan = before
    world.append(30)  # and again some that were away
    driver.drain()
    assert driver.graph.plan.version == 2
    assert quarantined_count(driver.manifest) == 0
    found = [row for row in world.results.current() if row.sink == "mine"]
    steps = sum(row.values["steps"] for row in found if "steps" in row.values)
    assert steps == 2 * 30 * world.devices
    world.plan = new
    start = 30 * SECOND  # the first epoch ran under the old plan, whose open windows went
    wanted = {row.identity: row.content() for row in world.expected() if row.window_start_us >= start}
    assert {row.identity: row.content() for row in found if row.window_start_us >= start} == wanted
    claim(f"{len(wanted)} results over batches of two forms")


def test_an_epoch_is_not_cut_behind_a_program_that_was_just_deployed(tmp_path):
    world = World(tmp_path, grown({"x": "float32", "cell": "int32"}))
    file = tmp_path / "plan.bin"
    file.write_bytes(encode_plan(world.plan))
    driver = world.driver()
    program = PlanFile(file)
    program.read()
    stops = iter([False, True])
    driver.run(stop=lambda: next(stops), program=program)
    world.plan = grown({"x": "float64", "cell": "int64"}, 2)
    world.append(30)
    reached = driver._reader.ends

    def deployed_meanwhile():
        file.write_bytes(encode_plan(world.plan))  # a phone has it, and has delivered, before the log was looked at
        return reached()

    driver._reader.ends = deployed_meanwhile
    assert driver._cut() is False
    driver.drain()
    assert driver.graph.plan.version == 2
    assert quarantined_count(driver.manifest) == 0
