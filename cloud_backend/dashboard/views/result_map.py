"""A sink's rows on a map: each key's way and where it was last, or every row as a point with its share of a scale.

The scale runs between quantiles, so that one wild value does not leave all others in one colour; what is beyond has the
colour of its end and is counted. A row without a number, and one that a viewer may not see, has no share.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.views import exports, results
from cloud_backend.dashboard.views.time_range import ANY_TIME, TimeRange
from shared.errors import UsageError

PLACES_MAX = 2000
WAYS_MAX = 200  # coloured points with ways between them; more make a thicket
BEYOND = 0.02  # of the points, at either end of a scale
Row = dict[str, Any]


def result_map(
    sources: Sources, sink: str, *, exact: bool, within: TimeRange = ANY_TIME, colour: str = ""
) -> dict[str, Any]:
    """GeoJSON of the newest rows of a time. With the name of a column in `colour` also its `scale`."""
    found = results.rows(sources, sink, exact=exact, within=within, limit=PLACES_MAX)
    rows = found["rows"]
    latitude, longitude = exports.place_of(rows)
    if colour and not any(colour in row["values"] for row in rows):
        raise UsageError("no row of these has a column of this name to colour by", code="results-no-column")
    names = sources.device_names()
    ways: dict[str, list[tuple[list[float], Row]]] = {}
    for row in reversed(rows):
        place = [row["values"].get(longitude), row["values"].get(latitude)]
        if all(map(is_number, place)) and abs(place[1]) <= 90 and abs(place[0]) <= 180:
            label = ", ".join(names.get(str(part), str(part)) for part in row["key"]) or sink
            ways.setdefault(label, []).append((place, row))
    shown = [row for way in ways.values() for _, row in way]
    scale = scale_of([row["values"].get(colour) for row in shown]) if colour else None
    features = [feature for label, way in ways.items() for feature in _features(label, way, colour, scale)]
    about = {} if scale is None else {"scale": scale | {"column": colour}}
    return {"type": "FeatureCollection", "features": features} | about


def scale_of(values: Sequence[object]) -> dict[str, Any]:
    """Where a scale of these values begins and ends, what it leaves out at either end, and how many have no number."""
    numbers = np.array([float(value) for value in values if is_number(value)])  # type: ignore[arg-type]
    scale: dict[str, Any] = {
        "low": None, "high": None, "least": None, "most": None, "points": len(values),
        "missing": len(values) - len(numbers), "below": 0, "above": 0,
    }  # fmt: skip
    if not len(numbers):
        return scale
    least, most = float(numbers.min()), float(numbers.max())
    low, high = map(float, np.quantile(numbers, [BEYOND, 1 - BEYOND], method="nearest"))
    if low == high:  # nearly all are equal: what is not has to differ in colour
        low, high = least, most
    return scale | {
        "low": low, "high": high, "least": least, "most": most,
        "below": int((numbers < low).sum()), "above": int((numbers > high).sum()),
    }  # fmt: skip


def share_of(value: object, scale: Mapping[str, Any]) -> float | None:
    """Where a value is on its scale, 0 to 1; the middle where all are equal. None for what is no number."""
    if not is_number(value):
        return None
    low, high = scale["low"], scale["high"]
    if low == high:
        return 0.5
    # Halved, since the distance of two numbers may be too large for one.
    share: float = (float(value) / 2 - low / 2) / (high / 2 - low / 2)  # type: ignore[arg-type]
    return round(min(max(share, 0.0), 1.0), 4)


def is_number(value: object) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond what a float holds
        return False


def _features(
    label: str, way: Sequence[tuple[list[float], Row]], colour: str, scale: Mapping[str, Any] | None
) -> list[dict[str, Any]]:
    about = {"name": label, "id": "", "stale": False}
    found = []
    for place, row in way if scale is not None else way[-1:]:
        more = {"at_us": row["window_end_us"]}
        if scale is not None:
            value = row["values"].get(colour)
            more |= {"value": value if is_number(value) else None, "share": share_of(value, scale)}
            more |= {} if row is way[-1][1] else {"earlier": True}
        found.append(_feature("Point", place, about | more))
    if len(way) > 1 and (scale is None or scale["points"] <= WAYS_MAX):
        more = {} if scale is None else {"faint": True}
        found.append(_feature("LineString", [place for place, _ in way], about | more))
    return found


def _feature(kind: str, coordinates: list[Any], properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Feature", "properties": properties, "geometry": {"type": kind, "coordinates": coordinates}}
