"""Windows that overlap row by row: sliding and hopping by count, sliding by time.

Incremental: a window's sum is the difference of two prefix sums, its discrete Fourier transform the difference of two
prefix sums of modulated values (the magnitude does not feel the common phase), so a row costs the same whatever the
window's length. Prefix sums alone would drift and depend on history, so they start again from zero at every row whose
number within its key is a multiple of ANCHOR; the prefixes still needed from before are shifted by the block's total.
Every answer is thus a function of the rows and their numbers, never of the batches.

Values that are not finite stay out of the prefixes, or one would spoil every window up to the next anchor; windows that
contain one are set right afterwards. Minimum and maximum are exact in any order. What has no incremental form is
answered from the window's rows.

Sliding windows by time take their rows in order of (time, stream order) once the frontier has passed them.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Sequence

import numpy as np

from shared.engine.keyed_windows import KeyedWindows
from shared.engine.keys import KeyIndex
from shared.engine.merging import HeldRows
from shared.engine.pools import Aggregation, Applied, Part
from shared.engine.prefixes import ANCHOR, Channel, channel_key, channel_keys, channels_of
from shared.engine.rows import Progress, Rows
from shared.engine.snapshots import Value
from shared.engine.spans import Spans, answered
from shared.plan.graph import StreamType
from shared.plan.operators import COMPLETE, DEVICE, WINDOW_END, WINDOW_START
from shared.stream.schema import dtype
from shared.stream.windows import CountWindow, SlidingTimeWindow, Window


class History:
    """One key's rows that later windows still need, their prefixes, and how many rows there have been."""

    __slots__ = ("channels", "columns", "in_order", "number", "odd", "time")

    def __init__(self, names: Sequence[str], kinds: Sequence[str], channels: list[Channel]) -> None:
        self.number = 0
        self.time = np.empty(0, np.int64)
        self.columns = {name: np.empty(0, dtype(kind)) for name, kind in zip(names, kinds, strict=True)}
        self.channels = channels
        self.in_order = False  # the kept rows are known to be in order of time
        self.odd: dict[str, int] = {}  # column -> the number after its last batch with a value that is not finite

    def dump(self) -> Value:
        channels = [channel.dump() for channel in self.channels]
        return [self.number, self.time, self.columns, channels, dict(self.odd)]

    def load(self, state: Value) -> None:
        self.number, self.time, self.columns, channels, self.odd = state
        for channel, dumped in zip(self.channels, channels, strict=True):
            channel.load(dumped)


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
        self.source = source
        self.size = window.size if isinstance(window, CountWindow) else 0
        self.hop = window.hop if isinstance(window, CountWindow) else 1
        self.span_us = window.size_us if isinstance(window, SlidingTimeWindow) else 0
        self.anchor = max(ANCHOR, self.size)
        reads = sorted(self.aggregation.reads)
        self.reads = tuple(reads)
        self.kinds = tuple(source.schema.kind(name) for name in reads)
        keys = channel_keys(self.aggregation, self.size)
        found = [channel_key(self.aggregation, place, self.size) for place in range(len(self.aggregation.aggregates))]
        only_means = all(aggregate.function == "mean" for aggregate, _ in self.aggregation.aggregates)
        plain = only_means and self.size and self.hop == 1 and None not in found
        self.one_mean = bool(plain) and len(found) == 1 and self.size > 1 and key.names == (DEVICE,)
        self.means = [keys.index(key) for key in found if key is not None] if plain else None
        self.wanted: Container[str] = frozenset((DEVICE, WINDOW_START, WINDOW_END, COMPLETE))
        self.histories: dict[int, History] = {}
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
        first = int(keys[0])
        if keys.strides == (0,) or len(self.key) == 1:
            found = self._of_key(first, rows)
            same = keys[: len(found.places)] if keys.strides == (0,) else np.full(len(found.places), first)
            return [self._out(same, found)] if len(found.places) else []
        order = np.argsort(keys, kind="stable")
        cuts = [0, *(np.flatnonzero(np.diff(keys[order])) + 1).tolist(), len(order)]
        pieces, numbers, places = [], [], []
        for start, stop in itertools.pairwise(cuts):
            mine = order[start:stop]
            piece = self._of_key(int(keys[mine[0]]), rows.take(mine))
            if len(piece.places):
                pieces.append(piece)
                numbers.append(np.full(len(piece.places), keys[mine[0]]))
                places.append(mine[piece.places])
        if not pieces:
            return []
        by_row = np.argsort(np.concatenate(places))
        return [self._out(np.concatenate(numbers)[by_row], Spans.joined(pieces).take(by_row))]

    def _of_key(self, key: int, rows: Rows) -> Spans:
        """The windows that one key's rows complete."""
        history = self.histories.get(key)
        if history is None:
            channels = channels_of(self.aggregation, self.size)
            history = self.histories[key] = History(self.reads, self.kinds, channels)
        if self.changed is not None:
            self.changed.add(key)
        pieces = []
        start = 0
        while start < len(rows):
            if history.number % self.anchor == 0 and history.number:
                for channel in history.channels:
                    channel.anchor()
            stop = min(len(rows), start + self.anchor - history.number % self.anchor)
            pieces.append(self._segment(history, rows if stop - start == len(rows) else rows.slice(start, stop), start))
            start = stop
        return pieces[0] if len(pieces) == 1 else Spans.joined(pieces)

    def _segment(self, history: History, rows: Rows, offset: int) -> Spans:
        """Rows between two anchors."""
        before, count = len(history.time), len(rows)
        time = np.concatenate((history.time, rows.time)) if before else rows.time
        columns = {
            name: np.concatenate((history.columns[name], rows.columns[name])) if before else rows.columns[name]
            for name in self.reads
        }
        number, history.number = history.number, history.number + count
        for channel in history.channels:
            channel.extend(columns, before, number)
            if not channel.clean:
                history.odd[channel.column] = history.number
        clean = self._clean(history, number - before)
        if self.means is not None and not history.odd and (time[1:] >= time[:-1]).all():
            return self._means(history, columns, time, before=before, offset=offset)
        if self.span_us:
            ends = np.arange(before, before + count)
            starts = np.searchsorted(time, rows.time - self.span_us, side="right")
            keep = int(np.searchsorted(time, rows.time[-1] - self.span_us, side="right"))
        else:
            # The first row whose number completes a window, then every hop.
            lead = self.size - 1 - number
            first = lead if lead > 0 else lead % self.hop
            ends = np.arange(before + first, before + count, self.hop)
            starts = ends - (self.size - 1)
            keep = max(0, before + count - (self.size - 1))
        spans = answered(
            self.aggregation, history.channels, columns, time, starts=starts, ends=ends, size=self.size, clean=clean
        )
        spans.places = ends - before + offset
        history.in_order = False
        history.time = time[keep:]
        history.columns = {name: column[keep:] for name, column in columns.items()}
        for channel in history.channels:
            channel.keep(keep)
        return spans

    @staticmethod
    def _clean(history: History, first: int) -> set[str]:
        """Columns without a value that is not finite from this number on, as far as their channels know."""
        for column in [column for column, number in history.odd.items() if number <= first]:
            del history.odd[column]
        return {channel.column for channel in history.channels if channel.column not in history.odd}

    def _means(
        self, history: History, columns: dict[str, np.ndarray], time: np.ndarray, *, before: int, offset: int
    ) -> Spans:
        """The commonest window by a shorter way, to the same bits: means of finite values, rows in order of time."""
        total = len(time)
        first = min(max(self.size - 1, before), total)
        start = first - self.size + 1
        results = {}
        for (_, fields), place in zip(self.aggregation.aggregates, self.means or (), strict=True):
            sums = history.channels[place].sums
            results[fields[0].name] = (sums[first + 1 :] - sums[start : start + total - first]) / self.size
        spans = Spans(results, time[start : start + total - first], time[first:], time[first:])
        spans.places = np.arange(first - before + offset, total - before + offset)
        keep = max(0, total - (self.size - 1))
        history.in_order = True
        history.time = time[keep:]
        history.columns = {name: column[keep:] for name, column in columns.items()}
        for channel in history.channels:
            channel.keep(keep)
        return spans

    def _out(self, keys: np.ndarray, found: Spans) -> Rows:
        if self.span_us:
            time = found.last
            start = time - self.span_us + 1
        else:
            start, time = found.least, found.greatest
        return self.window_rows(keys, start, time + 1, found.results, time)

    # -- state ---------------------------------------------------------------------------------------------------

    def _dump(self, keys: Sequence[int], *, since_mark: bool) -> Value:
        self.changed = set()
        return [
            self.dump_frontiers(), self.numbering.next, self.late_dropped, self.key.dump(since_mark=since_mark),
            self.held.dump(), {key: self.histories[key].dump() for key in keys},
        ]  # fmt: skip

    def dump(self) -> Value:
        return self._dump(sorted(self.histories), since_mark=False)

    def changes(self) -> Value:
        if self.changed is None:
            return ["all", self.dump()]
        return ["some", self._dump(sorted(self.changed), since_mark=True)]

    def load(self, state: Value) -> None:
        self.histories.clear()
        self._load(state)

    def _load(self, state: Value) -> None:
        frontiers, self.numbering.next, self.late_dropped, keys, held, histories = state
        self.load_frontiers(frontiers)
        self.key.load(keys)
        self.held.load(held)
        for key, dumped in histories.items():
            history = History(self.reads, self.kinds, channels_of(self.aggregation, self.size))
            history.load(dumped)
            self.histories[key] = history
        self.changed = set()
