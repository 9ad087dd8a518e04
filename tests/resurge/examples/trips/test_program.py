"""The program: short, movable by one line, and sparing with the GPS."""

from __future__ import annotations

import difflib
import tempfile
from pathlib import Path

import numpy as np
import pytest

import resurge as rs
from mobile_app.node.computation import Computation
from mobile_app.sensors.playback import Recording
from resurge.examples.trips import operators, program
from resurge.examples.trips.move_modes import compare, moved_text, plan_with_modes_in_the_cloud
from resurge.examples.trips.people import DAY, SECOND, Person, made_up_people
from resurge.examples.trips.play import _write
from resurge.examples.trips.report import digest, failure_free, trips_plan
from shared.plan.placement import device_fragment
from shared.stream.sources import SENSORS


@pytest.fixture(scope="module")
def people() -> list[Person]:
    return made_up_people(2, 1.5)


def test_the_program_is_short():
    assert len(Path(program.__file__).read_text().splitlines()) < 150


def test_it_is_a_program_that_resurge_plan_explains():
    plan = rs.load_program(program.__file__)
    assert {node.operator.name for node in plan.nodes if node.operator.__class__.__name__ == "SyncBack"} == {
        "my_trips", "my_days", "my_weeks", "my_exposure", "my_places",
    }  # fmt: skip
    assert "transport_mode@4" in rs.explain(plan)


@pytest.mark.covers("SO-14")
def test_moving_one_line_moves_the_inference():
    before = Path(program.__file__).read_text().splitlines()
    changed = [line for line in difflib.ndiff(before, moved_text().splitlines()) if line[0] in "+-"]
    assert len(changed) == 2, "one line, taken out here and put in there"
    here = {node.operator.operator for node in _applied(trips_plan(recorded=True))}
    there = {node.operator.operator for node in _applied(plan_with_modes_in_the_cloud(recorded=True))}
    assert here - there == {"transport_mode"}


def _applied(plan):
    return [node for node in device_fragment(plan).nodes if hasattr(node.operator, "operator")]


@pytest.mark.covers("SO-14", "SO-45")
def test_moved_inference_answers_the_same_and_sends_more(tmp_path, people):
    found = compare(tmp_path, people, at_least=2)
    assert found["same_answer"]
    assert found["codec alone"]["saved_percent"] >= 80
    phone, cloud = found["modes on the phone"], found["modes in the cloud"]
    assert phone["saved_percent"] > found["codec alone"]["saved_percent"]
    assert cloud["bytes"] > phone["bytes"], "shaking goes up, too"


@pytest.mark.covers("SO-46")
def test_trips_of_a_made_up_morning_are_found_with_their_distance(people):
    rows = [row for row in failure_free(trips_plan(recorded=True), people) if row.sink == "my_trips"]
    assert 8 <= len(rows) <= 12, "what the two of them did, a trip or two joined"
    for row in rows:
        km = sum(row.values[f"km_{mode}"] for mode in ("walk", "bike", "bus", "car", "train"))
        assert row.values["km"] == pytest.approx(km, abs=0.001)
        assert row.values["km"] >= operators.TRIP_KM_MIN


def taken_along(metres: float) -> Person:
    """A kilometre on foot, an hour without a fix that ends 54.8 km away, then these metres on foot, and rest."""
    before, after = np.arange(0, 720, 5), np.arange(0, 1200, 5)
    seconds = np.concatenate((before, 4320 + after))
    north = np.concatenate((1.4 * before, 1008 + 54_800 + np.minimum(1.4 * after, metres)))
    columns = {field.name: np.full(len(seconds), np.nan) for field in SENSORS["gps"]}
    columns |= {
        "lat": 47.0 + north / 111_195,
        "lon": np.full(len(seconds), 8.5),
        "accuracy": np.full(len(seconds), 5.0),
    }
    return Person("ann", {"gps": {"time": 1_700_000_000 * SECOND + seconds * SECOND, **columns}})


@pytest.mark.parametrize(("metres", "trips"), [(0.0, 1), (120.0, 1), (1_000.0, 2)])
def test_kilometres_that_were_not_recorded_are_said_once_whatever_follows(metres, trips):
    rows = failure_free(trips_plan(recorded=True), [taken_along(metres)])
    told = [row.values for row in rows if row.sink == "my_trips"]
    assert sum(row["trips"] for row in told) == trips
    assert sum(row["unrecorded_km"] for row in told) == pytest.approx(54.8, abs=0.1)
    assert [row["km"] >= operators.TRIP_KM_MIN for row in told] == [bool(row["trips"]) for row in told]
    days = [row.values for row in rows if row.sink == "my_days"]
    assert (sum(day["trips"] for day in days), sum(day["unrecorded_km"] for day in days)) == (
        trips, pytest.approx(54.8, abs=0.1),
    )  # fmt: skip


