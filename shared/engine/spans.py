"""The answers of windows that are spans of consecutive rows of one key.

Each window is cut in two at a row number that depends on the window alone: rows before the cut are folded backwards
from it, rows from the cut on forwards, and the two meet. So a row costs the same whatever the windows' length, nothing
is ever subtracted, and a window's answer is a function of its own rows and their numbers: no row outside it can spoil
it, and batching leaves no trace.

The cut of a window of n rows is the multiple of n inside it; that of a window by time is the row number inside it that
the greatest power of two divides. Windows of neighbouring rows share their cut, and so their two folds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from shared.engine.pools import Aggregation
from shared.language.expressions import TIME
from shared.language.schema import Field, dtype

Moments: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class CountSpans:
    """Windows of `size` rows of one key: `count` of them, every `hop` rows, the first from the row at place `start`.

    `first` is the number of the row at place 0. Rows stand in a grid with a line for each `size` numbers, so that cuts
    are the beginnings of lines and every window is a place in a line and one in the next.
    """

    def __init__(self, start: int, count: int, *, first: int, size: int, hop: int) -> None:
        self.count, self.size, self.hop = count, size, hop
        self.low, self.high = start, start + (count - 1) * hop + size
        self.begin = (start + first) // size * size - first  # the place where the grid begins
        self.lines = -(-(self.high - self.begin) // size)
        self.first = first
        reach = (count - 1) * hop + 1
        self._starts = slice(start, start + reach, hop)
        self._ends = slice(start + size - 1, start + size - 1 + reach, hop)
        self._left = slice(start - self.begin, start - self.begin + reach, hop)
        self._right = slice(start - self.begin + size - 1, start - self.begin + size - 1 + reach, hop)

    @property
    def lengths(self) -> np.ndarray:
        return np.full(self.count, self.size)

    def numbers(self, rows: int) -> np.ndarray:
        """The rows' numbers within their keys."""
        return np.arange(self.first, self.first + rows)

    @property
    def starts(self) -> np.ndarray:
        return np.arange(self._starts.start, self._starts.stop, self.hop)

    @property
    def ends(self) -> np.ndarray:
        return np.arange(self._ends.start, self._ends.stop, self.hop)

    def at_starts(self, column: np.ndarray) -> np.ndarray:
        return column[self._starts]

    def at_ends(self, column: np.ndarray) -> np.ndarray:
        return column[self._ends]

    def _grid(self, values: np.ndarray, fill: object) -> np.ndarray:
        grid = np.empty(self.lines * self.size, values.dtype)
        low, high = self.low - self.begin, self.high - self.begin
        grid[:low] = fill
        grid[low:high] = values[self.low : self.high]
        grid[high:] = fill
        return grid.reshape(self.lines, self.size)

    def folded(self, function: np.ufunc, values: np.ndarray, fill: object) -> np.ndarray:
        """The fold of each window; `fill` changes nothing in it."""
        grid = self._grid(values, fill)
        backwards = grid.reshape(-1)[::-1].reshape(grid.shape)  # from the last row to the first: a view
        before = function.accumulate(backwards, axis=1)
        before[:, -1] = fill  # a window that begins with a line has no rows before its cut
        after = function.accumulate(grid, axis=1)
        made: np.ndarray = function(before.reshape(-1)[::-1][self._left], after.reshape(-1)[self._right])
        return made

    def moments(self, values: np.ndarray, present: np.ndarray | None) -> tuple[Moments, Moments]:
        """Of each window's rows before the cut and from it on."""
        grid = self._grid(values, 0.0)
        there = None if present is None else self._grid(present, 0.0)
        left = _moments(grid[:, ::-1], None if there is None else there[:, ::-1])
        before = [one[:, ::-1] for one in left]
        for one in before[:3]:
            one[:, 0] = 0.0
        after = _moments(grid, there)
        return (
            tuple(one.reshape(-1)[self._left] for one in before),  # type: ignore[return-value]
            tuple(one.reshape(-1)[self._right] for one in after),
        )


