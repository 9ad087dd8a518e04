"""Where several edges become one stream.

`ordered` holds every row until no earlier one can follow, then lets go by (time, device, input, number): the same at
every replay, whatever the arrival. The other modes let go at once; `logged` relies on its driver feeding a replay in
the recorded interleaving. Re-keying (`key_by` to columns without `device`) is a merge of all devices: from there on
there is one frontier, the least over the active devices.

Numbers tell the order within one key, and no more: Spark gives the keys of a stream to several tasks, and each numbers
its own rows. So where keys meet, the key that rows had before decides ahead of their numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from shared.batch import NO_FRONTIER
from shared.engine.active_set import ActiveSet
from shared.engine.frontiers import dump_times
from shared.engine.key_choice import KeyChoice
from shared.engine.operator import Operator, Stateful, Use
from shared.engine.rows import Numbering, Progress, Rows, joined
from shared.engine.snapshots import Value
from shared.plan import operators as op
from shared.plan.operators import DEVICE

SOME = "some"  # opens a change set that says only what changed


class HeldRows:
    """Rows that wait for the frontier, with the input each came from. `before` is the key that kept them apart, where
    rows of several keys meet."""

    def __init__(self, before: tuple[str, ...] = ()) -> None:
        self.before = before
        self.runs: list[Rows] = []
        self.ports: list[np.ndarray] = []

    def __len__(self) -> int:
        return sum(map(len, self.runs))

    def hold(self, port: int, rows: Rows) -> None:
        if len(rows):
            self.runs.append(rows)
            self.ports.append(np.full(len(rows), port, np.int8))

    def release(self, stream: Stateful) -> tuple[Rows, np.ndarray] | None:
        """Takes out what the stream's frontier has passed, by (time, device, key before, input, number)."""
        if not self.runs:
            return None
        rows, ports = joined(self.runs), np.concatenate(self.ports)
        devices = rows.columns.get(DEVICE)
        free = rows.time < stream.frontier.of_rows(devices, len(rows))
        if not free.any():
            self.runs, self.ports = [rows], [ports]
            return None
        if free.all():
            self.runs, self.ports = [], []
        else:
            kept = np.flatnonzero(~free)
            self.runs, self.ports = [rows.take(kept)], [ports[kept]]
            let = np.flatnonzero(free)
            rows, ports = rows.take(let), ports[let]
        order = stream_order(rows, ports, self.before)
        return rows.take(order), ports[order]

    def dump(self) -> Value:
        if not self.runs:
            return None
        rows = joined(self.runs)
        self.runs, self.ports = [rows], [np.concatenate(self.ports)]
        return [dict(rows.columns), rows.time, rows.seq, self.ports[0]]

    def load(self, state: Value) -> None:
        self.runs, self.ports = [], []
        if state is not None:
            columns, time, seq, ports = state
            self.runs, self.ports = [Rows(dict(columns), time, seq, 0, 0)], [ports]


def stream_order(rows: Rows, ports: np.ndarray, before: tuple[str, ...] = ()) -> np.ndarray:
    """The positions that sort rows by (time, device, key before, input, number)."""
    keys = [rows.seq, ports]
    for name in (*reversed(before), DEVICE):
        column = rows.columns.get(name)
        if column is not None and len(rows) and column.strides != (0,):
            keys.append(ranks(column) if isinstance(column.dtype, np.dtypes.StringDType) else column)
    return np.lexsort((*keys, rows.time))


def ranks(column: np.ndarray) -> np.ndarray:
    """For each text its place among the different texts, in order."""
    heads = _heads(column)
    listed = column[heads].tolist()
    place = {text: rank for rank, text in enumerate(sorted(set(listed)))}
    ranked = np.fromiter((place[text] for text in listed), np.int64, len(listed))
    return np.repeat(ranked, np.diff(heads, append=len(column)))


def _heads(column: np.ndarray) -> np.ndarray:
    """Where a run of one text begins: a device's rows usually follow each other, so most need no look of their own."""
    return np.flatnonzero(np.concatenate(([True] * min(1, len(column)), column[1:] != column[:-1])))


class Union(Stateful):
    """The rows of all inputs as one stream."""

    def __init__(self, ports: int, columns: tuple[str, ...], merge: str, before: tuple[str, ...] = ()) -> None:
        super().__init__(ports)
        self.columns = columns
        self.ordered = merge == "ordered"
        self.held = HeldRows(before)
        self.numbering = Numbering()

    def push(self, port: int, rows: Rows) -> list[Rows]:
        self.touched = True
        if self.ordered:
            self.held.hold(port, rows)
            return self.passed_by(rows)
        return [self._numbered(rows)] if len(rows) else []

    def passed(self, progress: Progress) -> list[Rows]:
        self.touched = True
        let = self.held.release(self)
        return [] if let is None else [self._numbered(let[0])]

    def _numbered(self, rows: Rows) -> Rows:
        return self.numbering.rows({name: rows.columns[name] for name in self.columns}, rows.time)

    def _dump(self, *, since_mark: bool) -> Value:
        """Of the frontiers all, or what moved since the last dump; rows that wait are few."""
        return [self.dump_frontiers(since_mark=since_mark), self.numbering.next, self.held.dump()]

    def dump(self) -> Value:
        return self._dump(since_mark=False)

    def changes(self) -> Value:
        if not self.touched:
            return None
        self.touched = False
        return self._dump(since_mark=True)

    def say_again(self, part: int, parts: int) -> None:
        self.touched = True
        self.say_frontiers_again(part, parts)

    def load(self, state: Value) -> None:
        frontiers, self.numbering.next, held = state
        self.load_frontiers(frontiers)
        self.held.load(held)

    def cut(self, state: Value, choice: KeyChoice) -> Value:
        frontiers, following, held = state
        return [frontiers, following, choice.held(held)]


