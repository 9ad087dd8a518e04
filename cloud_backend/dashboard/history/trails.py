"""Where devices were: a few positions each, taken from batches that have `lat` and `lon`.

Only one batch in a while is decoded per device, so that a fleet's trails cost a fraction of reading its headers.
A trail is for a map at a glance; every position there ever was is in the stream itself.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

from shared.errors import PeerError
from shared.language.schema import Schema
from shared.wire import codecs
from shared.wire.messages import Data

EVERY_US = 10 * 1_000_000
POINTS_MAX = 120


class Point(NamedTuple):
    time_us: int
    lat: float
    lon: float


def has_places(schema: Schema) -> bool:
    return {"lat", "lon"} <= set(schema.names)


def point_of(time_us: int, lat: object, lon: object) -> Point | None:
    """A place on Earth; None where these are none."""
    if not isinstance(lat, int | float) or not isinstance(lon, int | float):
        return None
    if not (math.isfinite(lat) and math.isfinite(lon) and abs(lat) <= 90 and abs(lon) <= 180):
        return None
    return Point(time_us, float(lat), float(lon))


class Trails:
    def __init__(self) -> None:
        self._trails: dict[str, deque[Point]] = {}
        self.changed: set[str] = set()

    def is_due(self, device: str, frontier_us: int) -> bool:
        trail = self._trails.get(device)
        return not trail or frontier_us - trail[-1].time_us >= EVERY_US

    def take(self, device: str, data: Data, schema: Schema) -> None:
        """Add the last position of a batch, if it has one."""
        if not data.rows or not has_places(schema):
            return
        try:
            batch = codecs.decode_data(data, schema)
        except PeerError:
            return  # Spark will quarantine it and say so
        point = point_of(int(batch.time_us[-1]), batch.columns["lat"][-1].item(), batch.columns["lon"][-1].item())
        trail = self._trails.setdefault(device, deque(maxlen=POINTS_MAX))
        if point is not None and (not trail or point.time_us > trail[-1].time_us):
            trail.append(point)
            self.changed.add(device)

    def of(self, device: str) -> list[Point]:
        return list(self._trails.get(device, ()))

    def last(self, device: str) -> Point | None:
        trail = self._trails.get(device)
        return trail[-1] if trail else None

    def forget(self, device: str) -> None:
        if self._trails.pop(device, None) is not None:
            self.changed.add(device)

    def to_json(self, device: str) -> list[list[float]]:
        return [[point.time_us, round(point.lat, 6), round(point.lon, 6)] for point in self._trails.get(device, ())]

    def load(self, device: str, points: list[list[float]]) -> None:
        kept = (Point(int(time_us), lat, lon) for time_us, lat, lon in points)
        self._trails[device] = deque(kept, maxlen=POINTS_MAX)
