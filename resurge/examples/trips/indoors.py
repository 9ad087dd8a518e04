"""Indoors or outdoors, from what a phone's GPS says while it is asked.

A reading is *clear* when it is a new fix with a radius of SHARP_M or less, about twice the 4.9 m that GPS.gov states
for phones under open sky. It is *dim* when there is no fix, when it is the last one over again (a phone without a new
one answers with what it has), or when its radius is larger. The rule: one is indoors when most readings of the last two
minutes are dim and one has stayed at a place meanwhile. Who gets further than two fixes could be wrong is outdoors,
however dim: a car in a narrow street, a train. So vehicles count as outdoors: their passengers are in the street.

Where nothing is known, nothing is said: with fewer than READINGS_MIN readings, after ASKED_S_MAX without one (the phone
was off, or nobody asked), and in recordings that tell no radius (GeoLife, GPX).

Two clocks run, as the odometer does, before anything is filtered: filters cost no second of either. Cell towers, by
which Sonora told it, are not asked: only Termux has them here, and the Android app has no permission for them.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Iterator, Mapping

from resurge.examples.trips.fixes import ACCURACY_M_MAX, SECOND, metres_between

SHARP_M = 10.0
LOOKBACK_S = 120.0
STEP_S = 4.0  # readings closer than this count as one
READINGS_MIN = 3
ASKED_S_MAX = 300.0  # a phone that rests on a low battery asks every 240 s
PLACE_M = 50.0

Reading = tuple[int, bool, float, float, float]  # time, whether clear, place, radius


class Doors:
    """One phone's readings in, the same out with its two clocks. A machine: rows in by time, state as JSON."""

    def __init__(self) -> None:
        self.before: tuple[int, float, float, float] | None = None  # time, place and radius of the last reading
        self.readings: deque[Reading] = deque()
        self.indoors_us = self.outdoors_us = 0

    def process(self, _port: str, row: Mapping[str, float]) -> Iterator[dict[str, float]]:
        time, lat, lon, radius = int(row["time"]), row["lat"], row["lon"], row["accuracy"]
        passed_us = 0 if self.before is None else time - self.before[0]
        if passed_us > ASKED_S_MAX * SECOND:
            self.readings.clear()
            passed_us = 0
        self._observe(time, lat, lon, radius)
        self.before = (time, lat, lon, radius)
        indoors = self.indoors()
        if indoors:
            self.indoors_us += passed_us
        elif indoors is not None:
            self.outdoors_us += passed_us
        yield {
            "lat": lat, "lon": lon, "accuracy": radius,
            "indoors_s": round(self.indoors_us / SECOND, 1), "outdoors_s": round(self.outdoors_us / SECOND, 1),
        }  # fmt: skip

    def _observe(self, time: int, lat: float, lon: float, radius: float) -> None:
        placed = -90 <= lat <= 90 and -180 <= lon <= 180
        if placed and math.isnan(radius):
            return  # a recording without radii
        if self.readings and time - self.readings[-1][0] < STEP_S * SECOND:
            return
        again = self.before is not None and (lat, lon, radius) == self.before[1:]
        clear = placed and radius <= SHARP_M and not again
        self.readings.append((time, clear, lat, lon, radius if placed else math.nan))
        while len(self.readings) > READINGS_MIN and self.readings[0][0] < time - LOOKBACK_S * SECOND:
            self.readings.popleft()

    def indoors(self) -> bool | None:
        """Whether one is, by the readings so far; None where nobody can know."""
        if len(self.readings) < READINGS_MIN:
            return None
        dim = sum(not clear for _, clear, *_ in self.readings)
        return 2 * dim > len(self.readings) and not self._got_on()

    def _got_on(self) -> bool:
        """Whether the newest fix is further from an earlier one than both could be wrong, by a place's width."""
        fixes = [reading[2:] for reading in self.readings if reading[4] <= ACCURACY_M_MAX]  # none without a place
        if not fixes:
            return False
        lat, lon, radius = fixes[-1]
        return any(metres_between(lat, lon, at[0], at[1]) > PLACE_M + radius + at[2] for at in fixes[:-1])

    def snapshot(self) -> bytes:
        return json.dumps([self.before, list(self.readings), self.indoors_us, self.outdoors_us]).encode()

    def restore(self, state: bytes) -> None:
        before, readings, self.indoors_us, self.outdoors_us = json.loads(state)
        self.before = None if before is None else (before[0], before[1], before[2], before[3])
        self.readings = deque((time, clear, lat, lon, radius) for time, clear, lat, lon, radius in readings)
