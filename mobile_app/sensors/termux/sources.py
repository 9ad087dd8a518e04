"""The sensors of a phone as Termux:API gives them: motion and environment from one stream, the rest by calls.

One `TermuxDevice` serves the whole process, because the device has one sensor stream and one line of calls. It is
made with the first source and ended with the last.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mobile_app.sensors.arrival_queue import Arrivals, EventTime, Row
from mobile_app.sensors.source import Samples, SensorMissing
from mobile_app.sensors.termux.answers import ANSWERS, position_age_s
from mobile_app.sensors.termux.calls import Calls, Errand, call
from mobile_app.sensors.termux.stream import COMMAND, SensorStream, names_of

CALL_EVERY_S_MIN = 30.0  # a call costs a second of the API's main thread
POSITION_EVERY_S_MIN = 5.0
ANSWER_EVERY_S = 60.0
POSITION_STALE_S = 60.0  # nobody else asks for positions: then we do, and the API is busy for up to half a minute
SAME_FIX_S = 1.5
SILENT_AFTER_S = 15.0
LIST_EVERY_S = 5.0  # until it has answered
LISTED_EVERY_S = 3600.0
MICROSECONDS = 1_000_000

XYZ = ("x", "y", "z")
# sensor: (columns, words one of which its name has, words its name must not have, does it repeat only when polled)
STREAMED: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], bool]] = {
    "accelerometer": (XYZ, ("accelerometer", "acceleration"), ("uncalib", "linear"), True),
    "gyroscope": (XYZ, ("gyroscope", "gyro"), ("uncalib",), True),
    "magnetometer": (XYZ, ("magnetometer", "magnetic field", "geomagnetic field"), ("uncalib", "rotation"), True),
    "gravity": (XYZ, ("gravity",), (), True),
    "barometer": (("hpa",), ("pressure", "barometer"), ("uncalib", "temperature"), False),
    "light": (("lux",), ("light",), ("uncalib",), False),
    "proximity": (("near",), ("proximity",), (), False),
    "steps": (("steps",), ("step counter", "step_counter", "pedometer"), (), False),
    "temperature": (("celsius",), ("ambient temperature", "ambient_temperature", "temperature"), ("pressure",), False),
    "humidity": (("percent",), ("humidity",), (), False),
}
NEAR_CM = 5.0


def choose_name(sensor: str, names: list[str]) -> str | None:
    """The device's own name for a sensor: the shortest that fits, as `termux-sensor -s` would choose."""
    _, words, without, _ = STREAMED[sensor]
    for word in words:
        fitting = [
            name for name in names
            if word in name.lower() and "," not in name and not any(bad in name.lower() for bad in without)
        ]  # fmt: skip
        if fitting:
            return min(fitting, key=lambda name: (len(name), name))
    return None


def to_row(sensor: str, values: list[float]) -> Row | None:
    """Our columns from the three numbers Android has for every sensor."""
    columns = STREAMED[sensor][0]
    if len(values) < len(columns):
        return None
    if sensor == "proximity":
        return (values[0] < NEAR_CM,)
    return (int(values[0]),) if sensor == "steps" else tuple(float(value) for value in values[: len(columns)])


