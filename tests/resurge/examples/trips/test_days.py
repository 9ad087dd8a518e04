"""A trip counts for the day in which it began, however the night is cut into uploads, and a week for its days once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from cloud_backend.results.rows import ResultRow
from cloud_backend.spark.cluster.session import LocalRunner
from resurge.examples.trips.cloud import Cloud
from resurge.examples.trips.days import TOTALS, TRIP_HOURS_MAX, TripByStart, Week
from resurge.examples.trips.people import DAY, SECOND, Person, made_up_people
from resurge.examples.trips.report import digest, failure_free, trips_plan
from tests.claims import Claim

MINUTE = 60 * SECOND
HOUR = 60 * MINUTE


def trips_of(rows: Sequence[ResultRow]) -> list[ResultRow]:
    return sorted((row for row in rows if row.sink == "my_trips"), key=lambda row: row.values["began_us"])


def moved(person: Person, by_us: int) -> Person:
    return Person(person.name, {"gps": {**person.sensors["gps"], "time": person.sensors["gps"]["time"] + by_us}})


@pytest.fixture(scope="module")
def walker() -> Person:
    [person] = made_up_people(1, 2.0)
    return person


SLICINGS = [[-10, 1, 6, 40, 90], [-60, 60], []]  # minutes from midnight, before the last one
AFTER, BEFORE = "after midnight", "three minutes before it"


@pytest.mark.parametrize(
    ("ends", "slicings"),
    [(AFTER, 2), (BEFORE, 1), *(pytest.param(ends, 3, marks=pytest.mark.soak) for ends in (AFTER, BEFORE))],
)
def test_a_trip_counts_for_the_day_in_which_it_began(
    tmp_path: Path, walker: Person, ends: str, slicings: int, claim: Claim
) -> None:
    plan = trips_plan(recorded=True)
    trip = trips_of(failure_free(plan, [moved(walker, 0)]))[1]
    began_us, ended_us = int(trip.values["began_us"]), int(trip.values["ended_us"])
    then = (began_us + ended_us) // 2 if ends == AFTER else ended_us + 3 * MINUTE
    midnight = -(-then // DAY) * DAY
    night = moved(walker, midnight - then)
    wanted = failure_free(plan, [night])
    trips, days = trips_of(wanted), [row for row in wanted if row.sink == "my_days"]
    assert len(days) == 2
    for day in days:
        mine = [row for row in trips if day.window_start_us <= row.values["began_us"] < day.window_end_us]
        assert day.values["trips"] == len(mine) > 0
        for name in TOTALS:
            assert day.values[name] == pytest.approx(sum(row.values[name] for row in mine))
    weeks = {row.window_end_us: row for row in wanted if row.sink == "my_weeks"}
    assert [weeks[end].values["trips"] for end in sorted(weeks)] == [days[0].values["trips"], len(trips)]
    corrected = 0
    for number, minutes in enumerate(SLICINGS[:slicings]):
        cloud = Cloud(tmp_path / str(number), plan, [night])
        driver = cloud.driver(LocalRunner())
        for minute in (*minutes, 60 * 50):
            cloud.advance(midnight + minute * MINUTE)
            driver.drain()
        assert digest(cloud.report()) == digest(wanted)
        device = cloud.phones[night.name].device.hex()
        told = [row for _, row in cloud.results.downlink(device, 0) if row.sink == "my_days"]
        corrected += len(told) - len(days)
        cloud.close()
    assert corrected > 0
    claim(
        f"{len(trips)} trips on {len(days)} days, {corrected} corrections of a day, digests equal in {slicings} slicings"
    )


def test_a_trip_without_end_counts_for_a_day_that_can_still_be_corrected() -> None:
    end_us = 100 * DAY
    [row] = TripByStart().process("in", {"began_us": 0, "window_end": end_us, "trips": 1} | dict.fromkeys(TOTALS, 1.0))
    assert row["time"] == end_us - TRIP_HOURS_MAX * HOUR


def test_a_week_has_each_of_its_seven_days_once_also_after_a_correction_and_a_restart() -> None:
    def say(machine: Week, day: int, trips: int) -> list[tuple[int, int, int]]:
        row = {"window_start": day * DAY, "window_end": (day + 1) * DAY, "trips": trips} | dict.fromkeys(TOTALS, 0.5)
        found = list(machine.process("in", row))
        assert all(each["window_end"] - each["window_start"] == 7 * DAY for each in found)
        assert all(each["km"] == 0.5 * each["days"] for each in found)
        return [(each["window_end"] // DAY - 1, each["days"], each["trips"]) for each in found]

    machine = Week()
    assert [say(machine, day, 1) for day in range(10, 18)] == [
        [(day, min(7, day - 9), min(7, day - 9))] for day in range(10, 18)
    ]
    again = Week()
    again.restore(machine.snapshot())
    for each in (machine, again):
        assert say(each, 16, 3) == [(16, 7, 9), (17, 7, 9)]
