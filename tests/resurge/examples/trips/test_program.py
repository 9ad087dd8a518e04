"""The program: short, movable by one line, and sparing with the GPS."""

from __future__ import annotations

import difflib
from pathlib import Path

import numpy as np
import pytest

import resurge as rs
from resurge.examples.trips import program
from resurge.examples.trips.moving import compare, moved_text, plan_with_modes_in_the_cloud
from resurge.examples.trips.people import SECOND, Person, made_up_people
from resurge.examples.trips.report import digest, failure_free, trips_plan
from shared.plan.placement import device_fragment


@pytest.fixture(scope="module")
def people() -> list[Person]:
    return made_up_people(2, 1.5)


def test_the_program_is_short():
    assert len(Path(program.__file__).read_text().splitlines()) < 150


def test_it_is_a_program_that_resurge_plan_explains():
    plan = rs.load_program(program.__file__)
    assert {node.operator.name for node in plan.nodes if node.operator.__class__.__name__ == "SyncBack"} == {
        "my_trips", "my_days", "my_weeks", "my_places",
    }  # fmt: skip
    assert "transport_mode@1" in rs.explain(plan)


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
        assert row.values["km"] >= program.TRIP_KM_MIN


@pytest.mark.covers("SO-8", "SO-46")
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


def test_an_empty_recording_gives_an_empty_report():
    nothing = Person(
        "nobody", {"gps": {name: np.empty(0) for name in ("lat", "lon", "accuracy")} | {"time": np.empty(0, np.int64)}}
    )
    assert digest(failure_free(trips_plan(recorded=True), [nothing])) == digest([])
