"""Which devices will give readings up soon, or may do so by now, kept by when that is.

A silent device says nothing new: the moment at which its room is used up stands from when it was last heard, and one
list in the order of these moments tells whose has passed. It passes once, so a look costs those whose it did since the
last one, and those who come next.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from threading import RLock

from cloud_backend.dashboard.fleet.device import Device
from cloud_backend.dashboard.history.arrivals import SECOND_US

SOON_S = 2 * 3600
FIRST = 3  # whose names are said
Moment = tuple[float, str, str]  # when in microseconds, name and id


class Overwriting:
    """Safe to share between threads. None of those that are revoked."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._placed: dict[str, tuple[list[Moment], Moment]] = {}
        self._coming: list[Moment] = []  # of silent ones, by the moment
        self._gone: list[Moment] = []  # of silent ones whose moment has passed, by name: their moment is left out
        self._full: list[Moment] = []  # of those in contact, by the seconds left

    def put(self, device: Device) -> None:
        id, name = device.phone.id, device.phone.name
        with self._lock:
            if id in self._placed:
                _drop(*self._placed.pop(id))
            room_s, since_us = device.status.full_in_s, device.phone.since_us
            if device.state == "revoked" or room_s is None or since_us is None:
                return
            if not device.is_in_contact:
                self._place(self._coming, (since_us + room_s * SECOND_US, name, id))
            elif (left_s := device.overwrites_in_s(since_us)) is not None and left_s < SOON_S:
                self._place(self._full, (left_s, name, id))

    def gone(self, now_us: int) -> tuple[list[tuple[str, str]], int]:
        """Silent for longer than their room lasts: the first by name, and how many there are."""
        with self._lock:
            end = bisect_right(self._coming, float(now_us), key=lambda moment: moment[0])
            passed = [(0.0, name, id) for _, name, id in self._coming[:end]]
            del self._coming[:end]
            if passed:
                self._gone.extend(passed)
                self._gone.sort()
                self._placed |= {moment[2]: (self._gone, moment) for moment in passed}
            return [moment[1:] for moment in self._gone[:FIRST]], len(self._gone)

    def away(self, now_us: int) -> tuple[list[tuple[str, str]], float]:
        """Silent, with room for less than `SOON_S`: by name, and the seconds that the first of them has."""
        with self._lock:
            self.gone(now_us)
            end = bisect_left(self._coming, (now_us + SOON_S * SECOND_US, "", ""))
            soon = self._coming[:end]
        by_name = sorted(soon, key=lambda moment: moment[1:])
        return [moment[1:] for moment in by_name], (soon[0][0] - now_us) / SECOND_US if soon else 0.0

    def full(self) -> tuple[list[tuple[str, str]], float]:
        """In contact, and all the same nearly full: by name, and the seconds that the first of them has."""
        with self._lock:
            by_name = sorted(self._full, key=lambda moment: moment[1:])
            return [moment[1:] for moment in by_name], self._full[0][0] if self._full else 0.0

    def _place(self, moments: list[Moment], moment: Moment) -> None:
        insort(moments, moment)
        self._placed[moment[2]] = moments, moment


def _drop(moments: list[Moment], moment: Moment) -> None:
    del moments[bisect_left(moments, moment)]
