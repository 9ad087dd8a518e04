"""Windows that overlap row by row: sliding and hopping by count, sliding by time.

A key's rows stay as long as a window still to come needs them; `shared.engine.spans` answers windows from them, each
row at the same cost whatever the window's length. Sliding windows by time take their rows in order of (time, stream
order) once the frontier has passed them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shared.engine.histories import Histories, runs
from shared.engine.key_choice import KeyChoice, cut_dictionary
from shared.engine.keyed_windows import KeyedWindows
from shared.engine.keys import KeyIndex
from shared.engine.merge import HeldRows
from shared.engine.pools import Aggregation, Applied, Part
from shared.engine.rows import Progress, Rows
from shared.engine.snapshots import Value
from shared.engine.spans import Answers, AnySpans, CountSpans
from shared.language.schema import dtype
from shared.language.windows import CountWindow, SlidingTimeWindow, Window
from shared.plan.stream_type import StreamType


class Found(NamedTuple):
    """Windows as columns: their answers, and their rows' least and greatest time."""

    results: dict[str, np.ndarray]
    least: np.ndarray
    greatest: np.ndarray


_NOTHING = Found({}, np.empty(0, np.int64), np.empty(0, np.int64))


class SlidingWindows(KeyedWindows):
    def __init__(
        self,
        window: Window,
        parts: Sequence[Part],
        applied: Applied | None,
        source: StreamType,
        key: KeyIndex,
        *,
        complete: bool,
    ) -> None:
        super().__init__(Aggregation(parts, source.schema, applied), key, lateness_us=0, complete=complete)
        self.size = window.size if isinstance(window, CountWindow) else 0
        self.hop = window.hop if isinstance(window, CountWindow) else 1
        self.span_us = window.size_us if isinstance(window, SlidingTimeWindow) else 0
        self.reads = tuple(sorted(self.aggregation.reads))
        self.histories = Histories(
            {name: np.empty(0, dtype(source.schema.kind(name))) for name in self.reads},
            self.size - 1 if self.size else np.iinfo(np.int64).max // 2,
        )
        self.held = HeldRows()
        self.changed: set[int] | None = None

    # -- rows ----------------------------------------------------------------------------------------------------

    def push(self, port: int, rows: Rows) -> list[Rows]:
        if not len(rows):
            return []
        if self.span_us:
            rows, _ = self.accepted(rows)
            self.held.hold(0, rows)
            return []
        return self._slide(rows)

    def passed(self, progress: Progress) -> list[Rows]:
        let = self.held.release(self)
        return [] if let is None else self._slide(let[0])

    def _slide(self, rows: Rows) -> list[Rows]:
        keys = self.key.numbers(rows.columns, len(rows))
        self.histories.reserve(len(self.key))
        if keys.strides == (0,) or len(self.key) == 1:
            first = int(keys[0])
            found = self._of_key(first, rows)
            count = len(found.greatest)
            same = keys[:count] if keys.strides == (0,) else np.full(count, first)
            return [self._out(same, found)] if count else []
        order = np.argsort(keys, kind="stable")
        found, places = self._of_keys(keys[order], rows.take(order))
        if not len(places):
            return []
        by_row = np.argsort(order[places])
        results = {name: column[by_row] for name, column in found.results.items()}
        whose = keys[order[places][by_row]]
        return [self._out(whose, Found(results, found.least[by_row], found.greatest[by_row]))]

    def _of_key(self, key: int, rows: Rows) -> Found:
        """The windows that one key's rows complete."""
        kept, kept_columns = self.histories.of(key)
        if self.changed is not None:
            self.changed.add(key)
        before, count = len(kept), len(rows)
        number = int(self.histories.number[key])
        time = np.concatenate((kept, rows.time)) if before else rows.time
        columns = {
            name: np.concatenate((kept_columns[name], rows.columns[name])) if before else rows.columns[name]
            for name in self.reads
        }
        first = number - before  # the number of the row at place 0
        spans: CountSpans | AnySpans | None
        if self.span_us:
            ends = np.arange(before, before + count)
            starts = np.searchsorted(time, rows.time - self.span_us, side="right")
            keep = int(np.searchsorted(time, rows.time[-1] - self.span_us, side="right"))
            spans = AnySpans(starts, ends, np.arange(first, first + len(time)), 0)
        else:
            lead = self.size - 1 - number
            end = before + (lead if lead > 0 else lead % self.hop)  # the first row here that completes a window
            windows = max(0, -(-(before + count - end) // self.hop))
            keep = max(0, before + count - (self.size - 1))
            spans = (
                CountSpans(end - self.size + 1, windows, first=first, size=self.size, hop=self.hop) if windows else None
            )
        self.histories.put_one(
            key, number + count, time[keep:], {name: column[keep:] for name, column in columns.items()}
        )
        return self._found(columns, time, spans)

    def _of_keys(self, keys: np.ndarray, rows: Rows) -> tuple[Found, np.ndarray]:
        """The windows that rows of several keys complete, rows of one key together; and which row completed each."""
        histories = self.histories
        heads = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
        counts = np.diff(np.append(heads, len(keys)))
        involved = keys[heads]
        if self.changed is not None:
            self.changed.update(involved.tolist())
        kept, seen = histories.length[involved], histories.number[involved]
        totals = kept + counts
        stops = np.cumsum(totals)
        begins = stops - totals
        fresh = np.arange(len(keys)) + np.repeat(begins + kept - heads, counts)  # where the new rows go
        old, held = runs(begins, kept), histories.places(involved)

        def laid(before: np.ndarray, new: np.ndarray) -> np.ndarray:
            whole = np.empty(int(stops[-1]), new.dtype)
            whole[old] = before[held]
            whole[fresh] = new
            return whole

        time = laid(histories.time, rows.time)
        columns = {name: laid(histories.columns[name], rows.columns[name]) for name in self.reads}
        place = np.arange(len(time)) - np.repeat(begins, totals)  # within its key's rows here
        numbers = place + np.repeat(seen - kept, totals)
        if self.span_us:
            ends = fresh
            starts = _time_starts(time, ends, begins, totals, self.span_us)
            keep = _time_starts(time, stops - 1, begins, totals, self.span_us)
        else:
            completes = (numbers[fresh] >= self.size - 1) & ((numbers[fresh] - (self.size - 1)) % self.hop == 0)
            ends = fresh[completes]
            starts = ends - (self.size - 1)
            keep = np.maximum(begins, stops - (self.size - 1))
        stays = runs(keep, stops - keep)
        histories.put(
            involved,
            seen + counts,
            stops - keep,
            time[stays],
            {name: column[stays] for name, column in columns.items()},
        )
        back = np.full(len(time), -1)
        back[fresh] = np.arange(len(fresh))
        if not len(ends):
            return _NOTHING, ends
        return self._found(columns, time, AnySpans(starts, ends, numbers, self.size), begins), back[ends]

    def _found(
        self,
        columns: dict[str, np.ndarray],
        time: np.ndarray,
        spans: CountSpans | AnySpans | None,
        begins: np.ndarray | None = None,
    ) -> Found:
        if spans is None:
            return _NOTHING
        answers = Answers(self.aggregation, columns, time, spans, begins)
        if self.size:
            return Found(answers.results(), *answers.time_bounds())
        last = spans.at_ends(time)
        return Found(answers.results(), last, last)

    def _out(self, keys: np.ndarray, found: Found) -> Rows:
        if self.span_us:
            time = found.greatest
            start = time - self.span_us + 1
        else:
            start, time = found.least, found.greatest
        return self.window_rows(keys, start, time + 1, found.results, time)

    # -- state ---------------------------------------------------------------------------------------------------

    def _dump(self, keys: Sequence[int], *, since_mark: bool) -> Value:
        self.changed = set()
        return [
            self.dump_frontiers(since_mark=since_mark), self.numbering.next, self.late_dropped,
            self.key.dump(since_mark=since_mark),
            self.held.dump(), {key: self._dumped(key) for key in keys},
        ]  # fmt: skip

    def _dumped(self, key: int) -> Value:
        time, columns = self.histories.of(key)
        columns = {name: column.copy() for name, column in columns.items()}
        # The last two parts are of a time when running sums were kept beside the rows.
        return [int(self.histories.number[key]), time.copy(), columns, [], {}]

    def dump(self) -> Value:
        return self._dump(np.flatnonzero(self.histories.number).tolist(), since_mark=False)

    def changes(self) -> Value:
        if self.changed is None:
            return ["all", self.dump()]
        return ["some", self._dump(sorted(self.changed), since_mark=True)]

    def say_again(self, part: int, parts: int) -> None:
        if self.changed is not None:
            self.changed.update((part + parts * np.flatnonzero(self.histories.number[part::parts])).tolist())
            self.key.say_again(part, parts)
            self.say_frontiers_again(part, parts)

    def load(self, state: Value) -> None:
        self.histories.clear()
        self._load(state)

    def _load(self, state: Value) -> None:
        frontiers, self.numbering.next, self.late_dropped, keys, held, histories = state
        self.load_frontiers(frontiers)
        self.key.load(keys)
        self.held.load(held)
        self.histories.reserve(len(self.key))
        for key, (number, time, columns, *_) in histories.items():
            self.histories.put_one(key, number, time, columns)
        self.changed = set()

    def cut(self, state: Value, choice: KeyChoice) -> Value:
        frontiers, following, late, keys, held, histories = state
        keys, moved = choice.keys(keys, self.key)
        return [frontiers, following, late, keys, choice.held(held), cut_dictionary(histories, moved)]


def _time_starts(
    time: np.ndarray, ends: np.ndarray, begins: np.ndarray, totals: np.ndarray, span_us: int
) -> np.ndarray:
    """For each row of `ends` the first row of its key, in order of time, that is less than the span before it."""
    low = int(time.min())
    reach = int(time.max()) - low + 1
    of = np.searchsorted(begins, ends, side="right") - 1  # which key's rows
    if len(begins) * reach < 2**62:  # one order for all keys: by key, then time
        flat = (time - low) + np.repeat(np.arange(len(begins)), totals) * reach
        least = np.maximum(time[ends] - span_us - low, -1)
        return np.asarray(np.searchsorted(flat, least + of * reach, side="right"))
    found = [
        begin + np.searchsorted(time[begin : begin + total], time[mine] - span_us, side="right")
        for number, (begin, total) in enumerate(zip(begins.tolist(), totals.tolist(), strict=True))
        if len(mine := ends[of == number])
    ]
    return np.concatenate(found)
