"""A choice among keys, and how the parts of operators' states are cut down to it.

Two things need it. After a hash range was split, each half starts from the whole state and drops the other half's keys
at its next base. And a key whose state makes an operator raise is taken out, so that all others go on.

It works on what an operator dumps, not on what it holds while running: the dump is the stable format, and putting the
cut one back is the ordinary `load`. Keys are numbered densely, so taking some out numbers the others anew; every array
or dictionary by key number is moved along. Rows that wait for a frontier are chosen by their own columns. An operator
whose keys or rows do not carry the columns that decide is left as it is. Frontiers stay: they are about devices and
time, and what they say of a device that is gone does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from shared.engine.keys import KeyIndex
from shared.engine.snapshots import Value

Keep = Callable[[Mapping[str, np.ndarray], int], np.ndarray]  # columns, rows -> which rows' keys stay


@dataclass(frozen=True, slots=True)
class KeyChoice:
    """Which columns decide, and how."""

    columns: tuple[str, ...]
    keep: Keep

    def of(self, columns: Mapping[str, np.ndarray], rows: int) -> np.ndarray:
        """True for the rows that stay: all of them where the deciding columns are not there."""
        if not all(name in columns for name in self.columns):
            return np.ones(rows, bool)
        return self.keep({name: columns[name] for name in self.columns}, rows)

    def keys(self, state: Value, key: KeyIndex) -> tuple[Value, np.ndarray]:
        """The dumped keys that stay, and for each number its new one; -1 for those that go."""
        first, columns = state
        if isinstance(columns, int):  # the one key of a stream without key columns
            stays = self.of({}, columns)
            return [first, int(np.count_nonzero(stays))], np.where(stays, np.cumsum(stays) - 1, -1)
        stays = self.of(dict(zip(key.names, columns, strict=True)), len(columns[0]))
        moved = np.where(stays, np.cumsum(stays) - 1, -1)
        return [first, [column[stays] for column in columns] if stays.any() else 0], moved

    def rows(self, state: Value) -> Value:
        """Dumped rows: columns, times, numbers."""
        columns, time, seq = state
        stays = self.of(columns, len(time))
        return [{name: column[stays] for name, column in columns.items()}, time[stays], seq[stays]]

    def held(self, state: Value) -> Value:
        """Dumped rows that wait for the frontier."""
        if state is None:
            return None
        columns, time, seq, ports = state
        stays = self.of(columns, len(time))
        return [{name: column[stays] for name, column in columns.items()}, time[stays], seq[stays], ports[stays]]


def cut_pool(state: Value, stays: np.ndarray) -> Value:
    """A dumped pool with only the slots that stay."""
    rows, missing, folds, kept = state
    if kept is not None:
        lengths, columns = kept
        inside = np.repeat(stays, lengths)
        kept = [lengths[stays], [column[inside] for column in columns]]
    return [
        rows[stays], {name: counts[stays] for name, counts in missing.items()},
        [[array[stays] for array in arrays] for arrays in folds], kept,
    ]  # fmt: skip


def cut_dictionary(values: Mapping[int, Value], moved: np.ndarray) -> dict[int, Value]:
    """A dictionary by key number."""
    return {int(moved[number]): value for number, value in values.items() if moved[number] >= 0}


def cut_array(values: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """An array by key number, which may be shorter than there are keys."""
    return values[np.flatnonzero(moved[: len(values)] >= 0)]
