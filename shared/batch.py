"""A batch: a columnar run of elements of one stream.

It covers a frozen range [lo, hi) of its origin's sequence numbers even when filters left it fewer rows,
or none: the numbers without a row were computed away, not lost. Rows are in ascending `seq`. Stateless
operators keep origin numbers, stateful ones renumber. `frontier_us` says: no row with an earlier event time
follows on this edge. `applied` is the stamp of the last operator already applied (0: raw).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from shared.language.schema import Schema, dtype

NO_FRONTIER = -(2**63)  # before every event time
END_OF_TIME = 2**63 - 1  # after every event time: the stream has ended


# Nobody changes a batch: `Final` has mypy say so. A frozen dataclass says it at run time too, and spends a microsecond
# per batch on it, as much as a small batch's filter.
@dataclass(slots=True, eq=False)
class Batch:
    schema: Final[Schema]
    columns: Final[Mapping[str, np.ndarray]]  # exactly schema's names, one-dimensional, equal lengths
    time_us: Final[np.ndarray]  # int64
    seq: Final[np.ndarray]  # int64, ascending, lo <= seq < hi
    lo: Final[int]
    hi: Final[int]
    frontier_us: Final[int] = NO_FRONTIER
    applied: Final[int] = 0

    def __len__(self) -> int:
        return len(self.seq)

    @staticmethod
    def of(
        schema: Schema, columns: Mapping[str, object], time_us: object, *, lo: int = 0, frontier_us: int = NO_FRONTIER
    ) -> Batch:
        """A batch whose rows are numbered lo, lo + 1, ... without gaps."""
        times = np.asarray(time_us, dtype=np.int64)
        hi = lo + len(times)
        return Batch(
            schema=schema,
            columns={field.name: np.asarray(columns[field.name], dtype=dtype(field.kind)) for field in schema},
            time_us=times,
            seq=np.arange(lo, hi, dtype=np.int64),
            lo=lo,
            hi=hi,
            frontier_us=frontier_us,
        )

    def take(self, index: np.ndarray | slice) -> Batch:
        """The rows at these places, ascending; the covered range stays. A slice copies nothing."""
        columns = {name: column[index] for name, column in self.columns.items()}
        return replace(self, columns=columns, time_us=self.time_us[index], seq=self.seq[index])

    def slice(self, start: int, stop: int | None = None) -> Batch:
        """The rows from place `start` to before `stop`. Slices that meet cover together what the batch covers."""
        rows = slice(start, stop)
        return replace(
            self,
            columns={name: column[rows] for name, column in self.columns.items()},
            time_us=self.time_us[rows],
            seq=self.seq[rows],
            lo=self.lo if start == 0 else int(self.seq[start]),
            hi=self.hi if stop is None or stop >= len(self) else int(self.seq[stop]),
        )

    def after(self, number: int) -> Batch:
        """The part from this number on; lo < number < hi."""
        return replace(self.take(np.flatnonzero(self.seq >= number)), lo=number)

    @staticmethod
    def joined(batches: Sequence[Batch]) -> Batch:
        """Batches of one edge one after the other, at least one; frontier and stamp are the last one's."""
        first = batches[0]
        if len(batches) == 1:
            return first
        return _joined(batches, np.concatenate([batch.seq for batch in batches]), first.lo, batches[-1].hi)

    @staticmethod
    def renumbered(batches: Sequence[Batch], lo: int) -> Batch:
        """The same, with the rows numbered lo, lo + 1, ... without gaps."""
        hi = lo + sum(map(len, batches))
        seq = np.arange(lo, hi, dtype=np.int64)
        if len(batches) == 1:
            return replace(batches[0], seq=seq, lo=lo, hi=hi)
        return _joined(batches, seq, lo, hi)


def _joined(batches: Sequence[Batch], seq: np.ndarray, lo: int, hi: int) -> Batch:
    columns = {
        name: _concatenated([batch.columns[name] for batch in batches]) for name in batches[0].schema.names
    }  # fmt: skip
    time_us = np.concatenate([batch.time_us for batch in batches])
    return replace(batches[-1], columns=columns, time_us=time_us, seq=seq, lo=lo, hi=hi)


def _concatenated(columns: Sequence[np.ndarray]) -> np.ndarray:
    """One column behind the other. One that says the same on every row, as `device` often does, stays a view."""
    if all(column.strides == (0,) and len(column) for column in columns):
        value = columns[0][:1]
        if all(column[0] == value[0] for column in columns[1:]):
            return np.broadcast_to(value, (sum(map(len, columns)),))
    return np.concatenate(columns)
