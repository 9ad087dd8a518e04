"""`resurge job`: what an operator sees and does, without a JVM."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from resurge.cli.job import app
from shared.errors import UsageError
from tests.spark.worlds import World, cells_plan


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path, cells_plan())
    world.started(3)
    return world


def said(world: World, *arguments: str) -> dict[str, object]:
    answer = CliRunner().invoke(app, [*arguments, "--store", str(world.store_dir), "--json"], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    value: dict[str, object] = json.loads(answer.output.splitlines()[-1])
    return value


def test_list_and_status_say_where_every_vertex_is(world: World) -> None:
    vertices = said(world, "list")["vertices"]
    assert [(each["name"], each["position"]) for each in vertices] == [("mine", 3), ("cells", 3), ("everything", 3)]  # type: ignore[index,attr-defined]
    status = said(world, "status")
    assert (status["epoch"], status["stable"], status["quarantined_count"]) == (3, 3, 0)


def test_status_says_that_half_an_entry_was_found(world: World) -> None:
    number = len([*(world.store_dir / "manifest").glob("*.json")]) + 1
    (world.store_dir / "manifest" / f"{number:012d}.json").write_bytes(b"{")
    status = CliRunner().invoke(app, ["status", "--store", str(world.store_dir)], catch_exceptions=False).output
    assert f"manifest entry {number} was torn by a power cut" in status


def test_a_dry_run_shows_and_changes_nothing_and_the_real_one_does(world: World) -> None:
    before = sorted(path.name for path in (world.store_dir / "manifest").iterdir())
    shown = said(world, "rollback", "cells", "--to", "1", "--dry-run")
    assert shown["epoch"] == 1
    assert {name.split()[0] for name in shown["rollback"]} == {"cells", "everything"}  # type: ignore[attr-defined]
    reasons = [why for name, why in shown["reasons"].items() if name.startswith("cells")]  # type: ignore[attr-defined]
    assert {*reasons} == {"asked for"}, "nothing has failed"
    assert {name.split()[0] for name in shown["replay"]} == {"mine"}  # type: ignore[attr-defined]
    assert sorted(path.name for path in (world.store_dir / "manifest").iterdir()) == before
    done = said(world, "rollback", "cells", "--to", "1")
    assert done["entry"] == len(before) + 1
    driver = world.driver()
    driver.drain()
    world.check(least_rows=50)
    assert len(said(world, "status")["rollbacks"]) == 1  # type: ignore[arg-type]


def test_a_savepoint_is_made_listed_gone_back_to_and_dropped(world: World) -> None:
    made = said(world, "savepoint", "create", "release-1")
    assert (made["name"], made["epoch"]) == ("release-1", 3)
    [listed] = said(world, "savepoint", "list")["savepoints"]  # type: ignore[misc]
    assert (listed["name"], listed["epoch"]) == ("release-1", 3)  # type: ignore[index]
    driver = world.driver()
    world.append()
    driver.drain()
    assert said(world, "rollback", "cells", "--to", "release-1", "--dry-run")["epoch"] == 3
    status = CliRunner().invoke(app, ["status", "--store", str(world.store_dir)], catch_exceptions=False).output
    assert "rollback reaches back to epoch 1" in status
    assert "1 savepoints" in status
    assert "at most 24 h, 8.0 GB" in status
    assert said(world, "savepoint", "drop", "release-1")["epoch"] == 3
    assert said(world, "savepoint", "list")["savepoints"] == []


def test_wrong_names_and_epochs_are_explained(world: World) -> None:
    with pytest.raises(UsageError, match=r"no vertex 'trips' \(have: mine, cells, everything\)"):
        said(world, "rollback", "trips", "--to", "1")
    with pytest.raises(UsageError, match="its epochs go from 1 to 3"):
        said(world, "rollback", "cells", "--to", "9")
    with pytest.raises(UsageError, match=r"\[job-no-store\]"):
        CliRunner().invoke(app, ["list", "--store", str(world.root / "nowhere")], catch_exceptions=False)
