"""The order in which a phone may be asked, on every version of Android that orders differently."""

from __future__ import annotations

import pytest

from mobile_app.android.permissions import (
    ACTIVITY,
    BACKGROUND,
    BATTERY_EXEMPTION,
    COARSE,
    FINE,
    MICROPHONE,
    NOTIFICATIONS,
    STEPS,
    WITH_CONSENT,
    Asking,
)  # fmt: skip


def visit(api_level: int, sensors: tuple[str, ...], *, says_yes: set[str], granted: set[str] = frozenset()) -> tuple:
    """Ask until there is nothing left to ask; returns the names of the questions and the state."""
    state = Asking(api_level, sensors, set(granted))
    asked = []
    while (step := state.next()) is not None:
        asked.append(step.name)
        state.answer(step, {name: name in says_yes for name in step.permissions})
        assert len(asked) <= len(STEPS), "it asks in circles"
    return asked, state


EVERYTHING = {NOTIFICATIONS, FINE, COARSE, BACKGROUND, ACTIVITY, MICROPHONE, BATTERY_EXEMPTION}
ALL = ("gps", "steps", "microphone", "accelerometer")


@pytest.mark.parametrize(
    ("api_level", "expected"),
    [
        (24, ["location", "microphone", "battery exemption"]),
        (29, ["location", "background location", "activity", "microphone", "battery exemption"]),
        (32, ["location", "background location", "activity", "microphone", "battery exemption"]),
        (36, ["notifications", "location", "background location", "activity", "microphone", "battery exemption"]),
    ],
)
def test_a_yes_to_everything_goes_through_the_steps_in_androids_order(api_level, expected):
    asked, state = visit(api_level, ALL, says_yes=EVERYTHING)
    assert asked == expected
    assert state.closed() == []


def test_background_location_is_never_asked_for_without_location():
    asked, state = visit(36, ("gps",), says_yes=set())
    assert "background location" not in asked
    assert {entry["name"] for entry in state.closed()} >= {"location", "background location"}


def test_a_coarse_location_is_enough_to_go_on():
    asked, state = visit(36, ("gps",), says_yes={COARSE})
    assert "background location" in asked
    assert "location" not in {entry["name"] for entry in state.closed()}


def test_only_what_the_sensors_need_is_asked_for():
    asked, _ = visit(36, ("accelerometer",), says_yes=EVERYTHING)
    assert asked == ["notifications", "battery exemption"]


def test_what_is_held_already_is_not_asked_for_again():
    asked, _ = visit(36, ALL, says_yes=EVERYTHING, granted=EVERYTHING)
    assert asked == []


def test_a_no_closes_its_own_door_only_and_is_asked_once_a_visit():
    asked, state = visit(36, ALL, says_yes=EVERYTHING - {ACTIVITY})
    assert asked.count("activity") == 1
    assert [(entry["name"], entry["how"]) for entry in state.closed()] == [("activity", "ask")]


def test_a_no_for_good_leads_to_the_settings():
    state = Asking(36, ("steps",), {NOTIFICATIONS})
    step = state.next()
    assert step is not None
    assert step.name == "activity"
    state.answer(step, {ACTIVITY: False}, dialog_shown=False)
    assert ("activity", "settings") in [(entry["name"], entry["how"]) for entry in state.closed()]


def test_a_permission_taken_away_later_shows_in_the_next_visit():
    before = Asking(36, ("steps",), {NOTIFICATIONS, ACTIVITY, BATTERY_EXEMPTION})
    assert before.closed() == []
    after = Asking(36, ("steps",), {NOTIFICATIONS, BATTERY_EXEMPTION})
    assert [entry["name"] for entry in after.closed()] == ["activity"]
    assert after.next() is not None


def test_a_visit_asks_only_for_what_it_is_about():
    state = Asking(36, ALL, set(), WITH_CONSENT)
    asked = []
    while (step := state.next()) is not None:
        asked.append(step.name)
        state.answer(step, dict.fromkeys(step.permissions, True))
    assert asked == ["location", "activity", "microphone"]
    assert {entry["name"] for entry in state.closed()} == {"notifications", "background location", "battery exemption"}
