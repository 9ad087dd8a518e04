"""One event heap, one virtual clock. Events at the same time happen in the order they were asked for."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Callable[..., object], tuple[object, ...]]] = []
        self._count = 0
        self.events = 0

    def at(self, time: float, act: Callable[..., object], *arguments: object) -> None:
        self._count += 1
        heappush(self._heap, (max(time, self.now), self._count, act, arguments))

    def after(self, delay_s: float, act: Callable[..., object], *arguments: object) -> None:
        self.at(self.now + delay_s, act, *arguments)

    def run_one(self, until: float) -> bool:
        """Let the next event happen if it is due by then."""
        if not self._heap or self._heap[0][0] > until:
            return False
        self.now, _, act, arguments = heappop(self._heap)
        self.events += 1
        act(*arguments)
        return True
