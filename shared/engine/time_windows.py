"""Tumbling and hopping windows over event time, and the days, weeks and months of a local calendar.

Rows are folded once, into *panes*: the stretches between the points where some window begins or ends. A tumbling window
is one pane. A hopping window's answer is its panes merged in time order when it goes out, so an overlap of 95 % costs
one fold per row and one merge of twenty panes per window, all keys at once, instead of twenty folds per row.

A pane's slots are the keys' own numbers while there are few keys. With many, a pane numbers only the keys it meets, so
memory follows the rows that are there. Each key closes its windows by the frontier of its device where the key has one,
else by the common one. A window's state is kept until the frontier less the lateness has passed its end.

Folding gives the same bits however the rows are cut, so nothing has to be folded before a window can close. Rows wait,
a few thousand at most, and are folded together: small batches then cost what large ones do.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from shared.batch import END_OF_TIME, NO_FRONTIER
from shared.engine.key_choice import KeyChoice, cut_array, cut_pool
from shared.engine.keyed_windows import KeyedWindows
from shared.engine.keys import KeyIndex
from shared.engine.pools import Aggregation, Pool
from shared.engine.rows import Progress, Rows, joined_column
from shared.engine.snapshots import Value
from shared.engine.window_bounds import WindowBounds

_DENSE_KEYS_MAX = 4096
_FEW_PANES = 16
_COMPARED_SLOTS_MAX = 16384  # of a larger pane folding takes note of what it touches: comparing all would cost more
_WAITING_ROWS_MAX = 8192


class Pane:
    """The accumulators of one stretch of time: a slot per key."""

    __slots__ = ("cleared", "keys", "noted", "pool", "rows_at_dump", "table", "touched")

    def __init__(self, aggregation: Aggregation, *, dense: bool) -> None:
        self.pool = Pool(aggregation)
        self.keys: list[int] = []  # by slot; unused where slots are the keys' numbers
        self.table = None if dense else np.full(0, -1, np.int32)
        # What changed since the last dump: slots with other row counts than then, and those cleared. A row always
        # counts, so folding into a small pane need not take note of keys.
        self.touched = True
        self.noted: list[np.ndarray] | None = None  # slots folded since the last dump, of a large pane
        self.rows_at_dump: np.ndarray | None = None  # row counts by slot at the last dump; None: never dumped
        self.cleared: list[np.ndarray] = []

    def slots(self, keys: np.ndarray, known: int) -> np.ndarray:
        """The slot of each key; new keys get one. `known` keys exist in all."""
        if self.table is None:
            self.pool.reserve(known)
            return keys
        if len(self.table) < known:
            self.table = np.append(self.table, np.full(known + known // 2 - len(self.table), -1, np.int32))
        slots: np.ndarray = self.table[keys]
        if len(slots) and slots.min() < 0:
            fresh = np.unique(keys[slots < 0])
            self.table[fresh] = np.arange(len(self.keys), len(self.keys) + len(fresh), dtype=np.int32)
            self.keys.extend(fresh.tolist())
            self.pool.reserve(len(self.keys))
            slots = self.table[keys]
        return slots.astype(np.int64)

    def live(self) -> tuple[np.ndarray, np.ndarray]:
        """Keys with rows here, ascending, and their slots."""
        slots = np.flatnonzero(self.pool.rows)
        if self.table is None:
            return slots, slots
        keys = np.array(self.keys, np.int64)[slots]
        order = np.argsort(keys)
        return keys[order], slots[order]

    def dumped(self) -> None:
        """What is here now is known elsewhere."""
        if self.pool.capacity > _COMPARED_SLOTS_MAX:
            self.noted, self.rows_at_dump = [], np.zeros(0, np.int64)
        elif self.touched or self.rows_at_dump is None:
            self.rows_at_dump = self.pool.rows.copy()
        self.touched = False
        self.cleared = []

    def changed(self) -> np.ndarray:
        """The keys folded or cleared since the last dump, ascending."""
        if not self.touched or self.rows_at_dump is None:
            return np.zeros(0, np.int64)
        if self.noted is not None:
            slots = np.unique(np.concatenate([np.zeros(0, np.int64), *self.noted]))
        else:
            now = self.pool.rows
            before = np.zeros(len(now), np.int64)
            before[: len(self.rows_at_dump)] = self.rows_at_dump
            slots = np.flatnonzero(now != before)
        if self.table is not None:  # not all keys as an array: the cost is that of the change
            slots = np.array([self.keys[slot] for slot in slots.tolist()], np.int64)
        return np.unique(np.concatenate([slots, *self.cleared]))

    def part(self, part: int, parts: int) -> np.ndarray:
        """The keys with rows here whose numbers leave this rest when divided by so many, ascending."""
        if self.table is None:
            return part + parts * np.flatnonzero(self.pool.rows[part::parts])
        slots = self.table[part::parts]
        return part + parts * np.flatnonzero((slots >= 0) & (self.pool.rows[slots] > 0))

    def fold(self, keys: np.ndarray, known: int, rows: Rows) -> None:
        self.touched = True
        slots = self.slots(keys, known)
        if self.noted is not None:
            self.noted.append(slots)
        self.pool.fold(slots, rows)


class TimeWindows(KeyedWindows):
    def __init__(
        self, bounds: WindowBounds, aggregation: Aggregation, key: KeyIndex, *, lateness_us: int, complete: bool
    ) -> None:
        super().__init__(aggregation, key, lateness_us=lateness_us, complete=complete)
        self.bounds = bounds
        self.panes: dict[int, Pane] = {}
        self._quiet_until = NO_FRONTIER  # below this frontier nothing closes, as far as is known
        # Columns, times and numbers of rows that are taken, not late, and not folded yet.
        self._waiting: list[tuple[Mapping[str, np.ndarray], np.ndarray, np.ndarray]] = []
        self._waiting_rows = 0
        self._waiting_since = NO_FRONTIER  # the least time of those
        self._reads = tuple(dict.fromkeys((*aggregation.reads, *key.names)))
        self.dropped: set[int] = set()  # panes that ended since the last dump
        self.tracking = False
        self._again: tuple[int, int] | None = None  # the next change set also says this one of so many parts
        self._before: np.ndarray | int = NO_FRONTIER  # each key's frontier at the last closing, or everyone's
        self._loaded = False

    # -- rows ----------------------------------------------------------------------------------------------------

    def push(self, port: int, rows: Rows) -> list[Rows]:
        if self._loaded:
            self._go_on()
        if self._waits(rows):
            return []
        self._settle()
        self.touched = True
        self._quiet_until = NO_FRONTIER
        rows, late = self.accepted(rows)
        if not len(rows.time):
            return []
        self._take(rows)
        return self._corrections(late) if late is not None else []

    def advance(self, port: int, progress: Progress) -> tuple[list[Rows], Progress | None]:
        if self._loaded:
            self._go_on()
        return super().advance(port, progress)

    def _go_on(self) -> None:
        """From a state that was loaded."""
        self._loaded, self._before = False, self._before_of_all()

    def _waits(self, rows: Rows) -> bool:
        """True where none of these rows is late: they are taken. Else nothing has changed."""
        count = len(rows.time)
        if not count:
            return True
        least_time = int(np.minimum.reduce(rows.time))
        if least_time < self.frontier.floor_us or self.frontier.devices or type(self._before) is not int:
            return False
        self.touched = True
        if not self._waiting or least_time < self._waiting_since:
            self._waiting_since = least_time
            first = self.bounds.ended(least_time) + 1  # of the windows with these rows
            self._quiet_until = min(self._quiet_until, self.bounds.end(first))
        self._waiting.append((rows.columns, rows.time, rows.seq))
        self._waiting_rows += count
        if self._waiting_rows >= _WAITING_ROWS_MAX:
            self._settle()
        return True

    def _settle(self) -> None:
        """Folds the rows that waited."""
        if not self._waiting:
            return
        waited, count = self._waiting, self._waiting_rows
        self._waiting, self._waiting_rows = [], 0
        time = np.concatenate([time for _, time, _ in waited])
        columns = {name: joined_column([columns[name] for columns, _, _ in waited], count) for name in self._reads}
        # Numbers matter only where rows are kept.
        seq = np.concatenate([seq for _, _, seq in waited]) if self.aggregation.kept else time
        with np.errstate(all="ignore"):
            self._take(Rows(columns, time, seq, 0, 0))

    def _take(self, rows: Rows) -> None:
        keys = self.key.numbers(rows.columns, len(rows.time))
        if isinstance(self._before, np.ndarray) and len(self._before) < len(self.key):
            self._before = np.append(
                self._before, np.broadcast_to(self.key_frontiers(len(self._before)), len(self.key) - len(self._before))
            )
        self._fold(keys, rows, int(np.minimum.reduce(rows.time)))

    def _fold(self, keys: np.ndarray, rows: Rows, least_time: int) -> None:
        known = len(self.key)
        first, last = self.bounds.pane_at(least_time), self.bounds.pane_at(int(np.maximum.reduce(rows.time)))
        if first == last:
            self._pane(first).fold(keys, known, rows)
            return
        if last - first <= _FEW_PANES and bool((rows.time[1:] >= rows.time[:-1]).all()):
            start = 0
            for pane in range(first, last + 1):  # dividing every time costs more than finding a few bounds
                stop = int(rows.time.searchsorted(self.bounds.pane_start(pane + 1))) if pane < last else len(keys)
                if stop > start:
                    self._pane(pane).fold(keys[start:stop], known, rows.slice(start, stop))
                start = stop
            return
        panes = self.bounds.panes_at(rows.time)
        steps = np.diff(panes)
        if (steps < 0).any():
            order = np.argsort(panes, kind="stable")
            rows, keys, panes = rows.take(order), keys[order], panes[order]
            steps = np.diff(panes)
        cuts = [0, *(np.flatnonzero(steps) + 1).tolist(), len(panes)]
        for start, stop in itertools.pairwise(cuts):
            self._pane(int(panes[start])).fold(keys[start:stop], known, rows.slice(start, stop))

    def _pane(self, number: int) -> Pane:
        pane = self.panes.get(number)
        if pane is None:
            pane = self.panes[number] = Pane(self.aggregation, dense=len(self.key) <= _DENSE_KEYS_MAX)
        return pane

    # -- windows -------------------------------------------------------------------------------------------------

    def _last_end(self, pane: int) -> int:
        """Where the last window that a pane is part of ends."""
        return self.bounds.end(self.bounds.windows_of(pane)[-1])

    def passed(self, progress: Progress) -> list[Rows]:
        """Closes what the frontier has passed since the last time."""
        by_device = self.device_place is not None and (self.frontier.devices or isinstance(self._before, np.ndarray))
        out: list[Rows] = []
        if not by_device and isinstance(self._before, int):
            since, self._before = self._before, self.frontier.floor_us
            if self._before < self._quiet_until:
                return out
            self._settle()
            for window in self._closing(since, self._before):
                keys, pool, slots = self._gather(window)
                if len(keys):
                    out.append(self._emit(window, keys, pool, slots))
            self._forget(self._before)
            self._quiet_until = self._next_closing(self._before)
            return out
        self._settle()
        self._quiet_until = NO_FRONTIER
        before, now = self._frontiers_before_and_now(by_device=bool(by_device))
        if not now.size:
            return out
        for window in self._closing(int(np.min(before)), int(np.max(now))):
            end = self.bounds.end(window)
            keys, pool, slots = self._gather(window)
            if now.ndim:
                chosen = np.flatnonzero((before[keys] < end) & (end <= now[keys]))
                keys, slots = keys[chosen], slots[chosen]
            if len(keys):
                out.append(self._emit(window, keys, pool, slots))
        self._forget(now)
        return out

    def _next_closing(self, now: int) -> int:
        """Where the first window ends that is still to go out. Late rows may need any time to pass: then unknown."""
        if self.lateness_us:
            return NO_FRONTIER
        if not self.panes:
            return END_OF_TIME
        return self.bounds.end(max(self.bounds.windows_of(min(self.panes))[0], self.bounds.ended(now) + 1))

    def _frontiers_before_and_now(self, *, by_device: bool) -> tuple[np.ndarray, np.ndarray]:
        """The frontier of each key before and now; plain numbers where keys do not differ."""
        if not by_device:
            before, self._before = self._before, self.frontier.floor_us
            return np.asarray(before), np.asarray(self._before)
        now = np.broadcast_to(self.key_frontiers(), len(self.key))
        before, self._before = np.broadcast_to(np.asarray(self._before), now.shape), now
        return before, now

    def _closing(self, before: int, now: int) -> Sequence[int]:
        """The windows that end after `before` and not after `now`, in order; some may have no row."""
        if not self.panes:
            return ()
        first = max(self.bounds.ended(before) + 1, self.bounds.windows_of(min(self.panes))[0])
        last = min(self.bounds.ended(now), self.bounds.windows_of(max(self.panes))[-1])
        if last - first <= len(self.panes) + self.bounds.hops:
            return range(first, last + 1)
        windows: set[int] = set()  # panes far apart: only windows that have one
        for pane in self.panes:
            windows.update(n for n in self.bounds.windows_of(pane) if before < self.bounds.end(n) <= now)
        return sorted(windows)

    def _gather(self, window: int) -> tuple[np.ndarray, Pool, np.ndarray]:
        """The keys of a window, and where their answers are: a pane's pool, or panes merged in time order."""
        numbers = self.bounds.panes_of(window)
        present = (
            [number for number in numbers if number in self.panes]
            if len(numbers) <= len(self.panes)
            else sorted(number for number in self.panes if number in numbers)
        )
        if not present:  # between rows far apart
            nobody = np.empty(0, np.int64)
            return nobody, Pool(self.aggregation), nobody
        if len(present) == 1:
            pane = self.panes[present[0]]
            keys, slots = pane.live()
            return keys, pane.pool, slots
        if not self.aggregation.kept and all(self.panes[number].table is None for number in present):
            pool = Pool.merged(self.aggregation, [self.panes[number].pool for number in present], len(self.key))
            keys = pool.rows.nonzero()[0]
            return keys, pool, keys
        lives = [self.panes[number].live() for number in present]
        everyone = np.unique(np.concatenate([keys for keys, _ in lives]))
        pool = Pool(self.aggregation)
        pool.reserve(len(everyone))
        for number, (keys, slots) in zip(present, lives, strict=True):
            pool.merge(np.searchsorted(everyone, keys), self.panes[number].pool, slots)
        return everyone, pool, np.arange(len(everyone))

    def _emit(self, window: int, keys: np.ndarray, pool: Pool, slots: np.ndarray) -> Rows:
        order = self.key.order(keys)
        keys, slots = keys[order], slots[order]
        starts = np.full(len(keys), self.bounds.start(window), np.int64)
        ends = np.full(len(keys), self.bounds.end(window), np.int64)
        return self.window_rows(keys, starts, ends, pool.results(slots), ends - 1)

    def _forget(self, now: np.ndarray | int) -> None:
        limit = int(np.max(now)) - self.lateness_us
        if not self.panes or self._last_end(min(self.panes)) > limit:
            return
        for number in [number for number in self.panes if self._last_end(number) <= limit]:
            pane = self.panes[number]
            if isinstance(now, np.ndarray) and now.ndim:
                keys, slots = pane.live()
                done = slots[self._last_end(number) <= now[keys] - self.lateness_us]
                if len(done) < len(slots):
                    pane.pool.clear(done)
                    pane.touched = True
                    pane.cleared.append(keys[np.isin(slots, done)])
                    continue
            del self.panes[number]
            if self.tracking:
                self.dropped.add(number)

    def _corrections(self, late: Rows) -> list[Rows]:
        """Windows that had gone out already go out again, whole, with the late rows in them."""
        keys = self.key.numbers(late.columns, len(late))
        limits = np.broadcast_to(np.asarray(self.frontiers_of(late)), (len(late),)).tolist()
        again: dict[int, set[int]] = {}
        for time, key, limit in zip(late.time.tolist(), keys.tolist(), limits, strict=True):
            for window in self.bounds.windows_at(time):
                if self.bounds.end(window) <= limit:
                    again.setdefault(window, set()).add(key)
        out = []
        for window in sorted(again):
            everyone, pool, slots = self._gather(window)
            chosen = np.flatnonzero(np.isin(everyone, list(again[window])))
            out.append(self._emit(window, everyone[chosen], pool, slots[chosen]))
        return out

    # -- state ---------------------------------------------------------------------------------------------------

    def _before_of_all(self) -> np.ndarray | int:
        """Each key's frontier at the last closing: windows close whenever it moves, so it is where it is now."""
        if self.device_place is None or not self.frontier.devices:
            return self.frontier.floor_us
        return self.key_frontiers()

    def _dump(self, panes: dict[int, list[Value]], *, since_mark: bool) -> Value:
        state = [
            self.dump_frontiers(since_mark=since_mark), None if since_mark else self._before_of_all(),
            self.numbering.next, self.late_dropped, self.key.dump(since_mark=since_mark), panes,
            sorted(self.dropped),
        ]  # fmt: skip
        self.tracking = True
        self.dropped = set()
        for pane in self.panes.values():
            pane.dumped()
        return state

    def dump(self) -> Value:
        self._settle()
        panes = {}
        for number, pane in sorted(self.panes.items()):
            keys, slots = pane.live()
            panes[number] = [keys, pane.pool.dump(slots)]
        self.dropped = set()
        return self._dump(panes, since_mark=False)

    def changes(self) -> Value:
        if not self.tracking:
            return ["all", self.dump()]
        self._settle()
        again, self._again = self._again, None
        panes = {}
        for number, pane in sorted(self.panes.items()):
            if pane.rows_at_dump is None:
                keys, slots = pane.live()
                panes[number] = [keys, pane.pool.dump(slots)]
                continue
            keys = pane.changed()
            if again is not None:
                part = pane.part(*again)
                keys = np.concatenate([keys, part[np.isin(part, keys, assume_unique=True, invert=True)]])
            if len(keys):
                slots = pane.slots(keys, len(self.key))
                alive = pane.pool.rows[slots] > 0
                panes[number] = [keys[alive], pane.pool.dump(slots[alive]), keys[~alive]]
        return ["some", self._dump(panes, since_mark=True)]

    def say_again(self, part: int, parts: int) -> None:
        if self.tracking:
            self._again = (part, parts)
            self.key.say_again(part, parts)
            self.say_frontiers_again(part, parts)

    def load(self, state: Value) -> None:
        self.panes.clear()
        self._waiting, self._waiting_rows = [], 0
        self._load(state)

    def apply(self, changes: Value) -> None:
        if changes is not None:
            super().apply(changes)

    def _load(self, state: Value) -> None:
        self._settle()
        self._quiet_until = NO_FRONTIER
        frontiers, _, self.numbering.next, self.late_dropped, keys, panes, dropped = state
        self.load_frontiers(frontiers)
        self.key.load(keys)
        self._loaded = True  # what is stored of `_before` follows from the frontiers, once all pieces are there
        for number in dropped:
            self.panes.pop(number, None)
        for number, (present, pool, *gone) in panes.items():
            pane = self._pane(number)
            if gone and len(gone[0]):
                pane.pool.clear(pane.slots(gone[0], len(self.key)))
            pane.pool.load(pane.slots(present, len(self.key)), pool)
        self.tracking = True
        self.dropped = set()
        for pane in self.panes.values():
            pane.dumped()

    def cut(self, state: Value, choice: KeyChoice) -> Value:
        frontiers, before, following, late, keys, panes, dropped = state
        keys, moved = choice.keys(keys, self.key)
        if isinstance(before, np.ndarray):
            before = cut_array(before, moved)
        filtered = {}
        for number, (present, pool) in panes.items():
            stays = moved[present] >= 0
            if stays.any():
                filtered[number] = [moved[present[stays]], cut_pool(pool, stays)]
        return [frontiers, before, following, late, keys, filtered, dropped]
