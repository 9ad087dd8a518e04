"""What flows between operators inside an engine: a run of rows, and how far time has come.

`Rows` is a batch without its frozen wrapping. Columns that say the same on every row (a phone's `device`) are
zero-stride views of one value: they cost nothing to make, to filter, or to use as a key.

`Progress` is what a frontier becomes once several devices share a stream: `floor` holds for every device, `devices`
for those whose own frontier has moved. `complete_us` is up to where nobody is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from shared.batch import NO_FRONTIER, Batch
from shared.language.schema import Schema, dtype


class Rows:
    """Rows in stream order. Covers the numbers [lo, hi) of its producer, of which `seq` have a row."""

    __slots__ = ("columns", "hi", "lo", "seq", "time")

    def __init__(self, columns: Mapping[str, np.ndarray], time: np.ndarray, seq: np.ndarray, lo: int, hi: int) -> None:
        self.columns = columns
        self.time = time
        self.seq = seq
        self.lo = lo
        self.hi = hi

    def __len__(self) -> int:
        return len(self.time)

    def take(self, index: np.ndarray) -> Rows:
        """The rows at these positions, in that order; the covered range stays."""
        columns = {name: take(column, index) for name, column in self.columns.items()}
        return Rows(columns, self.time.take(index), self.seq.take(index), self.lo, self.hi)

    def slice(self, start: int, stop: int) -> Rows:
        columns = {name: column[start:stop] for name, column in self.columns.items()}
        return Rows(columns, self.time[start:stop], self.seq[start:stop], self.lo, self.hi)

    def only(self, names: Sequence[str]) -> Rows:
        return Rows({name: self.columns[name] for name in names}, self.time, self.seq, self.lo, self.hi)


def one_by_one(rows: Rows) -> Iterator[Rows]:
    """Each row by itself; together they cover what the run covers."""
    if not len(rows):
        yield rows
    bounds = [rows.lo, *rows.seq[1:].tolist(), rows.hi]
    for place in range(len(rows)):
        row = rows.slice(place, place + 1)
        row.lo, row.hi = bounds[place], bounds[place + 1]
        yield row


def take(column: np.ndarray, index: np.ndarray) -> np.ndarray:
    """column[index], keeping a constant column constant."""
    if column.strides == (0,) and len(index) <= len(column):
        return column[: len(index)]  # a shorter view of the same value
    return column.take(index)


def read_only(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Views that somebody else's code may read and not change: the arrays may be others' too."""
    seen = {}
    for name, column in columns.items():
        seen[name] = column.view()
        seen[name].flags.writeable = False
    return seen


def constant(value: object, kind: str, rows: int) -> np.ndarray:
    """A column that says the same on every row, without a copy per row."""
    return np.broadcast_to(np.array([value], dtype=dtype(kind)), (rows,))


class Constant:
    """Constant columns of one value: slices of one long view, which cost a tenth of making a view each time."""

    __slots__ = ("_view",)

    def __init__(self, value: object, kind: str) -> None:
        self._view = constant(value, kind, 1 << 16)

    def column(self, rows: int) -> np.ndarray:
        if rows > len(self._view):
            self._view = np.broadcast_to(self._view[:1], (rows,))
        return self._view[:rows]


def joined(runs: Sequence[Rows]) -> Rows:
    """The runs one after the other."""
    if len(runs) == 1:
        return runs[0]
    rows = sum(len(run.time) for run in runs)
    columns = {name: joined_column([run.columns[name] for run in runs], rows) for name in runs[0].columns}
    return Rows(
        columns,
        np.concatenate([run.time for run in runs]),
        np.concatenate([run.seq for run in runs]),
        runs[0].lo,
        runs[-1].hi,
    )


def joined_column(pieces: list[np.ndarray], rows: int) -> np.ndarray:
    """The pieces one after the other; views of one and the same value stay such a view."""
    first = pieces[0]
    if first.strides == (0,) and len(first) and all(piece.base is first.base is not None for piece in pieces):
        return np.broadcast_to(first[:1], (rows,))
    return np.concatenate(pieces)


def empty(schema: Schema) -> Rows:
    columns = {column.name: np.empty(0, dtype(column.kind)) for column in schema}
    return Rows(columns, np.empty(0, np.int64), np.empty(0, np.int64), 0, 0)


def as_batch(rows: Rows, schema: Schema, names: list[str], frontier_us: int) -> Batch:
    """`names` are the schema's."""
    columns = rows.columns
    if list(columns) != names:
        columns = {name: columns[name] for name in names}
    return Batch(schema, columns, rows.time, rows.seq, rows.lo, rows.hi, frontier_us)


_NUMBERS_BLOCK = 1 << 14


class Numbering:
    """Fresh consecutive numbers for what a stateful operator puts out."""

    __slots__ = ("_block", "_first", "next")

    def __init__(self) -> None:
        self.next = 0
        self._first = 0
        self._block = np.empty(0, np.int64)  # numbers are made ahead: small batches take slices

    def rows(self, columns: Mapping[str, np.ndarray], time: np.ndarray) -> Rows:
        lo = self.next
        return Rows(columns, time, self.take(len(time)), lo, self.next)

    def take(self, count: int) -> np.ndarray:
        """The next numbers, `next` being the first of them before the call."""
        start = self.next - self._first
        self.next += count
        if start < 0 or start + count > len(self._block):
            first = self.next - count
            if count > _NUMBERS_BLOCK:
                return np.arange(first, self.next, dtype=np.int64)
            self._first, start = first, 0
            self._block = np.arange(first, first + _NUMBERS_BLOCK, dtype=np.int64)
        return self._block[start : start + count]


_NO_DEVICES: Mapping[str, int] = MappingProxyType({})


class Progress:
    """News of frontiers. `devices` are only those that moved; `complete_us` None is as far as the frontier itself."""

    __slots__ = ("complete_us", "devices", "floor_us")

    def __init__(self, floor_us: int, devices: Mapping[str, int] = _NO_DEVICES, complete_us: int | None = None) -> None:
        self.floor_us = floor_us
        self.devices = devices
        self.complete_us = complete_us


def beyond(time: np.ndarray, frontier: np.ndarray | int, lateness_us: int) -> np.ndarray:
    """Which rows are further behind the frontier than the lateness."""
    limit = np.maximum(frontier, NO_FRONTIER + lateness_us) - lateness_us
    late: np.ndarray = time < limit
    return late
