"""Made-up people in any number, who ride for as long as is asked: what GeoLife's 165 users and 20 million points ask of
the cloud, without their recordings.

Rides come from a pool, because making one costs more than computing with it; where and when somebody rides is each
one's own.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from resurge.examples.trips.journeys import Journey, made_up
from resurge.examples.trips.people import SECOND, UNDATED_WEEK, Person

MODES = ("walk", "bike", "bus", "car", "train")
REST_US = 600 * SECOND
POOL = 40  # different rides of each mode
UNKNOWN = ("altitude", "accuracy", "speed", "bearing")


def riders(count: int, points: int, *, every_s: int = 5) -> list[Person]:
    """So many people with so many points each: rides of all modes one after the other, a rest between them."""
    return [_rider(number, points, every_s) for number in range(count)]


def _rider(number: int, points: int, every_s: int) -> Person:
    draw = np.random.default_rng(number)
    times, lats, lons = [], [], []
    at_us, left = UNDATED_WEEK, points
    while left > 0:
        ride = _ride(MODES[int(draw.integers(len(MODES)))], int(draw.integers(POOL)), every_s)
        taken = min(left, len(ride.time_us))
        times.append(ride.time_us[:taken] + at_us)
        lats.append(ride.lat[:taken])
        lons.append(ride.lon[:taken] + 0.02 * (number % 20))
        at_us = int(times[-1][-1]) + REST_US
        left -= taken
    unknown = np.full(points, np.nan)
    columns = {"time": np.concatenate(times), "lat": np.concatenate(lats), "lon": np.concatenate(lons)}
    return Person(f"rider-{number}", {"gps": columns | dict.fromkeys(UNKNOWN, unknown)})


@cache
def _ride(mode: str, number: int, every_s: int) -> Journey:
    return made_up(mode, number, every_s=every_s)
