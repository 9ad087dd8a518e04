"""A pool: the accumulators of a set of windows, one slot each.

`Aggregation` is what an operator computes, worked out once; a `Pool` holds it for any number of slots. Folds share what
they can: rows are counted once per slot, and values that are missing once per slot and column (an array that exists
only after the first missing value).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from shared.engine.folds import Count, Fold, capacity_for, fold_of
from shared.engine.row_aggregates import Answer, answer_of
from shared.engine.rows import Rows, take
from shared.engine.snapshots import Value
from shared.language.aggregates import Aggregate
from shared.language.expressions import FLOATS, TIME
from shared.language.schema import Field, Schema, dtype
from shared.plan.operators import WINDOW_END, WINDOW_START

NUMBER = ""  # kept rows carry their numbers under this name: panes and sessions may be merged out of stream order
_COUNT_BY_BIN = 4  # below this many slots per row, counting all bins beats adding one by one


Part: TypeAlias = tuple[Aggregate, tuple[Field, ...]]
Applied: TypeAlias = tuple[Answer, tuple[str, ...], tuple[Field, ...]]  # a user's function, its columns, what it gives

# Windows whose bounds are their rows' times carry them as two aggregates more.
LEAST_TIME: Part = (Aggregate("min", (TIME,)), (Field(WINDOW_START, "int64"),))
GREATEST_TIME: Part = (Aggregate("max", (TIME,)), (Field(WINDOW_END, "int64"),))


class Aggregation:
    """Which folds run over which columns, and which aggregates need the rows themselves."""

    def __init__(self, aggregates: Sequence[Part], schema: Schema, applied: Applied | None = None) -> None:
        self.aggregates = list(aggregates)
        self.folded: list[tuple[int, str | None, Fold]] = []  # place, column, an empty fold
        self.answered: list[tuple[int, Answer]] = []
        kept: dict[str, str] = {}
        floats: set[str] = set()
        for place, (aggregate, fields) in enumerate(aggregates):
            column = aggregate.columns[0] if aggregate.columns else None
            kind = "int64" if column is None or column == TIME else schema.kind(column)
            fold = fold_of(aggregate.function, kind) if aggregate.where is None else None
            if fold is not None:
                self.folded.append((place, column, fold))
                if column is not None and kind in FLOATS:
                    floats.add(column)
            else:
                self.answered.append((place, answer_of(aggregate, fields)))
                kept[TIME] = "int64"
                kept.update((name, "int64" if name == TIME else schema.kind(name)) for name in aggregate.columns)
                if aggregate.where is not None:
                    kept[aggregate.where] = "bool"
        if applied is not None:
            answer, columns, fields = applied
            self.answered.append((len(self.aggregates), answer))
            self.aggregates.append((Aggregate("user"), fields))
            kept[TIME] = "int64"
            kept.update((name, schema.kind(name)) for name in columns if name != TIME)
        if kept:
            kept[NUMBER] = "int64"
        self.schema = schema
        self.kept = tuple(kept)
        self.kept_kinds = tuple(kept.values())
        self.columns = tuple(dict.fromkeys(column for _, column, _ in self.folded if column is not None))
        self.float_columns = frozenset(floats)
        self.reads = frozenset(name for name in (*self.columns, *self.kept) if name not in (TIME, NUMBER))
        self.fields = tuple(field for _, fields in self.aggregates for field in fields)

    def answer(self, place: int) -> Answer:
        """The function from a window's rows to the aggregate at this place, for windows that keep their rows."""
        for known, answer in self.answered:
            if known == place:
                return answer
        aggregate, fields = self.aggregates[place]
        return answer_of(aggregate, fields)


