"""Sensors read for a recording or for somebody's eye, beside those that the plan reads.

A recording needs no plan and no server; the Live screen shows sensors that nobody records. Both say what they want
here, and each turn of the loop reads it. A sensor that the plan reads at least as fast is not opened twice: its
readings pass through `Readings` anyway.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from mobile_app.sensors.readings import ObservedSource, Readings
from mobile_app.sensors.source import SensorMissing, Source

EYE_S = 5.0  # a screen asks several times a second; when it is gone, so is its wish
TRY_AGAIN_S = 10.0

OpenSource = Callable[[str, int], Source]

# How often a sensor is read when a person did not say: often enough to be of use, seldom enough for a day's battery.
EVERY_US = {"gps": 1_000_000, "accelerometer": 20_000, "gyroscope": 20_000, "magnetometer": 20_000, "gravity": 20_000,
            "battery": 30_000_000, "cell": 30_000_000, "network": 30_000_000}  # fmt: skip
EVERY_US_ELSE = 1_000_000


def every_us(sensor: str) -> int:
    return EVERY_US.get(sensor, EVERY_US_ELSE)


class Capture:
    """Used by the loop, except `look`, which screens call from their own threads."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings
        self._lock = threading.Lock()
        self._looks: dict[str, float] = {}  # sensor: until when somebody looks at it
        self._open: dict[str, tuple[int, ObservedSource]] = {}
        self._again: dict[str, float] = {}
        self.missing: dict[str, str] = {}

    def look(self, sensor: str) -> None:
        with self._lock:
            self._looks[sensor] = time.monotonic() + EYE_S

    @property
    def opened(self) -> bool:
        return bool(self._open)

    def periods_us(self) -> dict[str, int]:
        return {sensor: every for sensor, (every, _) in self._open.items()}

    def looked_at(self, now: float) -> dict[str, int]:
        with self._lock:
            self._looks = {sensor: until for sensor, until in self._looks.items() if until > now}
            return {sensor: every_us(sensor) for sensor in self._looks}

    def want(self, wanted: Mapping[str, int], planned: Mapping[str, int], open_source: OpenSource, now: float) -> None:
        """Open and close sources so that these are read. `planned`: what the plan reads, and how often."""
        needed = {
            sensor: every
            for sensor, every in wanted.items()
            if sensor not in planned or (planned[sensor] > every and planned[sensor] > 0)
        }
        for sensor in [sensor for sensor, (every, _) in self._open.items() if needed.get(sensor) != every]:
            self._open.pop(sensor)[1].close()
        for sensor in [sensor for sensor in self.missing if sensor not in needed]:
            del self.missing[sensor]
        for sensor, every in needed.items():
            if sensor not in self._open and now >= self._again.get(sensor, 0.0):
                try:
                    self._open[sensor] = (every, self._readings.watch(sensor, open_source(sensor, every), every))
                    self.missing.pop(sensor, None)
                except SensorMissing as missing:
                    self._lost(sensor, missing, now)

    def read(self, until_us: int, now: float) -> None:
        for sensor, (_, source) in list(self._open.items()):
            try:
                source.read(until_us)
            except SensorMissing as missing:  # its permission was taken, or it was unplugged
                self._open.pop(sensor)[1].close()
                self._lost(sensor, missing, now)

    def _lost(self, sensor: str, missing: SensorMissing, now: float) -> None:
        self.missing[sensor] = missing.message
        self._again[sensor] = now + TRY_AGAIN_S

    def close(self) -> None:
        for _, source in self._open.values():
            source.close()
        self._open.clear()
