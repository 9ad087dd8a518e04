"""Readings that come when the device likes, kept until the node asks for them.

Listeners and child processes append from threads of their own, each reading stamped with the boot clock; the node
reads from its loop. Between the two lies a bounded queue: a node that does not come keeps the newest readings and
counts the others as overrun.

The frontier is the one subtle point. A reading arrives some time after its stamp, so "nothing earlier than now
follows" would be a lie. What is true is that everything stamped before the *previous* read, less the time the
sensor's own queue may hold readings back, has had a whole turn of the loop to arrive. A phone that slept for an hour
therefore does not move the frontier over readings its sensor hub is about to deliver. One that comes later still is
given the frontier's time, and counted: its value is true, its time then is only close.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from mobile_app.sensors.source import Samples

QUEUE_MAX = 20_000  # readings; a minute and a half at 200 Hz

EventTime = Callable[[int], int]  # microseconds since boot -> event time in microseconds
Row = tuple[Any, ...]


class Arrivals:
    """The queue between one sensor and the loop. `append` is safe from any thread, the rest is the loop's."""

    def __init__(
        self,
        columns: tuple[str, ...],
        *,
        every_us: int | None,
        from_us: int,
        event_time: EventTime,
        held_back_us: int = 0,
    ) -> None:
        """`held_back_us`: how long the sensor may sit on a reading before it hands it over. `every_us` None: each
        reading is wanted, however close they come."""
        self._columns = columns
        self._every_us = every_us
        self._event_time = event_time
        self._held_back_us = held_back_us
        self._queue: deque[tuple[int, Row]] = deque(maxlen=QUEUE_MAX)
        self._next: tuple[int, Row] | None = None  # taken from the queue, but not yet before until_us
        self._count = 0
        self._lost = 0
        self._taken = 0
        self._frontier_us = from_us
        self._read_until_us = from_us
        self._due_us: int | None = None
        self._latest: Row | None = None
        self._overruns_read = 0  # those that samples have told of
        self.late = 0

    @property
    def count(self) -> int:
        """How many readings ever came."""
        return self._count - self._lost

    @property
    def overrun(self) -> int:
        """How many the queue had no room for."""
        return self._count - self._taken - len(self._queue)

    def append(self, boot_us: int, row: Row) -> None:
        self._queue.append((boot_us, row))
        self._count += 1

    def lose(self, count: int) -> None:
        """Count readings that were lost before they got here."""
        self._count += count
        self._lost += count

    def extend(self, readings: Iterable[tuple[int, Row]]) -> None:
        for boot_us, row in readings:
            self.append(boot_us, row)

    def hold_back(self, held_back_us: int) -> None:
        """The sensor's own queue may keep readings this long from now on."""
        self._held_back_us = held_back_us

    def sample_every(self, period_us: int) -> None:
        self._every_us = period_us
        self._due_us = None

    def read(self, until_us: int) -> Samples:
        """Readings before until_us, thinned to the asked period where the device gives more."""
        times: list[int] = []
        rows: list[Row] = []
        while (arrived := self._take()) is not None:
            boot_us, row = arrived
            time_us = self._event_time(boot_us)
            if time_us >= until_us:
                self._next = arrived
                break
            self._latest = row
            if not self._wanted(time_us):
                continue
            if time_us < self._frontier_us:
                self.late += 1
                time_us = self._frontier_us
            self._frontier_us = time_us
            times.append(time_us)
            rows.append(row)
        self._frontier_us = min(until_us, max(self._frontier_us, self._read_until_us - self._held_back_us))
        self._read_until_us = max(self._read_until_us, until_us)
        overruns = max(0, self.overrun - self._overruns_read)  # another thread appends while this counts
        self._overruns_read += overruns
        return Samples(np.asarray(times, np.int64), self._as_columns(rows), self._frontier_us, overruns)

    def _take(self) -> tuple[int, Row] | None:
        """The oldest that is left. Looking at the queue's end first and removing it then would race with an overrun."""
        if self._next is not None:
            arrived, self._next = self._next, None
            return arrived
        try:
            arrived = self._queue.popleft()
        except IndexError:
            return None
        self._taken += 1
        return arrived

    def _wanted(self, time_us: int) -> bool:
        """Half a period of tolerance: a reading that jitters is kept, the surplus of a faster sensor is not."""
        if self._every_us is None:
            return True
        if not self._every_us:
            return False  # on request only
        if self._due_us is None:
            self._due_us = time_us
        if time_us < self._due_us - self._every_us // 2:
            return False
        self._due_us = max(self._due_us + self._every_us, time_us)
        return True

    def at(self, time_us: np.ndarray) -> Samples:
        """The newest reading there is, for each of these times."""
        if self._queue:
            self._latest = self._queue[-1][1]
        if self._latest is None:
            return Samples(time_us[:0], self._as_columns([]), int(time_us[-1]))
        return Samples(time_us, self._as_columns([self._latest] * len(time_us)), int(time_us[-1]))

    def _as_columns(self, rows: list[Row]) -> dict[str, np.ndarray]:
        if not rows:
            return {name: np.empty(0) for name in self._columns}
        return {name: np.asarray(values) for name, values in zip(self._columns, zip(*rows, strict=True), strict=True)}
