"""The sensors of an Android phone.

Every hardware sensor goes through a ring in Java (SensorRing): a callback into Python costs most of a millisecond, and
a listener made by Python must not be freed while an event for it waits. Android stamps each event when it happened, and
a batch of them may arrive late. Positions have a ring of their own (position.py), sound its own class in Java.
Rates are wishes to Android, so nothing here assumes the spacing it asked for.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from jnius import JavaException, autoclass

from mobile_app.android.context import api_level, granted, system_service
from mobile_app.node.rest import AWAKE_BELOW_US
from mobile_app.sensors.arrival_queue import Arrivals, EventTime
from mobile_app.sensors.polling import PolledValue
from mobile_app.sensors.source import Samples, SensorMissing, Source

XYZ = ("x", "y", "z")
# sensor: (Sensor.TYPE_*, columns, speaks even when nothing changes, permission from API level)
LISTENED: dict[str, tuple[int, tuple[str, ...], bool, tuple[str, int] | None]] = {
    "accelerometer": (1, XYZ, True, None),
    "magnetometer": (2, XYZ, True, None),
    "gyroscope": (4, XYZ, True, None),
    "gravity": (9, XYZ, True, None),
    "steps": (19, ("steps",), False, ("android.permission.ACTIVITY_RECOGNITION", 29)),
}
# These speak when their value changes: the last one holds. sensor: (Sensor.TYPE_*, column)
ON_CHANGE = {
    "light": (5, "lux"), "barometer": (6, "hpa"), "proximity": (8, "near"), "humidity": (12, "percent"),
    "temperature": (13, "celsius"),
}  # fmt: skip
RING_EVENTS = 8192  # 20 s at 400 Hz
ON_CHANGE_EVENTS = 64
ON_CHANGE_US = 200_000
ON_REQUEST_US = 200_000
# The sensor hub may collect events this long before it hands them over. Below 25 Hz the processor sleeps meanwhile; as
# long as the loss window is by default, because what the hub holds a kill takes.
COLLECT_US = 5_000_000
COLLECT_FAST_US = 250_000
RETRY_S = 5.0
SILENT_AFTER_S = 10.0
OTHER_CLOCK_NS = 60 * 1_000_000_000


def collect_us(every_us: int) -> int:
    return COLLECT_FAST_US if every_us < AWAKE_BELOW_US else COLLECT_US


def ring_record(width: int) -> np.dtype[Any]:
    """One event as SensorRing writes it."""
    return np.dtype([("stamp", "<i8"), ("values", "<f4", (width,))])


def drained(ring: Any, record: np.dtype[Any]) -> np.ndarray:
    return np.frombuffer(bytes(ring.drain()), dtype=record)


class StampBase:
    """Event stamps as boot time. Android promises elapsedRealtimeNanos; some phones count from elsewhere."""

    def __init__(self) -> None:
        self._shift_ns: int | None = None

    def boot_us(self, stamp_ns: int, arrived_ns: int) -> int:
        """An event arrives after it happened: of all shifts seen the smallest is closest to the truth."""
        delay_ns = arrived_ns - stamp_ns
        if self._shift_ns is None:
            self._shift_ns = 0 if 0 <= delay_ns < OTHER_CLOCK_NS else delay_ns
        elif self._shift_ns:
            self._shift_ns = min(self._shift_ns, delay_ns)
        return min(stamp_ns + self._shift_ns, arrived_ns) // 1000


class AndroidSensor:
    """One hardware sensor, listened to. Losing the permission, or being silenced, is a trouble; it tries again."""

    def __init__(self, sensor: str, *, every_us: int, from_us: int, event_time: EventTime) -> None:
        self._sensor = sensor
        kind, columns, self._constant, self._permission = LISTENED[sensor]
        self._manager = system_service("sensor", "android.hardware.SensorManager")
        self._hardware = self._manager.getDefaultSensor(kind)
        if self._hardware is None:
            raise SensorMissing(f"this phone has no {sensor!r}", code="sensor-absent")
        self._width = len(columns)
        self._record = ring_record(self._width)
        self._ring: Any = autoclass("org.resurge.phone.SensorRing")(RING_EVENTS, self._width)
        self._overrun = 0
        self._every_us = every_us or ON_REQUEST_US
        held_back_us = 2 * collect_us(self._every_us)
        self._arrivals = Arrivals(
            columns, every_us=every_us, from_us=from_us, event_time=event_time, held_back_us=held_back_us
        )
        self._base = StampBase()
        self._registered = False
        self._heard = self._tried = 0.0
        self._refusal = ""
        self._register(time.monotonic())

    # --- from Android ------------------------------------------------------------------------------------------

    def _row(self, values: list[float]) -> tuple[Any, ...]:
        return (int(values[0]),) if self._sensor == "steps" else tuple(values[: self._width])

    def _drain(self) -> None:
        """What the ring collected since the last time."""
        arrived_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        events = drained(self._ring, self._record)
        for stamp, values in zip(events["stamp"].tolist(), events["values"].tolist(), strict=True):
            self._arrivals.append(self._base.boot_us(stamp, arrived_ns), self._row(values))
        if len(events):
            overrun = self._ring.overrun()
            self._arrivals.lose(overrun - self._overrun)
            self._overrun = overrun

    # --- listening -----------------------------------------------------------------------------------------------

    def _register(self, now: float) -> None:
        self._tried = self._heard = now
        if (missing := self._missing_permission()) is not None:
            self._refusal = f"{missing} is not granted; allow it for Resurge in the phone's settings"
            return
        try:
            taken = bool(
                self._manager.registerListener(self._ring, self._hardware, self._every_us, collect_us(self._every_us))
            )
        except JavaException as error:
            self._refusal = f"Android refuses {self._sensor!r}: {error}"
            return
        self._registered = taken
        self._refusal = "" if taken else f"Android does not start {self._sensor!r}"

    def _missing_permission(self) -> str | None:
        if self._permission is None or api_level() < self._permission[1] or granted(self._permission[0]):
            return None
        return self._permission[0]

    def _unregister(self) -> None:
        if self._registered:
            self._manager.unregisterListener(self._ring)
            self._registered = False

    def _look_after(self) -> None:
        """Every few seconds: is it still allowed, does it still speak? If not, say so and begin anew."""
        now = time.monotonic()
        if now - self._tried < RETRY_S:
            return
        self._tried = now
        silent_s = now - self._heard
        if self._registered and (missing := self._missing_permission()) is not None:
            self._unregister()
            self._refusal = f"{missing} was taken away; allow it for Resurge in the phone's settings"
        elif not self._registered:
            self._register(now)
        elif self._constant and silent_s > SILENT_AFTER_S + 2 * (self._every_us + collect_us(self._every_us)) / 1e6:
            self._unregister()
            self._register(now)
            self._heard = now - silent_s
            self._refusal = (
                f"{self._sensor!r} has said nothing for {silent_s:.0f} s: Android stops sensors of apps that save "
                "battery; exempt Resurge in the phone's settings"
            )

    # --- to the node -----------------------------------------------------------------------------------------------

    @property
    def trouble(self) -> str:
        return self._refusal

    def read(self, until_us: int) -> Samples:
        before = self._arrivals.count
        self._drain()
        samples = self._arrivals.read(until_us)
        if len(samples) or self._arrivals.count > before:
            self._heard = time.monotonic()
            if self._registered:
                self._refusal = ""
        self._look_after()
        return samples

    def at(self, time_us: np.ndarray) -> Samples:
        self._drain()
        return self._arrivals.at(time_us)

    def sample_every(self, period_us: int) -> None:
        if period_us == self._every_us:
            return
        self._drain()
        self._unregister()
        self._every_us = period_us
        self._arrivals.sample_every(period_us)
        self._arrivals.hold_back(2 * collect_us(period_us))
        self._register(time.monotonic())

    def close(self) -> None:
        self._unregister()


class LastValue:
    """The last value of a sensor that speaks when it changes, for `PolledValue` to ask."""

    def __init__(self, sensor: str) -> None:
        kind, self._column = ON_CHANGE[sensor]
        self._sensor = sensor
        self._manager = system_service("sensor", "android.hardware.SensorManager")
        self._hardware = self._manager.getDefaultSensor(kind)
        if self._hardware is None:
            raise SensorMissing(f"this phone has no {sensor!r}", code="sensor-absent")
        self._ring: Any = autoclass("org.resurge.phone.SensorRing")(ON_CHANGE_EVENTS, 1)
        self._record = ring_record(1)
        self._registered = False
        self._value: float | None = None

    def ask(self) -> Mapping[str, Any] | None:
        if not self._registered:
            try:
                taken = self._manager.registerListener(self._ring, self._hardware, ON_CHANGE_US, 0)
            except JavaException as error:
                raise SensorMissing(f"Android refuses {self._sensor!r}: {error}", code="sensor-refused") from error
            if not taken:
                raise SensorMissing(f"Android does not start {self._sensor!r}", code="sensor-refused")
            self._registered = True
        events = drained(self._ring, self._record)
        if len(events):
            self._value = float(events["values"][-1][0])
        if self._value is None:
            return None
        if self._sensor == "proximity":  # most phones know near and far only, and say "far" by the largest value
            return {self._column: self._value < self._hardware.getMaximumRange()}
        return {self._column: self._value}

    def end(self) -> None:
        if self._registered:
            self._manager.unregisterListener(self._ring)
            self._registered = False


def open_android(sensor: str, *, every_us: int, from_us: int, event_time: EventTime) -> Source:
    """This phone's sensor by our name for it. Raises SensorMissing when it has none, or we know none."""
    if sensor in LISTENED:
        return AndroidSensor(sensor, every_us=every_us, from_us=from_us, event_time=event_time)
    if sensor in ON_CHANGE:
        value = LastValue(sensor)
        return PolledValue(value.ask, (ON_CHANGE[sensor][1],), every_us=every_us, from_us=from_us, close=value.end)
    if sensor == "gps":
        from mobile_app.sensors.android.position import AndroidPosition

        collect = COLLECT_US if 0 < every_us < COLLECT_US else 0  # seldom ones are handed over, and wake, one by one
        return AndroidPosition(every_us=every_us, from_us=from_us, event_time=event_time, collect_us=collect)
    if sensor == "microphone":
        from mobile_app.sensors.android.microphone import open_microphone

        return open_microphone(every_us=every_us, from_us=from_us)
    if sensor == "battery":
        from mobile_app.sensors.battery import COLUMNS, ask_battery

        return PolledValue(ask_battery, COLUMNS, every_us=every_us, from_us=from_us)
    raise SensorMissing(f"the phone's sensor {sensor!r} is not known here", code="sensor-absent")


def absent_sensors() -> dict[str, str]:
    """{sensor: empty, or why not} of this phone, for a person to choose from."""
    manager = system_service("sensor", "android.hardware.SensorManager")
    kinds = {name: entry[0] for name, entry in LISTENED.items()} | {name: kind for name, (kind, _) in ON_CHANGE.items()}
    absent = dict.fromkeys(("gps", "battery", "microphone"), "")
    for name, kind in kinds.items():
        absent[name] = f"this phone has no {name!r}" if manager.getDefaultSensor(kind) is None else ""
    return absent
