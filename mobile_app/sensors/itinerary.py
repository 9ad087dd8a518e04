"""A made-up person's movements: stays and trips, second by second, the same for the same seed.

Legs follow each other for ever, each drawn from (seed, leg number) and starting where the last one ended, so the
whole is a function of time: a node killed and started again meets the same world, and two engines fed the same
seed see the same readings. Only the legs around the times asked for are kept.

Every fortnight the person begins anew at home: no time is more than a fortnight of legs away, and a home directory
that was made years ago starts as quickly as a new one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

METRES_PER_DEGREE = 111_320.0  # of latitude; of longitude after scaling with cos(latitude)
MICROSECONDS = 1_000_000
FORTNIGHT_S = 14 * 86_400
START_LATITUDE, START_LONGITUDE = 47.3779, 8.5403  # Zurich main station

# mode: (typical speed in m/s, spread between trips, m/s of change within a trip, vibration in m/s^2, its Hz)
MODES = {
    "walk": (1.4, 0.15, 0.10, 2.2, 1.9),
    "bike": (4.6, 0.60, 0.30, 1.1, 1.2),
    "bus": (8.5, 1.50, 0.90, 0.6, 5.0),
    "car": (13.0, 3.00, 1.20, 0.4, 9.0),
}
STILL = (0.0, 0.0, 0.0, 0.02, 0.2)


@dataclass(frozen=True, slots=True, eq=False)
class Leg:
    """One stay or trip; every array has one entry per second, and one more to interpolate towards."""

    start_s: int
    mode: str
    lat: np.ndarray
    lon: np.ndarray
    altitude: np.ndarray
    speed: np.ndarray
    bearing: np.ndarray
    accuracy: np.ndarray

    @property
    def end_s(self) -> int:
        return self.start_s + len(self.lat) - 1


class Itinerary:
    """Where the person with this seed is at any second since the start."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._fortnight = 0
        self._legs: list[Leg] = []
        self._next_index = 0

    def leg_at(self, second: float) -> Leg:
        """The leg that covers this second. Seconds asked for should not go back by more than one leg."""
        fortnight = max(0, int(second // FORTNIGHT_S))
        if fortnight != self._fortnight or (self._legs and second < self._legs[0].start_s):
            self._fortnight, self._legs, self._next_index = fortnight, [], 0  # walk the way from its beginning
        while not self._legs or self._legs[-1].end_s <= second:
            self._legs = [*self._legs[-1:], self._draw()]
        return next(leg for leg in self._legs if second < leg.end_s)

    def _draw(self) -> Leg:
        index = self._next_index
        self._next_index += 1
        previous = self._legs[-1] if self._legs else None
        # The first leg is at home, the same one every fortnight.
        draw = np.random.default_rng((self._seed, index, self._fortnight if index else 0))
        begin = _begin(draw, self._fortnight * FORTNIGHT_S, previous)
        leg = _stay(draw, begin, first=previous is None) if index % 2 == 0 else _trip(draw, begin)
        return _until(leg, (self._fortnight + 1) * FORTNIGHT_S)


def _until(leg: Leg, end_s: int) -> Leg:
    """The leg, broken off where the fortnight ends."""
    if leg.end_s <= end_s:
        return leg
    kept = end_s - leg.start_s + 1
    values = ("lat", "lon", "altitude", "speed", "bearing", "accuracy")
    return Leg(leg.start_s, leg.mode, *(getattr(leg, name)[:kept] for name in values))


Begin = tuple[int, float, float, float, float]  # second, latitude, longitude, altitude, bearing


def _begin(draw: np.random.Generator, first_s: int, previous: Leg | None) -> Begin:
    if previous is None:
        spread_m = draw.normal(0, 1500, 2)
        lat = START_LATITUDE + spread_m[0] / METRES_PER_DEGREE
        lon = START_LONGITUDE + spread_m[1] / (METRES_PER_DEGREE * math.cos(math.radians(lat)))
        return first_s, lat, lon, 430.0, float(draw.uniform(0, 360))
    return (
        previous.end_s,
        float(previous.lat[-1]),
        float(previous.lon[-1]),
        float(previous.altitude[-1]),
        float(previous.bearing[-1]),
    )


def _stay(draw: np.random.Generator, begin: Begin, *, first: bool) -> Leg:
    """Indoors mostly: the fixes wander, and now and then one is far off and says so."""
    start, lat, lon, altitude, bearing = begin
    # Longer than the five minutes that usually separate two trips, so that a session window closes.
    seconds = int(draw.integers(20, 60)) if first else int(draw.integers(330, 600))
    still = np.zeros(seconds + 1)
    return Leg(
        start_s=start, mode="still", lat=still + lat, lon=still + lon, altitude=still + altitude, speed=still,
        bearing=still + bearing, accuracy=_accuracy(draw, seconds + 1, typical_m=14.0, bad_share=0.06),
    )  # fmt: skip


def _trip(draw: np.random.Generator, begin: Begin) -> Leg:
    start, lat, lon, altitude, bearing = begin
    mode = tuple(MODES)[int(draw.integers(len(MODES)))]
    typical, spread, change, _, _ = MODES[mode]
    seconds = int(draw.integers(240, 720))
    cruise = max(0.5, draw.normal(typical, spread))
    speed = np.clip(cruise + np.cumsum(draw.normal(0, change / 4, seconds)) * 0.5, 0.3 * cruise, 1.6 * cruise)
    for halt in draw.integers(20, seconds - 20, max(1, seconds // 150)):  # lights and bus stops
        speed[halt : halt + int(draw.integers(8, 25))] = 0.0
    ramp = np.minimum(1.0, np.minimum(np.arange(1, seconds + 1), np.arange(seconds, 0, -1)) / 8.0)
    speed = speed * ramp
    turns = draw.normal(0, 1.5, seconds) + (draw.random(seconds) < 0.012) * draw.choice((-90.0, 90.0), seconds)
    heading = np.radians((bearing + np.cumsum(turns)) % 360)
    north, east = speed * np.cos(heading), speed * np.sin(heading)
    lat_track = lat + np.concatenate(([0.0], np.cumsum(north))) / METRES_PER_DEGREE
    scale = METRES_PER_DEGREE * math.cos(math.radians(lat))
    lon_track = lon + np.concatenate(([0.0], np.cumsum(east))) / scale
    return Leg(
        start_s=start, mode=mode, lat=lat_track, lon=lon_track,
        altitude=altitude + np.concatenate(([0.0], np.cumsum(draw.normal(0, 0.05, seconds)))),
        speed=np.append(speed, 0.0), bearing=np.append(np.degrees(heading), np.degrees(heading[-1])),
        accuracy=_accuracy(draw, seconds + 1, typical_m=5.0, bad_share=0.02),
    )  # fmt: skip


def _accuracy(draw: np.random.Generator, seconds: int, *, typical_m: float, bad_share: float) -> np.ndarray:
    """The radius a receiver reports: log-normal around its typical value, with spells of very poor fixes."""
    radius = typical_m * np.exp(draw.normal(0, 0.25, seconds))
    bad = draw.random(seconds) < bad_share
    return np.where(bad, draw.uniform(60, 150, seconds), np.clip(radius, 3.0, 45.0))
