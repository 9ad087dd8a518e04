"""Keys as small numbers: each distinct combination of key columns gets the next dense number, in order of arrival.

Everything keyed in the engine is an array or a dictionary indexed by that number, so a key's text is stored once.
Three ways to find numbers, all with the same answer: a table for integers in a small range, one lookup for a batch
whose only key is the same text throughout (one device's batch), and a dictionary for the rest. Plans refuse
floats as keys, so equality is plain.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from shared.engine.rows import Constant
from shared.engine.snapshots import Value
from shared.language.schema import dtype

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")  # a uint64 may not fit the arithmetic
_CONSTANTS_MAX = 1_000
_TABLE_SPAN_MAX = 1 << 16  # a table of this many numbers costs half a megabyte at most


class KeyIndex:
    """Dense numbers for the values of the columns `names`."""

    def __init__(self, names: tuple[str, ...], kinds: tuple[str, ...]) -> None:
        self.names = names
        self.kinds = kinds
        self.values: list[tuple[object, ...]] = []  # by number
        self._numbers: dict[object, int] = {}
        self._marked = 0  # numbers below this were in the last snapshot or change set
        self._again_said: tuple[int, int] | None = None  # of all numbers this one of so many parts, in the next set
        self._single = len(names) == 1
        self._tables: dict[tuple[object, ...], _Table] = {}  # by the other key columns' values
        self._untabled: set[tuple[object, ...]] = set()
        self._again: tuple[str, np.ndarray | None, str, _Table] | None = None
        self._steady: tuple[list[tuple[str, np.ndarray | None]], int] | None = None
        self._owners: list[np.ndarray | None] = []
        self._last_around: tuple[object, ...] = ()
        self._ranks = np.empty(0, np.int64)  # each number's place among all keys in order, while nobody is new
        self._same: dict[int, Constant] = {}  # a whole batch of one key
        self._constants: dict[tuple[int, object], Constant] = {}
        self._columns: list[np.ndarray] = [np.empty(0, dtype(kind)) for kind in kinds]  # the key columns, by number

    def __len__(self) -> int:
        return len(self.values)

    def numbers(self, columns: Mapping[str, np.ndarray], rows: int) -> np.ndarray:
        """The number of each row's key; keys not seen before get the next ones."""
        if not rows:
            return np.empty(0, np.int64)
        if not self.names:  # nobody is told apart
            return self._of_one(self.number(()), rows)
        if self._again is not None:
            steady, owner, varying_name, table = self._again
            if columns[steady].base is owner:
                column = columns[varying_name]
                found = table.entries.take(
                    column if table.low is None else column.astype(np.int64) - table.low, mode="clip"
                )
                if np.minimum.reduce(found) >= 0:
                    return found
        if self._steady is not None:
            owners, number = self._steady
            if all(columns[name].base is owner for name, owner in owners):
                return self._of_one(number, rows)
        given = [columns[name] for name in self.names]
        varying = [place for place, column in enumerate(given) if not _constant(column, self.kinds[place])]
        if not varying:
            number = self.number(tuple(column[:1].tolist()[0] for column in given))
            if all(isinstance(column.base, np.ndarray) and column.base.size == 1 for column in given):
                # One device's next batch has views of the same values.
                self._steady = ([(name, columns[name].base) for name in self.names], number)
            return self._of_one(number, rows)
        if len(varying) == 1 and self.kinds[varying[0]] in INTEGERS:
            place = varying[0]
            around = self._around(place, given)
            numbers = self._from_table(place, around, given[place])
            if numbers is not None:
                if len(given) == 2 and given[1 - place].strides == (0,):
                    # One device's next batch will look the same but for its numbers.
                    self._again = (
                        self.names[1 - place],
                        given[1 - place].base,
                        self.names[place],
                        self._tables[around],
                    )
                return numbers
        return self._from_dictionary(given, rows)

    def _of_one(self, number: int, rows: int) -> np.ndarray:
        """A whole batch of one key."""
        if number not in self._same:
            if len(self._same) > _CONSTANTS_MAX:
                self._same.clear()
            self._same[number] = Constant(number, "int64")
        return self._same[number].column(rows)

    def _around(self, place: int, given: list[np.ndarray]) -> tuple[object, ...]:
        """The values of the key columns that say the same throughout. Views of one value are known by their owner."""
        owners = [column.base for at, column in enumerate(given) if at != place]
        if owners and self._owners and all(map(operator.is_, owners, self._owners)) and None not in owners:
            return self._last_around
        around = tuple(None if at == place else column[:1].tolist()[0] for at, column in enumerate(given))
        views = [column.strides == (0,) for at, column in enumerate(given) if at != place]
        self._owners = owners if all(views) else []
        self._last_around = around
        return around

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
            return self._learn(place, around, column, column[found < 0])
        if around in self._untabled:
            return None
        return self._learn(place, around, column, column)

    def _learn(self, place: int, around: tuple[object, ...], column: np.ndarray, new: np.ndarray) -> np.ndarray | None:
        """Numbers the new keys of a whole-number column, and makes a table cover them while their range is small."""
        known = self._tables.get(around)
        fresh = dict.fromkeys(new.tolist())  # in order of arrival
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
            self._tables.pop(around, None)  # else every batch with keys outside it would try again
            self._again = None
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
        if self.names and len(self._columns[0]) < len(self.values):
            known = len(self._columns[0])
            fresh = self.values[known:]
            for place, kind in enumerate(self.kinds):
                added = np.array([key[place] for key in fresh], dtype=dtype(kind))
                self._columns[place] = np.concatenate((self._columns[place], added))
        if numbers.strides == (0,) and len(numbers):
            key = self.values[numbers[0]]
            return {
                name: self._constant(place, key[place]).column(len(numbers)) for place, name in enumerate(self.names)
            }
        return {name: self._columns[place][numbers] for place, name in enumerate(self.names)}

    def _constant(self, place: int, value: object) -> Constant:
        made = self._constants.get((place, value))
        if made is None:
            if len(self._constants) > _CONSTANTS_MAX:
                self._constants.clear()
            made = self._constants[place, value] = Constant(value, self.kinds[place])
        return made

    def order(self, numbers: np.ndarray) -> np.ndarray:
        """The positions that sort the numbers by their keys' values: the order results are emitted in."""
        if len(numbers) < 2 or not self.names:
            return np.arange(len(numbers))
        values = self.values
        if len(self._ranks) != len(values):
            if len(numbers) < len(values) // 4:  # few of many: not worth ranking everyone
                return self._sorted(numbers)
            ranks = np.empty(len(values), np.int64)
            ranks[self._sorted(np.arange(len(values)))] = np.arange(len(values))
            self._ranks = ranks
        order: np.ndarray = self._ranks[numbers].argsort()
        return order

    def _sorted(self, numbers: np.ndarray) -> np.ndarray:
        if self._single and self.kinds[0] in INTEGERS:
            return self.columns(numbers)[self.names[0]].argsort(kind="stable")
        keys = [self.values[number] for number in numbers.tolist()]
        return np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)

    # -- state -------------------------------------------------------------------------------------------------

    def say_again(self, part: int, parts: int) -> None:
        """The next change set also says the keys whose numbers leave this rest when divided by so many."""
        self._again_said = (part, parts)

    def dump(self, *, since_mark: bool = False) -> Value:
        """Keys in order of their numbers, all or only those since the last dump."""
        first = self._marked if since_mark else 0
        again, self._again_said = self._again_said, None
        self._marked = len(self.values)
        state = [first, self._dumped(self.values[first:])]
        if again is None or not since_mark:
            return state
        part, parts = again
        return [*state, part, parts, self._dumped(self.values[part:first:parts])]

    def _dumped(self, keys: list[tuple[object, ...]]) -> Value:
        if not keys or not self.kinds:
            return len(keys)
        return [np.array([key[place] for key in keys], dtype=dtype(kind)) for place, kind in enumerate(self.kinds)]

    def load(self, state: Value) -> None:
        first, columns, *again = state
        if again:
            # Pieces may come before those with lower numbers: their places stay free until then.
            part, parts, said = again
            stop = first + (columns if isinstance(columns, int) else len(columns[0]))
            self.values += [()] * (stop - len(self.values))
            self._put(range(part, first, parts), said)
            self._put(range(first, stop), columns)
            self._marked = len(self.values)
            return
        if first == 0:
            self.values.clear()
            self._numbers.clear()
            self._tables.clear()
            self._untabled.clear()
            self._again = self._steady = None
            self._ranks = np.empty(0, np.int64)
            self._same.clear()
            self._columns = [np.empty(0, dtype(kind)) for kind in self.kinds]
        if isinstance(columns, int):
            for _ in range(columns):
                self._add((), ())
        else:
            for key in zip(*(column.tolist() for column in columns), strict=True):
                self.number(key)
        self._marked = len(self.values)

    def _put(self, numbers: range, columns: Value) -> None:
        """Give these keys these numbers."""
        keys = [()] * columns if isinstance(columns, int) else zip(*(each.tolist() for each in columns), strict=True)
        for number, key in zip(numbers, keys, strict=True):
            self.values[number] = key
            self._numbers[key[0] if self._single else key] = number


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
