"""The rows that windows still to come need, of all keys: one heap of columns, with a region of it for each key.

Everything is an array indexed by the key's number, so a batch of many keys costs a few gathers and not a step per key.
A key that outgrows its region gets one twice as large at the heap's end; once half the heap is left behind, it is
packed again.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

_HEAP_MIN = 256


class Histories:
    """`columns` are of no rows, and say the kinds; `time` is kept beside them. A key keeps `rows_max` rows at most."""

    def __init__(self, columns: Mapping[str, np.ndarray], rows_max: int) -> None:
        self.rows_max = rows_max
        self.time = np.empty(0, np.int64)
        self.columns = dict(columns)
        self.number = np.zeros(0, np.int64)  # by key: how many rows there have been
        self.length = np.zeros(0, np.int64)  # by key: how many of them are kept, from `_start` on
        self._start = np.zeros(0, np.int64)
        self._room = np.zeros(0, np.int64)
        self._end = 0

    def reserve(self, keys: int) -> None:
        """Makes keys below this number exist."""
        if keys > len(self.number):
            more = np.zeros(max(keys, 2 * len(self.number)) - len(self.number), np.int64)
            self.number, self.length = np.append(self.number, more), np.append(self.length, more)
            self._start, self._room = np.append(self._start, more), np.append(self._room, more)

    def of(self, key: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """One key's times and columns."""
        start = int(self._start[key])
        stop = start + int(self.length[key])
        return self.time[start:stop], {name: column[start:stop] for name, column in self.columns.items()}

    def places(self, keys: np.ndarray) -> np.ndarray:
        """Where the rows of these keys lie in the heap, key after key."""
        return runs(self._start[keys], self.length[keys])

    def put(
        self,
        keys: np.ndarray,
        number: np.ndarray,
        length: np.ndarray,
        time: np.ndarray,
        columns: Mapping[str, np.ndarray],
    ) -> None:
        """What these keys keep from now on: so many rows each, key after key; and how many rows there have been."""
        self.number[keys] = number
        self._make_room(keys, length)
        self.length[keys] = length
        places = self.places(keys)
        self.time[places] = time
        for name, column in columns.items():
            self.columns[name][places] = column

    def put_one(self, key: int, number: int, time: np.ndarray, columns: Mapping[str, np.ndarray]) -> None:
        """`put` of one key."""
        count = len(time)
        if count > self._room[key]:
            self._make_room(np.array([key]), np.array([count]))
        self.number[key], self.length[key] = number, count
        start = int(self._start[key])
        self.time[start : start + count] = time
        for name, column in columns.items():
            self.columns[name][start : start + count] = column

    def clear(self) -> None:
        self.number[:] = self.length[:] = self._room[:] = 0
        self._end = 0

    def _make_room(self, keys: np.ndarray, length: np.ndarray) -> None:
        """Regions for so many rows; what lies in those that move is given up."""
        room = self._room[keys]
        short = length > room
        if not short.any():
            return
        movers = keys[short]
        grown = np.maximum(length[short], np.minimum(2 * room[short], self.rows_max))
        self.length[movers] = 0
        self._room[movers] = 0
        added = int(grown.sum())
        if self._end + added > len(self.time):
            self._pack(added)
        self._room[movers] = grown
        self._start[movers] = self._end + np.cumsum(grown) - grown
        self._end += added

    def _pack(self, more: int) -> None:
        """A heap of regions side by side, in which so many rows more find room."""
        kept = np.flatnonzero(self._room)
        old = self.places(kept)
        rooms = self._room[kept]
        self._start[kept] = np.cumsum(rooms) - rooms
        self._end = int(rooms.sum())
        places = self.places(kept)
        capacity = max(_HEAP_MIN, 2 * (self._end + more))
        self.time = _moved(self.time, old, places, capacity)
        self.columns = {name: _moved(column, old, places, capacity) for name, column in self.columns.items()}


def _moved(column: np.ndarray, old: np.ndarray, new: np.ndarray, capacity: int) -> np.ndarray:
    made = np.empty(capacity, column.dtype)
    made[new] = column[old]
    return made


def runs(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """start, start + 1, ... of each run, run after run."""
    stops = np.cumsum(lengths)
    made: np.ndarray = np.arange(int(stops[-1]) if len(stops) else 0) + np.repeat(starts - stops + lengths, lengths)
    return made
