"""A node's fleet in words."""

from __future__ import annotations

from mobile_app.screens.words.fleet_text import (
    instance_text,
    kept_text,
    move_line,
    move_of,
    own_moves,
    role_text,
    snapshot_text,
)
from tests.user_interface.phone_world import NOW_US, SECOND, hosting

FLEET = hosting()["fleet"]


def test_what_a_node_is_to_the_others() -> None:
    assert role_text(FLEET) == "My phone shares queries with 3 other nodes; it feeds noise."
    more = FLEET | {"coordinates": True, "sinks": [{"query": "street-noise", "sink": "loud", "taken": 3}]}
    assert role_text(more) == (
        "My phone shares queries with 3 other nodes; it coordinates them, feeds noise and has the results of street-noise."
    )
    assert role_text(FLEET | {"feeds": [], "nodes": FLEET["nodes"][:2]}) == "My phone shares queries with 1 other node."


def test_a_vertex_says_from_what_it_would_begin_and_why_it_does_not_run() -> None:
    band, loudest = FLEET["instances"]
    assert (
        instance_text(band, NOW_US)
        == "Of street-noise; permanent snapshot 41 s ago (after 85\u2009500 elements, 5.3 KB)."
    )
    assert instance_text(loudest, NOW_US).endswith("2.1 KB). ValueError: no column 'db'.")
    assert "7 elements of its inputs are lost." in instance_text(band | {"lost": 7}, NOW_US)
    assert snapshot_text(None, None, None, NOW_US) == "no permanent snapshot yet"
    assert snapshot_text(3, None, None, NOW_US) == "permanent snapshot (after 3 elements)"
    assert kept_text(FLEET["kept"][0]) == "level of street-noise, after 85\u2009000 elements"


def test_moves_that_concern_the_node_come_newest_first_with_when_and_why() -> None:
    elsewhere = FLEET["moves"][0] | {"before": ["kiosk"], "after": ["depot"], "at_us": NOW_US - SECOND}
    moves = own_moves(FLEET | {"moves": [*FLEET["moves"], elsewhere]}, 2)
    assert [move.vertex for move in moves] == ["loudest", "band"]
    line = move_line(moves[1], NOW_US)
    assert line.endswith("25 min ago: band moved from kiosk to My phone (kiosk is silent for 10 s)")
    assert move_of(FLEET["moves"][1]) == moves[1]
