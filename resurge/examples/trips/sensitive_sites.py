"""Sensitive sites: schools and hospitals, made up. Sonora drew its geo-data at random, too.

One site lies in every cell of a hundredth of a degree (about a kilometre), at a place that follows from the cell's
number alone, so phones, Spark and tests agree without a file. A deployment replaces `near` with its own register.
"""

from __future__ import annotations

import numpy as np

CELL_DEGREES = 0.01
NEAR_M = 150.0
METRES_PER_DEGREE = 111_320.0


def near(lat: np.ndarray, lon: np.ndarray) -> np.ndarray:
    """Whether each place is within NEAR_M of a site."""
    row, column = (np.floor(values / CELL_DEGREES).astype(np.int64) for values in (lat, lon))
    found = np.zeros(len(lat), bool)
    scale = np.cos(np.radians(lat))
    for down in (-1, 0, 1):
        for right in (-1, 0, 1):
            site_lat, site_lon = _site(row + down, column + right)
            north = (site_lat - lat) * METRES_PER_DEGREE
            east = (site_lon - lon) * METRES_PER_DEGREE * scale
            found |= north * north + east * east <= NEAR_M * NEAR_M
    return found


def _site(row: np.ndarray, column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The place of a cell's site: two 20-bit parts of a hash of its number."""
    with np.errstate(over="ignore"):
        mixed = row.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + column.astype(np.uint64)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        mixed ^= mixed >> np.uint64(31)
    parts = [((mixed >> np.uint64(shift)) & np.uint64(0xFFFFF)).astype(np.float64) / 0x100000 for shift in (0, 24)]
    return (row + parts[0]) * CELL_DEGREES, (column + parts[1]) * CELL_DEGREES
