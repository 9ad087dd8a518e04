"""Is this device inside its region's area, and does the region still hear it? The phone's side of joining and leaving.

Theory of operation. An area is a circle that an operator set. A device that enters it and stays for the dwell time
registers: whoever only passes by would be gone before a checkpoint had covered them. Afterwards two things tell of
leaving. Positions outside the area, each by more than its own uncertainty: departed. The region's network gone while
positions are still inside: most likely the network's fault, so the link is rebuilt a few times before the device counts
as departed; a device without any position is believed to be where it last was.

Sans-IO: `position`, `link_lost`, `link_rebuilt` and `wake` are told what happened and when; each returns what to do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

METRES_PER_DEGREE = 111_320.0


@dataclass(frozen=True, slots=True)
class Area:
    lat: float
    lon: float
    radius_m: float

    def distance_m(self, lat: float, lon: float) -> float:
        """From the middle; good to a per mille for areas of some kilometres."""
        north = (lat - self.lat) * METRES_PER_DEGREE
        east = (lon - self.lon) * METRES_PER_DEGREE * math.cos(math.radians(self.lat))
        return math.hypot(north, east)


@dataclass(frozen=True, slots=True)
class Register:
    """It has stayed: tell the coordinator."""


@dataclass(frozen=True, slots=True)
class Rebuild:
    """Try to build the region's link again; `attempt` counts from 1."""

    attempt: int


@dataclass(frozen=True, slots=True)
class Departed:
    reason: str  # left: positions say so; unreachable: the link could not be rebuilt


Act = Register | Rebuild | Departed


class RegionMembership:
    """One device and one area. Seconds are of any steady clock."""

    def __init__(self, area: Area, *, dwell_s: float, attempts_max: int = 3, rebuild_every_s: float = 5.0) -> None:
        self._area = area
        self._dwell_s = dwell_s
        self._attempts_max = attempts_max
        self._rebuild_every_s = rebuild_every_s
        self._inside_since: float | None = None
        self._lost_attempts: int | None = None  # None: the link is there
        self._next_attempt = math.inf
        self.registered = False

    @property
    def inside(self) -> bool:
        return self._inside_since is not None

    def position(self, now: float, lat: float, lon: float, accuracy_m: float = 0.0) -> list[Act]:
        """A fix. One whose uncertainty crosses the border changes nothing."""
        distance_m = self._area.distance_m(lat, lon)
        if distance_m + accuracy_m <= self._area.radius_m:
            if self._inside_since is None:
                self._inside_since = now
            return self.wake(now)
        if distance_m - accuracy_m <= self._area.radius_m:
            return []
        self._inside_since = None
        return self._depart("left")

    def link_lost(self, now: float) -> list[Act]:
        """The region's link is gone. Inside: rebuild it; outside: that is what leaving looks like."""
        if not self.registered or self._lost_attempts is not None:
            return []
        if not self.inside:
            return self._depart("left")
        self._lost_attempts = 0
        self._next_attempt = now
        return self.wake(now)

    def link_rebuilt(self) -> None:
        self._lost_attempts = None
        self._next_attempt = math.inf

    def next_wake(self) -> float:
        if self._lost_attempts is not None:
            return self._next_attempt
        if self._inside_since is not None and not self.registered:
            return self._inside_since + self._dwell_s
        return math.inf

    def wake(self, now: float) -> list[Act]:
        if self._inside_since is not None and not self.registered and now >= self._inside_since + self._dwell_s:
            self.registered = True
            return [Register()]
        if self._lost_attempts is None or now < self._next_attempt:
            return []
        if self._lost_attempts >= self._attempts_max:
            return self._depart("unreachable")
        self._lost_attempts += 1
        self._next_attempt = now + self._rebuild_every_s
        return [Rebuild(self._lost_attempts)]

    def _depart(self, reason: str) -> list[Act]:
        """Say it once; to come back it has to stay for the dwell time again."""
        if not self.registered:
            return []
        self.registered = False
        self._inside_since = None
        self.link_rebuilt()
        return [Departed(reason)]
