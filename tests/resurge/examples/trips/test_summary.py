"""What a person reads after a run says whether all was kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cloud_backend.results.rows import ResultRow
from resurge.examples.trips.summary import by_sun, of_run

FOUND = {
    "people": 1, "trips": 1, "results": {"my_trips": 1, "my_days": 1}, "results_on_phones": 2, "produced": 10,
    "delivered": 9, "spooled": 1, "ledgered": 0, "duplicates": 0, "outages": 2, "outages_felt": 1, "outage_minutes": 40,
    "gps_read": 5, "gps_unthinned": 20, "bytes_sent": 1234, "speed": 100.0, "seconds": 12.0, "digest": "a" * 64,
    "failure_free_digest": "a" * 64,
}  # fmt: skip
TRIP = ResultRow(
    "my_trips", "ann", ("ann",), 0, 1, 0, False, True,
    {
        "mode": "bus", "began_us": 0, "km": 4.25, "minutes": 12.0, "co2e_g": 568.7, "near_sites_s": 90.0,
        "from_lon": 116.4, "unrecorded_km": 0.0, "trips": 1,
    },
)  # fmt: skip


def test_a_run_tells_trips_the_account_and_whether_the_report_is_right():
    text = "\n".join(of_run(FOUND, [TRIP]))
    assert "bus        4.2       12      569              1.5" in text
    assert "10 produced = 9 delivered + 1 spooled + 0 given up" in text
    assert "of which 1 refused" in text
    assert "the same as without failures" in text
    assert "NOT that" in "\n".join(of_run(FOUND | {"failure_free_digest": "b" * 64}, []))


def test_minutes_near_sites_are_told_apart_indoors_and_outdoors():
    seconds = {"indoors_s": 3600.0, "outdoors_s": 600.0, "near_sites_indoors_s": 90.0, "near_sites_outdoors_s": 30.0}
    days = [replace(TRIP, sink="my_exposure", device=name, values=seconds) for name in ("ann", "bob", "ann")]
    told = "\n".join(of_run(FOUND, [TRIP, *days]))
    assert "120 indoors (3.0 near sites), 20 outdoors (1.0 near sites)" in told, "ann's two days"
    assert "indoors" not in "\n".join(of_run(FOUND, [TRIP]))


@pytest.mark.parametrize(
    ("lon", "day"), [(0.0, "Mon 15 Jan 23:50"), (8.6, "Tue 16 Jan 00:50"), (116.4, "Tue 16 Jan 07:50"),
                     (-122.4, "Mon 15 Jan 15:50"), (-7.4, "Mon 15 Jan 23:50"), (179.9, "Tue 16 Jan 11:50")],
)  # fmt: skip
def test_a_trip_near_midnight_is_of_the_day_in_which_it_began_there(lon, day):
    began_us = 1_705_362_600_000_000  # Monday 15 January 2024, 23:50 UTC
    assert f"{by_sun(began_us, lon):%a %d %b %H:%M}" == day
    told = "\n".join(of_run(FOUND, [replace(TRIP, values=TRIP.values | {"began_us": began_us, "from_lon": lon})]))
    assert day in told
    assert "when and where each began, by the sun" in told


def test_a_zone_that_was_named_is_that_of_days_and_times():
    july_us = 1_721_086_200_000_000  # 15 July 2024, 23:30 UTC: summer time in Zurich, by the sun an hour less
    row = replace(TRIP, values=TRIP.values | {"began_us": july_us, "from_lon": 8.5})
    told = "\n".join(of_run(FOUND, [row], "Europe/Zurich"))
    assert "Tue 16 Jul 01:30" in told
    assert "in Europe/Zurich; my_days: Europe/Zurich" in told
    assert "sun" not in told
    assert "Tue 16 Jul 00:30" in "\n".join(of_run(FOUND, [row]))


def test_what_is_no_trip_is_only_said_for_its_kilometres():
    gap = replace(TRIP, values=TRIP.values | {"unrecorded_km": 54.8, "trips": 0, "mode": "unrecorded"})
    told = "\n".join(of_run(FOUND, [gap]))
    assert "54.8 km between trips, not recorded" in told
    assert "unrecorded" not in told


def test_kilometres_that_are_in_no_trip_are_said():
    told = "\n".join(of_run(FOUND, [replace(TRIP, values=TRIP.values | {"unrecorded_km": 4.0})]))
    assert "4.0 km between trips, not recorded" in told
    assert "not recorded" not in "\n".join(of_run(FOUND, [TRIP]))
