"""How long the gateway was away is remembered over restarts, and never stands in the way of anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from mobile_app.links.outages_seen import FILE, KEPT, OutagesSeen
from mobile_app.node.gateway_state import GatewayState
from shared.sync.events import Disconnected, Reconnected


def test_lengths_outlive_a_restart_and_only_the_newest_are_kept(tmp_path: Path) -> None:
    seen = OutagesSeen(tmp_path)
    for number in range(KEPT + 3):
        seen.note(number + 0.04)
    assert OutagesSeen(tmp_path).lengths_s == [float(number) for number in range(3, KEPT + 3)]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 2, "seconds": [1]}', '{"format": 1, "seconds": "x"}'])
def test_a_file_that_makes_no_sense_begins_anew(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    assert OutagesSeen(tmp_path).lengths_s == []
    OutagesSeen(tmp_path).note(4.0)
    assert OutagesSeen(tmp_path).lengths_s == [4.0]


def test_the_gateway_s_outages_are_noted_when_they_end(tmp_path: Path) -> None:
    state = GatewayState(tmp_path, lambda: 0)
    state.note(Disconnected(1.0, "timeout"))
    assert state.outages.lengths_s == []
    state.note(Reconnected(13.0, 12.0))
    assert OutagesSeen(tmp_path).lengths_s == [12.0]


def test_a_disk_that_refuses_does_not_stop_the_node(tmp_path: Path) -> None:
    state = GatewayState(tmp_path / "gone", lambda: 0)
    state.note(Reconnected(13.0, 12.0))
    assert state.outages.lengths_s == [12.0]
