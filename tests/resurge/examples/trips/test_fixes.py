"""Which fixes are believed, and that no filter costs a metre."""

from __future__ import annotations

import itertools
import math
from random import Random

import pytest

from resurge.examples.trips.fixes import Track, east_north, metres_between

SECOND = 1_000_000
STEP = 0.0001  # of latitude: 11.1 m


def fix(second: float, lat: float, lon: float = 8.0, accuracy: float = math.nan) -> dict:
    return {
        "time": round(second * SECOND), "lat": lat, "lon": lon, "accuracy": accuracy, "indoors_s": second,
        "outdoors_s": 2 * second,
    }  # fmt: skip


def run(rows, track: Track | None = None) -> list[dict]:
    track = track or Track()
    return [made for row in rows for made in track.process("in", row)]


def test_the_odometer_is_the_length_of_the_believed_path():
    kept = run([fix(n, 47.0 + n * STEP) for n in range(10)])
    assert kept[-1]["odometer"] == pytest.approx(9 * metres_between(47.0, 8.0, 47.0 + STEP, 8.0), abs=0.1)


def test_a_receiver_that_is_off_by_metres_each_second_makes_a_walk_no_longer():
    random = Random(7)
    off = [(random.gauss(0, 2.0) / 111_195, random.gauss(0, 2.0) / 75_800) for _ in range(900)]
    path = [fix(second, 47.0 + second * 1.4 / 111_195 + north, 8.0 + east) for second, (north, east) in enumerate(off)]
    zigzag = sum(metres_between(a["lat"], a["lon"], b["lat"], b["lon"]) for a, b in itertools.pairwise(path))
    assert zigzag > 2.5 * 1260, "that is what each step adds up to"
    assert run(path)[-1]["odometer"] == pytest.approx(1260, rel=0.15)


def test_a_fix_the_receiver_doubts_is_left_out():
    kept = run([fix(0, 47.0), fix(1, 47.1, accuracy=80.0), fix(2, 47.0 + STEP)])
    assert [round(row["lat"], 4) for row in kept] == [47.0, 47.0001]
    assert kept[-1]["odometer"] < 12


def test_a_single_jump_is_no_distance_and_three_that_agree_are_the_new_place():
    once = run([fix(0, 47.0), fix(5, 48.0), fix(10, 47.0 + STEP)])
    assert [round(row["lat"], 4) for row in once] == [47.0, 47.0001]
    moved = run([fix(0, 47.0), *(fix(5 * n, 48.0 + n * STEP) for n in range(1, 5))])
    assert [round(row["lat"], 4) for row in moved] == [47.0, 48.0003, 48.0004]
    assert moved[-1]["odometer"] < 12, "111 km were jumped, not travelled"


def test_a_fix_within_twice_its_accuracy_is_no_movement_but_its_metres_count():
    kept = run(
        [fix(0, 47.0, accuracy=20.0), fix(5, 47.0 + STEP, accuracy=20.0), fix(10, 47.0 + 5 * STEP, accuracy=20.0)]
    )
    assert [round(row["lat"], 4) for row in kept] == [47.0, 47.0005]
    assert kept[-1]["odometer"] == pytest.approx(5 * 11.12, abs=0.5)


def test_a_fix_that_goes_on_brings_the_clocks_as_they_are_then():
    kept = run([fix(0, 47.0), fix(5, 47.0, accuracy=20.0), fix(10, 47.0 + 5 * STEP)])
    assert [(row["indoors_s"], row["outdoors_s"]) for row in kept] == [(0, 0), (10, 20)]


def test_places_that_do_not_exist_are_left_out():
    assert run([fix(0, 91.0), fix(1, 47.0, 181.0), fix(2, math.nan)]) == []


def test_a_restored_track_goes_on_as_if_nothing_had_happened():
    rows = [fix(n, 47.0 + n * STEP, accuracy=5.0) for n in range(6)] + [fix(6, 49.0), fix(7, 47.0007)]
    whole = run(rows)
    for cut in range(len(rows)):
        first = Track()
        before = run(rows[:cut], first)
        second = Track()
        second.restore(first.snapshot())
        assert before + run(rows[cut:], second) == whole


def test_east_and_north_agree_with_the_great_circle():
    east, north = east_north(47.0, 8.0, 47.01, 8.02)
    assert math.hypot(east, north) == pytest.approx(metres_between(47.0, 8.0, 47.01, 8.02), rel=1e-3)
    assert east_north(10.0, 179.9999, 10.0, -179.9999)[0] == pytest.approx(21.9, abs=0.5)
