"""Windows of a fixed number of rows that do not overlap: each key has one that is filling.

A batch's rows are folded in one go into slots of a pool of its own, one per window the batch touches; what was filling
before is copied in first, and what is not full is copied out again. Copying is exact, so batching leaves no trace.
"""

from __future__ import annotations

import numpy as np

from shared.engine.key_choice import KeyChoice, cut_pool
from shared.engine.keyed_windows import KeyedWindows
from shared.engine.keys import KeyIndex
from shared.engine.pools import Aggregation, Pool
from shared.engine.rows import Progress, Rows
from shared.engine.snapshots import Value
from shared.language.windows import CountWindow
from shared.plan.operators import WINDOW_END, WINDOW_START


class CountWindows(KeyedWindows):
    """`aggregation` includes each window's least and greatest time."""

    def __init__(self, window: CountWindow, aggregation: Aggregation, key: KeyIndex, *, complete: bool) -> None:
        super().__init__(aggregation, key, lateness_us=0, complete=complete)
        self.size = window.size
        self.pool = Pool(aggregation)  # slot = key
        self.changed: list[np.ndarray] | None = None

    def push(self, port: int, rows: Rows) -> list[Rows]:
        if not len(rows):
            return []
        keys = self.key.numbers(rows.columns, len(rows))
        self.pool.reserve(len(self.key))
        if self.changed is not None:
            self.changed.append(keys)
        order = np.argsort(keys, kind="stable")
        key = keys[order]
        heads = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
        held = self.pool.rows[key[heads]]
        lengths = np.diff(np.append(heads, len(key)))
        place = np.arange(len(key)) - np.repeat(heads - held, lengths)  # within the window that fills first
        window = place // self.size
        begins = np.append(True, (key[1:] != key[:-1]) | (window[1:] != window[:-1]))
        slot = np.cumsum(begins) - 1
        batch = Pool(self.aggregation)
        batch.reserve(int(slot[-1]) + 1)
        carried = held > 0
        if carried.any():
            filling = key[heads][carried]
            batch.load(slot[heads][carried], self.pool.dump(filling))
            self.pool.clear(filling)
        slots = np.empty(len(slot), np.int64)
        slots[order] = slot
        batch.fold(slots, rows)
        ends = np.append(np.flatnonzero(begins)[1:], len(key)) - 1  # each window's last row, sorted
        full = place[ends] % self.size == self.size - 1
        part = np.flatnonzero(~full)
        if len(part):
            self.pool.load(key[ends[part]], batch.dump(part))
        done = np.flatnonzero(full)
        if not len(done):
            return []
        done = done[np.argsort(order[ends[done]])]  # by the row that filled them
        results = batch.results(done)
        start, last = results.pop(WINDOW_START), results.pop(WINDOW_END)
        return [self.window_rows(key[ends[done]], start, last + 1, results, last)]

    def passed(self, progress: Progress) -> list[Rows]:
        return []

    # -- state ---------------------------------------------------------------------------------------------------

    def _dump(self, keys: np.ndarray, gone: np.ndarray, *, since_mark: bool) -> Value:
        self.changed = []
        return [
            self.dump_frontiers(since_mark=since_mark), self.numbering.next, self.key.dump(since_mark=since_mark),
            keys, self.pool.dump(keys), gone,
        ]  # fmt: skip

    def dump(self) -> Value:
        return self._dump(np.flatnonzero(self.pool.rows), np.zeros(0, np.int64), since_mark=False)

    def changes(self) -> Value:
        if self.changed is None:
            return ["all", self.dump()]
        touched = np.unique(np.concatenate(self.changed)) if self.changed else np.zeros(0, np.int64)
        filling = self.pool.rows[touched] > 0
        return ["some", self._dump(touched[filling], touched[~filling], since_mark=True)]

    def say_again(self, part: int, parts: int) -> None:
        if self.changed is not None:
            self.changed.append(part + parts * np.flatnonzero(self.pool.rows[part::parts]))
            self.key.say_again(part, parts)
            self.say_frontiers_again(part, parts)

    def load(self, state: Value) -> None:
        self.pool = Pool(self.aggregation)
        self._load(state)

    def _load(self, state: Value) -> None:
        frontiers, self.numbering.next, keys, filling, pool, gone = state
        self.load_frontiers(frontiers)
        self.key.load(keys)
        self.pool.reserve(len(self.key))
        self.pool.clear(gone)
        self.pool.load(filling, pool)
        self.changed = []

    def cut(self, state: Value, choice: KeyChoice) -> Value:
        frontiers, following, keys, filling, pool, gone = state
        keys, moved = choice.keys(keys, self.key)
        stays = moved[filling] >= 0
        return [frontiers, following, keys, moved[filling[stays]], cut_pool(pool, stays), gone]
