"""Keys as small numbers: each distinct combination of key columns gets the next dense number, in order of arrival.

Everything keyed in the engine is an array or a dictionary indexed by that number, so a key's text is stored once.
Three ways to find numbers, all with the same answer: a table for integers in a small range, one lookup for a batch
whose only key is the same text throughout (one device's batch), and a dictionary for the rest. Plans refuse
floats as keys, so equality is plain.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from shared.engine.snapshots import Value
from shared.stream.schema import dtype

_TABLE_SPAN_MAX = 1 << 16  # a table of this many numbers costs half a megabyte at most


class KeyIndex:
    """Dense numbers for the values of the columns `names`."""

    def __init__(self, names: tuple[str, ...], kinds: tuple[str, ...]) -> None:
        self.names = names
        self.kinds = kinds
        self.values: list[tuple[object, ...]] = []  # by number
        self._numbers: dict[object, int] = {}
        self._marked = 0  # numbers below this were in the last snapshot or change set
        self._single = len(names) == 1
        self._table: np.ndarray | None = None
        self._table_low: int | None = None
        self._tabulated = self._single and kinds[0] not in ("str", "bool")

    def __len__(self) -> int:
        return len(self.values)

    def numbers(self, columns: Mapping[str, np.ndarray], rows: int) -> np.ndarray:
        """The number of each row's key; keys not seen before get the next ones."""
        if not self.names:
            if not self.values:
                self._add((), ())
            return np.zeros(rows, np.int64)
        if self._single:
            column = columns[self.names[0]]
            if self._tabulated:
                return self._from_table(column)
            if self.kinds[0] == "str" and rows and _constant(column):
                return np.full(rows, self._number(column[0]), np.int64)
        return self._from_dictionary(columns, rows)

    def _from_table(self, column: np.ndarray) -> np.ndarray:
        table = self._table
        if table is not None:
            # Keys outside the table clip onto its first or last entry, which stay -1: one gather answers for all.
            offsets = column if self._table_low is None else column.astype(np.int64) - self._table_low
            found: np.ndarray = table.take(offsets, mode="clip")
            if len(found) == 0 or np.minimum.reduce(found) >= 0:
                return found
        return self._learn(column)

    def _learn(self, column: np.ndarray) -> np.ndarray:
        """Numbers the new keys of an integer column, and makes the table cover them when their range is small."""
        listed: list[int] = column.tolist()
        numbers = self._numbers
        for value in dict.fromkeys(listed):
            if value not in numbers:
                self._add(value, (value,))
        known: list[int] = [value for value in numbers if isinstance(value, int)]
        low, high = min(known, default=0), max(known, default=0)
        self._table = None
        if high < _TABLE_SPAN_MAX and column.dtype.kind == "u":
            self._table_low = None  # small unsigned numbers index the table as they are
            self._table = np.full(high + 2, -1, np.int64)
            self._table[known] = [numbers[value] for value in known]
        elif high - low < _TABLE_SPAN_MAX and abs(low) < 2**62:
            self._table_low = low - 1
            self._table = np.full(high - low + 3, -1, np.int64)
            self._table[[value - low + 1 for value in known]] = [numbers[value] for value in known]
        else:
            self._tabulated = False
        return np.fromiter((numbers[value] for value in listed), np.int64, len(listed))

    def _from_dictionary(self, columns: Mapping[str, np.ndarray], rows: int) -> np.ndarray:
        lists = [columns[name].tolist() for name in self.names]
        items = lists[0] if self._single else list(zip(*lists, strict=True))
        numbers = self._numbers
        get = numbers.get
        found = [get(item, -1) for item in items]
        if -1 in found:
            for row, number in enumerate(found):
                if number < 0:
                    known = get(items[row])
                    found[row] = self._add(items[row], self._tuple(items[row])) if known is None else known
        return np.fromiter(found, np.int64, rows)

    def number(self, key: tuple[object, ...]) -> int:
        """The number of one key given as a tuple of values."""
        return self._number(key[0] if self._single else key)

    def _number(self, item: object) -> int:
        known = self._numbers.get(item)
        return self._add(item, self._tuple(item)) if known is None else known

    def _tuple(self, item: object) -> tuple[object, ...]:
        return (item,) if self._single else item  # type: ignore[return-value]

    def _add(self, item: object, key: tuple[object, ...]) -> int:
        number = len(self.values)
        self._numbers[item] = number
        self.values.append(key)
        return number

    def columns(self, numbers: np.ndarray) -> dict[str, np.ndarray]:
        """The key columns of the given numbers."""
        chosen = [self.values[number] for number in numbers.tolist()]
        return {
            name: np.array([key[place] for key in chosen], dtype=dtype(kind))
            for place, (name, kind) in enumerate(zip(self.names, self.kinds, strict=True))
        }

    def order(self, numbers: np.ndarray) -> np.ndarray:
        """The positions that sort the numbers by their keys' values: the order results are emitted in."""
        if len(numbers) < 2 or not self.names:
            return np.arange(len(numbers))
        values = self.values
        places = sorted(range(len(numbers)), key=[values[number] for number in numbers.tolist()].__getitem__)
        return np.array(places, np.int64)

    # -- state -------------------------------------------------------------------------------------------------

    def dump(self, *, since_mark: bool = False) -> Value:
        """Keys in order of their numbers, all or only those since the last dump."""
        first = self._marked if since_mark else 0
        fresh = self.values[first:]
        self._marked = len(self.values)
        return [
            first,
            [
                np.array([key[place] for key in fresh], dtype=dtype(kind))
                for place, kind in enumerate(self.kinds)
            ] if fresh and self.kinds else len(fresh),
        ]  # fmt: skip

    def load(self, state: Value) -> None:
        first, columns = state
        if first == 0:
            self.values.clear()
            self._numbers.clear()
            self._table = None
            self._tabulated = self._single and self.kinds[0] not in ("str", "bool")
        if isinstance(columns, int):
            for _ in range(columns):
                self._add((), ())
        else:
            for key in zip(*(column.tolist() for column in columns), strict=True):
                self.number(key)
        self._marked = len(self.values)


def _constant(column: np.ndarray) -> bool:
    if column.strides == (0,) or len(column) == 1:
        return True
    return bool(column[0] == column[-1]) and bool((column == column[0]).all())