class Regroup(Union):
    """The rows of a device's keys that become one, let go by the device's own frontier. Older states have nothing here:
    rows went through as they came, which on Spark was in another order than in `evaluate`."""

    def load(self, state: Value) -> None:
        if state is not None:
            super().load(state)


class Rekey(Union):
    """All devices' rows as one stream, with one frontier.

    A device whose frontier is more than `idle_after_us` behind the greatest leaves the active set until it catches up.
    Its rows, when they come, are behind the common frontier: they go through at once, late, for windows to judge.

    A device that left for good (`leave`) is in the active set no more. Until the common frontier has passed the time at
    which it left, it counts for completeness: what closes so far may miss rows that it never delivered.
    """

    def __init__(
        self, columns: tuple[str, ...], merge: str, idle_after_us: int | None, before: tuple[str, ...] = ()
    ) -> None:
        super().__init__(1, columns, merge, before)
        self.active = ActiveSet(idle_after_us)
        self.common_us = NO_FRONTIER

    def leave(self, left: Mapping[str, int], returned: Iterable[str]) -> None:
        """These devices left at these times; these are back."""
        self.touched |= self.active.leave(left, returned)

    def missing(self, most: int) -> list[str]:
        """The devices behind the common frontier: what has closed went out without what they still hold."""
        return self.active.behind(self.common_us, most)

    def push(self, port: int, rows: Rows) -> list[Rows]:
        devices = rows.columns.get(DEVICE)
        if devices is not None and len(rows):
            heads = np.zeros(1, np.int64) if devices.strides == (0,) else _heads(devices)
            for name, head in zip(devices[heads].tolist(), heads.tolist(), strict=True):
                if not self.active.began(name):
                    self.active.begin(name, int(rows.time[head]), self.frontier.of(name))
        if not self.ordered:
            return super().push(port, rows)
        self.touched = True
        late = rows.time < self.common_us
        if not late.any():
            self.held.hold(port, rows)
            return []
        self.held.hold(port, rows.take(np.flatnonzero(~late)))
        through = rows.take(np.flatnonzero(late))
        order = stream_order(through, np.zeros(len(through), np.int8), self.held.before)
        return [self._numbered(through.take(order))]

    def advance(self, port: int, progress: Progress) -> tuple[list[Rows], Progress | None]:
        self.touched |= self.frontier.advance(progress)
        reached = {name: self.frontier.of(name) for name in progress.devices}
        self.touched |= self.active.reach(reached, self.frontier.floor_us)
        common, complete = self.active.common(self.common_us) if len(self.active) else (self.frontier.floor_us, None)
        if common <= self.common_us:
            return [], None
        self.common_us = common
        self.touched = True
        # Rows leave by the common frontier, not by each device's own.
        news = Progress(common, complete_us=complete)
        gate = Stateful(1)
        gate.frontier.floor_us = common
        let = self.held.release(gate)
        return ([] if let is None else [self._numbered(let[0])]), news

    def dump(self) -> Value:
        at, since = self.active.dump()
        state = [super().dump(), at, since, self.common_us]
        return [*state, dump_times(self.active.left)] if self.active.left else state

    def changes(self) -> Value:
        if not self.active.is_said:
            self.touched = False
            return self.dump()
        inner = super().changes()
        return None if inner is None else [SOME, inner, self.active.changes(), self.common_us]

    def say_again(self, part: int, parts: int) -> None:
        super().say_again(part, parts)
        self.active.say_again(part, parts)

    def load(self, state: Value) -> None:
        if state[0] == SOME:
            _, inner, changes, self.common_us = state
            super().load(inner)
            self.active.apply(changes, self.frontier.floor_us)
            return
        inner, at, since, self.common_us, *left = state
        super().load(inner)
        self.active.load(at, since, left[0] if left else {})

    def cut(self, state: Value, choice: KeyChoice) -> Value:
        inner, *rest = state
        return [super().cut(inner, choice), *rest]


def union_of(use: Use, operator: op.Union) -> Operator:
    return Union(len(use.inputs), use.node.schema.names, operator.merge)


def key_by_of(use: Use, operator: op.KeyBy) -> Operator:
    wanted = (name for name in use.node.schema.names if name in use.wanted)
    columns = tuple(dict.fromkeys((*operator.columns, *wanted)))
    before = tuple(name for name in use.inputs[0].key if name != DEVICE)
    if DEVICE in operator.columns:
        return Regroup(1, columns, operator.merge, before)
    return Rekey(columns, operator.merge, operator.idle_after_us, before)
