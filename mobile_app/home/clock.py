"""Event time: the boot-monotonic clock plus an offset that follows the wall clock slowly.

The wall clock of a phone jumps (network time, a person, a flight); elements must not. So the offset between the
clock that counts since boot, suspend included, and the wall clock is measured at the first start in each boot, kept in
the home directory with the boot's id, and reused by every later start in that boot. After a reboot it is measured anew;
if the wall clock then lies before event times already given out, the offset is raised to where those ended.

A first measurement may be wrong for weeks: a phone that boots without a network has its time corrected later, and a
quartz drifts by a second or two a day. So the node compares the two now and then (`follow`) and runs event time faster
or slower by one part in 200 until they meet. It never steps: spacings of readings are right to half a percent, and an
hour that a hand put in by mistake has moved event time by 18 s when it is taken out an hour later. What is still
between the two clocks is part of the uncertainty.

     event time        ________    before a correction, each moment keeps the time it had: readings that
                      /            arrive late are stamped by the piece of the line they belong to
              ______ /
             /
            /          boot time

`speed` compresses time for demonstrations: at 60 a second of the run is a minute of event time. Event time must not
run ahead of the wall clock (a gateway caps frontiers from the future), so such a run begins in the past, far enough
for an hour of running, and goes on at the pace of the wall clock once it has caught up.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from mobile_app.home.files import read_json, write_durably

CLOCK_FILE = "clock.json"
NANOSECONDS = 1000  # in a microsecond
SLEW = 200  # a correction of one microsecond takes this many
SLEW_NOTICE_US = 50_000  # less than this between the clocks is left alone: each correction is a write
FOLLOW_EVERY_US = 60_000_000
READING_US_MAX = 100_000  # a reading of the clocks that took longer says too little
PIECES_KEPT = 64  # an hour's worth: no reading arrives later than that
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
    slew_us: int = 0  # what event time lacked of the wall clock then, and takes in slowly from there on

    def slewed_us(self, elapsed_us: int) -> int:
        """How much of it is taken in after so long."""
        taken_us = min(abs(self.slew_us), max(0, elapsed_us) // SLEW)
        return taken_us if self.slew_us > 0 else -taken_us


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

    def __init__(
        self,
        anchor: Anchor,
        boot: Callable[[], int] = boot_time_us,
        *,
        wall: Callable[[], int] = wall_time_us,
        keep: Callable[[Anchor], None] | None = None,
    ) -> None:
        """`keep` makes a corrected anchor durable; without it the clock follows nothing."""
        self._pieces = deque([anchor], maxlen=PIECES_KEPT)  # newest first
        self._boot = boot
        self._wall = wall
        self._keep = keep
        self._followed_us = boot() - FOLLOW_EVERY_US

    @property
    def anchor(self) -> Anchor:
        return self._pieces[0]

    @property
    def uncertainty_us(self) -> int:
        """How far event time may be from the wall clock: the error of reading, and what is not taken in yet."""
        elapsed_us = self._boot() - self.anchor.at_boot_us
        return self.anchor.uncertainty_us + abs(self.anchor.slew_us - self.anchor.slewed_us(elapsed_us))

    def follow(self) -> None:
        """Compare event time with the wall clock, once a minute, and correct its pace where they have parted."""
        anchor, now_us = self.anchor, self._boot()
        if self._keep is None or anchor.speed != 1.0 or now_us < self._followed_us + FOLLOW_EVERY_US:
            return
        self._followed_us = now_us
        before_us, wall_us, after_us = self._boot(), self._wall(), self._boot()
        at_us, reading_us = (before_us + after_us) // 2, (after_us - before_us + 1) // 2
        event_us = self.at(at_us)
        lacking_us = wall_us - event_us
        planned_us = anchor.slew_us - anchor.slewed_us(at_us - anchor.at_boot_us)
        if reading_us > READING_US_MAX or abs(lacking_us - planned_us) <= SLEW_NOTICE_US:
            return
        corrected = Anchor(
            boot_id=anchor.boot_id, at_boot_us=at_us, at_wall_us=max(wall_us, event_us), at_event_us=event_us,
            uncertainty_us=reading_us, speed=anchor.speed, origin_us=anchor.origin_us, slew_us=lacking_us,
        )  # fmt: skip
        self._keep(corrected)
        self._pieces.appendleft(corrected)

    def now_us(self) -> int:
        return self.at(self._boot())

    def at(self, boot_us: int) -> int:
        """Event time of a moment given in microseconds since boot, as sensors stamp their readings."""
        anchor = next((piece for piece in self._pieces if boot_us >= piece.at_boot_us), self._pieces[-1])
        elapsed_us = boot_us - anchor.at_boot_us
        compressed_us = anchor.at_event_us + round(elapsed_us * anchor.speed) + anchor.slewed_us(elapsed_us)
        return min(compressed_us, anchor.at_wall_us + elapsed_us)


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
    known = {field.name for field in fields(Anchor)}
    old = Anchor(**{name: value for name, value in kept.items() if name in known}) if kept is not None else None

    def keep(anchor: Anchor) -> None:
        write_durably(path, json.dumps(asdict(anchor)).encode())

    if old is not None and old.boot_id == this_boot and old.speed == speed:
        clock = EventClock(old, boot, wall=wall, keep=keep)
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
    keep(anchor)
    return EventClock(anchor, boot, wall=wall, keep=keep)
