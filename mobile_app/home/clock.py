"""Event time: the boot-monotonic clock plus an offset measured once per boot.

The wall clock of a phone jumps (network time, a person, a flight); elements must not. So the offset between the
clock that counts since boot, suspend included, and the wall clock is measured once in each boot, kept in the home
directory with the boot's id, and reused by every later start in that boot. After a reboot it is measured anew; if
the wall clock then lies before event times already given out, the offset is raised to where those ended and the
uncertainty says by how much.

`speed` compresses time for demonstrations: at 60 a second of the run is a minute of event time. Event time must not
run ahead of the wall clock (a gateway caps frontiers from the future), so such a run begins in the past, far enough
for an hour of running, and goes on at the pace of the wall clock once it has caught up.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from mobile_app.home.files import read_json, write_durably

CLOCK_FILE = "clock.json"
NANOSECONDS = 1000  # in a microsecond
RUN_US = 3_600_000_000  # how long a compressed run can go on before it has caught up with the wall clock


@dataclass(frozen=True, slots=True)
class Anchor:
    """At boot time at_boot_us it was at_wall_us on the wall, give or take the uncertainty, and at_event_us for us."""

    boot_id: str
    at_boot_us: int
    at_wall_us: int
    at_event_us: int
    uncertainty_us: int
    speed: float
    origin_us: int  # the first event time this home ever gave out


def boot_time_us() -> int:
    """Microseconds since boot. CLOCK_MONOTONIC stops while a phone sleeps, CLOCK_BOOTTIME does not."""
    kind = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(kind) // NANOSECONDS


def wall_time_us() -> int:
    return time.time_ns() // NANOSECONDS


def boot_id() -> str:
    """A name for this boot; where the kernel tells none, the wall time of boot to the nearest ten seconds."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return f"booted-{round((wall_time_us() - boot_time_us()) / 10_000_000)}"


class EventClock:
    """Event time now; never goes back within a home directory, across kills, restarts and reboots."""

    def __init__(self, anchor: Anchor, boot: Callable[[], int] = boot_time_us) -> None:
        self.anchor = anchor
        self._boot = boot

    def now_us(self) -> int:
        return self.at(self._boot())

    def at(self, boot_us: int) -> int:
        """Event time of a moment given in microseconds since boot, as sensors stamp their readings."""
        elapsed_us = boot_us - self.anchor.at_boot_us
        compressed_us = self.anchor.at_event_us + round(elapsed_us * self.anchor.speed)
        return min(compressed_us, self.anchor.at_wall_us + elapsed_us)


def measure(
    *,
    this_boot: str,
    speed: float,
    not_before_us: int | None,
    origin_us: int | None,
    boot: Callable[[], int] = boot_time_us,
    wall: Callable[[], int] = wall_time_us,
) -> Anchor:
    """A new anchor: the wall clock read between two readings of the boot clock, which bound the error of reading."""
    before_us, wall_us, after_us = boot(), wall(), boot()
    uncertainty_us = (after_us - before_us + 1) // 2
    event_us = wall_us - round((speed - 1.0) * RUN_US)
    if not_before_us is not None:
        event_us = max(event_us, not_before_us)
        uncertainty_us += max(0, not_before_us - wall_us)
        wall_us = max(wall_us, not_before_us)
    return Anchor(
        boot_id=this_boot,
        at_boot_us=(before_us + after_us) // 2,
        at_wall_us=wall_us,
        at_event_us=event_us,
        uncertainty_us=uncertainty_us,
        speed=speed,
        origin_us=event_us if origin_us is None else origin_us,
    )


def open_clock(
    home: Path,
    *,
    speed: float = 1.0,
    not_before_us: int | None = None,
    boot: Callable[[], int] = boot_time_us,
    wall: Callable[[], int] = wall_time_us,
    this_boot: str | None = None,
) -> EventClock:
    """The home's clock. not_before_us is the latest frontier the spool holds: event time goes on from there."""
    this_boot = boot_id() if this_boot is None else this_boot
    path = home / CLOCK_FILE
    kept = read_json(path)
    old = Anchor(**kept) if kept is not None else None
    if old is not None and old.boot_id == this_boot and old.speed == speed:
        clock = EventClock(old, boot)
        if not_before_us is None or clock.now_us() >= not_before_us:
            return clock
    floor_us = not_before_us
    if old is not None:  # a changed speed goes on from the old clock's now, a new boot from where the old began
        reached_us = EventClock(old, boot).now_us() if old.boot_id == this_boot else old.at_event_us
        floor_us = max(reached_us, not_before_us or 0)
    anchor = measure(
        this_boot=this_boot,
        speed=speed,
        not_before_us=floor_us,
        origin_us=None if old is None else old.origin_us,
        boot=boot,
        wall=wall,
    )
    write_durably(path, json.dumps(asdict(anchor)).encode())
    return EventClock(anchor, boot)
