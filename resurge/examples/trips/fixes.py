"""Which fixes to believe, and how far the phone has come: the outlier rule and the odometer.

A fix is left out when the receiver itself doubts it (accuracy worse than 50 m), or when it is further from the last
good one than 100 m/s would take it, 360 km/h. After three such fixes in a row that agree with each other the
*last good one* was the outlier, or the phone was carried on while it was off: the track goes on from the new place, and
the jump counts as no distance.

A believed fix goes on only when it is away from the last one that did by more than both could be wrong, twice the
radius that the receiver reports: indoors fixes wander by tens of metres without anyone moving.

The odometer runs over every fix that is believed, before anything is filtered. So filters save bytes and cost no
metre: the distance between two kept fixes is the difference of their odometers. It goes on in steps of 10 m and more:
a receiver that says where it is once a second is off by a metre or two each time, which would make a walk three times
as long. The clocks of `indoors.py` ran before, and come along.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping

EARTH_M = 6_371_008.8
ACCURACY_M_MAX = 50.0
SPEED_MAX = 100.0
JUMPS_MAX = 3
STEP_M = 10.0
ACCURACIES = 2.0
SECOND = 1_000_000


def metres_between(lat1: float, lon1: float, lat2: float, lon2: float) -> float:
    """Along the great circle."""
    phi1, phi2 = math.radians(lat1), math.radians(lat2)
    half = (
        math.sin((phi2 - phi1) / 2) ** 2
        + math.cos(phi1) * math.cos(phi2) * math.sin(math.radians(lon2 - lon1) / 2) ** 2
    )
    return 2 * EARTH_M * math.asin(math.sqrt(min(1.0, half)))


def east_north(lat1: float, lon1: float, lat2: float, lon2: float) -> tuple[float, float]:
    """Metres to the east and to the north, for places that are not far apart."""
    north = math.radians(lat2 - lat1) * EARTH_M
    return math.radians((lon2 - lon1 + 180.0) % 360.0 - 180.0) * EARTH_M * math.cos(math.radians(lat1)), north


class Track:
    """One phone's believed fixes. A machine: rows in by time, rows out, state as JSON."""

    def __init__(self) -> None:
        self.last: tuple[int, float, float] | None = None  # time, lat, lon of the last fix believed
        self.odometer = 0.0
        self.counted: tuple[float, float] | None = None  # up to where the odometer has come
        self.doubted: list[tuple[int, float, float]] = []
        self.kept: tuple[float, float] | None = None

    def process(self, _port: str, row: Mapping[str, float]) -> Iterator[dict[str, float]]:
        time, lat, lon = int(row["time"]), row["lat"], row["lon"]
        if not (-90 <= lat <= 90 and -180 <= lon <= 180) or row["accuracy"] > ACCURACY_M_MAX:  # NaN: nobody doubts it
            return
        here = (time, lat, lon)
        if self.last is not None and not _reachable(self.last, here):
            self.doubted = [*self.doubted, here] if self.doubted and _reachable(self.doubted[-1], here) else [here]
            if len(self.doubted) < JUMPS_MAX:
                return
            self.counted = (lat, lon)
        self.last, self.doubted = here, []
        if self.counted is None:
            self.counted = (lat, lon)
        elif (metres := metres_between(*self.counted, lat, lon)) >= STEP_M:
            self.odometer += metres
            self.counted = (lat, lon)
        if self.kept is not None and metres_between(*self.kept, lat, lon) < ACCURACIES * row["accuracy"]:
            return
        self.kept = (lat, lon)
        yield {
            "lat": lat, "lon": lon, "odometer": round(self.odometer, 1),
            "indoors_s": row["indoors_s"], "outdoors_s": row["outdoors_s"],
        }  # fmt: skip

    def snapshot(self) -> bytes:
        return json.dumps([self.last, self.odometer, self.counted, self.doubted, self.kept]).encode()

    def restore(self, state: bytes) -> None:
        last, self.odometer, counted, doubted, kept = json.loads(state)
        self.counted = None if counted is None else (counted[0], counted[1])
        self.kept = None if kept is None else (kept[0], kept[1])
        self.last = None if last is None else (last[0], last[1], last[2])
        self.doubted = [(time, lat, lon) for time, lat, lon in doubted]


def _reachable(before: tuple[int, float, float], after: tuple[int, float, float]) -> bool:
    seconds = max(1.0, (after[0] - before[0]) / SECOND)
    return metres_between(*before[1:], *after[1:]) <= SPEED_MAX * seconds