class TermuxDevice:
    """Everything of Termux:API that this process uses. Which sensors there are is one more question in the line."""

    def __init__(self, ask: Callable[[tuple[str, ...]], Any] = call) -> None:
        self._lock = threading.Lock()
        self._listening: list[StreamedSensor] = []
        self._names: list[str] | None = None
        self._listing = Errand((COMMAND, "-l"), LIST_EVERY_S, self._listed)
        self.stream = SensorStream(self._readout)
        self.calls = Calls(ask)

    def _listed(self, answer: Any, _boot_s: float) -> None:
        self._names = names_of(answer)
        self._listing.every_s = LISTED_EVERY_S
        self.refresh()

    def trouble_of(self, sensor: str) -> str:
        if self._names is None:
            return self._listing.trouble or "Termux:API has not said yet which sensors there are"
        if choose_name(sensor, self._names) is None:
            return f"this phone has no {sensor!r} (its sensors: {', '.join(self._names) or 'none'})"
        return self.stream.trouble

    def listen(self, source: StreamedSensor) -> None:
        with self._lock:
            first = not self._listening
            self._listening.append(source)
        if first:
            self.calls.add(self._listing)
        self.refresh()

    def leave(self, source: StreamedSensor) -> None:
        with self._lock:
            self._listening.remove(source)
            last = not self._listening
        if last:
            self.calls.remove(self._listing)
        self.refresh()

    def refresh(self) -> None:
        """Tell the stream what is wanted now."""
        wanted: dict[str, int] = {}
        names = self._names or []
        with self._lock:
            for source in self._listening:
                source.name = choose_name(source.sensor, names) or ""
                if source.name:
                    wanted[source.name] = min(source.every_us, wanted.get(source.name, source.every_us))
        self.stream.want(wanted)

    def _readout(self, name: str, values: list[float], boot_us: int) -> None:
        with self._lock:
            sources = [source for source in self._listening if source.name == name]
        for source in sources:
            source.arrived(values, boot_us)

    def close(self) -> None:
        self.stream.close()
        self.calls.close()


