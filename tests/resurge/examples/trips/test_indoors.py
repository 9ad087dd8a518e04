"""Indoors and outdoors are told from what the GPS says, at any rate, and never where nobody can know."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
import pytest

from mobile_app.sensors.file_formats import load
from mobile_app.sensors.itinerary import Itinerary
from resurge.examples.trips.indoors import ASKED_S_MAX, SECOND, Doors
from resurge.examples.trips.people import made_up_people
from resurge.examples.trips.report import failure_free, trips_plan

METRE = 1 / 111_195  # of latitude


def reading(second: float, metres: float = 0.0, radius: float = 5.0) -> dict[str, float]:
    return {"time": round(second * SECOND), "lat": 47.0 + metres * METRE, "lon": 8.0, "accuracy": radius}


def clocks(rows: Iterable[dict[str, float]], machine: Doors | None = None) -> tuple[float, float]:
    machine = machine or Doors()
    said = [out for row in rows for out in machine.process("in", row)]
    return said[-1]["indoors_s"], said[-1]["outdoors_s"]


def wandering(seconds: Iterable[float], radius: float) -> Iterator[dict[str, float]]:
    """A place, with fixes that are off by up to their radius and never the same twice."""
    for second in seconds:
        yield reading(second, metres=radius * math.sin(second), radius=radius)


@pytest.mark.covers("SO-46")
@pytest.mark.parametrize("every_s", [1, 5, 30, 60])
def test_dim_fixes_at_a_place_are_indoors_and_clear_ones_are_not(every_s):
    times = range(0, 1801, every_s)
    indoors, outdoors = clocks(wandering(times, 25.0))
    assert (indoors, outdoors) == (pytest.approx(1800, abs=2 * 60), 0.0)
    assert clocks(wandering(times, 5.0)) == (0.0, pytest.approx(1800, abs=2 * 60))


@pytest.mark.covers("SO-46")
def test_a_phone_that_is_asked_and_has_no_new_fix_is_indoors():
    cellar = [reading(second, metres=3.0) for second in range(0, 1800, 5)]  # sharp, but always the same one
    assert clocks(cellar) == (pytest.approx(1800, abs=30), 0.0)
    nowhere = [reading(second, metres=math.nan, radius=math.nan) for second in range(0, 1800, 5)]
    assert clocks(nowhere) == (pytest.approx(1800, abs=30), 0.0)


@pytest.mark.parametrize("metres", [math.inf, 1e300, 6e6])
def test_a_place_that_is_none_on_earth_is_no_place(metres):
    """As recordings may have it: 6,000 km north of a place at 47 degrees there is nothing."""
    broken = [reading(second, metres=metres * (second % 10 > 0), radius=25.0) for second in range(0, 1800, 5)]
    assert clocks(broken) == (pytest.approx(1800, abs=30), 0.0)


def test_who_gets_on_is_outdoors_however_dim_the_fixes():
    train = [reading(second, metres=20.0 * second, radius=40.0) for second in range(0, 900, 5)]
    indoors, outdoors = clocks(train)
    assert indoors <= 15, "two fixes of 40 m show nothing yet"
    assert indoors + outdoors == pytest.approx(895, abs=10)


def test_going_in_and_out_is_seen_within_the_look_back():
    """Ten minutes each: out, in, out."""
    rows = [
        *wandering(range(0, 600, 5), 4.0), *wandering(range(600, 1200, 5), 30.0), *wandering(range(1200, 1800, 5), 4.0),
    ]  # fmt: skip
    assert clocks(rows) == (pytest.approx(600, abs=10), pytest.approx(1190, abs=20)), "late at both ends alike"


@pytest.mark.parametrize(
    "rows",
    [
        [reading(second, metres=second % 7, radius=math.nan) for second in range(0, 900, 5)],
        [reading(second, radius=40.0) for second in range(0, 9000, round(ASKED_S_MAX) + 60)],
        [reading(0, radius=40.0), reading(200, radius=41.0)],
    ],
    ids=["no radius", "seldom asked", "two readings"],
)
def test_nothing_is_said_where_nobody_can_know(rows):
    assert clocks(rows) == (0.0, 0.0)


def test_a_gap_counts_for_neither_and_what_was_before_it_is_forgotten():
    rows = [*wandering(range(0, 600, 5), 30.0), *wandering(range(7800, 8400, 5), 4.0)]
    indoors, outdoors = clocks(rows)
    assert indoors == pytest.approx(595, abs=15)
    assert outdoors == pytest.approx(595, abs=15)


def test_a_restored_machine_goes_on_as_if_nothing_had_happened():
    rows = [*wandering(range(0, 300, 5), 4.0), *wandering(range(300, 700, 5), 30.0)]
    whole = clocks(rows)
    for cut in (0, 1, 2, 59, 61, 139):
        first, second = Doors(), Doors()
        for row in rows[:cut]:
            list(first.process("in", row))
        second.restore(first.snapshot())
        assert clocks(rows[cut:], second) == whole


@pytest.mark.covers("SO-46")
@pytest.mark.parametrize("every_s", [5, 60])
def test_made_up_people_are_told_indoors_where_they_stay(every_s):
    """Their stays are indoors, of six to ten minutes, of which the look-back takes one; their ways are outdoors."""
    told: Counter[tuple[bool, bool | None]] = Counter()
    for number, person in enumerate(made_up_people(3, 2.0)):
        itinerary, machine, gps = Itinerary(101 + number), Doors(), person.sensors["gps"]
        for at in range(0, len(gps["time"]), every_s // 5):
            row = {name: gps[name][at].item() for name in ("time", "lat", "lon", "accuracy")}
            list(machine.process("in", row))
            stays = itinerary.leg_at((row["time"] - person.start_us) / SECOND + 0.001).mode == "still"
            told[stays, machine.indoors()] += 1
    assert told[True, True] >= 0.7 * sum(count for (stays, _), count in told.items() if stays)
    assert told[False, False] >= 0.9 * sum(count for (stays, _), count in told.items() if not stays)


@pytest.mark.covers("SO-46")
def test_minutes_near_sites_count_apart_indoors_and_outdoors():
    [person] = made_up_people(1, 3.0)
    rows = failure_free(trips_plan(recorded=True), [person])
    [day] = [row.values for row in rows if row.sink == "my_exposure"]
    recorded_s = (person.end_us - person.start_us) / SECOND
    assert 0.9 * recorded_s <= day["indoors_s"] + day["outdoors_s"] <= recorded_s
    assert 0.2 * recorded_s <= day["indoors_s"] <= 0.6 * recorded_s
    under_way = sum(row.values["near_sites_s"] for row in rows if row.sink == "my_trips")
    assert day["near_sites_outdoors_s"] <= day["outdoors_s"]
    assert day["near_sites_indoors_s"] <= day["indoors_s"]
    assert day["near_sites_outdoors_s"] == pytest.approx(under_way, rel=0.2), "outdoors one is under way"


@pytest.mark.covers("SO-46")
def test_a_recorded_walk_is_outdoors_once_the_phone_has_seen_the_sky(outside_recordings):
    track = load(outside_recordings / "phone_zurich" / "Location.csv")
    machine, told = Doors(), []
    for at, time in enumerate(track.time_us.tolist()):
        row = {name: float(track.columns[name][at]) for name in ("lat", "lon", "accuracy")}
        list(machine.process("in", {"time": time, **row}))
        told.append(machine.indoors())
    walked = np.flatnonzero(track.columns["speed"] > 0.8)
    street = told[walked[20] :]
    assert len(street) > 600
    assert set(street) == {False}
    assert sum(verdict is True for verdict in told) > 30, "it lay where its fixes were dim, before"
