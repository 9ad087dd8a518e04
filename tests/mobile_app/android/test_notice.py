"""What the standing notification says."""

from __future__ import annotations

import pytest

from mobile_app.android.notice import count, duration, notice
from mobile_app.service.foreground import LiveNotice

VIEW = {
    "plan": {"name": "walk"}, "sensors": {"gps": {"readings": 41}, "steps": 2}, "missing_sensors": {}, "spooled": 0,
    "gateway": None, "connected": False, "spool": {"full_in_s": None},
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ("Recording", "43 readings")),
        ({"plan": None}, ("Waiting for something to record", "43 readings")),
        ({"spooled": 12_345, "gateway": "http://g"}, ("Recording", "43 readings · 12.3 k held here · offline")),
        (
            {"spooled": 9, "spool": {"full_in_s": 7200.0}, "gateway": "http://g", "connected": True},
            ("Recording", "43 readings · 9 held here · room for 2 h"),
        ),
        ({"missing_sensors": {"steps": "why", "gps": "why"}}, ("Recording", "43 readings · no gps, steps")),
    ],
)
def test_the_notice_tells_what_a_person_wants_to_know_at_a_glance(changes, expected):
    assert notice(VIEW | changes) == expected


def test_numbers_and_durations_are_short():
    assert [count(n) for n in (0, 9_999, 10_000, 2_500_000)] == ["0", "9999", "10.0 k", "2.5 M"]
    assert [duration(s) for s in (5, 600, 7_300, 400_000)] == ["1 min", "10 min", "2 h", "5 days"]


def test_it_is_shown_when_it_changed_and_not_all_the_time(tmp_path):
    shown: list[tuple[str, str]] = []
    now = [0.0]
    live = LiveNotice(lambda *text: shown.append(text), tmp_path / "mark", clock=lambda: now[0])
    for second, readings in ((0, 1), (1, 2), (4, 3), (6, 4), (20, 4)):
        now[0] = float(second)
        live(VIEW | {"sensors": {"gps": readings}})
    assert [text for _, text in shown] == ["1 readings", "4 readings"]
