"""Made-up sensors: the same world for the same seed, trips with stops, believable errors."""

from __future__ import annotations

import time

import numpy as np
import pytest

from mobile_app.sensors.itinerary import FORTNIGHT_S, METRES_PER_DEGREE, Itinerary
from mobile_app.sensors.source import SensorMissing, shaped
from mobile_app.sensors.synthetic import Synthetic
from shared.language.schema import Schema

ORIGIN_US = 1_700_000_000_000_000
HOUR_US = 3_600_000_000


def gps(seed: int = 3, **options) -> Synthetic:
    return Synthetic("gps", seed=seed, every_us=5_000_000, origin_us=ORIGIN_US, **options)


def test_readings_do_not_depend_on_how_they_are_read():
    whole = gps().read(ORIGIN_US + HOUR_US)
    source = gps()
    draw = np.random.default_rng(1)
    parts, until_us = [], ORIGIN_US
    while until_us < ORIGIN_US + HOUR_US:
        until_us = min(until_us + int(draw.integers(1, 60_000_000)), ORIGIN_US + HOUR_US)
        parts.append(source.read(until_us))
    assert np.array_equal(np.concatenate([part.time_us for part in parts]), whole.time_us)
    for name, column in whole.columns.items():
        assert np.array_equal(np.concatenate([part.columns[name] for part in parts]), column), name


@pytest.mark.parametrize("sensor", ["gps", "accelerometer", "battery"])
def test_a_restarted_node_meets_the_same_world(sensor):
    options = {"seed": 3, "every_us": 200_000, "origin_us": ORIGIN_US}
    whole = Synthetic(sensor, **options).read(ORIGIN_US + 1_000_000_000)
    later = Synthetic(sensor, **options, from_us=ORIGIN_US + 600_000_001).read(ORIGIN_US + 1_000_000_000)
    assert later.time_us[0] == ORIGIN_US + 600_200_000
    for name, column in later.columns.items():
        assert np.array_equal(column, whole.columns[name][-len(later) :]), name


def test_another_seed_is_another_person():
    first, second = (gps(seed).read(ORIGIN_US + HOUR_US) for seed in (1, 2))
    assert not np.array_equal(first.columns["lat"], second.columns["lat"])


def test_hours_hold_several_trips_with_stays_between_them():
    itinerary = Itinerary(5)
    modes = []
    for second in range(0, 4 * 3600, 10):
        mode = itinerary.leg_at(second).mode
        if not modes or modes[-1] != mode:
            modes.append(mode)
    trips = [mode for mode in modes if mode != "still"]
    assert len(trips) >= 6
    assert len(set(trips)) >= 2
    assert modes[::2] == ["still"] * len(modes[::2])


def test_the_reported_accuracy_is_about_the_true_error():
    noisy = gps().read(ORIGIN_US + 4 * HOUR_US)
    itinerary = Itinerary(3)
    north_m, east_m = [], []
    for time_us, lat, lon in zip(noisy.time_us, noisy.columns["lat"], noisy.columns["lon"], strict=True):
        second = (time_us - ORIGIN_US) // 1_000_000
        leg = itinerary.leg_at(second)
        true_lat, true_lon = leg.lat[second - leg.start_s], leg.lon[second - leg.start_s]
        north_m.append((lat - true_lat) * METRES_PER_DEGREE)
        east_m.append((lon - true_lon) * METRES_PER_DEGREE * np.cos(np.radians(true_lat)))
    within = np.hypot(north_m, east_m) <= noisy.columns["accuracy"]
    assert 0.55 < within.mean() < 0.80
    poor = (noisy.columns["accuracy"] > 50).mean()
    assert 0.01 < poor < 0.10


def test_speed_is_that_of_the_mode_and_stops_occur():
    speed = gps().read(ORIGIN_US + 4 * HOUR_US).columns["speed"]
    assert speed.max() < 30
    assert (speed < 0.5).mean() > 0.2
    assert (speed > 1.0).mean() > 0.2


def test_a_hint_to_sample_less_is_followed_from_the_next_reading_on():
    source = gps()
    first = source.read(ORIGIN_US + 60_000_000)
    source.sample_every(20_000_000)
    later = source.read(ORIGIN_US + 180_000_000)
    assert set(np.diff(first.time_us)) == {5_000_000}
    assert set(np.diff(later.time_us)) == {20_000_000}
    assert later.time_us[0] > first.time_us[-1]


def test_a_long_sleep_is_caught_up_in_bounded_steps():
    source = Synthetic("accelerometer", seed=1, every_us=20_000, origin_us=ORIGIN_US)
    assert len(source.read(ORIGIN_US + 10 * HOUR_US)) == 20_000


def test_a_sensor_nobody_can_make_up_is_named():
    with pytest.raises(SensorMissing, match=r"'smell'.*sensor-synthetic"):
        Synthetic("smell", seed=1, every_us=1, origin_us=0)


def test_an_unknown_float_is_nan_and_an_unknown_whole_number_is_refused():
    samples = gps().read(ORIGIN_US + 60_000_000)
    columns = shaped(samples, Schema.of({"lat": "float64", "satellites": "float32"})).columns
    assert columns["satellites"].dtype == np.float32
    assert np.isnan(columns["satellites"]).all()
    with pytest.raises(SensorMissing, match="sensor-column"):
        shaped(samples, Schema.of({"satellites": "int32"}))


def test_years_later_readings_are_as_quickly_there_and_still_a_function_of_time():
    from_us = ORIGIN_US + 3 * 365 * 24 * HOUR_US
    began = time.process_time()
    late = gps(from_us=from_us).read(from_us + HOUR_US)
    assert time.process_time() - began < 2.0  # the legs of three years take twenty seconds
    again = gps(from_us=from_us - HOUR_US).read(from_us + HOUR_US)
    assert len(late) == 720
    assert np.array_equal(late.columns["lat"], again.columns["lat"][-720:])


def test_a_fortnight_ends_with_a_leg_broken_off_and_the_next_begins_at_home():
    itinerary = Itinerary(3)
    home, last = itinerary.leg_at(0), itinerary.leg_at(FORTNIGHT_S - 1)
    following = itinerary.leg_at(FORTNIGHT_S)
    assert last.end_s == following.start_s == FORTNIGHT_S
    assert (following.lat[0], following.lon[0], following.mode) == (home.lat[0], home.lon[0], "still")
    first_trip, other_trip = Itinerary(3).leg_at(home.end_s), itinerary.leg_at(following.end_s)
    assert not np.array_equal(first_trip.speed[:200], other_trip.speed[:200])
