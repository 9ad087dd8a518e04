"""Session windows: rows of a key each less than a gap after the one before.

A row joins the session it touches, in stream order; a row that touches two makes them one, the earlier first. Where a
key's rows come in time order, which is nearly always, a whole batch is cut into sessions at once; a key with a row out
of order goes row by row, so the answer never depends on the batching.
"""

from __future__ import annotations

import numpy as np

from shared.engine.key_choice import KeyChoice, cut_pool
from shared.engine.keyed_windows import KeyedWindows
from shared.engine.keys import KeyIndex
from shared.engine.pools import Aggregation, Pool
from shared.engine.rows import Progress, Rows
from shared.engine.snapshots import Value
from shared.language.windows import SessionWindow
from shared.plan.operators import WINDOW_END, WINDOW_START

_NEVER = np.iinfo(np.int64).min


class Sessions(KeyedWindows):
    """`aggregation` includes each session's least and greatest time."""

    def __init__(
        self, window: SessionWindow, aggregation: Aggregation, key: KeyIndex, *, lateness_us: int, complete: bool
    ) -> None:
        super().__init__(aggregation, key, lateness_us=lateness_us, complete=complete)
        self.gap = window.gap_us
        self.pool = Pool(aggregation)
        self.of_key: dict[int, list[int]] = {}  # key -> its open sessions' slots, by time
        self.keys = np.zeros(0, np.int64)  # by slot
        self.start = np.zeros(0, np.int64)
        self.last = np.zeros(0, np.int64)
        self.out = np.zeros(0, bool)  # went out already, kept for corrections
        self.free: list[int] = []
        self.used = 0
        self.changed: set[int] | None = None

    # -- rows ----------------------------------------------------------------------------------------------------

    def push(self, port: int, rows: Rows) -> list[Rows]:
        if not len(rows):
            return []
        rows, late = self.accepted(rows)
        if not len(rows):
            return []
        keys = self.key.numbers(rows.columns, len(rows))
        slots = self._slots(keys, rows)
        if self.changed is not None:
            self.changed.update(np.unique(slots[slots >= 0]).tolist())
        whole = np.flatnonzero(slots >= 0)
        if len(whole) == len(slots):
            self.pool.fold(slots, rows)
        else:
            if len(whole):
                self.pool.fold(slots[whole], rows.take(whole))
            for place in np.flatnonzero(slots < 0).tolist():
                self._join(int(keys[place]), rows.slice(place, place + 1))
        return self._close() if late is not None else []

    def _slots(self, keys: np.ndarray, rows: Rows) -> np.ndarray:
        """The session of each row; -1 for rows of keys that go row by row."""
        order = np.argsort(keys, kind="stable")
        key, time = keys[order], rows.time[order]
        first = np.append(True, key[1:] != key[:-1])
        before = np.empty(len(time), np.int64)
        before[1:] = time[:-1]
        heads = np.flatnonzero(first)
        before[heads] = [self._last_of(number) for number in key[heads].tolist()]
        backwards = time < before
        far = (time - before >= self.gap) | (before == _NEVER)
        slots = np.empty(len(time), np.int64)
        current = -1
        stops = [*heads[1:].tolist(), len(time)]
        for head, stop in zip(heads.tolist(), stops, strict=True):
            number = int(key[head])
            if backwards[head:stop].any():
                slots[head:stop] = -1
                continue
            cuts = (np.flatnonzero(far[head:stop]) + head).tolist()
            start = head
            for cut in [*cuts, stop]:
                if cut > start:
                    current = self.of_key[number][-1]
                    slots[start:cut] = current
                    self.last[current] = time[cut - 1]
                    self.out[current] = False
                if cut < stop:
                    self._open(number, int(time[cut]))
                start = cut
        slot_of_row = np.empty(len(slots), np.int64)
        slot_of_row[order] = slots
        return slot_of_row

    def _last_of(self, key: int) -> int:
        sessions = self.of_key.get(key)
        return int(self.last[sessions[-1]]) if sessions else int(_NEVER)

    def _open(self, key: int, time: int) -> int:
        slot = self.free.pop() if self.free else self.used
        if slot == self.used:
            self.used += 1
            if self.used > self.pool.capacity:
                self.pool.reserve(self.used)
                more = self.pool.capacity - len(self.keys)
                self.keys, self.start, self.last = (
                    np.append(one, np.zeros(more, np.int64)) for one in (self.keys, self.start, self.last)
                )
                self.out = np.append(self.out, np.zeros(more, bool))
        self.keys[slot], self.start[slot], self.last[slot], self.out[slot] = key, time, time, False
        sessions = self.of_key.setdefault(key, [])
        sessions.append(slot)
        sessions.sort(key=lambda one: int(self.start[one]))
        return slot

    def _join(self, key: int, row: Rows) -> None:
        """One row, out of order: into the session it touches, or the two it makes one, or its own."""
        time = int(row.time[0])
        touched = [
            slot for slot in self.of_key.get(key, ()) if self.start[slot] - self.gap < time < self.last[slot] + self.gap
        ]
        slot = touched[0] if touched else self._open(key, time)
        for other in touched[1:]:
            self.pool.merge(np.array([slot]), self.pool, np.array([other]))
            self.last[slot] = max(self.last[slot], self.last[other])
            self._release(other)
        self.start[slot] = min(self.start[slot], time)
        self.last[slot] = max(self.last[slot], time)
        self.out[slot] = False
        self.pool.fold(np.array([slot]), row)
        if self.changed is not None:
            self.changed.add(slot)

    def _release(self, slot: int) -> None:
        key = int(self.keys[slot])
        self.of_key[key].remove(slot)
        if not self.of_key[key]:
            del self.of_key[key]
        self.pool.clear(np.array([slot]))
        self.free.append(slot)
        if self.changed is not None:
            self.changed.add(slot)

    # -- windows -------------------------------------------------------------------------------------------------

    def passed(self, progress: Progress) -> list[Rows]:
        return self._close()

    def _close(self) -> list[Rows]:
        live = np.flatnonzero(self.pool.rows)
        if not len(live):
            return []
        limits = self.key_frontiers()
        limit = limits[self.keys[live]] if limits.ndim else limits
        end = self.last[live] + self.gap
        due = live[(end <= limit) & ~self.out[live]]
        out = []
        if len(due):
            by_key = np.empty(len(due), np.int64)
            by_key[self.key.order(self.keys[due])] = np.arange(len(due))
            due = due[np.lexsort((by_key, self.start[due], self.last[due]))]
            results = self.pool.results(due)
            del results[WINDOW_START], results[WINDOW_END]
            ends = self.last[due] + self.gap
            out.append(self.window_rows(self.keys[due], self.start[due], ends, results, ends - 1))
            self.out[due] = True
            if self.changed is not None:
                self.changed.update(due.tolist())
        over = end <= limit - self.lateness_us if int(np.max(limit)) > _NEVER + self.lateness_us else np.zeros(0, bool)
        for slot in live[over].tolist() if len(over) else ():
            self._release(slot)
        return out

    # -- state ---------------------------------------------------------------------------------------------------

    def _dump(self, slots: np.ndarray, gone: list[int], *, since_mark: bool) -> Value:
        self.changed = set()
        return [
            self.dump_frontiers(since_mark=since_mark), self.numbering.next, self.late_dropped,
            self.key.dump(since_mark=since_mark),
            self.used, slots, self.keys[slots], self.start[slots], self.last[slots], self.out[slots],
            self.pool.dump(slots), gone,
        ]  # fmt: skip

    def dump(self) -> Value:
        return self._dump(np.flatnonzero(self.pool.rows), [], since_mark=False)

    def changes(self) -> Value:
        if self.changed is None:
            return ["all", self.dump()]
        touched = sorted(self.changed)
        slots = np.array([slot for slot in touched if self.pool.rows[slot]], np.int64)
        gone = [slot for slot in touched if not self.pool.rows[slot]]
        return ["some", self._dump(slots, gone, since_mark=True)]

    def say_again(self, part: int, parts: int) -> None:
        if self.changed is not None:
            self.changed.update((part + parts * np.flatnonzero(self.pool.rows[part : self.used : parts])).tolist())
            self.key.say_again(part, parts)
            self.say_frontiers_again(part, parts)

    def load(self, state: Value) -> None:
        self.pool = Pool(self.aggregation)
        self.of_key = {}
        self.keys = self.start = self.last = np.zeros(0, np.int64)
        self.out = np.zeros(0, bool)
        self._load(state)

    def _load(self, state: Value) -> None:
        (
            frontiers,
            self.numbering.next,
            self.late_dropped,
            keys,
            self.used,
            slots,
            key,
            start,
            last,
            out,
            pool,
            gone,
        ) = state
        self.load_frontiers(frontiers)
        self.key.load(keys)
        self.pool.reserve(self.used)
        size = self.pool.capacity
        self.keys, self.start, self.last, self.out = (
            np.append(one, np.zeros(size - len(one), one.dtype)) for one in (self.keys, self.start, self.last, self.out)
        )
        if gone:
            self.pool.clear(np.array(gone, np.int64))
        self.pool.load(slots, pool)
        self.keys[slots], self.start[slots], self.last[slots], self.out[slots] = key, start, last, out
        live = np.flatnonzero(self.pool.rows)
        self.of_key = {}
        for slot in live[np.argsort(self.start[live], kind="stable")].tolist():
            self.of_key.setdefault(int(self.keys[slot]), []).append(slot)
        self.free = sorted(set(range(self.used)) - set(live.tolist()), reverse=True)
        self.changed = set()

    def cut(self, state: Value, choice: KeyChoice) -> Value:
        frontiers, following, late, keys, used, slots, numbers, start, last, out, pool, gone = state
        keys, moved = choice.keys(keys, self.key)
        stays = moved[numbers] >= 0
        return [
            frontiers, following, late, keys, used, slots[stays], moved[numbers[stays]], start[stays], last[stays],
            out[stays], cut_pool(pool, stays), gone,
        ]  # fmt: skip
