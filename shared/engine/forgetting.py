"""State that runs out: what a key said so long ago that no row still to come can need it is forgotten, number and all.

What counts is decided row by row, from event times and the frontier alone. When it is taken out of memory is then free:
here about once in the length of time after which it runs out, so that each sweep pays for itself.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from shared.batch import NO_FRONTIER
from shared.engine.key_choice import cut_dictionary
from shared.engine.keyed_state import KeyedState, StatefulStream
from shared.engine.keys import KeyIndex
from shared.engine.operator import Operator, Use, key_of
from shared.engine.rows import Progress, Rows
from shared.engine.snapshots import Value
from shared.plan import operators as op
from shared.plan.operators import DEVICE, StateColumn
from shared.plan.stream_type import StreamType

_KEYS_MIN = 1024  # numbering fewer keys anew is not worth it


class Forgetting(KeyedState):
    """A state per key, of which some are forgotten as time passes. A state is never None: in a change set that stands
    for a key that is gone."""

    length_us: int  # after so long without a row nothing of a key counts
    _sweep_at = NO_FRONTIER

    @property
    def _device(self) -> int | None:
        return self.key.names.index(DEVICE) if DEVICE in self.key.names else None

    def frontiers_of(self, rows: Rows) -> list[int]:
        """The frontier that holds for each row."""
        devices = rows.columns.get(DEVICE) if self._device is not None else None
        found = self.frontier.of_rows(devices, len(rows))
        listed: list[int] = np.broadcast_to(np.asarray(found), (len(rows),)).tolist()
        return listed

    def passed(self, progress: Progress) -> list[Rows]:
        furthest = self.frontier.greatest_us
        if furthest >= self._sweep_at:
            self._sweep_at = furthest + self.length_us
            self._sweep()
        return super().passed(progress)

    def _sweep(self) -> None:
        gone = [number for number in self.states if self.run_out(number, self._frontier_of(number))]
        for number in gone:
            del self.states[number]
            self.touch(number)
        if len(self.key) > _KEYS_MIN and len(self.states) < len(self.key) // 4:
            stays = np.zeros(len(self.key), bool)
            stays[list(self.states)] = True
            self.renumber(np.where(stays, np.cumsum(stays) - 1, -1))

    def _frontier_of(self, number: int) -> int:
        if self._device is None:
            return self.frontier.floor_us
        return self.frontier.of(str(self.key.values[number][self._device]))

    def run_out(self, number: int, frontier_us: int) -> bool:
        """True where nothing of this key counts any more; what else has run out may go now."""
        raise NotImplementedError

    def renumber(self, moved: np.ndarray) -> None:
        """Give keys these numbers, and forget those with -1. The next change set is the whole state."""
        first, columns = self.key.dump()
        stays = moved >= 0
        self.key.load([first, int(stays.sum()) if isinstance(columns, int) else [each[stays] for each in columns]])
        self.states = cut_dictionary(self.states, moved)
        self.changed = None

    def changes(self) -> Value:
        if self.changed is None:
            return ["all", self.dump()]
        return [
            "some",
            self._dump({number: self.states.get(number) for number in sorted(self.changed)}, since_mark=True),
        ]

    def _load(self, state: Value) -> None:
        super()._load(state)
        for number in [number for number, value in state[3].items() if value is None]:
            del self.states[number]


class DistinctRows(Forgetting):
    """A key's state: for each combination of values, the times at which it was kept."""

    def __init__(self, columns: tuple[str, ...], within_us: int, key: KeyIndex) -> None:
        super().__init__(1, key)
        self.columns = columns
        self.length_us = within_us

    def push(self, port: int, rows: Rows) -> list[Rows]:
        if not len(rows):
            return [rows]
        keys = self.key.numbers(rows.columns, len(rows)).tolist()
        values = zip(*(plain(rows.columns[name]) for name in self.columns), strict=True)
        kept = []
        for place, (key, value, time, frontier) in enumerate(
            zip(keys, values, rows.time.tolist(), self.frontiers_of(rows), strict=True)
        ):
            known = self.states.setdefault(key, {})
            times = [at for at in known.get(value, ()) if at + self.length_us > frontier]
            if all(abs(time - at) >= self.length_us for at in times):
                times.append(time)
                kept.append(place)
            known[value] = times
            self.touch(key)
        return [rows if len(kept) == len(rows) else rows.take(np.array(kept, np.int64))]

    def run_out(self, number: int, frontier_us: int) -> bool:
        known = self.states[number]
        ended = [value for value, times in known.items() if max(times) + self.length_us <= frontier_us]
        for value in ended:
            del known[value]
            self.touch(number)
        return not known


