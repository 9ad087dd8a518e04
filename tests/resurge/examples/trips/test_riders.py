"""Riders in any number: as many points as were asked for, through the phones' program, the log and the job."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cloud_backend.spark.cluster.session import LocalRunner
from cloud_backend.spark.control.driver import Runner
from resurge.examples.trips import operators
from resurge.examples.trips.cloud import Cloud
from resurge.examples.trips.people import SECOND, UNDATED_WEEK, Person
from resurge.examples.trips.report import digest, failure_free, trips_plan
from resurge.examples.trips.riders import riders
from tests.claims import Claim

USERS, POINTS = 165, 20_000_000  # of GeoLife, as Sonora had it
STEP_US = 7200 * SECOND
AFTER_US = 9 * 86400 * SECOND  # what was asked of a week has closed by then


def through_the_cloud(root: Path, people: list[Person], runner: Runner) -> Cloud:
    cloud = Cloud(root, trips_plan(recorded=True, at_least=2), people)
    driver = cloud.driver(runner)
    end_us = max(int(person.sensors["gps"]["time"][-1]) for person in people)
    for until_us in (*range(UNDATED_WEEK + STEP_US, end_us + STEP_US, STEP_US), end_us + AFTER_US):
        cloud.advance(until_us)
        driver.drain()
    assert not driver.failures.waiting()
    assert not driver.events.quarantined
    return cloud


def test_every_rider_has_as_many_points_as_asked_and_ways_of_their_own() -> None:
    people = riders(3, 700)
    assert [len(person.sensors["gps"]["time"]) for person in people] == [700] * 3
    assert all((person.sensors["gps"]["time"][1:] > person.sensors["gps"]["time"][:-1]).all() for person in people)
    assert len({person.sensors["gps"]["lon"].tobytes() for person in people}) == 3


def test_results_of_riders_are_those_of_a_run_without_log_and_job(tmp_path: Path, claim: Claim) -> None:
    people = riders(3, 900)
    cloud = through_the_cloud(tmp_path, people, LocalRunner())
    wanted = digest(failure_free(cloud.plan, people))
    assert digest(cloud.report()) == wanted
    claim(f"{len(people)} riders with 900 points each, {len(cloud.report())} results, digests equal")
    cloud.close()


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.timeout(6 * 3600)
@pytest.mark.covers("SO-36")
@pytest.mark.parametrize("points", [1_000_000, POINTS])
def test_as_many_users_and_points_as_geolife_has(tmp_path: Path, claim: Claim, points: int) -> None:
    from cloud_backend.spark.cluster.session import SparkRunner, open_session

    people = riders(USERS, points // USERS + 1)
    session = open_session("local[2]")
    try:
        begun = time.monotonic()
        cloud = through_the_cloud(tmp_path, people, SparkRunner(session, tmp_path / "code", [operators.__name__]))
        took = time.monotonic() - begun
    finally:
        session.stop()
    given = sum(len(person.sensors["gps"]["time"]) for person in people)
    assert given >= points
    everyone = {row.device for row in cloud.results.current() if row.sink == "my_trips"}
    assert len(everyone) == USERS
    if points < POINTS:  # holding all of them in memory at once is what the job is there to avoid
        assert digest(cloud.report()) == digest(failure_free(cloud.plan, people))
    claim(
        f"{USERS} users, {given} points, {cloud.points} sent, {sum(cloud.results.sinks().values())} results, {took:.0f} s"
    )
    cloud.close()
