"""Where a region is: a circle or a polygon on the ground."""

from __future__ import annotations

import math
from dataclasses import dataclass

EARTH_M = 6_371_000.0
Point = tuple[float, float]  # latitude and longitude in degrees


@dataclass(frozen=True, slots=True)
class Area:
    points: tuple[Point, ...]  # one: the middle of a circle; three or more: the corners of a polygon, in order
    radius_m: float = 0.0

    def contains(self, point: Point) -> bool:
        corners = [_metres(self.points[0], corner) for corner in self.points]
        east, north = _metres(self.points[0], point)
        if len(corners) == 1:
            return math.hypot(east, north) <= self.radius_m
        inside = False  # a line to the east crosses the border an odd number of times
        for (x1, y1), (x2, y2) in zip(corners, (*corners[1:], corners[0]), strict=True):
            if (y1 > north) != (y2 > north) and east < x1 + (north - y1) * (x2 - x1) / (y2 - y1):
                inside = not inside
        return inside


def _metres(origin: Point, point: Point) -> tuple[float, float]:
    """A point as metres east and north of another: a region is so small that the Earth is flat there."""
    turned = (point[1] - origin[1] + 180.0) % 360.0 - 180.0
    east = math.radians(turned) * EARTH_M * math.cos(math.radians(origin[0]))
    return east, math.radians(point[0] - origin[0]) * EARTH_M