class AnySpans:
    """Windows of any length and key, in order; `numbers` are the rows' numbers within their keys, `size` 0 where the
    windows are not of one number of rows."""

    def __init__(self, starts: np.ndarray, ends: np.ndarray, numbers: np.ndarray, size: int) -> None:
        self.starts, self.ends = starts, ends
        self.count, self.size = len(ends), size
        self._numbers = numbers
        self.lengths: np.ndarray = ends - starts + 1
        last = numbers[ends]
        if size:
            cut: np.ndarray = ends - last % size
        else:
            differ = numbers[starts] ^ last
            bits = np.frexp(differ.astype(np.float64))[1].astype(np.int64) - 1
            cut = np.where(differ > 0, ends - (last & ((np.int64(1) << np.maximum(bits, 0)) - 1)), ends)
        self._lay_out(cut)

    def numbers(self, _: int) -> np.ndarray:
        return self._numbers

    def at_starts(self, column: np.ndarray) -> np.ndarray:
        return column.take(self.starts)

    def at_ends(self, column: np.ndarray) -> np.ndarray:
        return column.take(self.ends)

    def _lay_out(self, cut: np.ndarray) -> None:
        """Grids of rows around the cuts, a line per cut: rows before it backwards, and rows from it on. -1 stands where
        a line is shorter. Lines of about one length go into one grid, so that none is much larger than its rows."""
        starts, ends = self.starts, self.ends
        # (windows, rows before, rows after, cell before: -1 without rows, cell after)
        self.grids: list[tuple[np.ndarray | slice, np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []
        if cut[0] == cut[-1]:  # as most small batches: one line
            at, low, high = int(cut[0]), int(starts[0]), int(ends[-1]) + 1
            left = np.arange(at - 1, min(low, at - 1) - 1, -1)[None, :]  # one row too many where there is none
            self.grids.append(
                (slice(None), left, np.arange(at, high)[None, :], np.maximum(at - 1 - starts, -1), ends - at)
            )
            return
        heads = np.flatnonzero(np.append(True, cut[1:] != cut[:-1]))
        middle = cut[heads]
        tails = np.append(heads[1:], len(cut)) - 1
        before, after = middle - starts[heads], ends[tails] - middle + 1
        line_of = np.repeat(np.arange(len(heads)), tails - heads + 1)
        width = np.frexp(np.maximum(before, after).astype(np.float64))[1]
        for each in np.unique(width).tolist():
            chosen = np.flatnonzero(width == each)
            back, forth = np.arange(max(int(before[chosen].max()), 1)), np.arange(int(after[chosen].max()))
            left, right = middle[chosen, None] - 1 - back, middle[chosen, None] + forth
            left[back >= before[chosen, None]] = -1
            right[forth >= after[chosen, None]] = -1
            row = np.full(len(heads), -1)
            row[chosen] = np.arange(len(chosen))
            windows = np.flatnonzero(row[line_of] >= 0)
            line, places = row[line_of[windows]], cut[windows]
            steps = places - 1 - starts[windows]
            cells = np.where(steps < 0, -1, line * len(back) + steps)
            self.grids.append((windows, left, right, cells, line * len(forth) + ends[windows] - places))

    def folded(self, function: np.ufunc, values: np.ndarray, fill: object) -> np.ndarray:
        """The fold of each window; `fill` changes nothing in it."""
        padded: np.ndarray = np.append(values, np.array([fill], values.dtype))  # what place -1 says
        out = np.empty(self.count, values.dtype)
        for windows, left, right, left_cell, right_cell in self.grids:
            before = np.append(function.accumulate(padded[left], axis=1), padded[-1:])
            after = function.accumulate(padded[right], axis=1).reshape(-1)
            out[windows] = function(before[left_cell], after[right_cell])
        return out

    def moments(self, values: np.ndarray, present: np.ndarray | None) -> tuple[Moments, Moments]:
        """Of each window's rows before the cut and from it on."""
        padded: np.ndarray = np.append(values, 0.0)
        there = np.append(np.ones(len(values)) if present is None else present, 0.0)
        sides: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
        for side in sides:
            side.extend(np.empty(self.count) for _ in range(4))
        for windows, left, right, left_cell, right_cell in self.grids:
            for side, places, cells in ((sides[0], left, left_cell), (sides[1], right, right_cell)):
                for out, one in zip(side, _moments(padded[places], there[places]), strict=True):
                    out[windows] = np.append(one, 0.0)[cells]
        return tuple(sides[0]), tuple(sides[1])  # type: ignore[return-value]


def _moments(values: np.ndarray, present: np.ndarray | None) -> Moments:
    """Along each line of a grid: how many values so far, the sums of their differences from the line's first one and of
    the squares, and that first one."""
    if present is None:
        anchor = values[:, :1]
        away = values - anchor
        number = np.broadcast_to(np.arange(1.0, values.shape[1] + 1.0), values.shape)
    else:
        anchor = values[np.arange(len(values)), np.argmax(present, axis=1)][:, None]
        away = np.where(present, values - anchor, 0.0)
        number = np.add.accumulate(present, axis=1)
    first, second = np.add.accumulate(away, axis=1), np.add.accumulate(away * away, axis=1)
    return (number if present is not None else number.copy()), first, second, np.broadcast_to(anchor, values.shape)


class Answers:
    """What aggregates give for each window of the spans, over these rows."""

    def __init__(
        self,
        aggregation: Aggregation,
        columns: Mapping[str, np.ndarray],
        time: np.ndarray,
        spans: CountSpans | AnySpans,
        begins: np.ndarray | None = None,
    ) -> None:
        """`begins`: where rows of another key begin, if there are several keys."""
        self.aggregation = aggregation
        self.columns = {**columns, TIME: time}
        self.spans = spans
        later = time[1:] >= time[:-1]
        if begins is not None:
            later[begins[1:] - 1] = True
        self.in_order = np.count_nonzero(later) == len(later)  # a third of what `all` takes
        self._missing: dict[str, np.ndarray | None] = {}
        self._counts: dict[str, np.ndarray] = {}
        self._sums: dict[str, np.ndarray] = {}

    def results(self) -> dict[str, np.ndarray]:
        found: dict[str, np.ndarray] = {}
        for place, (aggregate, fields) in enumerate(self.aggregation.aggregates):
            if aggregate.where is not None:
                found.update(self._one_by_one(place, fields))
                continue
            column = aggregate.columns[0] if aggregate.columns else None
            found.update(self._answer(place, aggregate.function, column, fields))
        return {field.name: found[field.name] for field in self.aggregation.fields}

    def _answer(
        self, place: int, function: str, column: str | None, fields: tuple[Field, ...]
    ) -> dict[str, np.ndarray]:
        name, kind = fields[0].name, fields[0].kind
        if function == "count":
            return {name: self.spans.lengths if column is None else self.counts(column)}
        if column is not None:
            values = self.columns[column]
            if function == "sum" and values.dtype.kind != "f":
                return {name: self.spans.folded(np.add, values.astype(np.int64, copy=False), 0)}
            if function == "sum":
                return {name: self._sum(column)}
            if function == "mean":
                if self.missing(column) is None:
                    return {name: self._sum(column) / (self.spans.size or self.spans.lengths)}
                return {name: self._sum(column) / _or_nan(self.counts(column))}
            if function in ("variance", "std"):
                return {name: self._spread(column, root=function == "std")}
            if function in ("min", "max") and kind != "str":
                return {name: self._extreme(function, column, kind)}
            if function in ("first", "last"):
                return {name: self._edge(function, column) if self.in_order else self._edge_by_time(function, column)}
            if function == "dft" and self.spans.size:
                return {field.name: self._wave(column, number) for number, field in enumerate(fields)}
        return self._one_by_one(place, fields)

    # -- parts ---------------------------------------------------------------------------------------------------

    def missing(self, column: str) -> np.ndarray | None:
        """Which rows have no value; None where all have one."""
        if column not in self._missing:
            values = self.columns[column]
            absent = None
            # A finite sum of squares proves that nothing is missing, at a quarter of the price.
            if values.dtype.kind == "f" and not math.isfinite(values.dot(values)):
                absent = np.isnan(values)
            self._missing[column] = absent if absent is not None and absent.any() else None
        return self._missing[column]

    def counts(self, column: str) -> np.ndarray:
        """How many values each window has."""
        absent = self.missing(column)
        if absent is None:
            return self.spans.lengths
        if column not in self._counts:
            sums = np.concatenate(([0], np.cumsum(absent)))
            absents = self.spans.at_ends(sums[1:]) - self.spans.at_starts(sums)
            self._counts[column] = self.spans.lengths - absents
        return self._counts[column]

    def _floats(self, column: str) -> np.ndarray:
        """The values in float64, 0 where there is none."""
        values = self.columns[column].astype(np.float64, copy=False)
        absent = self.missing(column)
        return values if absent is None else np.where(absent, 0.0, values)

    def _sum(self, column: str) -> np.ndarray:
        if column not in self._sums:
            self._sums[column] = self.spans.folded(np.add, self._floats(column), 0.0) + 0.0  # a sum is never -0.0
        return self._sums[column]

    def _spread(self, column: str, *, root: bool) -> np.ndarray:
        """From sums of x - a and (x - a)**2 on either side of the cut, a being the value nearest to it on that side."""
        absent = self.missing(column)
        present = None if absent is None else (~absent).astype(np.float64)
        one, other = self.spans.moments(self._floats(column), present)
        shift = np.where((one[0] > 0) & (other[0] > 0), other[3] - one[3], 0.0)
        number = _or_nan(one[0] + other[0])
        first = one[1] + (other[1] + other[0] * shift)
        second = one[2] + (other[2] + 2.0 * shift * other[1] + other[0] * (shift * shift))
        spread = (second - first * first / number) / number
        spread = np.where(spread < 0.0, 0.0, spread)
        return np.sqrt(spread) if root else spread

    def _extreme(self, function: str, column: str, kind: str) -> np.ndarray:
        values, absent = self.columns[column], self.missing(column)
        if values.dtype.kind == "b":
            values = values.astype(np.int8)
        if values.dtype.kind == "f":
            worst: object = -np.inf if function == "max" else np.inf
        else:
            bounds = np.iinfo(values.dtype)
            worst = bounds.min if function == "max" else bounds.max
        if absent is not None:
            values = np.where(absent, np.array(worst, values.dtype), values)
        best = self.spans.folded(np.maximum if function == "max" else np.minimum, values, worst)
        if values.dtype.kind == "f":
            best = best + 0.0  # -0.0 counts as 0.0
            if absent is not None:
                best = np.where(self.counts(column) > 0, best, np.nan)
        return best.astype(dtype(kind), copy=False)

    def _edge(self, function: str, column: str) -> np.ndarray:
        """Rows are in order of time: the first or last that has a value."""
        values, absent = self.columns[column], self.missing(column)
        if absent is None:
            return self.spans.at_starts(values) if function == "first" else self.spans.at_ends(values)
        places = np.arange(len(values))
        if function == "first":
            near = self.spans.at_starts(np.minimum.accumulate(np.where(absent, len(values), places)[::-1])[::-1])
            found = near <= self.spans.ends
        else:
            near = self.spans.at_ends(np.maximum.accumulate(np.where(absent, -1, places)))
            found = near >= self.spans.starts
        return np.where(found, values[np.where(found, near, 0)], np.nan).astype(values.dtype)

    def _edge_by_time(self, function: str, column: str) -> np.ndarray:
        """The value of the least or greatest place by (time, stream order)."""
        values, absent = self.columns[column], self.missing(column)
        order = np.argsort(self.columns[TIME], kind="stable")
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        worst = len(order) if function == "first" else -1
        if absent is not None:
            rank[absent] = worst
        best = self.spans.folded(np.minimum if function == "first" else np.maximum, rank, worst)
        found = best != worst
        chosen: np.ndarray = values[order[np.where(found, best, 0)]]
        return chosen if absent is None else np.where(found, chosen, np.nan).astype(values.dtype)

    def _wave(self, column: str, bin_: int) -> np.ndarray:
        """The magnitude of one frequency; it does not feel where in the window the phase begins."""
        size, values = self.spans.size, self._floats(column)
        phases = np.exp(-2j * np.pi * bin_ / size * np.arange(size))[self.spans.numbers(len(values)) % size]
        magnitude: np.ndarray = np.abs(self.spans.folded(np.add, values * phases, 0.0))
        return magnitude

    def _one_by_one(self, place: int, fields: tuple[Field, ...]) -> dict[str, np.ndarray]:
        """From the window's rows themselves."""
        answer = self.aggregation.answer(place)
        answers = [
            answer({name: column[start : end + 1] for name, column in self.columns.items()})
            for start, end in zip(self.spans.starts.tolist(), self.spans.ends.tolist(), strict=True)
        ]
        return {
            field.name: np.array([one[part] for one in answers], dtype=dtype(field.kind))
            for part, field in enumerate(fields)
        }

    def time_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """The least and greatest time of each window."""
        time = self.columns[TIME]
        if self.in_order:
            return self.spans.at_starts(time), self.spans.at_ends(time)
        bounds = np.iinfo(np.int64)
        least = self.spans.folded(np.minimum, time, bounds.max)
        return least, self.spans.folded(np.maximum, time, bounds.min)


def _or_nan(counts: np.ndarray) -> np.ndarray:
    """The counts to divide by: nothing over nothing is missing."""
    return np.where(counts > 0, counts, np.nan)
