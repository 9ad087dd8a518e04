"""Where somebody is, made coarse: what a viewer may know of positions.

A position is rounded to hundredths of a degree, about a kilometre, in everything a viewer can reach: pages, API and
exports. Rounding, not noise: averaging many noisy answers would give the place away, many rounded ones do not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Mapping, Sequence

STEP_DECIMALS = 2  # 0.01 degree is 1.11 km to the north, and less to the east
_PLACE = re.compile(r"(^|_)(lat|lon|lng|latitude|longitude)(_|$)")


def is_place(column: str) -> bool:
    """Whether a column holds a coordinate, by its name: lat, start_lon, avg_latitude."""
    return _PLACE.search(column.lower()) is not None


def coarse(value: object) -> object:
    """A coordinate on the grid; what is no finite number is not shown at all."""
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return round(float(value), STEP_DECIMALS)
    return None


def shown(values: Mapping[str, object], *, exact: bool, hidden: Container[str] = ()) -> dict[str, object]:
    """Named values as this person may see them: coordinates on the grid, what was computed from them not at all."""
    if exact:
        return {name: _json(value) for name, value in values.items()}
    return {
        name: coarse(value) if is_place(name) else None if name in hidden else _json(value)
        for name, value in values.items()
    }


def trail_shown(points: Sequence[tuple[int, float, float]], *, exact: bool) -> list[list[object]]:
    """(time, lat, lon) as this person may see them; a viewer's trail has each square once in a row."""
    if exact:
        return [[time_us, lat, lon] for time_us, lat, lon in points]
    found: list[list[object]] = []
    for time_us, lat, lon in points:
        square = [coarse(lat), coarse(lon)]
        if not found or found[-1][1:] != square:
            found.append([time_us, *square])
    return found


def _json(value: object) -> object:
    """JSON has no NaN and no infinity; a browser would refuse the whole answer."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
