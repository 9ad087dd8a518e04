"""Positions that pause while the phone lies still: its receiver costs more than everything else together.

Whether it moves is asked of two: the phone's significant-motion sensor, which sleeps with the processor and wakes it,
and the positions themselves, because a smooth train may not count as motion. Only when neither has said so for five
minutes does positioning stop. Motion starts it again; and every quarter of an hour it looks for a minute, whatever the
sensor says. A phone without that sensor never pauses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np

from mobile_app.sensors.source import Samples, Source

STILL_S = 300.0
LOOK_EVERY_S = 900.0
LOOK_S = 60.0
ASK_AGAIN_S = 120.0  # after motion: asked at once it would wake the processor every few seconds of a walk
MOVED_METRES_PER_SECOND = 0.7
MOVED_METRES = 60.0
METRES_PER_DEGREE = 111_195.0


class Motion(Protocol):
    """A sensor that says once that the phone began to move."""

    def arm(self) -> bool:
        """Ask it, from now on; False where there is none."""
        ...

    def disarm(self) -> None: ...

    def fired(self) -> bool: ...


@runtime_checkable
class Pausable(Protocol):
    """A source whose hardware can be let go of for a while."""

    def pause(self) -> None: ...

    def go_on(self) -> None: ...

    def motion(self) -> Motion: ...


class PausesWhenStill:
    """A position source that pauses while `is_wanted` says so and nothing moves. `now` counts also in a sleep."""

    def __init__(self, source: Source, *, is_wanted: Callable[[], bool], now: Callable[[], float]) -> None:
        if not isinstance(source, Pausable):
            raise TypeError("only a source that can be paused")
        self._source, self._hardware = source, source
        self._motion = source.motion()
        self._is_wanted = is_wanted
        self._now = now
        self._moved_at = now()
        self._armed = False
        self._paused_at: float | None = None
        self._place: tuple[float, float] | None = None

    @property
    def is_paused(self) -> bool:
        return self._paused_at is not None

    @property
    def trouble(self) -> str:
        return "" if self.is_paused else self._source.trouble

    def read(self, until_us: int) -> Samples:
        samples = self._source.read(until_us)
        self._watch(samples, self._now())
        return samples

    def at(self, time_us: np.ndarray) -> Samples:
        self._watch(None, self._now())
        return self._source.at(time_us)

    def sample_every(self, period_us: int) -> None:
        self._go_on()  # a source begins anew with another period
        self._source.sample_every(period_us)

    def close(self) -> None:
        self._disarm()
        self._source.close()

    def _watch(self, samples: Samples | None, now: float) -> None:
        if not self._is_wanted():
            self._go_on()
            self._disarm()
            self._moved_at = now
            return
        if self._armed and self._motion.fired():
            self._armed = False
            self._moved_at = now
            self._go_on()
        if samples is not None and self._has_moved(samples):
            self._moved_at = now
        if not self._armed and now - self._moved_at >= ASK_AGAIN_S:
            self._armed = self._motion.arm()
        if self._paused_at is not None and now - self._paused_at >= LOOK_EVERY_S:
            self._go_on()
            self._moved_at = now - STILL_S + LOOK_S
        elif self._paused_at is None and self._armed and now - self._moved_at >= STILL_S:
            self._hardware.pause()
            self._paused_at = now

    def _go_on(self) -> None:
        if self._paused_at is not None:
            self._paused_at = None
            self._hardware.go_on()

    def _disarm(self) -> None:
        if self._armed:
            self._armed = False
            self._motion.disarm()

    def _has_moved(self, samples: Samples) -> bool:
        """Whether a fix says so: by its speed, or by lying further from the last place than it may be wrong."""
        moved = False
        if not len(samples):
            return moved
        columns = [samples.columns[name] for name in ("lat", "lon", "accuracy", "speed")]
        for lat, lon, accuracy, speed in zip(*(np.asarray(column, float) for column in columns), strict=True):
            if self._place is None or _metres(self._place, (lat, lon)) > max(MOVED_METRES, np.nan_to_num(accuracy)):
                moved, self._place = moved or self._place is not None, (lat, lon)
            moved = moved or bool(speed > MOVED_METRES_PER_SECOND)
        return moved


def _metres(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Near enough for places of one town."""
    east = (other[1] - one[1]) * math.cos(math.radians(one[0]))
    return math.hypot(other[0] - one[0], east) * METRES_PER_DEGREE
