"""Operators with a state of their own for each key: stateful streams and significant changes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from shared.engine.evaluation import EARTH_RADIUS_METRES, cast, compiled
from shared.engine.key_choice import KeyChoice, cut_dictionary
from shared.engine.keys import KeyIndex
from shared.engine.merge import HeldRows, stream_order
from shared.engine.operator import ChangesByPart, Operator, Use, key_of
from shared.engine.rows import Numbering, Progress, Rows
from shared.engine.snapshots import Value
from shared.language.schema import Field, Schema, dtype
from shared.plan import operators as op
from shared.plan.operators import DEVICE, Significant, StateColumn
from shared.plan.stream_type import StreamType


class KeyedState(ChangesByPart):
    """A tuple of values per key, with change sets of the keys that were touched."""

    def __init__(self, ports: int, key: KeyIndex) -> None:
        super().__init__(ports)
        self.key: KeyIndex = key
        self.states: dict[int, Value] = {}
        self.changed: set[int] | None = None
        self.numbering = Numbering()

    def passed(self, progress: Progress) -> list[Rows]:
        return []

    def dump_more(self) -> Value:
        return None

    def load_more(self, state: Value) -> None:
        pass

    def _dump(self, states: Mapping[int, Value], *, since_mark: bool) -> Value:
        self.changed = set()
        return [
            self.dump_frontiers(), self.numbering.next, self.key.dump(since_mark=since_mark), dict(states),
            self.dump_more(),
        ]  # fmt: skip

    def dump(self) -> Value:
        return self._dump(self.states, since_mark=False)

    def changes(self) -> Value:
        if self.changed is None:
            return ["all", self.dump()]
        return ["some", self._dump({key: self.states[key] for key in sorted(self.changed)}, since_mark=True)]

    def load(self, state: Value) -> None:
        self.states.clear()
        self._load(state)

    def _load(self, state: Value) -> None:
        frontiers, self.numbering.next, keys, states, more = state
        self.load_frontiers(frontiers)
        self.key.load(keys)
        self.states.update(states)
        self.load_more(more)
        self.changed = set()

    def cut(self, state: Value, choice: KeyChoice) -> Value:
        frontiers, following, keys, states, more = state
        keys, moved = choice.keys(keys, self.key)
        held = None if more is None else [choice.held(one) for one in more]
        return [frontiers, following, keys, cut_dictionary(states, moved), held]

    def touch(self, key: int) -> None:
        if self.changed is not None:
            self.changed.add(key)


class TwoInputs(KeyedState):
    """Adds a config stream: rows of both inputs wait for the frontier and are taken in order of time."""

    def __init__(self, ports: int, key: KeyIndex) -> None:
        super().__init__(ports, key)
        self.held = [HeldRows() for _ in range(ports)]

    def merged(self) -> list[tuple[int, Rows]]:
        """Runs of rows of one input each, in order of (time, device, input, number)."""
        found = [(port, let[0]) for port, held in enumerate(self.held) if (let := held.release(self)) is not None]
        if len(found) < 2:
            return found
        ports = np.concatenate([np.full(len(rows), port, np.int8) for port, rows in found])
        names = {name for _, rows in found for name in rows.columns}
        common = [DEVICE] if DEVICE in names and all(DEVICE in rows.columns for _, rows in found) else []
        all_rows = Rows(
            {name: np.concatenate([rows.columns[name] for _, rows in found]) for name in common},
            np.concatenate([rows.time for _, rows in found]),
            np.concatenate([rows.seq for _, rows in found]),
            0,
            0,
        )
        order = stream_order(all_rows, ports)
        places = np.concatenate([np.arange(len(rows)) for _, rows in found])[order]
        by_port = dict(found)
        turns = ports[order]
        cuts = [0, *(np.flatnonzero(np.diff(turns)) + 1).tolist(), len(turns)]
        return [
            (int(turns[start]), by_port[int(turns[start])].take(places[start:stop]))
            for start, stop in itertools.pairwise(cuts)
        ]

    def dump_more(self) -> Value:
        return [held.dump() for held in self.held]

    def load_more(self, state: Value) -> None:
        for held, dumped in zip(self.held, state, strict=True):
            held.load(dumped)


class StatefulStream(TwoInputs):
    """After each row, the key's new state. Rows of different keys are computed together: the n-th row of every key
    in the batch at once, so a batch of many keys costs few steps."""

    def __init__(
        self,
        columns: Sequence[StateColumn],
        source: StreamType,
        key: KeyIndex,
        *,
        config: bool,
        kept: tuple[str, ...],
    ) -> None:
        super().__init__(2 if config else 1, key)
        self.kept = kept  # the row's own columns that go out beside the state
        self.columns = columns
        self.config = config
        self.kinds = [column.kind for column in columns]
        known = Schema((*source.schema.fields, *(Field(f"state.{column.name}", column.kind) for column in columns)))
        self.updates = [compiled(column.update, known) for column in columns]
        self.initial = tuple(
            np.array(column.initial).astype(dtype(column.kind)).item() if column.kind != "str" else column.initial
            for column in columns
        )

    def push(self, port: int, rows: Rows) -> list[Rows]:
        if not len(rows):
            return []
        if self.config:
            self.held[port].hold(port, rows)
            return self.passed_by(rows)
        return [self._update(rows)]

    def passed(self, progress: Progress) -> list[Rows]:
        if not self.config:
            return []
        out = []
        for port, rows in self.merged():
            if port == 0:
                out.append(self._update(rows))
            else:
                self._set(rows)
        return out

    def _set(self, rows: Rows) -> None:
        names = [column.name for column in self.columns]
        for place, key in enumerate(self.key.numbers(rows.columns, len(rows)).tolist()):
            state = list(self.states.get(key, self.initial))
            for number, name in enumerate(names):
                if name in rows.columns:
                    state[number] = rows.columns[name][place : place + 1].tolist()[0]
            self.states[key] = tuple(state)
            self.touch(key)

    def _update(self, rows: Rows) -> Rows:
        keys = self.key.numbers(rows.columns, len(rows))
        order = np.argsort(keys, kind="stable")
        heads = np.append(True, np.diff(keys[order]) != 0)
        begins = np.maximum.accumulate(np.where(heads, np.arange(len(keys)), 0))
        rank = np.empty(len(keys), np.int64)
        rank[order] = np.arange(len(keys)) - begins
        results = [np.empty(len(keys), dtype(kind)) for kind in self.kinds]
        steps = np.argsort(rank, kind="stable")
        cuts = [0, *(np.flatnonzero(np.diff(rank[steps])) + 1).tolist(), len(steps)]
        for start, stop in itertools.pairwise(cuts):
            self._step(rows, keys, steps[start:stop], results)
        columns = {name: rows.columns[name] for name in self.kept}
        columns.update((column.name, result) for column, result in zip(self.columns, results, strict=True))
        return self.numbering.rows(columns, rows.time)

    def _step(self, rows: Rows, keys: np.ndarray, places: np.ndarray, results: list[np.ndarray]) -> None:
        """One row of each of several keys."""
        numbers = keys[places].tolist()
        states = [self.states.get(number, self.initial) for number in numbers]
        columns = {name: column[places] for name, column in rows.columns.items()}
        for place, column in enumerate(self.columns):
            columns[f"state.{column.name}"] = np.array([state[place] for state in states], dtype(column.kind))
        time = rows.time[places]
        fresh = []
        for place, update in enumerate(self.updates):
            value = cast(update(columns, time), self.kinds[place])
            results[place][places] = value
            fresh.append(value.tolist())
        for number, state in zip(numbers, zip(*fresh, strict=True), strict=True):
            self.states[number] = state
            self.touch(number)


class SignificantChanges(KeyedState):
    """Keeps the rows that differ enough from the last one kept; their numbers and the covered range stay."""

    def __init__(self, operator: Significant, key: KeyIndex) -> None:
        super().__init__(1, key)
        self.operator = operator

    def push(self, port: int, rows: Rows) -> list[Rows]:
        if not len(rows):
            return [rows]
        differs = self._far if self.operator.metres is not None else self._changed
        keys = self.key.numbers(rows.columns, len(rows)).tolist()
        values = zip(*(rows.columns[name].tolist() for name in self.operator.columns), strict=True)
        kept = []
        for place, (key, value) in enumerate(zip(keys, values, strict=True)):
            last = self.states.get(key)
            if last is None or differs(last, value):
                self.states[key] = value
                self.touch(key)
                kept.append(place)
        return [rows if len(kept) == len(rows) else rows.take(np.array(kept, np.int64))]

    def _far(self, last: tuple[float, ...], value: tuple[float, ...]) -> bool:
        metres = distance_metres(*last, *value)
        if math.isnan(metres):
            return any(math.isnan(was) != math.isnan(now) for was, now in zip(last, value, strict=True))
        return metres >= (self.operator.metres or 0.0)

    def _changed(self, last: tuple[float, ...], value: tuple[float, ...]) -> bool:
        change = self.operator.change or 0.0
        return any(
            abs(now - was) >= change or (now != now) != (was != was)  # noqa: PLR0124  # NaN differs from itself
            for was, now in zip(last, value, strict=True)
        )


def distance_metres(lat1: float, lon1: float, lat2: float, lon2: float) -> float:
    """Great-circle distance between two points in degrees."""
    first, second = math.radians(lat1), math.radians(lat2)
    half_lat = math.sin((second - first) * 0.5)
    half_lon = math.sin(math.radians(lon2 - lon1) * 0.5)
    root = half_lat * half_lat + math.cos(first) * math.cos(second) * (half_lon * half_lon)
    return 2.0 * EARTH_RADIUS_METRES * math.asin(math.sqrt(min(root, 1.0)))


def state_of(use: Use, operator: op.State) -> Operator:
    source = use.inputs[0]
    passed = (name for name in source.schema.names if operator.keep and name in use.wanted)
    kept = tuple(dict.fromkeys((*source.key, *passed)))
    return StatefulStream(operator.columns, source, key_of(source), config=operator.config, kept=kept)


def significant_of(use: Use, operator: Significant) -> Operator:
    return SignificantChanges(operator, key_of(use.inputs[0]))
