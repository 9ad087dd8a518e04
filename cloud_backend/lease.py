"""The lease: which of several processes should be running. It saves work; a number that only rises saves the data.

The holder renews it; a standby watches, and takes over once it has run out. Clocks may disagree and a paused holder may
wake up after its lease: what it then does is refused, because the standby has begun with a higher number. For the
driver of Spark that is the manifest's term, whose next entry it loses the race for. For the coordinator of a fleet it
is the lease's number in every deployment, which nodes and the file of the fleet refuse a lower one than.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

NAME = "lease"


class Notes(Protocol):
    """Where it is written down: small named values, each replaced whole."""

    def note(self, name: str) -> dict[str, Any]: ...

    def put_note(self, name: str, value: Mapping[str, Any]) -> None: ...

    def remove_note(self, name: str) -> None: ...


class Lease:
    def __init__(self, notes: Notes, *, owner: str, duration_s: float, now: Callable[[], float]) -> None:
        self._notes = notes
        self._owner = owner
        self._duration_s = duration_s
        self._now = now

    def holder(self) -> tuple[str, float] | None:
        """Who holds it and how many seconds are left; None when nobody does or it ran out."""
        value = self._notes.note(NAME)
        try:
            left = float(value["until"]) - self._now()
            return (str(value["owner"]), left) if left > 0 else None
        except (ValueError, KeyError, TypeError):
            return None

    def acquire(self) -> bool:
        """Take or renew the lease; False while another process holds it."""
        holder = self.holder()
        if holder is not None and holder[0] != self._owner:
            return False
        self.take()
        return True

    def take(self) -> None:
        """Take it whoever holds it: for a process that knows by other means that no other one works."""
        self._notes.put_note(NAME, {"owner": self._owner, "until": self._now() + self._duration_s})

    def release(self) -> None:
        """Give it up at a clean stop, so that the next one need not wait."""
        holder = self.holder()
        if holder is not None and holder[0] == self._owner:
            self._notes.remove_note(NAME)
