"""Results in words, for programs that nobody here has seen."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from mobile_app.screens.words import result_words as words

SECOND = 1_000_000
HOUR = 3_600 * SECOND
HERE = ZoneInfo("Europe/Berlin")


def at(day: int, hour: float = 0.0) -> int:
    return round(datetime(2026, 11, day, tzinfo=UTC).timestamp() * SECOND + hour * HOUR)


NOW = at(16, 8.2)


def row(start: int, end: int, key=("me",), former=None, **values):
    return {"key": list(key), "window_start_us": start, "window_end_us": end, "values": values, "former": former}


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def trip(day: int, hour: float, mode: str, km: float, minutes: float, **more):
    start = at(day, hour)
    return row(start, start + round((minutes + 5) * 60) * SECOND, mode=mode, km=km, minutes=minutes, **more)


def told(text: str) -> str:
    return text.replace("\u00a0", " ")


def test_a_trip_reads_as_a_person_would_say_it():
    rows = [
        trip(16, 8.2, "walk", 0.4, 4.0, co2e_g=0.0, km_walk=0.4, km_bike=0.0, lat=47.3, lon=8.5),
        trip(15, 18, "bike", 3.2, 14.1, co2e_g=18.0, km_walk=0.0, km_bike=3.2, lat=47.3, lon=8.5),
    ]
    columns = words.leading(rows)
    lines = [(words.name(each, rows), told(words.line(each["values"], columns))) for each in rows]
    assert lines == [("Walk", "400 m  ·  4 min  ·  0 g CO2e"), ("Bike", "3.2 km  ·  14 min  ·  18 g CO2e")]


def test_a_session_ends_when_it_was_over_not_when_its_window_had_waited_long_enough():
    assert words.times(trip(16, 8.2, "bike", 3.2, 14.0)) == "08:12 \u2013 08:26"
    assert words.times(row(at(16, 8.2), at(16, 8.5), km=3.0)) == "08:12 \u2013 08:30"


def test_short_windows_that_do_not_begin_on_a_minute_are_told_to_the_second():
    start = at(16, 8)
    assert words.times(row(start, start + 60 * SECOND)) == "08:00 \u2013 08:01"
    assert words.times(row(start + SECOND, start + 61 * SECOND)) == "08:00:01 \u2013 08:01:01"
    assert words.times(row(start, start)) == "08:00"


@pytest.mark.parametrize(
    ("start", "end", "day"),
    [
        (at(16, 7), at(16, 8), "Today"), (at(15, 7), at(15, 8), "Yesterday"), (at(12, 7), at(12, 8), "Thursday 12 November"),
        (at(15), at(16), "Yesterday"), (at(9), at(16), "7 days to yesterday"), (at(3), at(10), "7 days to Monday 9 November"),
        (1_704_067_200 * SECOND, (1_704_067_200 + 86_400) * SECOND, "Monday 1 January 2024"),
    ],
)  # fmt: skip
def test_days_have_the_names_people_give_them(start, end, day):
    assert words.day(row(start, end), NOW) == day


def test_details_leave_out_zeros_places_are_pairs_and_a_part_that_is_the_whole_is_not_told_twice():
    one = trip(
        16, 7, "bike", 3.2, 14.0, km_bike=3.2, km_car=0.0, late=True, from_lat=47.1, from_lon=8.1, lat=47.2, lon=8.2
    )
    assert words.facts(one) == [
        ("Distance", "3.2 km"), ("Time", "14 min"), ("Late", "yes"), ("From", "47.1000°, 8.1000°"), ("To", "47.2000°, 8.2000°"),
    ]  # fmt: skip
    mixed = trip(16, 7, "bike", 3.2, 14.0, km_bike=3.0, km_walk=0.2)
    assert ("Walk", "200 m") in words.facts(mixed, without=["km"])
    assert ("Distance", "3.2 km") not in words.facts(mixed, without=["km"])


def test_parts_of_the_key_name_a_row_only_where_rows_differ_in_them():
    rows = [row(0, 10, key=("me", "north"), n=1), row(0, 10, key=("me", "south"), n=2)]
    assert [words.name(each, rows) for each in rows] == ["North", "South"]
    assert words.name(rows[0], rows[:1]) == ""


def test_what_a_corrected_row_said_before_is_told_where_a_person_would_see_the_difference():
    corrected = row(at(15), at(16), km=23.5, trips=9, co2e_g=20.0, former={"km": 9.5, "trips": 9, "co2e_g": 20.0001})
    assert told(words.former(corrected, ["km", "co2e_g", "trips"])) == "9.5 km"
    assert words.former(row(0, 10, km=1.0), ["km"]) == ""


def test_values_that_are_no_numbers_do_no_harm():
    odd = row(0, 10, km=None, co2e_g="inf", mode="", ok=False)
    assert words.leading([odd]) == []
    assert words.facts(odd) == [("Ok", "no")]
    assert words.name(odd, [odd]) == "Inf"


def test_a_row_that_says_when_it_was_is_believed_before_its_window():
    late = trip(16, 0.05, "bus", 4.0, 12.0, began_us=at(15, 23.85), ended_us=at(16, 0.05))
    assert words.times(late) == "23:51 \u2013 00:03"
    assert words.day(late, NOW) == "Yesterday"
    assert "began_us" not in words.measured([late])


def test_a_report_about_days_says_that_they_are_utc_s_where_the_clock_is_another(monkeypatch):
    report = {"window_start_us": at(15), "window_end_us": at(16), "values": {}, "key": []}
    seven = report | {"window_start_us": at(9)}
    for zone, suffix in (("UTC", ""), ("XYZ-5:30", " (UTC)")):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        assert words.day(report, at(16, 9)) == f"Yesterday{suffix}"
        assert words.day(seven, at(16, 9)) == f"7 days to yesterday{suffix}"


def test_a_report_about_days_of_the_clock_on_the_wall_is_one_too(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()

    def days(first: tuple[int, int], last: tuple[int, int]) -> dict:
        """From one local midnight to another."""
        start, end = (round(datetime(2026, *day, tzinfo=HERE).timestamp()) * SECOND for day in (first, last))
        return row(start, end, km=1.0)

    now_us = round(datetime(2026, 10, 27, 9, tzinfo=HERE).timestamp()) * SECOND
    assert words.day(days((10, 26), (10, 27)), now_us) == "Yesterday"
    assert words.day(days((10, 25), (10, 26)), now_us) == "Sunday 25 October"  # of 25 hours
    assert words.day(days((10, 20), (10, 27)), now_us) == "7 days to yesterday"
    noon = round(datetime(2026, 10, 26, 12, tzinfo=HERE).timestamp()) * SECOND
    assert not words.is_report(row(noon, noon + 24 * HOUR, km=1.0))
    assert not words.is_report(row(noon, noon + 12 * HOUR, km=1.0))
