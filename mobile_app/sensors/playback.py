"""A recorded file played as if it happened now: `recording:FILE`.

The recording is moved so that it begins at origin_us, and read by event time; a node started again goes on where
it was. When the plan asks for readings further apart than recorded, the first in each period is kept, as a sensor
at that rate would give.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mobile_app.sensors.file_formats import load
from mobile_app.sensors.source import Samples, SensorMissing, SoftwareSource
from shared.errors import UsageError


class Recording(SoftwareSource):
    def __init__(self, path: Path, *, every_us: int, origin_us: int, from_us: int | None = None) -> None:
        try:
            samples = load(path)
        except UsageError as error:  # one source that is not there must not stop the others
            raise SensorMissing(error.message, code=error.code) from error
        self._unreadable = samples.unreadable.rows
        self._note = ""
        if samples.unreadable.rows:
            one = self._unreadable == 1
            rows, are = ("1 row", "is") if one else (f"{self._unreadable:,} rows", "are")
            self._note = f"{rows} of {path.name!r} cannot be read and {are} left out ({samples.unreadable.first})"
        for column, text in samples.texts.items():
            said = f"column {column!r} of {path.name!r} is text ({text!r}) and is left out"
            self._note = f"{self._note}; {said}" if self._note else said
        self._shift_us = origin_us - int(samples.time_us[0])
        self._times = samples.time_us + self._shift_us
        self._columns = samples.columns
        self._origin_us = origin_us
        steps = np.diff(self._times)
        self._recorded_every_us = float(np.median(steps)) if len(steps) else 0.0
        self._every_us = every_us
        self._next = 0 if from_us is None else int(np.searchsorted(self._times, from_us, side="left"))
        self._was_over = self._next == len(self._times)

    def read(self, until_us: int) -> Samples:
        start = self._next
        self._next = max(start, int(np.searchsorted(self._times, until_us, side="left")))
        keep = np.arange(start, self._next)
        # Jitter around the recorded rate must not cost readings, so thin only when asked for clearly fewer.
        if self._every_us > 1.5 * self._recorded_every_us:
            period = (self._times - self._origin_us)[max(0, start - 1) : self._next] // self._every_us
            changed = np.diff(period) > 0 if start > 0 else np.concatenate(([True], np.diff(period) > 0))
            keep = keep[changed[: len(keep)]] if len(keep) else keep
        columns = {name: column[keep] for name, column in self._columns.items()}
        return Samples(
            self._times[keep], columns, until_us, unreadable=self._unreadable, note=self._note, over=self._was_over
        )

    def at(self, time_us: np.ndarray) -> Samples:
        last = np.searchsorted(self._times, time_us, side="right") - 1
        asked, last = time_us[last >= 0], last[last >= 0]
        return Samples(asked, {name: column[last] for name, column in self._columns.items()}, int(time_us[-1]))

    def sample_every(self, period_us: int) -> None:
        self._every_us = period_us
