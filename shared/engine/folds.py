"""Aggregates as folds over slots: each open window of each key owns one slot of every fold's arrays.

Batch-invariance is the one rule here. A fold adds each row to its slot in stream order, starting from what the slot
already holds (`np.add.at` is a strict left fold; a sum per batch added afterwards is not), so cutting the same rows
into other batches gives the same bits. Where windows share rows, slots of panes are merged in time order, which depends
on the rows alone too. Variance keeps sums of differences from the slot's first value: stable, and a left fold.

A fold sees values with the missing ones already taken out; the pool counts those, per column.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from shared.language.schema import dtype

_SLOTS_MIN = 16

Counts: TypeAlias = Callable[[], Sequence[np.ndarray]]


class Fold:
    """Arrays indexed by slot. `fills` are the values of an empty slot, one per array."""

    fills: tuple[object, ...]

    def __init__(self, types: tuple[np.dtype, ...], fills: tuple[object, ...]) -> None:
        self.fills = fills
        self.arrays = [np.full(0, fill, dtype=kind) for kind, fill in zip(types, fills, strict=True)]

    def fresh(self) -> Fold:
        """An empty fold like this empty one; cheaper than making one from its description."""
        made: Fold = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made.arrays = list(self.arrays)  # arrays of no slot are never written to
        return made

    def grow(self, capacity: int) -> None:
        for place, fill in enumerate(self.fills):
            old = self.arrays[place]
            new = np.full(capacity, fill, dtype=old.dtype)
            new[: len(old)] = old
            self.arrays[place] = new

    def clear(self, slots: np.ndarray) -> None:
        for array, fill in zip(self.arrays, self.fills, strict=True):
            array[slots] = fill

    def fold(self, slots: np.ndarray, values: np.ndarray, time: np.ndarray) -> None:
        """Adds rows, in order."""
        raise NotImplementedError

    def merge(self, into: np.ndarray, source: Fold, slots: np.ndarray, counts: np.ndarray) -> None:
        """Adds slots of another fold of this kind, whose rows come later; `counts` are those slots' values."""
        raise NotImplementedError

    def merge_all(self, sources: Sequence[Fold], counts: Counts, slots: int) -> None:
        """Fills this empty fold's slots below a number with those of others, merged in the order given. To the same
        bits as merging them one after the other, which is how it goes where there is no way for all at once.
        `counts()` gives each source's values by slot."""
        self.grow(slots)
        every = np.arange(slots)
        for source, count in zip(sources, counts(), strict=True):
            self.merge(every, source, every, count)

    def result(self, slots: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """The answers of slots with so many values each."""
        raise NotImplementedError


def _stacked(folds: Sequence[Fold], part: int, slots: int) -> np.ndarray:
    """One array of each fold's slots below a number: a row per fold."""
    return np.concatenate([fold.arrays[part][:slots] for fold in folds]).reshape(-1, slots)


class Sum(Fold):
    def __init__(self, kind: str) -> None:
        wide = np.dtype("float64" if kind.startswith("float") else "int64")
        super().__init__((wide,), (0,))
        self.wide = wide

    def fold(self, slots: np.ndarray, values: np.ndarray, time: np.ndarray) -> None:
        np.add.at(self.arrays[0], slots, values.astype(self.wide, copy=False))

    def merge(self, into: np.ndarray, source: Fold, slots: np.ndarray, counts: np.ndarray) -> None:
        self.arrays[0][into] += source.arrays[0][slots]

    def merge_all(self, sources: Sequence[Fold], counts: Counts, slots: int) -> None:
        # Accumulating is strictly in order; reducing may add in pairs.
        self.arrays[0] = np.add.accumulate(_stacked(sources, 0, slots))[-1]

    def result(self, slots: np.ndarray, counts: np.ndarray) -> np.ndarray:
        return self.arrays[0].take(slots)


class Mean(Sum):
    def __init__(self) -> None:
        super().__init__("float64")

    def result(self, slots: np.ndarray, counts: np.ndarray) -> np.ndarray:
        mean: np.ndarray = self.arrays[0][slots] / np.where(counts, counts, np.nan)
        return mean


class Extreme(Fold):
    """min or max. -0.0 counts as 0.0. Text is compared row by row: numpy has no fold for it."""

    def __init__(self, kind: str, sign: int) -> None:
        self.kind = kind
        self.sign = sign
        self.text = kind == "str"
        held = np.dtype("int8") if kind == "bool" else dtype(kind)
        if self.text:
            fill: object = ""
        elif held.kind == "f":
            fill = -math.inf * sign
        else:
            bounds = np.iinfo(held)
            fill = bounds.min if sign > 0 else bounds.max
        super().__init__((held, np.dtype(bool)), (fill, False))

    def fold(self, slots: np.ndarray, values: np.ndarray, time: np.ndarray) -> None:
        held, present = self.arrays
        if not self.text:
            function = np.maximum if self.sign > 0 else np.minimum
            function.at(held, slots, values if values.dtype == held.dtype else values.astype(held.dtype))
            return
        for slot, value in zip(slots.tolist(), values.tolist(), strict=True):
            if not present[slot] or (value > held[slot] if self.sign > 0 else value < held[slot]):
                held[slot] = value
                present[slot] = True

    def merge(self, into: np.ndarray, source: Fold, slots: np.ndarray, counts: np.ndarray) -> None:
        held, present = self.arrays
        mine, theirs = held[into], source.arrays[0][slots]
        better = theirs > mine if self.sign > 0 else theirs < mine
        if self.text:
            better = source.arrays[1][slots] & (~present[into] | better)
            present[into] |= source.arrays[1][slots]
        held[into] = np.where(better, theirs, mine)

    def merge_all(self, sources: Sequence[Fold], counts: Counts, slots: int) -> None:
        if self.text:
            super().merge_all(sources, counts, slots)
            return
        function = np.maximum if self.sign > 0 else np.minimum
        self.arrays[0] = function.reduce(_stacked(sources, 0, slots))

    def result(self, slots: np.ndarray, counts: np.ndarray) -> np.ndarray:
        held: np.ndarray = self.arrays[0][slots]
        if held.dtype.kind == "f":
            return np.where(counts, held + 0.0, np.nan).astype(held.dtype)
        return held.astype(dtype(self.kind))


class Variance(Fold):
    """Sums of x - a and (x - a)**2, a being the slot's first value."""

    def __init__(self, root: bool) -> None:
        floats = np.dtype("float64")
        super().__init__((floats, floats, floats), (np.nan, 0.0, 0.0))
        self.root = root

    def fold(self, slots: np.ndarray, values: np.ndarray, time: np.ndarray) -> None:
        anchor, first, second = self.arrays
        wide = values.astype(np.float64, copy=False)
        anchors = anchor[slots]
        fresh = np.flatnonzero(np.isnan(anchors))
        if len(fresh):
            backwards = fresh[::-1]  # numpy keeps the last of repeated assignments: the first row
            anchor[slots[backwards]] = wide[backwards]
            anchors = anchor[slots]
        away = wide - anchors
        np.add.at(first, slots, away)
        np.add.at(second, slots, away * away)

    def merge(self, into: np.ndarray, source: Fold, slots: np.ndarray, counts: np.ndarray) -> None:
        anchor, first, second = self.arrays
        theirs_anchor, theirs_first, theirs_second = (array[slots] for array in source.arrays)
        empty = np.isnan(anchor[into])
        anchor[into] = np.where(empty, theirs_anchor, anchor[into])
        shift = np.where(counts, theirs_anchor - anchor[into], 0.0)
        first[into] += theirs_first + counts * shift
        second[into] += theirs_second + 2.0 * shift * theirs_first + counts * (shift * shift)

    def merge_all(self, sources: Sequence[Fold], counts: Counts, slots: int) -> None:
        anchors, firsts, seconds = (_stacked(sources, part, slots) for part in range(3))
        number = np.array(counts())
        anchor = anchors[np.argmin(np.isnan(anchors), axis=0), np.arange(slots)]  # the first there is
        shift = np.where(number, anchors - anchor, 0.0)
        first = np.add.accumulate(firsts + number * shift)[-1]
        second = np.add.accumulate(seconds + 2.0 * shift * firsts + number * (shift * shift))[-1]
        self.arrays = [anchor, first, second]

    def result(self, slots: np.ndarray, counts: np.ndarray) -> np.ndarray:
        _, first, second = (array[slots] for array in self.arrays)
        number = np.where(counts, counts, np.nan)
        spread = (second - first * first / number) / number
        spread = np.where(spread < 0.0, 0.0, spread)
        return np.sqrt(spread) if self.root else spread


class Edge(Fold):
    """first or last, by (time, stream order)."""

    def __init__(self, kind: str, last: bool) -> None:
        missing: object = "" if kind == "str" else (np.nan if kind.startswith("float") else 0)
        super().__init__((np.dtype("int64"), np.dtype(bool), dtype(kind)), (0, False, missing))
        self.last = last

    def fold(self, slots: np.ndarray, values: np.ndarray, time: np.ndarray) -> None:
        order = np.lexsort((time, slots))
        sorted_slots = slots[order]
        change = np.flatnonzero(sorted_slots[1:] != sorted_slots[:-1])
        ends = np.append(change, len(order) - 1) if self.last else np.insert(change + 1, 0, 0)
        chosen = order[ends]
        self._put(slots[chosen], time[chosen], values[chosen])

    def _put(self, slots: np.ndarray, time: np.ndarray, values: np.ndarray) -> None:
        at, present, held = self.arrays
        better = time >= at[slots] if self.last else time < at[slots]
        better |= ~present[slots]
        slots = slots[better]
        at[slots] = time[better]
        held[slots] = values[better]
        present[slots] = True

    def merge(self, into: np.ndarray, source: Fold, slots: np.ndarray, counts: np.ndarray) -> None:
        some = source.arrays[1][slots]
        into, slots = into[some], slots[some]
        self._put(into, source.arrays[0][slots], source.arrays[2][slots])

    def result(self, slots: np.ndarray, counts: np.ndarray) -> np.ndarray:
        return self.arrays[2].take(slots)


class Count(Fold):
    """The number of values; the pool counts already."""

    def __init__(self) -> None:
        super().__init__((), ())

    def fold(self, slots: np.ndarray, values: np.ndarray, time: np.ndarray) -> None:
        pass

    def merge(self, into: np.ndarray, source: Fold, slots: np.ndarray, counts: np.ndarray) -> None:
        pass

    def merge_all(self, sources: Sequence[Fold], counts: Counts, slots: int) -> None:
        pass

    def result(self, slots: np.ndarray, counts: np.ndarray) -> np.ndarray:
        return counts.copy()


def fold_of(function: str, kind: str) -> Fold | None:
    """The fold of an aggregate over a column of this kind; None where the window's rows must be kept instead."""
    match function:
        case "count":
            return Count()
        case "sum":
            return Sum(kind)
        case "mean":
            return Mean()
        case "min":
            return Extreme(kind, -1)
        case "max":
            return Extreme(kind, 1)
        case "variance":
            return Variance(root=False)
        case "std":
            return Variance(root=True)
        case "first":
            return Edge(kind, last=False)
        case "last":
            return Edge(kind, last=True)
    return None


def capacity_for(slots: int, capacity: int) -> int:
    """A capacity that holds so many slots, grown by half again so that growth stays cheap on average."""
    return max(_SLOTS_MIN, slots, capacity + capacity // 2)