class StreamedSensor:
    """One sensor of the stream."""

    def __init__(
        self, device: TermuxDevice, sensor: str, *, every_us: int, from_us: int, event_time: EventTime,
        let_go: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self.sensor = sensor
        self.name = ""  # the device's own, once it is known
        self.every_us = every_us or MICROSECONDS
        self._device = device
        self._arrivals = Arrivals(STREAMED[sensor][0], every_us=every_us, from_us=from_us, event_time=event_time)
        self._repeats = STREAMED[sensor][3]
        self._last: list[float] | None = None
        self._heard = time.monotonic()
        self._let_go: Callable[[], None] | None = let_go
        device.listen(self)

    def arrived(self, values: list[float], boot_us: int) -> None:
        self._heard = time.monotonic()
        if self._repeats and values == self._last:
            return
        self._last = values
        if (row := to_row(self.sensor, values)) is not None:
            self._arrivals.append(boot_us, row)

    @property
    def trouble(self) -> str:
        silent_s = time.monotonic() - self._heard
        if trouble := self._device.trouble_of(self.sensor):
            return trouble
        if silent_s > SILENT_AFTER_S + self.every_us / MICROSECONDS:
            return f"{self.name} has said nothing for {silent_s:.0f} s; another app may have taken the sensor stream"
        return ""

    def read(self, until_us: int) -> Samples:
        return self._arrivals.read(until_us)

    def at(self, time_us: np.ndarray) -> Samples:
        return self._arrivals.at(time_us)

    def sample_every(self, period_us: int) -> None:
        self.every_us = period_us
        self._arrivals.sample_every(period_us)
        self._device.refresh()

    def close(self) -> None:
        if self._let_go is not None:
            self._device.leave(self)
            self._let_go()
            self._let_go = None


class CalledSensor:
    """One sensor that is asked for by a command: battery, Wi-Fi, cell."""

    def __init__(
        self, device: TermuxDevice, sensor: str, *, every_us: int, from_us: int, event_time: EventTime,
        let_go: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        command, columns, self._row = ANSWERS[sensor]
        self._device = device
        self._arrivals = Arrivals(columns, every_us=every_us, from_us=from_us, event_time=event_time)
        self._errand = Errand(command, self._period_s(every_us), self._answered)
        self._let_go: Callable[[], None] | None = let_go
        device.calls.add(self._errand)

    every_s_min = CALL_EVERY_S_MIN

    def _period_s(self, every_us: int) -> float:
        return max(self.every_s_min, every_us / MICROSECONDS)

    def _answered(self, answer: Any, boot_s: float) -> None:
        self._arrivals.append(round(boot_s * MICROSECONDS), self._row(answer))

    @property
    def trouble(self) -> str:
        return self._errand.trouble

    def read(self, until_us: int) -> Samples:
        return self._arrivals.read(until_us)

    def at(self, time_us: np.ndarray) -> Samples:
        return self._arrivals.at(time_us)

    def sample_every(self, period_us: int) -> None:
        self._arrivals.sample_every(period_us)
        self._errand.every_s = self._period_s(period_us)

    def close(self) -> None:
        if self._let_go is not None:
            self._device.calls.remove(self._errand)
            self._let_go()
            self._let_go = None


class Position(CalledSensor):
    """Positions. `-r last` is cheap and tells what some app has learned; only when that is stale we ask for a new one.

    A new one (`-r once`) keeps the whole API busy for up to half a minute, so it is asked for at most once a minute.
    """

    every_s_min = POSITION_EVERY_S_MIN

    def __init__(self, device: TermuxDevice, sensor: str, **options: Any) -> None:
        self._newest_boot_s = 0.0
        self._once = Errand(("termux-location", "-p", "gps", "-r", "once"), POSITION_STALE_S, self._answered)
        super().__init__(device, sensor, **options)
        self._once.due = time.monotonic() + self._errand.every_s
        device.calls.add(self._once)

    def _answered(self, answer: Any, boot_s: float) -> None:
        row, age_s = self._row(answer), position_age_s(answer)
        made_s = boot_s - age_s
        # `-r last` tells the same fix again; its age is only as exact as the call is quick.
        if age_s > POSITION_STALE_S or made_s < self._newest_boot_s + SAME_FIX_S:
            return
        self._newest_boot_s = made_s
        self._arrivals.append(round(made_s * MICROSECONDS), row)
        self._once.due = max(self._once.due, time.monotonic() + POSITION_STALE_S)

    @property
    def trouble(self) -> str:
        """As long as one of the two calls answers, positions may come."""
        return self._errand.trouble and self._once.trouble

    def close(self) -> None:
        self._device.calls.remove(self._once)
        super().close()


class _Shared:
    """The process's one device, counted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._device: TermuxDevice | None = None
        self._users = 0

    def take(self) -> TermuxDevice:
        with self._lock:
            self._device = self._device or TermuxDevice()
            self._users += 1
            return self._device

    def give_back(self) -> None:
        with self._lock:
            self._users -= 1
            device = self._device if self._users == 0 else None
            if device is not None:
                self._device = None
        if device is not None:
            device.close()


_shared = _Shared()
SENSORS: Mapping[str, tuple[str, ...]] = {name: entry[0] for name, entry in STREAMED.items()} | {
    name: entry[1] for name, entry in ANSWERS.items()
}


def open_termux(sensor: str, *, every_us: int, from_us: int, event_time: EventTime) -> StreamedSensor | CalledSensor:
    """This sensor of the phone. Raises SensorMissing when Termux:API knows no such kind."""
    if sensor not in SENSORS:
        raise SensorMissing(
            f"Termux:API has no sensor {sensor!r} (it has: {', '.join(sorted(SENSORS))}); choose a recording for it",
            code="sensor-absent",
        )
    kind = StreamedSensor if sensor in STREAMED else Position if sensor == "gps" else CalledSensor
    return kind(
        _shared.take(), sensor, every_us=every_us, from_us=from_us, event_time=event_time, let_go=_shared.give_back
    )


class _Newest:
    """The newest answer of a command that policies ask for all the time, kept fresh by the line of calls."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self.answer: Any = None
        self._errand = Errand(command, ANSWER_EVERY_S, self._answered)
        _shared.take().calls.add(self._errand)  # for the life of the process: policies never stop asking

    def _answered(self, answer: Any, _boot_s: float) -> None:
        self.answer = answer


_newest: dict[tuple[str, ...], _Newest] = {}


def newest_answer(*command: str) -> Any:
    """What a command said last, None before it has. The first question starts the asking; nobody waits."""
    if command not in _newest:
        _newest[command] = _Newest(command)
    return _newest[command].answer


def absent_sensors() -> dict[str, str]:
    """{sensor: empty, or why not} as far as Termux:API has said; the first question starts the asking."""
    listing = newest_answer(COMMAND, "-l")
    if listing is None:
        return dict.fromkeys(SENSORS, "")
    names = names_of(listing)
    return {
        sensor: "" if sensor in ANSWERS or choose_name(sensor, names) else f"this phone has no {sensor!r}"
        for sensor in SENSORS
    }
