"""What the sensors really give: the newest readings of each, its actual rate, and where it was silent.

Rates that a phone's sensors are asked for are hints, and a system that saves power stops them when it likes. So
nothing is assumed: spacing is measured from the readings' own event times. A gap is a silence of more than three times
the asked spacing. The loop notes readings, screens ask from other threads; one lock is between them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from mobile_app.sensors.source import Samples, Source

RING_ROWS = 4096
GAP_FACTOR = 3
GAPS_KEPT = 20
RATE_OVER_US = 10_000_000

Tap = Callable[[str, Samples], None]


class SensorHistory:
    """One sensor, as it is."""

    def __init__(self, asked_every_us: int) -> None:
        self.asked_every_us = asked_every_us
        self.readings = 0
        self.gaps = 0
        self.gap_us = 0
        self.overruns = 0
        self.unreadable = 0
        self.remark = ""
        self.over = False
        self._last_us: int | None = None
        self._recent_gaps: deque[tuple[int, int]] = deque(maxlen=GAPS_KEPT)
        self._chunks: deque[Samples] = deque()
        self._rows = 0
        self._counts: deque[tuple[int, int]] = deque()  # (event time of a reading, readings up to it)

    def note(self, samples: Samples) -> None:
        self.overruns += samples.overruns
        self.unreadable, self.remark, self.over = samples.unreadable, samples.note, samples.over
        times = samples.time_us
        if not len(times):
            return
        if not self._counts:
            self._counts.append((int(times[0]), self.readings + 1))
        self.readings += len(times)
        if self.asked_every_us:
            self._find_gaps(times)
        self._last_us = int(times[-1])
        self._counts.append((self._last_us, self.readings))
        while len(self._counts) > 2 and self._counts[1][0] <= self._last_us - RATE_OVER_US:
            self._counts.popleft()
        self._chunks.append(samples)
        self._rows += len(times)
        while self._rows - len(self._chunks[0]) >= RING_ROWS:
            self._rows -= len(self._chunks.popleft())

    def _find_gaps(self, times: np.ndarray) -> None:
        limit = GAP_FACTOR * self.asked_every_us
        if self._last_us is not None and times[0] - self._last_us > limit:
            self._gap(self._last_us, int(times[0]))
        if len(times) > 1:
            steps = times[1:] - times[:-1]
            if steps.max() > limit:
                for at in (steps > limit).nonzero()[0].tolist():
                    self._gap(int(times[at]), int(times[at + 1]))

    def _gap(self, start_us: int, end_us: int) -> None:
        self.gaps += 1
        self.gap_us += end_us - start_us
        self._recent_gaps.append((start_us, end_us))

    def rate_hz(self) -> float | None:
        """Readings a second over the last ten seconds or a little more; None until there are two."""
        if len(self._counts) < 2:
            return None
        (start_us, before), (end_us, after) = self._counts[0], self._counts[-1]
        return (after - before) * 1e6 / (end_us - start_us) if end_us > start_us else None

    def state(self) -> dict[str, Any]:
        rate = self.rate_hz()
        return {
            "readings": self.readings,
            "rate_hz": None if rate is None else round(rate, 3),
            "asked_hz": round(1e6 / self.asked_every_us, 3) if self.asked_every_us else None,
            "gaps": self.gaps,
            "gap_s": self.gap_us / 1e6,
            "overruns": self.overruns,
            "unreadable": self.unreadable,
            "note": self.remark,
            "over": self.over,
            "last_us": self._last_us,
        }

    def newest(self, after_us: int) -> dict[str, Any]:
        times: list[int] = []
        columns: dict[str, list[Any]] = {}
        for chunk in self._chunks:
            start = int(np.searchsorted(chunk.time_us, after_us, side="right"))
            if start == len(chunk):
                continue
            times += chunk.time_us[start:].tolist()
            for name, column in chunk.columns.items():
                columns.setdefault(name, []).extend(np.asarray(column)[start:].tolist())
        cut = max(0, len(times) - RING_ROWS)
        newest = {name: column[cut:] for name, column in columns.items()}
        return {**self.state(), "recent_gaps": list(self._recent_gaps), "times_us": times[cut:], "columns": newest}

    def latest(self, name: str, rows: int) -> np.ndarray:
        """The last values of one column, oldest first."""
        parts: list[np.ndarray] = []
        for chunk in reversed(self._chunks):
            if name not in chunk.columns or rows <= 0:
                break
            parts.append(np.asarray(chunk.columns[name])[-rows:])
            rows -= len(parts[-1])
        return np.concatenate(parts[::-1]) if parts else np.empty(0)


class Readings:
    """Every reading that passes, by sensor. `tap` is shown each one; a recording sits there."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sensors: dict[str, SensorHistory] = {}
        self._reader: dict[str, object] = {}  # whose readings of a sensor count, when two read it
        self.tap: Tap | None = None

    def watch(self, sensor: str, source: Source, every_us: int) -> ObservedSource:
        """This source, with every reading noted under the sensor's name. The last one watched counts."""
        observed = ObservedSource(sensor, source, self)
        with self._lock:
            known = self._sensors.get(sensor)
            if known is None:
                self._sensors[sensor] = SensorHistory(every_us)
            else:
                known.asked_every_us = every_us
            self._reader[sensor] = observed
        return observed

    def forget(self, reader: ObservedSource) -> None:
        """This one is read no more; what it gave stays to be seen."""
        with self._lock:
            if self._reader.get(reader.sensor) is reader:
                del self._reader[reader.sensor]

    def note(self, reader: ObservedSource, samples: Samples) -> None:
        with self._lock:
            if self._reader.setdefault(reader.sensor, reader) is not reader:
                return
            self._sensors[reader.sensor].note(samples)
        if self.tap is not None and len(samples):
            self.tap(reader.sensor, samples)

    def note_period(self, reader: ObservedSource, every_us: int) -> None:
        with self._lock:
            if self._reader.get(reader.sensor) is reader:
                self._sensors[reader.sensor].asked_every_us = every_us

    def states(self) -> dict[str, dict[str, Any]]:
        with self._lock:
            return {name: observed.state() for name, observed in self._sensors.items()}

    def newest(self, sensor: str, after_us: int) -> dict[str, Any]:
        with self._lock:
            observed = self._sensors.get(sensor)
            return SensorHistory(0).newest(0) if observed is None else observed.newest(after_us)

    def latest(self, sensor: str, column: str, rows: int) -> np.ndarray:
        with self._lock:
            observed = self._sensors.get(sensor)
            return np.empty(0) if observed is None else observed.latest(column, rows)


class ObservedSource:
    """A source whose readings are noted on their way."""

    def __init__(self, sensor: str, source: Source, readings: Readings) -> None:
        self.sensor = sensor
        self._source = source
        self._readings = readings

    def read(self, until_us: int) -> Samples:
        samples = self._source.read(until_us)
        self._readings.note(self, samples)
        return samples

    def at(self, time_us: np.ndarray) -> Samples:
        samples = self._source.at(time_us)
        self._readings.note(self, samples)
        return samples

    def sample_every(self, period_us: int) -> None:
        self._source.sample_every(period_us)
        self._readings.note_period(self, period_us)

    @property
    def trouble(self) -> str:
        return self._source.trouble

    def close(self) -> None:
        self._readings.forget(self)
        self._source.close()
