"""A list in order into which much is put at once and little at a time.

Putting one entry into its place moves all behind it: for a hundred thousand at once that is minutes, where sorting them
is a moment. So what is put in waits until somebody looks.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Any, Generic, TypeVar

Entry = TypeVar("Entry", bound=tuple[Any, ...])
_SORT_FROM = 32  # entries that wait: sorting a list that is in order but for them costs less then


class Ordered(Generic[Entry]):
    """Not safe to share between threads: who keeps it has a lock."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._waiting: list[Entry] = []
        self.changes = 0  # grows with each

    def __len__(self) -> int:
        return len(self._entries) + len(self._waiting)

    def put(self, entry: Entry) -> None:
        self.changes += 1
        self._waiting.append(entry)

    def drop(self, entry: Entry) -> None:
        self.changes += 1
        entries = self.entries()
        del entries[bisect_left(entries, entry)]

    def entries(self) -> list[Entry]:
        """All in order; the list itself, which the next change may change."""
        waiting = self._waiting
        if waiting:
            self._waiting = []
            if len(waiting) > _SORT_FROM:
                self._entries += waiting
                self._entries.sort()
            else:
                for entry in waiting:
                    insort(self._entries, entry)
        return self._entries
