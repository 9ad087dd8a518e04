"""Positions of an Android phone, through a ring in Java (PositionRing).

The system stamps each fix with the clock since boot when it was measured, so a fix that arrives in a batch keeps its
time. What the phone does not say of a fix (an altitude indoors, say) is NaN. Silence is a trouble: a phone in a cellar
and one whose maker stops location look the same from here, and the person can tell them apart.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from jnius import JavaException, autoclass

from mobile_app.android.context import context
from mobile_app.sensors.arrival_queue import Arrivals, EventTime
from mobile_app.sensors.source import Samples

COLUMNS = ("lat", "lon", "altitude", "accuracy", "speed", "bearing", "provider")
PROVIDERS = ("fused", "gps", "network", "other")  # by the number that PositionRing gives
RING_FIXES = 4096  # more than an hour of one a second
ON_REQUEST_US = 1_000_000
RETRY_S = 5.0
SILENT_AFTER_S = 120.0  # a first fix under a roof takes a minute or two
FIX = np.dtype([("stamp", "<i8"), ("values", "<f8", (6,)), ("provider", "u1")])


class AndroidPosition:
    """One asker; Android itself joins the wishes of several."""

    def __init__(self, *, every_us: int, from_us: int, event_time: EventTime, collect_us: int = 0) -> None:
        """`collect_us`: how long the phone may collect fixes before it hands them over in one go."""
        self._collect_us = collect_us
        self._every_us = every_us or ON_REQUEST_US
        self._arrivals = Arrivals(
            COLUMNS, every_us=every_us, from_us=from_us, event_time=event_time, held_back_us=2 * collect_us
        )
        self._ring: Any = autoclass("org.resurge.phone.PositionRing")(RING_FIXES)
        self._overrun = 0
        self._refusal = ""
        self._is_paused = False
        self._tried = self._heard = time.monotonic()
        self._start()

    def _start(self) -> None:
        try:
            provider = self._ring.start(context(), self._every_us // 1000, self._collect_us // 1000)
        except JavaException as error:
            self._refusal = f"Android refuses positions: {error}; is the location permission granted?"
            return
        self._refusal = "" if provider else "this phone has no way to tell its position"

    def _drain(self) -> None:
        fixes = np.frombuffer(bytes(self._ring.drain()), dtype=FIX)
        for stamp, values, number in zip(
            fixes["stamp"].tolist(), fixes["values"].tolist(), fixes["provider"].tolist(), strict=True
        ):
            self._arrivals.append(stamp // 1000, (*values, PROVIDERS[min(number, len(PROVIDERS) - 1)]))
        if len(fixes):
            self._heard = time.monotonic()
            overrun = self._ring.overrun()
            self._arrivals.lose(overrun - self._overrun)
            self._overrun = overrun

    @property
    def trouble(self) -> str:
        if self._is_paused:
            return ""  # nobody waits for a position
        if self._refusal:
            return self._refusal
        if self._ring.off(context()):
            return "location is switched off; switch it on in the phone's quick settings"
        silent_s = time.monotonic() - self._heard
        if silent_s <= SILENT_AFTER_S + 2 * (self._every_us + self._collect_us) / 1e6:
            return ""
        return f"no position for {silent_s / 60:.0f} min: is the phone inside, or does it save battery by this?"

    def read(self, until_us: int) -> Samples:
        if self._refusal and not self._is_paused and time.monotonic() - self._tried >= RETRY_S:
            self._tried = self._heard = time.monotonic()
            self._start()
        self._drain()
        return self._arrivals.read(until_us)

    def at(self, time_us: np.ndarray) -> Samples:
        self._drain()
        return self._arrivals.at(time_us)

    def sample_every(self, period_us: int) -> None:
        if period_us == self._every_us:
            return
        self._drain()
        self._every_us = period_us
        self._arrivals.sample_every(period_us)
        self._ring.stop(context())
        self._start()

    def pause(self) -> None:
        """Let the receiver rest; what it has found already is still handed out."""
        self._is_paused = True
        self._ring.stop(context())

    def go_on(self) -> None:
        self._is_paused = False
        self._tried = self._heard = time.monotonic()
        self._start()

    def motion(self) -> SignificantMotion:
        return SignificantMotion()

    def close(self) -> None:
        self._ring.stop(context())


class SignificantMotion:
    """The phone's own sensor of it (MotionTrigger in Java)."""

    def __init__(self) -> None:
        self._trigger: Any = autoclass("org.resurge.phone.MotionTrigger")()

    def arm(self) -> bool:
        return bool(self._trigger.arm(context()))

    def disarm(self) -> None:
        self._trigger.disarm(context())

    def fired(self) -> bool:
        return bool(self._trigger.fired())
