"""What a person reads of a node: nothing raw, and nothing that is not so."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from mobile_app.node.results import Results
from resurge.cli.node import app, run
from resurge.cli.node_status import status_lines
from shared.errors import UsageError
from tests.user_interface import phone_world


@pytest.mark.parametrize("state", ["ride", "offline", "empty", "trouble"])
def test_every_state_of_a_node_reads_as_text(state: str) -> None:
    view = getattr(phone_world, state)() | {"running": True}
    lines = status_lines(view)
    assert not [line for line in lines if any(sign in line for sign in ("{", "[]", "None", "True"))]
    assert any(line.startswith("account") and f"{view['produced']:,} produced" in line for line in lines)
    assert all(any(entry["what"] in line for line in lines) for entry in view["health"])


def test_it_says_whether_it_runs_and_reaches_its_gateway() -> None:
    ride, offline, empty = phone_world.ride(), phone_world.offline(), phone_world.empty()
    assert f"connected to {ride['gateway']}" in status_lines(ride | {"running": True})[1]
    assert "not connected to" in status_lines(offline | {"running": True})[1]
    assert "not paired: nothing to run yet" in status_lines(empty | {"running": True})[1]
    alone = ride | {"running": True, "gateway": None}
    assert "not paired: it records" in status_lines(alone)[1]
    stopped = status_lines(offline | {"running": False, "connected": False})
    assert "does not run" in stopped[1]
    assert not any("full in" in line for line in stopped), "a node that does not run fills nothing"


def test_a_link_of_a_variable_that_was_never_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="enrolment-link"):
        run(link="", home=tmp_path, seconds=0.0)


def test_a_result_is_shown_whole_however_narrow_the_terminal_is(tmp_path: Path) -> None:
    results = Results(tmp_path)
    body = {
        "sink": "my_trips", "key": ["a" * 32], "window_start_us": 0, "window_end_us": 10, "revision": 1_763_590_000_000,
        "retract": False, "complete": True, "values": {"km": 3.25, "mode": "bicycle", "minutes": 12.5},
    }  # fmt: skip
    assert results.apply([(1, body)]) == 1
    results.close()
    shown = CliRunner().invoke(app, ["results", "--home", str(tmp_path)], env={"COLUMNS": "60"}).output
    cells = [
        "".join(column)
        for column in zip(*(line.split("│")[1:-1] for line in shown.splitlines() if "│" in line), strict=True)
    ]
    assert "…" not in shown
    assert "1763590000000" in cells[4].replace(" ", "")
    assert "minutes=12.5" in cells[5].replace(" ", "")


def test_what_was_left_out_and_given_up_is_counted() -> None:
    view = phone_world.offline() | {"running": True, "late": [{"operator": "mean", "rows": 3}], "unreadable": 2}
    text = "\n".join(status_lines(view))
    assert "3 late, 2 unreadable" in text
    assert "12,512 given up" in text
