"""A program's own operator modules go where its processes run, and stay for the next start."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from resurge.up.home import make_stage, stage_again
from resurge.up.scenario import phone_stories
from shared.errors import UsageError
from shared.language.registry import _types
from shared.stream.program import listed_operators, read_program

OPERATORS = """
import resurge as rs

@rs.function(name="NAME")
def doubled(lat: float) -> float:
    return lat * 2
"""
PROGRAM = """
import resurge as rs
rs.sensor("gps", every="1s").map("NAME").sync("up").map("NAME 2").subscribe("out")
"""


def written(folder: Path, name: str) -> Path:
    """A program with two modules beside it: one that resurge.toml lists, one that is named."""
    folder.mkdir()
    (folder / f"{name}_listed.py").write_text(OPERATORS.replace("NAME", name))
    (folder / f"{name}_named.py").write_text(OPERATORS.replace("NAME", f"{name} 2").replace("lat", name))
    (folder / "resurge.toml").write_text(f'[operators]\nmodules = ["{name}_listed"]\n')
    (folder / "program.py").write_text(PROGRAM.replace("NAME", name))
    return folder / "program.py"


def test_modules_travel_with_the_stage_and_are_there_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = read_program(written(tmp_path / "mine", "own_travel"), ["own_travel_named"])
    modules = ("own_travel_named", "own_travel_listed")
    assert program.modules == modules
    home = tmp_path / "home"
    stage = make_stage(home, program.plan(), port=1, speed=1.0, modules=program.modules)
    assert sorted(path.name for path in (home / "operators").iterdir()) == [f"{name}.py" for name in sorted(modules)]
    spark = stage.spark()
    named = [after for word, after in zip(spark.command, spark.command[1:], strict=False) if word == "--module"]
    assert tuple(named) == modules
    assert spark.environment["PYTHONPATH"].startswith(str(home / "operators"))
    (story, *_) = phone_stories(2, None)
    stage.prepare_phone(story)
    assert listed_operators(stage.phone_home(story.name)) == modules
    assert stage.phone(story, "link").environment["PYTHONPATH"].startswith(str(home / "operators"))
    # The next start does not need the program's folder: another process that has never seen it.
    for name in modules:
        monkeypatch.delitem(sys.modules, name)
    for kind in ("own_travel", "own_travel 2"):
        monkeypatch.delitem(_types, kind)
    again, plan = stage_again(home, None, port=0, speed=None, log_json=False, host="")
    assert again.modules == modules
    assert {"own_travel", "own_travel 2"} <= set(_types)
    assert len(plan.nodes) == len(program.plan().nodes)
    assert json.loads((home / "up.json").read_text())["modules"] == list(modules)


def test_an_installed_module_stays_where_it_is(tmp_path: Path) -> None:
    from resurge.examples.kilometres import trips
    from shared.stream.declarations import plan_of

    stage = make_stage(
        tmp_path / "home", plan_of(trips), port=1, speed=1.0, modules=["resurge.examples.trips.operators"]
    )
    assert not (stage.home / "operators").exists()  # a copy of part of our package would hide the rest
    assert "resurge.examples.trips.operators" in stage.spark().command


def test_a_module_that_cannot_be_imported_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="own_nowhere") as caught:
        read_program(written(tmp_path / "mine", "own_missing"), ["own_nowhere"])
    assert caught.value.code == "operator-module"
