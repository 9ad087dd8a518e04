"""Pages that stay up to date: how many of them one person may have open.

Each open stream looks at the databases every second or two, in the threads that all pages share. A viewer who opens
hundreds would slow down everybody who looks here, so a person has a few and all together some more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from cloud_backend.coordinator.people import Person
from cloud_backend.gateway.http_problems import Problem

PER_PERSON_MAX = 20  # tabs on several machines
IN_ALL_MAX = 200


class LiveStreams:
    """The streams that are open now; touched by the loop only."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    def check_room(self, person: Person) -> None:
        """Problem when this person, or everybody together, has as many open as there may be."""
        if self._open[person.name] >= PER_PERSON_MAX or self._open.total() >= IN_ALL_MAX:
            raise Problem("live-streams", "too many pages are open at once; close some", status=429, retry_after_s=5)

    @contextmanager
    def opened(self, person: Person) -> Iterator[None]:
        self._open[person.name] += 1
        try:
            yield
        finally:
            self._open[person.name] -= 1
            if not self._open[person.name]:
                del self._open[person.name]
