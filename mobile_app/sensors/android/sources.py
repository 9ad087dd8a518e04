"""The sensors of an Android phone.

Where rate or time matters (motion, steps) we listen ourselves: Android stamps each event when it happened, and a
batch of them may arrive late. For what is slow plyer is enough (plyer_values.py); sound has its own class in Java.
Rates are wishes to Android, so nothing here assumes the spacing it asked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from jnius import JavaException, PythonJavaClass, autoclass, java_method

from mobile_app.android.context import api_level, granted, system_service
from mobile_app.sensors.arrival_queue import Arrivals, EventTime
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
SLOW = {"light": 5, "barometer": 6, "proximity": 8, "humidity": 12, "temperature": 13}  # Sensor.TYPE_*, read by plyer
RING_BELOW_US = 20_000  # above 50 Hz a ring in Java takes the events: a callback into Python costs about 0.8 ms
RING_EVENTS = 8192  # 20 s at 400 Hz
ON_REQUEST_US = 200_000
BATCHED_US = 250_000  # the sensor hub may collect this long and wake the processor once: a turn of the node's loop
HELD_BACK_US = 2 * BATCHED_US
RETRY_S = 5.0
SILENT_AFTER_S = 10.0
OTHER_CLOCK_NS = 60 * 1_000_000_000


class Listener(PythonJavaClass):
    """Appends events and does nothing else: it runs on Android's main thread."""

    __javainterfaces__ = ["android/hardware/SensorEventListener"]  # noqa: RUF012 - pyjnius reads it so
    __javacontext__ = "app"

    def __init__(self, take: Callable[[int, list[float]], None]) -> None:
        super().__init__()
        self._take = take

    @java_method("(Landroid/hardware/SensorEvent;)V")
    def onSensorChanged(self, event: Any) -> None:
        self._take(event.timestamp, event.values)

    @java_method("(Landroid/hardware/Sensor;I)V")
    def onAccuracyChanged(self, sensor: Any, accuracy: int) -> None:
        pass


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
        self._record = np.dtype([("stamp", "<i8"), ("values", "<f4", (self._width,))])
        self._arrivals = Arrivals(
            columns, every_us=every_us, from_us=from_us, event_time=event_time, held_back_us=HELD_BACK_US
        )
        self._base = StampBase()
        self._every_us = every_us or ON_REQUEST_US
        self._listener = Listener(self._take)  # kept: Java holds no reference that Python's collector would see
        self._ring: Any = None
        self._registered: Any = None
        self._heard = self._tried = 0.0
        self._refusal = ""
        self._register(time.monotonic())

    # --- from Android ------------------------------------------------------------------------------------------

    def _take(self, stamp_ns: int, values: list[float]) -> None:
        boot_us = self._base.boot_us(stamp_ns, time.clock_gettime_ns(time.CLOCK_BOOTTIME))
        self._arrivals.append(boot_us, self._row(values))

    def _row(self, values: list[float]) -> tuple[Any, ...]:
        return (int(values[0]),) if self._sensor == "steps" else tuple(values[: self._width])

    def _drain(self) -> None:
        """What the ring in Java collected since the last time."""
        if self._ring is None:
            return
        arrived_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        events = np.frombuffer(self._ring.drain().tostring(), dtype=self._record)
        for stamp, values in zip(events["stamp"].tolist(), events["values"].tolist(), strict=True):
            self._arrivals.append(self._base.boot_us(stamp, arrived_ns), self._row(values))

    # --- listening -----------------------------------------------------------------------------------------------

    def _register(self, now: float) -> None:
        self._tried = self._heard = now
        if (missing := self._missing_permission()) is not None:
            self._refusal = f"{missing} is not granted; allow it for Resurge in the phone's settings"
            return
        listener = self._listener
        if self._every_us < RING_BELOW_US:
            self._ring = self._ring or autoclass("org.resurge.phone.SensorRing")(RING_EVENTS, self._width)
            listener = self._ring
        try:
            taken = self._manager.registerListener(listener, self._hardware, self._every_us, BATCHED_US)
        except JavaException as error:
            self._refusal = f"Android refuses {self._sensor!r}: {error}"
            return
        self._registered = listener if taken else None
        self._refusal = "" if taken else f"Android does not start {self._sensor!r}"

    def _missing_permission(self) -> str | None:
        if self._permission is None or api_level() < self._permission[1] or granted(self._permission[0]):
            return None
        return self._permission[0]

    def _unregister(self) -> None:
        if self._registered is not None:
            self._manager.unregisterListener(self._registered)
            self._registered = None

    def _look_after(self) -> None:
        """Every few seconds: is it still allowed, does it still speak? If not, say so and begin anew."""
        now = time.monotonic()
        if now - self._tried < RETRY_S:
            return
        self._tried = now
        silent_s = now - self._heard
        if self._registered is not None and (missing := self._missing_permission()) is not None:
            self._unregister()
            self._refusal = f"{missing} was taken away; allow it for Resurge in the phone's settings"
        elif self._registered is None:
            self._register(now)
        elif self._constant and silent_s > SILENT_AFTER_S + 2 * self._every_us / 1e6:
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
            if self._registered is not None:
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
        self._ring = self._ring if period_us < RING_BELOW_US else None
        self._register(time.monotonic())

    def close(self) -> None:
        self._unregister()


def open_android(sensor: str, *, every_us: int, from_us: int, event_time: EventTime) -> Source:
    """This phone's sensor by our name for it. Raises SensorMissing when it has none, or we know none."""
    if sensor in LISTENED:
        return AndroidSensor(sensor, every_us=every_us, from_us=from_us, event_time=event_time)
    if sensor == "microphone":
        from mobile_app.sensors.android.microphone import open_microphone

        return open_microphone(every_us=every_us, from_us=from_us)
    from mobile_app.sensors.android.plyer_values import open_plyer

    return open_plyer(sensor, every_us=every_us, from_us=from_us, event_time=event_time)


def absent_sensors() -> dict[str, str]:
    """{sensor: empty, or why not} of this phone, for a person to choose from."""
    manager = system_service("sensor", "android.hardware.SensorManager")
    kinds = {name: entry[0] for name, entry in LISTENED.items()} | SLOW
    absent = dict.fromkeys(("gps", "battery", "microphone"), "")
    for name, kind in kinds.items():
        absent[name] = f"this phone has no {name!r}" if manager.getDefaultSensor(kind) is None else ""
    return absent
