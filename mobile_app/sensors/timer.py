"""The device's clock as a numbered input: one row each time event time passes a multiple of the period."""

from __future__ import annotations

import numpy as np

from mobile_app.sensors.source import Samples, SoftwareSource

READ_TICKS_MAX = 20_000


class Timer(SoftwareSource):
    def __init__(self, *, every_us: int, from_us: int) -> None:
        self._every_us = every_us
        self._next = -(-from_us // every_us)

    def read(self, until_us: int) -> Samples:
        end = min(-(-until_us // self._every_us), self._next + READ_TICKS_MAX)
        ticks = np.arange(self._next, max(end, self._next), dtype=np.int64)
        self._next = max(end, self._next)
        return Samples(ticks * self._every_us, {"tick": ticks}, min(until_us, self._next * self._every_us))

    def at(self, time_us: np.ndarray) -> Samples:
        return Samples(time_us, {"tick": time_us // self._every_us}, int(time_us[-1]))

    def sample_every(self, period_us: int) -> None:
        """A timer is part of the program's meaning: hints about sampling do not change it."""
