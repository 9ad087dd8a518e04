"""When the loop's slower work is due. While somebody watches, everything is done more often."""

from __future__ import annotations

from collections.abc import Callable

# Each wake of the processor costs more than the readings it finds, so sensors are read in batches; a compressed run
# has the same number of turns per hour of event time until it meets the lower bounds.
TURN_S = 1.0
TURN_S_MIN = 0.25  # also while somebody watches
UPKEEP_S = 5.0
PUBLISH_S = 15.0  # whoever asks the running service gets a new view at once
SLOW_S_MIN = 1.0
WATCHED_S = 5.0


class Schedule:
    """Used by the loop, except `watch` and `watched`, which screens call from their own threads."""

    def __init__(self, speed: float, now: Callable[[], float]) -> None:
        self._speed = speed
        self._now = now
        self._upkeep_at = 0.0
        self._publish_at = 0.0
        self._watched_until = now()

    @property
    def unwatched_s(self) -> float:
        """Since when nobody looks; the start counts as a look."""
        return self._now() - self._watched_until

    @property
    def watched(self) -> bool:
        return self._now() < self._watched_until

    def watch(self) -> None:
        """Somebody looks: turn and publish more often for a while."""
        if not self.watched:
            self.soon()
        self._watched_until = self._now() + WATCHED_S

    def soon(self) -> None:
        """There is news: look after the device and publish at the next turn."""
        self._upkeep_at = self._publish_at = 0.0

    def publish_soon(self) -> None:
        self._publish_at = 0.0

    @property
    def longest_turn_s(self) -> float:
        return max(TURN_S_MIN, TURN_S / self._speed)

    def turn_s(self) -> float:
        return self._every(TURN_S, TURN_S_MIN)

    def upkeep_due(self, now: float) -> bool:
        if now < self._upkeep_at:
            return False
        self._upkeep_at = now + self._every(UPKEEP_S, SLOW_S_MIN)
        return True

    def publish_due(self, now: float) -> bool:
        if now < self._publish_at:
            return False
        self._publish_at = now + self._every(PUBLISH_S, SLOW_S_MIN)
        return True

    def _every(self, seconds: float, least_s: float) -> float:
        return least_s if self.watched else max(least_s, seconds / self._speed)
