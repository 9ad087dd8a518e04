"""plyer as the adapter of everything slow: positions, battery, light, pressure, proximity, temperature, humidity.

plyer keeps the last value of a sensor (about five a second, no time stamps) and we ask for it; positions come by a
callback and are stamped when they arrive. Its facades are single objects of the process while our sources come and
go with plans, so each facade is counted: on with the first source, off with the last.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import plyer

from mobile_app.sensors.arrival_queue import Arrivals, EventTime
from mobile_app.sensors.polling import PolledValue
from mobile_app.sensors.source import Samples, SensorMissing, Source

# sensor: (facade, attribute, column, conversion)
VALUES: dict[str, tuple[str, str, str, Callable[[Any], Any]]] = {
    "light": ("light", "illumination", "lux", float),
    "barometer": ("barometer", "pressure", "hpa", float),
    "proximity": ("proximity", "proximity", "near", bool),
    "temperature": ("temperature", "temperature", "celsius", float),
    "humidity": ("humidity", "tell", "percent", float),
}
POSITION = ("lat", "lon", "altitude", "accuracy", "speed", "bearing")
RETRY_S = 5.0

_lock = threading.Lock()
_used: Counter[str] = Counter()


def _facade(name: str, act: Callable[[Any], Any]) -> Any:
    """Do something with a facade. plyer raises whatever its platform code meets: all of it means "not to be had"."""
    try:
        return act(getattr(plyer, name))
    except Exception as error:
        text = str(error) or type(error).__name__
        raise SensorMissing(f"plyer cannot give {name!r}: {text}", code="sensor-refused") from error


def battery() -> tuple[float, bool]:
    """(level 0 to 1, charging). Raises SensorMissing."""
    status = _facade("battery", lambda facade: facade.status)
    if status["percentage"] is None:
        raise SensorMissing("the battery's level is not known yet", code="sensor-refused")
    return float(status["percentage"]) / 100.0, bool(status["isCharging"])


class SlowValue:
    """One counted facade. It is switched on at the first question, and again after a refusal."""

    def __init__(self, sensor: str) -> None:
        self._name, self._attribute, self._column, self._convert = VALUES[sensor]
        self._on = False
        self._last: Any = None

    def ask(self) -> Mapping[str, Any] | None:
        if not self._on:
            with _lock:
                if not _used[self._name]:
                    _facade(self._name, lambda facade: facade.enable())
                _used[self._name] += 1
            self._on = True
        value = _facade(self._name, lambda facade: getattr(facade, self._attribute))
        if value is None and self._last is not None and self._name == "light":
            value = 0.0  # plyer takes complete darkness for "no value"
        if value is None:
            return None
        self._last = value
        return {self._column: self._convert(value)}

    def end(self) -> None:
        if self._on:
            self._on = False
            with _lock:
                _used[self._name] -= 1
                if not _used[self._name]:
                    _facade(self._name, lambda facade: facade.disable())


class PlyerPosition:
    """Positions. plyer asks every provider of the phone, so `accuracy` varies from one fix to the next."""

    _listening: list[PlyerPosition] = []  # noqa: RUF012 - plyer has one callback for the process

    def __init__(self, *, every_us: int, from_us: int, event_time: EventTime) -> None:
        self._arrivals = Arrivals(POSITION, every_us=every_us, from_us=from_us, event_time=event_time)
        self.every_us = every_us or 1_000_000
        self._refusal = self._status = ""
        self._tried = time.monotonic()
        self._open = True
        with _lock:
            self._listening.append(self)
        self._start()

    @classmethod
    def _arrived(cls, **fix: float) -> None:
        boot_us = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
        row = tuple(float(fix.get(name, np.nan)) for name in POSITION)
        with _lock:
            listening = list(cls._listening)
        for source in listening:
            source._arrivals.append(boot_us, row)

    @classmethod
    def _take_status(cls, kind: str, status: str) -> None:
        with _lock:
            listening = list(cls._listening)
        for source in listening:
            if status == "gps" and kind in ("provider-disabled", "provider-enabled"):
                off = kind == "provider-disabled"
                source._status = "location is switched off; switch it on in the phone's quick settings" if off else ""

    def _start(self) -> None:
        """Ask for positions at the shortest period anybody wants."""
        with _lock:
            period_ms = min(source.every_us for source in self._listening) // 1000
        try:
            _facade("gps", lambda gps: gps.configure(on_location=self._arrived, on_status=self._take_status))
            _facade("gps", lambda gps: gps.start(minTime=period_ms, minDistance=0))
            self._refusal = ""
        except SensorMissing as missing:
            self._refusal = f"{missing.message}; is the location permission granted?"

    @property
    def trouble(self) -> str:
        return self._refusal or self._status

    def read(self, until_us: int) -> Samples:
        if self._refusal and time.monotonic() - self._tried >= RETRY_S:
            self._tried = time.monotonic()
            self._start()
        return self._arrivals.read(until_us)

    def at(self, time_us: np.ndarray) -> Samples:
        return self._arrivals.at(time_us)

    def sample_every(self, period_us: int) -> None:
        self.every_us = period_us
        self._arrivals.sample_every(period_us)
        self._start()

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        with _lock:
            self._listening.remove(self)
            last = not self._listening
        if last:
            try:
                _facade("gps", lambda gps: gps.stop())
            except SensorMissing as missing:
                self._refusal = missing.message


def open_plyer(sensor: str, *, every_us: int, from_us: int, event_time: EventTime) -> Source:
    """What plyer has of this phone. Raises SensorMissing for what it knows nothing of."""
    if sensor == "gps":
        return PlyerPosition(every_us=every_us, from_us=from_us, event_time=event_time)
    if sensor == "battery":
        from mobile_app.sensors.battery import COLUMNS, ask_battery

        return PolledValue(ask_battery, COLUMNS, every_us=every_us, from_us=from_us)
    if sensor in VALUES:
        value = SlowValue(sensor)
        return PolledValue(value.ask, (VALUES[sensor][2],), every_us=every_us, from_us=from_us, close=value.end)
    raise SensorMissing(f"the phone's sensor {sensor!r} is not known here", code="sensor-absent")
