"""`resurge fleet try` on a busy machine: the hub is killed while there are readings, and their end is not guessed."""

from __future__ import annotations

from resurge.up.fleet_trial import SECONDS_MAX, EndOfReadings, too_late_to_kill


def test_a_hub_is_killed_while_readings_follow_it_else_there_is_another_run_with_more():
    assert too_late_to_kill(12.0, 40.0) == ""
    assert "38 of 40 s" in too_late_to_kill(38.0, 40.0)
    assert too_late_to_kill(599.0, SECONDS_MAX) == ""


def test_a_phone_that_is_behind_is_not_taken_for_one_that_has_read_everything():
    looks = [(1, 10, 4), (2, 12, 6), (3, 13, 9), (4, 14, 9), (5, 15, 9), (7, 18, 9)]  # at; its time, its last reading
    found = []
    for at, now, last in looks:
        at_s, view = float(at), {"time_us": now * 1_000_000, "sensors": {"ecg": {"last_us": last * 1_000_000}}}
        if not found:
            end = EndOfReadings(lambda: view, lambda: at_s)  # noqa: B023
        found.append(end())
    assert found == [False, False, False, False, False, True]
