"""What is said of a sensor, without a window."""

from __future__ import annotations

import pytest

from mobile_app.screens.words.sensor_words import of_plan, recorded

VIEW = {
    "plan": {"name": "commute", "version": 7}, "asked_sensors": {"gps": 1.0, "accelerometer": 100.0, "barometer": None},
    "consents": {"gps": True}, "to_record": {"gps": 2.0, "light": 1.0},
}  # fmt: skip


@pytest.mark.parametrize(
    ("consent", "text"),
    [
        (True, "The plan “commute” reads this, 1.0 Hz"),
        (None, "The plan “commute” asks to read this, 1.0 Hz"),
        (False, "Kept from the plan “commute”; the gateway is told"),
        ("recordings", "Kept from the plan “commute”; the gateway is told"),
    ],
)
def test_how_it_stands_between_a_sensor_and_the_plan_is_said(consent, text):
    assert of_plan("gps", VIEW | {"consents": {"gps": consent}}) == text


def test_a_plan_that_does_not_ask_is_not_named_and_one_that_asks_now_and_then_says_so():
    assert of_plan("light", VIEW) == of_plan("gps", {}) == ""
    assert of_plan("barometer", VIEW) == "The plan “commute” asks to read this, only on request"


def test_a_recording_says_its_rate_and_what_the_plan_reads_all_the_same():
    assert recorded("gps", 1.0, VIEW) == "2.0 Hz; the plan reads it too"
    assert recorded("light", 1.0, VIEW) == "1.0 Hz"
    assert recorded("gps", 1.0, VIEW | {"to_record": {}}) == "Not recorded; the plan still reads it"
    assert recorded("gps", 1.0, VIEW | {"consents": {"gps": "recordings"}, "to_record": {}}) == "1.0 Hz"