def plain(column: np.ndarray) -> list[object]:
    """Values that are equal where they mean the same: missing floats are one."""
    values = column.tolist()
    return [None if value != value else value for value in values] if column.dtype.kind == "f" else values  # noqa: PLR0124


class ExpiringState(Forgetting, StatefulStream):
    """A stateful stream whose keys begin anew once they had no row for a while."""

    def __init__(
        self,
        columns: tuple[StateColumn, ...],
        source: StreamType,
        key: KeyIndex,
        *,
        kept: tuple[str, ...],
        expire_us: int,
    ) -> None:
        StatefulStream.__init__(self, columns, source, key, config=False, kept=kept)
        self.length_us = expire_us
        self.last: dict[int, int] = {}  # by key: the greatest time of its rows

    def push(self, port: int, rows: Rows) -> list[Rows]:
        """Runs of rows in which no key begins anew but with its first row."""
        out: list[Rows] = []
        start, seen = 0, set[int]()
        keys = self.key.numbers(rows.columns, len(rows)).tolist()
        for place, (key, time, frontier) in enumerate(
            zip(keys, rows.time.tolist(), self.frontiers_of(rows), strict=True)
        ):
            last = self.last.get(key)
            if last is not None and max(time, frontier) - last >= self.length_us:
                if key in seen:
                    out.append(self._update(rows.slice(start, place)))
                    start, seen = place, set()
                self.states.pop(key, None)
                last = None
            self.last[key] = time if last is None else max(last, time)
            seen.add(key)
        if start < len(rows):
            out.append(self._update(rows.slice(start, len(rows))))
        return out

    def run_out(self, number: int, frontier_us: int) -> bool:
        if frontier_us - self.last[number] < self.length_us:
            return False
        del self.last[number]
        return True

    def renumber(self, moved: np.ndarray) -> None:
        super().renumber(moved)
        self.last = cut_dictionary(self.last, moved)

    def _dump(self, states: Mapping[int, Value], *, since_mark: bool) -> Value:
        timed = {number: None if value is None else (value, self.last[number]) for number, value in states.items()}
        return super()._dump(timed, since_mark=since_mark)

    def load(self, state: Value) -> None:
        self.last.clear()
        super().load(state)

    def _load(self, state: Value) -> None:
        frontiers, following, keys, timed, more = state
        for number, value in timed.items():
            if value is None:
                self.last.pop(number, None)
            else:
                self.last[number] = value[1]
        bare = {number: None if value is None else value[0] for number, value in timed.items()}
        super()._load([frontiers, following, keys, bare, more])


def distinct_of(use: Use, operator: op.Distinct) -> Operator:
    return DistinctRows(operator.columns, operator.within_us, key_of(use.inputs[0]))


def state_of(use: Use, operator: op.State) -> Operator:
    source = use.inputs[0]
    passed = (name for name in source.schema.names if operator.keep and name in use.wanted)
    kept = tuple(dict.fromkeys((*source.key, *passed)))
    if operator.expire_us is not None:
        return ExpiringState(operator.columns, source, key_of(source), kept=kept, expire_us=operator.expire_us)
    return StatefulStream(operator.columns, source, key_of(source), config=operator.config, kept=kept)
