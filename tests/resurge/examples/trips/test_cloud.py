"""The cloud's side: any slicing gives the same report, a lost range is nobody else's, a late phone corrects its day."""

from __future__ import annotations

import numpy as np
import pytest

from cloud_backend.spark.cluster.session import LocalRunner
from resurge.examples.trips.cloud import Cloud
from resurge.examples.trips.lose_range import lose_a_range
from resurge.examples.trips.people import DAY, SECOND, Person, made_up_people, read_people
from resurge.examples.trips.report import digest, failure_free, trips_plan
from tests.resurge.examples.trips.scoring import distance_errors

HOUR = 3_600 * SECOND


def without_accelerometer(person: Person, name: str) -> Person:
    return Person(name, {"gps": person.sensors["gps"]})


@pytest.fixture(scope="module")
def walker() -> Person:
    """One person's morning on two days."""
    [person] = made_up_people(1, 1.0)
    gps = person.sensors["gps"]
    twice = {name: np.concatenate((column, column + DAY if name == "time" else column)) for name, column in gps.items()}
    return Person("walker", {"gps": twice})


@pytest.mark.parametrize(
    "names", [("ann", "bob"), pytest.param(("ann", "bob", "eve"), marks=pytest.mark.soak)], ids=len
)
def test_slices_of_any_length_give_the_report_of_a_run_without_failures(tmp_path, walker, names):
    people = [without_accelerometer(walker, name) for name in names]
    plan = trips_plan(recorded=True, at_least=2)
    wanted = digest(failure_free(plan, people))
    base = walker.start_us
    for number, steps in enumerate(([1, 1.1, 26, 31], [0.3, 9, 24, 25, 30], [30])[: len(names)]):
        cloud = Cloud(tmp_path / str(number), plan, people)
        driver = cloud.driver(LocalRunner())
        for hours in (*steps, 60):
            cloud.advance(base + round(hours * HOUR))
            driver.drain()
        assert digest(cloud.report()) == wanted
        cloud.close()


@pytest.mark.covers("SO-28")
def test_a_killed_range_pauses_nobody_else_and_recovers_alone(tmp_path, walker):
    people = [without_accelerometer(walker, f"person-{number}") for number in range(6)]
    found = lose_a_range(tmp_path, trips_plan(recorded=True, at_least=2), people, LocalRunner(), epochs=24, lost=3)
    said = found.as_json()
    assert said["R"] == [said["failed"]], "everything is deterministic, so it fails alone"
    assert said["bytes"] < 0.5 * said["full_bytes"]
    assert 0 < len(said["people_in_it"]) < len(people)
    assert said["others_told_meanwhile"], "the others' trips came while it was behind"
    assert not set(said["others_told_meanwhile"]) & set(said["people_in_it"])
    assert said["digest"] == said["failure_free_digest"]


@pytest.mark.covers("SO-15")
def test_yesterdays_late_upload_corrects_yesterday_alone_and_phones_hear_of_it(tmp_path, walker):
    people = [without_accelerometer(walker, name) for name in ("ann", "bob", "dan", "late")]
    cloud = Cloud(tmp_path, trips_plan(recorded=True, at_least=2), people)
    driver = cloud.driver(LocalRunner())
    monday = walker.start_us // DAY * DAY
    # `late` recorded Monday, then had no network until Thursday; on Tuesday it stayed at home.
    cloud.phones["late"]._person = Person(
        "late", {"gps": {k: v[: len(v) // 2] for k, v in walker.sensors["gps"].items()}}
    )
    for hours in range(6, 24 * 4, 6):
        cloud.advance(monday + hours * HOUR, offline=["late"])
        driver.drain()
    before = {row.identity: row for row in cloud.results.current()}
    monday_rows = [row for row in before.values() if row.sink == "my_places" and row.window_start_us == monday]
    assert monday_rows
    assert all(row.values["people"] == 2 for row in monday_rows), "three were there, told as two or more"
    downlinks = {name: len(cloud.results.downlink(phone.device.hex(), 0)) for name, phone in cloud.phones.items()}

    cloud.advance(monday + 4 * DAY)
    driver.drain()

    after = {row.identity: row for row in cloud.results.current()}
    changed = [row for identity, row in after.items() if identity in before and before[identity] != row]
    assert {row.sink for row in changed} == {"my_places", "cells"}
    assert {row.window_start_us for row in changed} == {monday}, "Tuesday's view is as it was"
    assert all(row.revision > before[row.identity].revision for row in changed)
    ann = cloud.phones["ann"].device.hex()
    news = [row for _, row in cloud.results.downlink(ann, downlinks["ann"])]
    assert news, "the correction goes down to a phone that was told before"
    assert all((row.sink, row.values["people"], row.window_start_us) == ("my_places", 4, monday) for row in news)
    cloud.close()


@pytest.mark.covers("SO-46")
def test_a_trips_distance_is_that_of_the_raw_trace_under_the_same_rule(outside_recordings):
    people = [person for person in read_people(outside_recordings / "geolife") if person.name in ("000", "020", "178")]
    rows = [
        row for row in failure_free(trips_plan(recorded=True), people) if row.sink == "my_trips" and row.values["trips"]
    ]
    assert len(rows) > 15
    assert max(distance_errors(rows, people)) <= 0.02
