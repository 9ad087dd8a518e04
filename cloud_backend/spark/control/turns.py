"""Turns of several jobs on one Spark session: first come, first served.

Left to itself, Spark's fair scheduler takes pools with equally few tasks by their names. With more jobs than cores the
same ones were taken first every time, and those at the end of the alphabet never. So jobs queue here before Spark sees
them: only as many are in it as it has cores, and whoever had a turn goes to the end of the queue for the next.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from cloud_backend.spark.control.driver import Runner
from cloud_backend.spark.task.specification import Outcome, Specification


class Turns:
    """A runner that several jobs share; each call of one is a turn."""

    def __init__(self, runner: Runner, at_once: int) -> None:
        self._runner = runner
        self.code = runner.code
        self._free = max(1, at_once)
        self._changed = threading.Condition()
        self._queue: deque[object] = deque()

    def run(self, specs: Sequence[Specification], *, timeout_s: float | None = None) -> list[list[Outcome]]:
        """As the runner does it; its time limit begins with the turn."""
        with self._turn():
            return self._runner.run(specs, timeout_s=timeout_s)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        ticket = object()
        with self._changed:
            self._queue.append(ticket)
            self._changed.wait_for(lambda: self._free and self._queue[0] is ticket)
            self._queue.popleft()
            self._free -= 1
            self._changed.notify_all()  # the next one may be free to go too
        try:
            yield
        finally:
            with self._changed:
                self._free += 1
                self._changed.notify_all()
