"""How late elements came: counts in bins of one percent, and the longest delay exactly.

Percentiles over an hour of a fleet need no list of delays: a bin's border is at most one percent above the delay
itself. Bins of different streams add up, and what is stored is as short as the spread of the delays.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_LEAST_US = 1000.0  # below a millisecond no clock here means anything
_STEP = math.log(1.01)


class Delays:
    def __init__(self) -> None:
        self.count = 0
        self.us_max = 0
        self._bins: dict[int, int] = {}

    def add(self, delays_us: np.ndarray) -> None:
        """Delays below zero, by a clock that is ahead, count as none."""
        if not len(delays_us):
            return
        self.count += len(delays_us)
        self.us_max = max(self.us_max, int(delays_us.max()))
        bins = np.ceil(np.log(np.maximum(delays_us, _LEAST_US) / _LEAST_US) / _STEP).astype(np.int64)
        for number, count in zip(*(each.tolist() for each in np.unique(bins, return_counts=True)), strict=True):
            self._bins[number] = self._bins.get(number, 0) + count

    def merge(self, other: Delays) -> None:
        self.count += other.count
        self.us_max = max(self.us_max, other.us_max)
        for number, count in other._bins.items():
            self._bins[number] = self._bins.get(number, 0) + count

    def quantile_us(self, share: float) -> int | None:
        """The delay that this share of the elements did not exceed; None without elements."""
        if not self.count:
            return None
        wanted, passed = share * self.count, 0
        for number in sorted(self._bins):
            passed += self._bins[number]
            if passed >= wanted:
                return min(self.us_max, round(_LEAST_US * math.exp(_STEP * number)))
        return self.us_max

    def to_json(self) -> list[Any]:
        return [self.count, self.us_max, sorted(self._bins.items())]

    @staticmethod
    def from_json(value: list[Any]) -> Delays:
        delays = Delays()
        delays.count, delays.us_max, bins = value
        delays._bins = dict(bins)
        return delays