class Pool:
    """Slots 0 .. capacity - 1; a slot with `rows` 0 is empty."""

    def __init__(self, aggregation: Aggregation) -> None:
        self.aggregation = aggregation
        self.capacity = 0
        self.rows = np.zeros(0, np.int64)
        self.missing: dict[str, np.ndarray] = {}
        self.chunks: dict[int, list[tuple[np.ndarray, ...]]] = {}
        self.folds: dict[str | None, list[Fold]] = {column: [] for column in aggregation.columns}
        self.by_place: dict[int, tuple[Fold, str | None]] = {}
        for place, column, empty in aggregation.folded:
            fold = empty.fresh()
            self.by_place[place] = (fold, column)
            if column is not None and not isinstance(fold, Count):
                self.folds[column].append(fold)

    def reserve(self, slots: int) -> None:
        """Makes slots below this number exist."""
        if slots <= self.capacity:
            return
        self.capacity = capacity = capacity_for(slots, self.capacity)
        rows = np.zeros(capacity, np.int64)
        rows[: len(self.rows)] = self.rows
        self.rows = rows
        for column, missing in self.missing.items():
            self.missing[column] = np.append(missing, np.zeros(capacity - len(missing), np.int64))
        for fold, _ in self.by_place.values():
            fold.grow(capacity)

    def fold(self, slots: np.ndarray, rows: Rows) -> None:
        """Adds rows, in stream order, each to its slot."""
        columns, time = rows.columns, rows.time
        if self.capacity <= _COUNT_BY_BIN * len(slots):
            self.rows += np.bincount(slots, minlength=self.capacity)
        else:
            np.add.at(self.rows, slots, 1)
        aggregation = self.aggregation
        for column in aggregation.columns:
            values = time if column == TIME else columns[column]
            if column in aggregation.float_columns:
                # A finite sum of squares proves that nothing is missing, at the price of one pass.
                wide = values.astype(np.float64, copy=False)
                if math.isfinite(wide.dot(wide)) or not (absent := np.isnan(wide)).any():
                    values = wide if values.dtype != np.float32 else values
                else:
                    self._fold_present(column, slots, values, time, absent)
                    continue
            for fold in self.folds[column]:
                fold.fold(slots, values, time)
        if aggregation.kept:
            self._keep(slots, rows)

    def _fold_present(
        self, column: str, slots: np.ndarray, values: np.ndarray, time: np.ndarray, absent: np.ndarray
    ) -> None:
        if column not in self.missing:
            self.missing[column] = np.zeros(self.capacity, np.int64)
        np.add.at(self.missing[column], slots[absent], 1)
        present = np.flatnonzero(~absent)
        if len(present):
            for fold in self.folds[column]:
                fold.fold(slots[present], values[present], time[present])

    def _keep(self, slots: np.ndarray, rows: Rows) -> None:
        known = {**rows.columns, TIME: rows.time, NUMBER: rows.seq}
        kept = [known[name] for name in self.aggregation.kept]
        order = np.argsort(slots, kind="stable")
        ordered = slots[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=-1)).tolist()
        for start, stop in zip(starts, [*starts[1:], len(ordered)], strict=True):
            chosen = order[start:stop]
            chunk = tuple(take(column, chosen) for column in kept)
            self.chunks.setdefault(int(ordered[start]), []).append(chunk)

    def merge(self, into: np.ndarray, source: Pool, slots: np.ndarray) -> None:
        """Adds another pool's slots, whose rows come later, each to the slot beside it; no slot twice."""
        for place, (fold, column) in self.by_place.items():
            theirs = source.by_place[place][0]
            fold.merge(into, theirs, slots, source.counts(slots, column))
        for column, missing in source.missing.items():
            if column not in self.missing:
                self.missing[column] = np.zeros(self.capacity, np.int64)
            self.missing[column][into] += missing[slots]
        self.rows[into] += source.rows[slots]
        if source.chunks:
            for mine, their in zip(into.tolist(), slots.tolist(), strict=True):
                if their in source.chunks:
                    self.chunks.setdefault(mine, []).extend(source.chunks[their])

    @staticmethod
    def merged(aggregation: Aggregation, pools: Sequence[Pool], slots: int) -> Pool:
        """The slots below this number of several pools, merged in their order, slot by slot, to the bits of `merge`.
        Not for aggregations that keep rows."""
        made = Pool(aggregation)
        for pool in pools:
            pool.reserve(slots)
        made.capacity = slots
        made.rows = np.add.reduce(np.concatenate([pool.rows[:slots] for pool in pools]).reshape(-1, slots))
        for name in sorted({name for pool in pools for name in pool.missing}):
            made.missing[name] = np.add.reduce([pool.missing[name][:slots] for pool in pools if name in pool.missing])
        for place, (fold, column) in made.by_place.items():
            sources = [pool.by_place[place][0] for pool in pools]
            fold.merge_all(sources, lambda: [pool.counts_below(slots, column) for pool in pools], slots)  # noqa: B023
        return made

    def counts_below(self, slots: int, column: str | None) -> np.ndarray:
        """How many values of the column the slots below this number hold."""
        missing = self.missing.get(column) if column is not None else None
        return self.rows[:slots] if missing is None else self.rows[:slots] - missing[:slots]

    def clear(self, slots: np.ndarray) -> None:
        self.rows[slots] = 0
        for missing in self.missing.values():
            missing[slots] = 0
        for fold, _ in self.by_place.values():
            fold.clear(slots)
        if self.chunks:
            for slot in slots.tolist():
                self.chunks.pop(slot, None)

    def counts(self, slots: np.ndarray, column: str | None) -> np.ndarray:
        """How many values of the column each slot holds; rows where there is no column."""
        rows: np.ndarray = self.rows[slots]
        missing = self.missing.get(column) if column is not None else None
        return rows if missing is None else rows - missing[slots]

    def results(self, slots: np.ndarray) -> dict[str, np.ndarray]:
        """The aggregates' columns for these slots."""
        columns: dict[str, np.ndarray] = {}
        for place, (_, fields) in enumerate(self.aggregation.aggregates):
            if place in self.by_place:
                fold, column = self.by_place[place]
                values = fold.result(slots, self.counts(slots, column))
                columns[fields[0].name] = values.astype(dtype(fields[0].kind), copy=False)
        if self.aggregation.answered:
            windows = [self._window(slot) for slot in slots.tolist()]
            for place, answer in self.aggregation.answered:
                fields = self.aggregation.aggregates[place][1]
                answers = [answer(window) for window in windows]
                for part, field in enumerate(fields):
                    columns[field.name] = np.array([one[part] for one in answers], dtype=dtype(field.kind))
        return {field.name: columns[field.name] for field in self.aggregation.fields}

    def _window(self, slot: int) -> dict[str, np.ndarray]:
        chunks = self.chunks[slot]
        if len(chunks) > 1:
            whole = tuple(np.concatenate([chunk[place] for chunk in chunks]) for place in range(len(chunks[0])))
            numbers = whole[-1]
            if (numbers[1:] < numbers[:-1]).any():
                order = np.argsort(numbers, kind="stable")
                whole = tuple(column[order] for column in whole)
            self.chunks[slot] = chunks = [whole]
        return dict(zip(self.aggregation.kept, chunks[0], strict=True))

    # -- state -------------------------------------------------------------------------------------------------

    def dump(self, slots: np.ndarray) -> Value:
        """What these slots hold."""
        kept = None
        if self.aggregation.kept:
            windows = [self._window(slot) for slot in slots.tolist()]
            lengths = np.array([len(window[TIME]) for window in windows], np.int64)
            columns = [
                np.concatenate([window[name] for window in windows] or [np.empty(0, dtype(kind))])
                for name, kind in zip(self.aggregation.kept, self.aggregation.kept_kinds, strict=True)
            ]
            kept = [lengths, columns]
        return [
            self.rows[slots],
            {column: missing[slots] for column, missing in self.missing.items()},
            [[array[slots] for array in self.by_place[place][0].arrays] for place in sorted(self.by_place)],
            kept,
        ]

    def load(self, slots: np.ndarray, state: Value) -> None:
        """Puts back what `dump` gave, over what the slots hold now."""
        rows, missing, folds, kept = state
        if len(slots):
            self.reserve(int(slots.max()) + 1)
        self.clear(slots)
        self.rows[slots] = rows
        for column, counts in missing.items():
            if column not in self.missing:
                self.missing[column] = np.zeros(self.capacity, np.int64)
            self.missing[column][slots] = counts
        for place, arrays in zip(sorted(self.by_place), folds, strict=True):
            for array, values in zip(self.by_place[place][0].arrays, arrays, strict=True):
                array[slots] = values
        if kept is not None:
            lengths, columns = kept
            ends = np.cumsum(lengths).tolist()
            for slot, stop, length in zip(slots.tolist(), ends, lengths.tolist(), strict=True):
                self.chunks[slot] = [tuple(column[stop - length : stop] for column in columns)]
