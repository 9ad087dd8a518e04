"""The terminal's answer to the Buffer screen."""

from __future__ import annotations

import io

from rich.console import Console

from resurge.node_watch import frame

VIEW = {
    "name": "attic", "device": "75fcc93906f10090", "running": True, "paused": "", "gateway": "https://gate:8443",
    "connected": False, "plan": {"name": "trips", "version": 4}, "produced": 1200, "delivered": 1000, "spooled": 190,
    "ledgered": 10, "last_receipt_us": 1_000_000,
    "spool": {"capacity_bytes": 50_000_000, "used_bytes": 21_000_000, "oldest_s": 3000.0, "full_in_s": 86_400.0,
              "ledger": {"evicted": 10}},
    "goes_first": ["raw"],
    "sensors": {"gps": {"readings": 1200, "rate_hz": 0.2, "asked_hz": 1.0, "gaps": 3, "gap_s": 200.0}},
    "missing_sensors": {"light": "not built in"},
    "edges": {"raw": {"produced": 1200, "delivered": 1000, "spooled": 190, "ledgered": 10, "bytes": 21_000_000}},
    "recording": {"name": "Walk", "readings": {"gps": 12}, "bytes": 900},
    "health": [{"code": "gateway-unreachable", "what": "does not answer", "since": 0, "over": False,
                "remedy": "check it"}],
}  # fmt: skip


def said(view: dict) -> str:
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(frame(view, 61_000_000))
    return console.export_text()


def test_it_answers_the_buffer_screens_questions():
    text = said(VIEW)
    for answer in (
        "running", "no answer from https://gate:8443", "plan trips v4", "190 elements in 21.0 MB of 50.0 MB",
        "50 min", "24 h", "raw", "60 s ago", "1,000 of 1,200 produced", "10 evicted", "every 5 s", "3 (3 min)",
        "not built in", "recording 'Walk': 12 readings", "gateway-unreachable", "check it",
    ):  # fmt: skip
        assert answer in text, answer


def test_a_stopped_node_and_an_idle_one_are_shown_too():
    assert "stopped" in said({**VIEW, "running": False})
    idle = said({"name": "new", "running": True, "health": []})
    for answer in ("not paired", "no plan", "nothing waits", "not filling", "none since the start", "nothing is in"):
        assert answer in idle
