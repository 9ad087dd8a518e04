"""What a home says from outside: results with the names of their keys."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

import resurge as rs
from mobile_app.node.plans import Plans
from mobile_app.node.results import Results
from mobile_app.service.inspection import key_names, named_key
from resurge.cli.node import app
from shared.plan.encoding import encode_plan

ROW = {
    "sink": "rides", "key": ["ann", "bus"], "window_start_us": 0, "window_end_us": 60_000_000, "revision": 1,
    "retract": False, "complete": True, "values": {"km": 3.5},
}  # fmt: skip


@pytest.fixture
def home(tmp_path):
    (tmp_path / "program.py").write_text(
        "import resurge as rs\n"
        "up = rs.stream('rides', {'mode': 'str', 'km': 'float64'}).sync('rides')\n"
        "up.key_by('device', 'mode').tumbling('1m').aggregate(km=rs.sum('km')).sync_back('rides')\n"
    )
    plan = rs.load_program(tmp_path / "program.py")
    home = tmp_path / "home"
    home.mkdir()
    Plans(home).store(plan.version, encode_plan(plan))
    results = Results(home)
    results.apply([(1, ROW)])
    results.close()
    return home


def test_results_are_printed_with_the_names_of_their_keys(home):
    assert key_names(home) == {"rides": ("device", "mode")}
    said = CliRunner().invoke(app, ["results", "--home", str(home)], env={"COLUMNS": "200"}, catch_exceptions=False)
    assert "device=ann mode=bus" in said.output


def test_a_key_whose_names_are_not_known_stands_alone(tmp_path):
    assert key_names(tmp_path) == {}
    assert named_key((), ["ann", 3]) == "ann 3"
