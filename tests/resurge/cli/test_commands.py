"""What all commands share: where the gateway's home is, and that a mistake is one line."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cloud_backend.coordinator.roster import Roster
from cloud_backend.log.log import Log
from resurge.cli import NOUNS, main, run_noun
from resurge.cli.gateway_api import DEFAULT_HOME, Home
from shared.plan.encoding import decode_plan
from shared.spool.disk import PosixDisk

PROGRAM = 'import resurge as rs\nrs.sensor("gps", every="5s").sync("gps").sync_back("back")\n'


@pytest.mark.parametrize("noun", sorted(set(NOUNS) - {"node", "fleet", "doctor", "up", "example"}))
def test_every_command_finds_the_gateway_s_home_alike(noun):
    commands = [each.callback for each in importlib.import_module(f"resurge.cli.{noun}").app.registered_commands]
    homes = [
        parameter
        for command in commands
        for parameter in inspect.signature(command, eval_str=True).parameters.values()
        if parameter.name == "home"
    ]
    assert all(parameter.annotation == Home and parameter.default == DEFAULT_HOME for parameter in homes)


@pytest.mark.parametrize(("noun", "verb"), [("device", "list"), ("ledger", "list"), ("log", "verify")])
def test_the_environment_names_the_home(tmp_path, noun, verb):
    home = tmp_path / "gateway"
    Log.open(PosixDisk(home / "log")).close()
    Roster(home / "roster.sqlite").close()
    app = importlib.import_module(f"resurge.cli.{noun}").app
    said = CliRunner().invoke(app, [verb], env={"RESURGE_HOME": str(home)}, catch_exceptions=False)
    assert said.exit_code == 0, said.output


def test_a_plan_is_written_into_a_directory_that_is_not_there_yet(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    with pytest.raises(SystemExit) as ended:
        run_noun("plan", [str(tmp_path / "program.py"), "--output", str(tmp_path / "new" / "plan.bin")])
    assert ended.value.code == 0
    assert decode_plan((tmp_path / "new" / "plan.bin").read_bytes()).name == "program"


def test_a_file_that_cannot_be_written_is_said_in_one_line(tmp_path, capsys):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "plan.bin").mkdir()
    with pytest.raises(SystemExit) as ended:
        run_noun("plan", [str(tmp_path / "program.py"), "--output", str(tmp_path / "plan.bin")])
    assert ended.value.code == 1
    assert capsys.readouterr().err == f"resurge plan: {tmp_path}/plan.bin: is a directory [cli-file]\n"


@pytest.mark.parametrize(
    ("typed", "said"),
    [("quey", "'quey' is not a command; did you mean 'query'? Known: "), ("x", "'x' is not a command. Known: ")],
)
def test_a_word_that_is_no_command_gets_a_hint(monkeypatch, capsys, typed, said):
    monkeypatch.setattr("sys.argv", ["resurge", typed])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_people_are_reached_by_the_word_they_had_before(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["resurge", "account", "--help"])
    with pytest.raises(SystemExit, match="0"):
        main()
    assert "resurge person" in capsys.readouterr().out


def test_jobs_are_looked_for_beside_the_gateway():
    from resurge.cli.job import DEFAULT_STORE
    from resurge.up.home import UpHome

    stage = UpHome(DEFAULT_HOME.parent, 1, 2)
    assert (stage.gateway_home, stage.spark_store) == (DEFAULT_HOME, DEFAULT_STORE)
    assert Path(".resurge") == DEFAULT_HOME.parent
