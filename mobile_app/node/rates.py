"""How seldom sensors are read: the gateway's hints and the device's own condition, whichever asks for less."""

from __future__ import annotations

from collections.abc import Mapping

HINT_LASTS_S = 60.0  # a gateway repeats a hint while it is meant


class Rates:
    """Shares of the rates that the plan asks for: {sensor: 0..1}, `*` for those that are not named."""

    def __init__(self) -> None:
        self._hints: Mapping[str, float] = {}
        self.hint_ends: float | None = None
        self._allowed: Mapping[str, float] = {}

    def hint(self, rates: Mapping[str, float], now: float) -> None:
        self._hints, self.hint_ends = dict(rates), now + HINT_LASTS_S

    def allow(self, shares: Mapping[str, float]) -> None:
        """What the device's own condition allows."""
        self._allowed = shares

    def now(self, now: float) -> dict[str, float]:
        if self.hint_ends is not None and now >= self.hint_ends:
            self.hint_ends, self._hints = None, {}
        parts = (self._hints, self._allowed)
        names = {name for part in parts for name in part}
        return {name: min(part.get(name, part.get("*", 1.0)) for part in parts) for name in names}