@pytest.mark.covers("SO-8")
def test_the_gps_rests_when_the_phone_does_and_spares_a_low_battery():
    """Ten minutes of shaking, ten minutes on a table, at two levels of the battery."""
    times = np.arange(0, 1200 * SECOND, 100_000)
    walking = np.where(times < 600 * SECOND, 2.0 * np.sin(2 * np.pi * 2.0 * times / SECOND), 0.0)
    still = np.zeros(len(times))
    accelerometer = {"time": times, "x": still, "y": still, "z": walking}
    every_second = np.arange(0, 1200 * SECOND, SECOND)
    gps = {"time": every_second, "lat": 47 + every_second / 1e12, "lon": np.full(1200, 8.0)}
    read = {}
    for level in (0.9, 0.1):
        battery = {"time": [0], "level": [level], "charging": [False]}
        sampled = program.sampled(program.shaking())
        found = rs.evaluate(sampled, {"gps": gps, "accelerometer": accelerometer, "battery": battery, "timer 5s": {
            "time": np.arange(0, 1200 * SECOND, 5 * SECOND), "tick": np.arange(240)}})["out"]["time"]  # fmt: skip
        read[level] = (int((found < 600 * SECOND).sum()), int((found >= 750 * SECOND).sum()))
    outdoors, at_rest = read[0.9]
    assert outdoors == pytest.approx(120, abs=2)
    assert at_rest == pytest.approx(8, abs=1), "one a minute"
    assert read[0.1][0] == pytest.approx(30, abs=2), "every fourth"


@pytest.mark.covers("SO-8")
def test_a_phone_reads_the_gps_by_need_and_tells_what_the_program_means():
    """The phone's own computation over recorded sensors, read in steps as a node does, against the program in memory."""
    [person] = made_up_people(1, 1.0, battery=True)
    plan = trips_plan(recorded=False)
    made: dict[str, list[tuple]] = {}
    for name, step_us in (("often", 61 * SECOND), ("seldom", 1_000 * SECOND)):
        phone = Computation(plan, "person-1", _sources(person), from_us=person.start_us)
        rows = made[name] = []
        for until_us in range(person.start_us, person.end_us + DAY // 8, step_us):
            for _, batch in phone.read(until_us):
                rows += zip(
                    batch.time_us.tolist(), *(batch.columns[c].tolist() for c in ("mode", "metres")), strict=True
                )
        ticks = (until_us - person.start_us) // (5 * SECOND)
        assert 0.05 * ticks < phone.readings()["gps"] < 0.4 * ticks, "an hour under way, three on a table"
    assert made["often"] == made["seldom"] != []
    wanted = failure_free(plan, [person])
    assert {row.sink for row in wanted} >= {"my_trips", "my_days"}
    [day] = [row for row in wanted if row.sink == "my_days"]
    assert sum(metres for _, _, metres in made["often"]) / 1000 == pytest.approx(day.values["km"], rel=0.05)


def test_a_day_is_one_of_the_zone_that_was_asked_for():
    [person] = made_up_people(1, 3.0)
    [utc] = [row for row in failure_free(trips_plan(recorded=True), [person]) if row.sink == "my_days"]
    plan = trips_plan(recorded=True, zone="Asia/Kolkata")
    rows = failure_free(plan, [person])
    local = [row for row in rows if row.sink == "my_days"]
    assert {row.window_start_us % DAY for row in local} == {DAY - 5 * 3600 * SECOND - 1800 * SECOND}
    assert sum(row.values["km"] for row in local) == pytest.approx(utc.values["km"])
    assert {row.values["days"] for row in rows if row.sink == "my_weeks"} == set(range(1, len(local) + 1))


def test_several_phones_that_read_by_need_each_read_their_own_gps():
    everyone = made_up_people(2, 1.0, battery=True)
    plan = trips_plan(recorded=False)
    alone = [row for person in everyone for row in failure_free(plan, [person])]
    assert digest(failure_free(plan, everyone)) == digest(alone)


def _sources(person: Person):
    """Recorded sensors as `resurge node --sensor NAME=recording:FILE` opens them, without the file."""

    def open_source(sensor: str, every_us: int) -> Recording:
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
            _write(Path(file.name), person.sensors[sensor])
            return Recording(Path(file.name), every_us=every_us, origin_us=person.start_us)

    return open_source


def test_an_empty_recording_gives_an_empty_report():
    nothing = Person(
        "nobody", {"gps": {name: np.empty(0) for name in ("lat", "lon", "accuracy")} | {"time": np.empty(0, np.int64)}}
    )
    assert digest(failure_free(trips_plan(recorded=True), [nothing])) == digest([])
