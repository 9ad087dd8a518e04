"""The answers of windows that are spans of consecutive rows of one key."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

import numpy as np

from shared.engine.pools import Aggregation
from shared.engine.prefixes import Channel, channel_key, channel_keys
from shared.stream.expressions import TIME
from shared.stream.schema import Field, dtype


class Spans:
    """Windows as columns: their answers, the times of their rows, and the place of the row that completed each."""

    __slots__ = ("greatest", "last", "least", "places", "results")

    def __init__(
        self, results: dict[str, np.ndarray], least: np.ndarray, greatest: np.ndarray, last: np.ndarray
    ) -> None:
        self.results = results
        self.least = least
        self.greatest = greatest
        self.last = last
        self.places = np.empty(0, np.int64)

    @staticmethod
    def joined(pieces: Sequence[Spans]) -> Spans:
        names = pieces[0].results
        made = Spans(
            {name: np.concatenate([piece.results[name] for piece in pieces]) for name in names},
            np.concatenate([piece.least for piece in pieces]),
            np.concatenate([piece.greatest for piece in pieces]),
            np.concatenate([piece.last for piece in pieces]),
        )
        made.places = np.concatenate([piece.places for piece in pieces])
        return made

    def take(self, index: np.ndarray) -> Spans:
        results = {name: column.take(index) for name, column in self.results.items()}
        made = Spans(results, self.least.take(index), self.greatest.take(index), self.last.take(index))
        made.places = self.places.take(index)
        return made


def answered(
    aggregation: Aggregation,
    channels: Sequence[Channel],
    columns: Mapping[str, np.ndarray],
    time: np.ndarray,
    *,
    starts: np.ndarray,
    ends: np.ndarray,
    size: int,
    clean: Container[str] = (),
) -> Spans:
    """The answers for the rows starts .. ends of each window."""
    work = _Work(aggregation, columns, time, starts=starts, ends=ends)
    work.clean = clean
    work.by_one = size > 0 and (len(ends) < 2 or bool(ends[1] - ends[0] == 1))
    by_key = dict(zip(channel_keys(aggregation, size), channels, strict=True))
    results: dict[str, np.ndarray] = {}
    for place, (aggregate, fields) in enumerate(aggregation.aggregates):
        key = channel_key(aggregation, place, size)
        column = aggregate.columns[0] if aggregate.columns else None
        if key is not None:
            results.update(work.summed(aggregate.function, key[1], by_key[key], fields))
        elif aggregate.function == "count":
            results[fields[0].name] = work.counts(column)
        elif aggregate.function in ("min", "max") and fields[0].kind != "str" and column is not None:
            results[fields[0].name] = work.extreme(aggregate.function, column, fields[0].kind)
        else:
            results.update(work.one_by_one(place))
    last = time[ends]
    if size and len(ends):
        least, greatest = work.time_bounds()
    else:
        least = greatest = last
    ordered = {field.name: results[field.name] for field in aggregation.fields}
    return Spans(ordered, least, greatest, last)


class _Work:
    def __init__(
        self,
        aggregation: Aggregation,
        columns: Mapping[str, np.ndarray],
        time: np.ndarray,
        *,
        starts: np.ndarray,
        ends: np.ndarray,
    ) -> None:
        self.aggregation = aggregation
        self.columns = columns
        self.time = time
        self.starts = starts
        self.ends = ends
        self.lengths = ends - starts + 1
        self.by_one = False
        self.clean: Container[str] = ()  # columns known to be finite throughout
        self._odd: dict[str, tuple[np.ndarray, ...] | None] = {}

    def odd(self, column: str) -> tuple[np.ndarray, ...] | None:
        """How many values in each window are missing, +inf and -inf; None where all are finite."""
        if column not in self._odd:
            values = self.columns[column]
            found = None
            if values.dtype.kind == "f" and column not in self.clean and not np.isfinite(values).all():
                found = tuple(self._within(test) for test in (np.isnan(values), values == np.inf, values == -np.inf))
            self._odd[column] = found
        return self._odd[column]

    def _within(self, marks: np.ndarray) -> np.ndarray:
        sums = np.concatenate(([0], np.cumsum(marks)))
        found: np.ndarray = sums[self.ends + 1] - sums[self.starts]
        return found

    def counts(self, column: str | None) -> np.ndarray:
        odd = self.odd(column) if column is not None and column != TIME else None
        present: np.ndarray = self.lengths if odd is None else self.lengths - odd[0]
        return present

    def summed(self, function: str, column: str, channel: Channel, fields: tuple[Field, ...]) -> dict[str, np.ndarray]:
        total = channel.over(self.starts, self.ends, by_one=self.by_one)
        odd = self.odd(column)
        if function == "dft":
            magnitudes = np.abs(total)
            if odd is not None:
                magnitudes[:, (odd[1] + odd[2]) > 0] = np.nan
            return {field.name: magnitudes[number] for number, field in enumerate(fields)}
        name = fields[0].name
        if function in ("variance", "std"):
            return {name: self._spread(total, odd, root=function == "std")}
        if odd is not None:
            missing, above, below = odd
            total = np.where(above > 0, np.where(below > 0, np.nan, np.inf), np.where(below > 0, -np.inf, total))
            if function == "mean":
                count = self.lengths - missing
                return {name: total / np.where(count, count, np.nan)}
            return {name: total}
        return {name: total / self.lengths if function == "mean" else total}

    @staticmethod
    def _spread(total: np.ndarray, odd: tuple[np.ndarray, ...] | None, *, root: bool) -> np.ndarray:
        count, first, second = total
        number = np.where(count > 0, count, np.nan)
        spread = (second - first * first / number) / number
        spread = np.where(spread < 0.0, 0.0, spread)
        if odd is not None:
            spread[(odd[1] + odd[2]) > 0] = np.nan
        return np.sqrt(spread) if root else spread

    def extreme(self, function: str, column: str, kind: str) -> np.ndarray:
        values = self.time if column == TIME else self.columns[column]
        missing = self.odd(column) if column != TIME else None
        if values.dtype.kind == "b":
            values = values.astype(np.int8)
        if missing is not None:
            values = np.where(np.isnan(values), -np.inf if function == "max" else np.inf, values)
        best = reduced(np.maximum if function == "max" else np.minimum, values, self.starts, self.ends)
        if values.dtype.kind == "f":
            best = best + 0.0
            if missing is not None:
                best = np.where(self.lengths > missing[0], best, np.nan)
        return best.astype(dtype(kind))

    def time_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """The least and greatest time of each window."""
        low, high = int(self.starts[0]), int(self.ends[-1]) + 1
        seen = self.time[low:high]
        if (seen[1:] >= seen[:-1]).all():
            return self.time[self.starts], self.time[self.ends]
        return (
            reduced(np.minimum, self.time, self.starts, self.ends),
            reduced(np.maximum, self.time, self.starts, self.ends),
        )

    def one_by_one(self, place: int) -> dict[str, np.ndarray]:
        """From the window's rows themselves."""
        _, fields = self.aggregation.aggregates[place]
        answer = self.aggregation.answer(place)
        columns = {TIME: self.time, **self.columns}
        answers = [
            answer({name: column[start : end + 1] for name, column in columns.items()})
            for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        ]
        return {
            field.name: np.array([one[part] for one in answers], dtype=dtype(field.kind))
            for part, field in enumerate(fields)
        }


def reduced(function: np.ufunc, values: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """An exact reduction over each span. Spans of one length go by blocks of it: prefixes and suffixes within blocks
    meet in two operations per window (van Herk); others are reduced as they are."""
    if not len(ends):
        return values[:0]
    length = int(ends[0] - starts[0]) + 1
    if not (length > 1 and (ends - starts == length - 1).all()):
        pairs = np.empty(2 * len(ends), np.int64)
        pairs[0::2], pairs[1::2] = starts, ends + 1
        padded: np.ndarray = np.append(values, values[-1:])
        return np.asarray(function.reduceat(padded, pairs)[0::2])
    low, high = int(starts[0]), int(ends[-1]) + 1
    blocks = -(-(high - low) // length)
    padded = np.empty(blocks * length, values.dtype)
    padded[: high - low] = values[low:high]
    padded[high - low :] = values[high - 1]
    grid = padded.reshape(blocks, length)
    prefix = function.accumulate(grid, axis=1).reshape(-1)
    suffix = function.accumulate(grid[:, ::-1], axis=1)[:, ::-1].reshape(-1)
    return np.asarray(function(suffix[starts - low], prefix[ends - low]))
