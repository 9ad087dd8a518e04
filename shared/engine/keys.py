"""Keys as small numbers: each distinct combination of key columns gets the next dense number, in order of arrival.

Everything keyed in the engine is an array or a dictionary indexed by that number, so a key's text is stored once.
Three ways to find numbers, all with the same answer: a table for integers in a small range, one lookup for a batch
whose only key is the same text throughout (one device's batch), and a dictionary for the rest. Plans refuse
floats as keys, so equality is plain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from shared.engine.snapshots import Value
from shared.stream.schema import dtype

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")  # a uint64 may not fit the arithmetic
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
        self._tables: dict[tuple[object, ...], _Table] = {}  # by the other key columns' values
        self._untabled: set[tuple[object, ...]] = set()

    def __len__(self) -> int:
        return len(self.values)

    def numbers(self, columns: Mapping[str, np.ndarray], rows: int) -> np.ndarray:
        """The number of each row's key; keys not seen before get the next ones."""
        if not rows:
            return np.empty(0, np.int64)
        given = [columns[name] for name in self.names]
        varying = [place for place, column in enumerate(given) if not _constant(column, self.kinds[place])]
        if not varying:
            key = tuple(column[:1].tolist()[0] for column in given)
            return np.broadcast_to(np.array([self.number(key)], np.int64), (rows,))
        if len(varying) == 1 and self.kinds[varying[0]] in INTEGERS:
            place = varying[0]
            around = tuple(None if at == place else column[:1].tolist()[0] for at, column in enumerate(given))
            found = self._from_table(place, around, given[place])
            if found is not None:
                return found
        return self._from_dictionary(given, rows)

    def _from_table(self, place: int, around: tuple[object, ...], column: np.ndarray) -> np.ndarray | None:
        """By a table for the whole numbers of one column, the other key columns saying the same throughout."""
        table = self._tables.get(around)
        if table is not None:
            # Keys outside the table clip onto its first or last entry, which stay -1: one gather answers for all.
            found = table.entries.take(
                column if table.low is None else column.astype(np.int64) - table.low, mode="clip"
            )
            if np.minimum.reduce(found) >= 0:
                return found
        elif around in self._untabled:
            return None
        return self._learn(place, around, column)

    def _learn(self, place: int, around: tuple[object, ...], column: np.ndarray) -> np.ndarray | None:
        """Numbers the new keys of a whole-number column, and makes a table cover them while their range is small."""
        known = self._tables.get(around)
        fresh = dict.fromkeys(column.tolist())  # in order of arrival
        before, after = around[:place], around[place + 1 :]
        for value in fresh:
            self.number((*before, value, *after))
        low, high = min(fresh), max(fresh)
        if known is not None:
            base = known.low or 0
            if base + (known.low is not None) <= low and high < base + len(known.entries) - 1:
                known.values.update(fresh)
                for value in fresh:
                    known.entries[value - base] = self.number((*before, value, *after))
                return known.entries.take(column if known.low is None else column.astype(np.int64) - base)
            low, high = min((low, *known.values)), max((high, *known.values))
        values = known.values.union(fresh) if known is not None else set(fresh)
        if high - low >= _TABLE_SPAN_MAX or abs(low) >= 2**62:
            self._untabled.add(around)
            return None
        direct = column.dtype.kind == "u" and high < _TABLE_SPAN_MAX  # small unsigned numbers index as they are
        base = 0 if direct else low - 1
        entries = np.full(high - base + 2, -1, np.int64)
        for value in values:
            entries[value - base] = self.number((*before, value, *after))
        self._tables[around] = _Table(None if direct else base, entries, values)
        return entries.take(column if direct else column.astype(np.int64) - base)

    def _from_dictionary(self, given: list[np.ndarray], rows: int) -> np.ndarray:
        lists = [column.tolist() for column in given]
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
            self._tables.clear()
            self._untabled.clear()
        if isinstance(columns, int):
            for _ in range(columns):
                self._add((), ())
        else:
            for key in zip(*(column.tolist() for column in columns), strict=True):
                self.number(key)
        self._marked = len(self.values)


@dataclass(slots=True)
class _Table:
    low: int | None  # what to subtract; None: nothing
    entries: np.ndarray
    values: set[int]


def _constant(column: np.ndarray, kind: str) -> bool:
    if column.strides == (0,) or len(column) == 1:
        return True
    # Worth a look only where it is cheap beside a dictionary: text, of one device's batch.
    return kind == "str" and bool(column[0] == column[-1]) and bool((column == column[0]).all())
