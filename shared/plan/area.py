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

    def side(self, point: Point, accuracy_m: float = 0.0) -> bool | None:
        """Whether a fix is inside; None where its uncertainty crosses the border, so that it says nothing."""
        return None if self.border_m(point) < accuracy_m else self.contains(point)

    def border_m(self, point: Point) -> float:
        """From a point to the border, on either side of it."""
        corners = [_metres(point, corner) for corner in self.points]
        if len(corners) == 1:
            return abs(math.hypot(*corners[0]) - self.radius_m)
        ends = zip(corners, (*corners[1:], corners[0]), strict=True)
        return min(_from_here(start, end) for start, end in ends)


def _from_here(start: tuple[float, float], end: tuple[float, float]) -> float:
    """Metres from where metres are counted to the nearest point of a line."""
    (x, y), (to_x, to_y) = start, end
    length = (to_x - x) ** 2 + (to_y - y) ** 2
    share = 0.0 if not length else min(1.0, max(0.0, -(x * (to_x - x) + y * (to_y - y)) / length))
    return math.hypot(x + share * (to_x - x), y + share * (to_y - y))


def _metres(origin: Point, point: Point) -> tuple[float, float]:
    """A point as metres east and north of another: a region is so small that the Earth is flat there."""
    turned = (point[1] - origin[1] + 180.0) % 360.0 - 180.0
    east = math.radians(turned) * EARTH_M * math.cos(math.radians(origin[0]))
    return east, math.radians(point[0] - origin[0]) * EARTH_M
