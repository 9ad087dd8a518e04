"""What `resurge fleet show` and `resurge node status` print of a fleet: the same view as the pages have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from resurge.cli import fleet as cli
from resurge.cli.fleet_lines import fleet_lines
from resurge.cli.node_status import status_lines
from shared.errors import UsageError
from tests.user_interface import phone_world
from tests.user_interface.phone_world import NOW_US

VIEW = phone_world.hosting() | {"running": True}
FLEET = VIEW["fleet"]


def test_every_vertex_has_its_place_keepers_snapshot_and_term() -> None:
    placed = FLEET["placements"][0] | {
        "snapshot": 412, "snapshot_us": NOW_US - 41_000_000, "snapshot_bytes": 5_310, "lost": 2, "why": "a copy is silent",
    }  # fmt: skip
    silent = FLEET["nodes"][1] | {"silent_us": NOW_US - 90_000_000}
    waits = {"query": "street-noise", "silence_s": 10.0, "delay_s": None, "recovery_s": 3.0}
    shown = FLEET | {"placements": [placed], "nodes": [*FLEET["nodes"], silent], "waits": [waits],
                     "events": [{"at_us": NOW_US, "text": "depot cannot be reached (timeout)"}]}  # fmt: skip
    lines = list(fleet_lines(shown, NOW_US))
    assert lines[0] == "street-noise  from My phone to van-2  ecoc, c = 500"
    assert lines[1].startswith("  The vertices take a snapshot together every 500 elements")
    assert lines[2] == (
        "  band on My phone  running (a copy is silent)  kept by depot  permanent snapshot 41 s ago (after 412 elements, 5.3 KB)"
        "  term 3  2 elements lost"
    )
    assert "  moves from a node that is silent for 10 s (no delay is promised, a recovery takes 3 s)" in lines
    assert "kiosk is silent for 1 min 30 s" in lines
    assert "kept  level of street-noise, after 85\u2009000 elements, term 2" in lines
    moves = [line for line in lines if " moved from " in line or "began again" in line]
    assert len(moves) == 3
    assert moves[1].endswith("band moved from kiosk to My phone (kiosk is silent for 10 s)")
    assert lines[-1].endswith("depot cannot be reached (timeout)")


def test_a_node_s_status_says_what_runs_is_kept_and_was_moved() -> None:
    text = "\n".join(status_lines(VIEW))
    assert "My phone shares queries with 3 other nodes" in text
    assert "vertex loudest" in text
    assert "ValueError: no column 'db'" in text
    assert "a snapshot of level of street-noise, after 85\u2009000 elements, for others" in text
    assert "band moved from kiosk to My phone" in text
    assert "fleet" not in "\n".join(status_lines(phone_world.ride() | {"running": True}))


def test_a_node_that_does_not_run_is_never_shown_as_if_it_did(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("mobile_app.service.inspection.inspect", lambda _: VIEW | {"running": False})
    said = CliRunner().invoke(cli.app, ["show", "--home", str(tmp_path)]).output
    assert said.startswith("the node does not run; as of ")
    told = CliRunner().invoke(cli.app, ["show", "--home", str(tmp_path), "--json"]).output
    assert json.loads(told)["placements"] == FLEET["placements"]
    monkeypatch.setattr("mobile_app.service.inspection.inspect", lambda _: phone_world.ride())
    with pytest.raises(UsageError, match="fleet-home"):
        CliRunner().invoke(cli.app, ["show", "--home", str(tmp_path)], catch_exceptions=False)
