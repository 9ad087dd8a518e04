"""How loud it is, in decibels below full scale. The sound itself is never kept, nor does it reach Python."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from jnius import JavaException, autoclass

from mobile_app.android.context import granted
from mobile_app.sensors.polling import PolledValue
from mobile_app.sensors.source import SensorMissing

COLUMNS = ("dbfs", "peak_dbfs")
PERMISSION = "android.permission.RECORD_AUDIO"
FULL_SCALE = 32768.0
SILENT_ANSWERS = 5


def decibels(value: float) -> float:
    """Relative to full scale: 0 is the loudest. No sound at all is minus infinity."""
    return 20.0 * math.log10(value / FULL_SCALE) if value > 0 else -math.inf


class Microphone:
    """Opened at the first question, so that a permission granted later is enough."""

    def __init__(self) -> None:
        self._meter: Any = None
        self._silent = 0

    def ask(self) -> Mapping[str, Any] | None:
        if not granted(PERMISSION):
            self.end()
            raise SensorMissing(
                f"{PERMISSION} is not granted; allow it for Resurge in the phone's settings", code="sensor-refused"
            )
        if self._meter is None:
            try:
                self._meter = autoclass("org.resurge.phone.LevelMeter")()
            except JavaException as error:
                raise SensorMissing(f"the microphone cannot be opened: {error}", code="sensor-refused") from error
            return None  # nothing measured yet
        samples, level, peak, failure = self._meter.drain()
        if failure:
            self.end()
            raise SensorMissing(f"the microphone ended with error {failure:.0f}", code="sensor-refused")
        if not samples:
            return None
        # A phone gives exact zeros to apps that may not listen now; a real microphone has noise.
        self._silent = self._silent + 1 if peak == 0 else 0
        if self._silent >= SILENT_ANSWERS:
            raise SensorMissing(
                "Android gives no sound to apps that are not on the screen; open Resurge to measure",
                code="sensor-refused",
            )
        return {"dbfs": decibels(level), "peak_dbfs": decibels(peak)}

    def end(self) -> None:
        if self._meter is not None:
            self._meter.end()
            self._meter = None


def open_microphone(*, every_us: int, from_us: int) -> PolledValue:
    microphone = Microphone()
    return PolledValue(microphone.ask, COLUMNS, every_us=every_us, from_us=from_us, close=microphone.end)
