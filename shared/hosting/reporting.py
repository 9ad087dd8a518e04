"""When a node tells its coordinator how it is: what must be acted on at once, the rest now and then.

A coordinator acts on vertices that begin or fail, on nodes that do not reach each other, and on what a node follows.
How far the newest snapshots are changes all the time, and matters only when somebody has to begin from one: whoever
keeps them has kept newer ones since. So that part may be half a minute old, which keeps the traffic of a large fleet
small.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from shared.wire.status import DeviceStatus

QUIET_S = 30.0  # between two reports while nothing happened that must be acted on


class Reporting:
    def __init__(self, status: Callable[[], DeviceStatus], pressing: Callable[[], Hashable]) -> None:
        self._status, self._pressing = status, pressing
        self._said_of: Hashable = None
        self._said_at = float("-inf")

    def look(self, now: float, *, due: bool) -> tuple[DeviceStatus, bool] | None:
        """What to say, and whether at once; None: what was said last stands. `due`: an exchange leaves anyway."""
        of = self._pressing()
        presses = of != self._said_of
        if not presses and (not due or now < self._said_at + QUIET_S):
            return None
        self._said_of, self._said_at = of, now
        return self._status(), presses
