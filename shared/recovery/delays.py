"""When a delay is a failure: while a recovery begun now would still be in time (EC-15).

A link that is away for a moment is mended by what its spool holds. Recovering takes time itself, so it must begin when
the delay so far plus that time reaches what was promised. The time is measured: the longest of the last few recoveries,
or a guess before the first.
"""

from __future__ import annotations

from collections import deque

REMEMBERED = 8  # recoveries: enough to have seen a slow one, few enough to forget a slow day


class DelayWatch:
    """For one sink with a promised delay."""

    def __init__(self, bound_s: float, recovery_s: float) -> None:
        """`recovery_s`: how long a recovery takes, guessed."""
        self.bound_s = bound_s
        self._guess_s = recovery_s
        self._measured_s: deque[float] = deque(maxlen=REMEMBERED)
        self._since: float | None = None  # when the recovery that is under way began

    @property
    def recovery_s(self) -> float:
        return max(self._measured_s, default=self._guess_s)

    def must_recover(self, delay_s: float) -> bool:
        """Whether to begin now. A recovery under way is not begun again; a promise shorter than a recovery leaves no
        time to wait, so any delay begins one."""
        return self._since is None and delay_s > max(0.0, self.bound_s - self.recovery_s)

    def next_look(self, delay_s: float, now: float) -> float | None:
        """When a delay that only grows would be too long; None while a recovery is under way."""
        return None if self._since is not None else now + max(0.0, self.bound_s - self.recovery_s - delay_s)

    def began(self, now: float) -> None:
        self._since = now

    def ended(self, now: float) -> None:
        """It runs again, restored and connected; catching up is not part of it."""
        if self._since is not None:
            self._measured_s.append(now - self._since)
            self._since = None
