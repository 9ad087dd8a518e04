"""A value that can be asked for at any moment: battery, network, and the last of sensors that speak when they change.

It is asked for when its period has passed and stamped with that moment. Periods in which the node did not come are
not made up: what was not asked is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mobile_app.sensors.source import Samples, SensorMissing

Ask = Callable[[], Mapping[str, Any] | None]  # None: nothing to say yet. Raises SensorMissing when it cannot be had


class PolledValue:
    """One such value. Answers that repeat are readings too: unchanged is what it was at that time."""

    def __init__(
        self,
        ask: Ask,
        columns: tuple[str, ...],
        *,
        every_us: int,
        from_us: int,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self._ask = ask
        self._columns = columns
        self._every_us = every_us
        self._due_us = self._last_us = from_us
        self._close = close
        self.trouble = ""

    def _answer(self) -> Mapping[str, Any] | None:
        try:
            answer = self._ask()
        except SensorMissing as missing:
            self.trouble = missing.message
            return None
        self.trouble = ""
        return answer

    def read(self, until_us: int) -> Samples:
        answer = None
        if self._every_us and until_us > self._due_us:
            self._due_us += self._every_us
            if self._due_us <= until_us:
                self._due_us = until_us + self._every_us
            answer = self._answer()
        if answer is None:
            return self._samples(np.empty(0, np.int64), {}, until_us)
        self._last_us = max(self._last_us, until_us - 1)
        return self._samples(np.asarray([self._last_us], np.int64), answer, until_us)

    def at(self, time_us: np.ndarray) -> Samples:
        answer = self._answer()
        return self._samples(time_us if answer is not None else time_us[:0], answer or {}, int(time_us[-1]))

    def _samples(self, time_us: np.ndarray, answer: Mapping[str, Any], frontier_us: int) -> Samples:
        columns = {name: np.asarray([answer[name]] * len(time_us)) for name in self._columns if name in answer}
        return Samples(time_us, columns, frontier_us)

    def sample_every(self, period_us: int) -> None:
        self._every_us = period_us

    def close(self) -> None:
        self._close()
