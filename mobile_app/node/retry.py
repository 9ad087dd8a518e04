"""When a plan whose own code raised is tried again: a reading may have been to blame, and the next one may be good."""

from __future__ import annotations

from shared.plan.graph import Plan

WAIT_S, WAIT_S_MAX = 60.0, 900.0  # twice as long each time it raises at once


class Retry:
    """Of one plan at a time. `plan` is None while nothing has failed."""

    def __init__(self) -> None:
        self.plan: Plan | None = None
        self.why = ""
        self._wait_s = 0.0
        self._adopted_at = 0.0
        self._again_at = 0.0

    def adopting(self, now: float) -> None:
        """A plan begins; how soon it fails after this decides how long the next wait is."""
        self._adopted_at = now

    def succeeded(self) -> None:
        self.plan, self.why = None, ""

    def failed(self, plan: Plan, why: str, now: float) -> None:
        soon = now - self._adopted_at <= self._wait_s
        self._wait_s = min(2 * self._wait_s, WAIT_S_MAX) if soon else WAIT_S
        self.plan, self.why, self._again_at = plan, why, now + self._wait_s

    def due(self, now: float) -> Plan | None:
        """The failed plan, when it is time to try it again."""
        if self.plan is None or now < self._again_at:
            return None
        self._again_at = now + self._wait_s
        return self.plan
