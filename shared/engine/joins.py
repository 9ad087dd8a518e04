"""Two streams, row by row, key by key: zip, join, and each row beside the latest of the other stream.

All but `combine` by arrival wait for the frontier, so that what goes out and its order depend on the rows alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shared.batch import NO_FRONTIER
from shared.engine.key_choice import KeyChoice, cut_array, cut_dictionary
from shared.engine.keys import KeyIndex
from shared.engine.merge import HeldRows, ranks
from shared.engine.operator import ChangesByPart, Operator, Stateful, Use, key_of
from shared.engine.rows import Numbering, Progress, Rows, empty, joined, take
from shared.engine.snapshots import Value
from shared.language.schema import Schema, dtype
from shared.plan import operators as op
from shared.plan.operators import DEVICE
from shared.plan.stream_type import StreamType

LEFT, RIGHT = 0, 1


class Pairing(Stateful):
    """What pairing operators share: the key, and how a left and a right row become one."""

    def __init__(self, left: StreamType, right: StreamType, output: Schema) -> None:
        super().__init__(2)
        self.key: KeyIndex = key_of(left)
        self.schemas = (left.schema, right.schema)
        added = [name for name in right.schema.names if name not in right.key]
        names = output.names
        self.left_names = names[: len(left.schema.names)]
        self.right_names = tuple(zip(names[len(left.schema.names) :], added, strict=True))
        self.held = (HeldRows(), HeldRows())
        self.numbering = Numbering()

    def push(self, port: int, rows: Rows) -> list[Rows]:
        self.touched = True
        self.held[port].hold(port, rows)
        return self.passed_by(rows)

    def fresh(self) -> tuple[Rows, Rows]:
        """The rows of both sides that the frontier has passed, in stream order."""
        self.touched = True
        found = []
        for side, held in enumerate(self.held):
            let = held.release(self)
            found.append(empty(self.schemas[side]) if let is None else let[0])
        return found[LEFT], found[RIGHT]

    def paired(self, left: Rows, right: Rows, left_at: np.ndarray, right_at: np.ndarray, time: np.ndarray) -> Rows:
        """Rows of both sides at these places, side by side."""
        columns = {name: take(left.columns[name], left_at) for name in self.left_names}
        columns.update((label, take(right.columns[name], right_at)) for label, name in self.right_names)
        return self.numbering.rows(columns, time)

    def default_row(self, defaults: Sequence[object]) -> Rows:
        """One right row that stands in where there is none."""
        added = {name: value for (_, name), value in zip(self.right_names, defaults, strict=True)}
        columns = {}
        for column in self.schemas[RIGHT]:
            missing: object = "" if column.kind == "str" else 0
            columns[column.name] = np.array([added.get(column.name, missing)], dtype(column.kind))
        return Rows(columns, np.full(1, NO_FRONTIER, np.int64), np.full(1, -1, np.int64), 0, 0)

    def dump(self) -> Value:
        return self._dump_pairing(since_mark=False)

    def _dump_pairing(self, *, since_mark: bool) -> Value:
        """All keys and frontiers, or what is new of them since the last dump; rows that wait are few."""
        return [
            self.dump_frontiers(since_mark=since_mark), self.numbering.next, self.key.dump(since_mark=since_mark),
            [held.dump() for held in self.held],
        ]  # fmt: skip

    def load(self, state: Value) -> None:
        frontiers, self.numbering.next, keys, held = state
        self.load_frontiers(frontiers)
        self.key.load(keys)
        for one, dumped in zip(self.held, held, strict=True):
            one.load(dumped)

    def cut_pairing(self, state: Value, choice: KeyChoice) -> tuple[Value, np.ndarray]:
        """What `dump` of this class gave, cut; and each key's new number."""
        frontiers, following, keys, held = state
        keys, moved = choice.keys(keys, self.key)
        return [frontiers, following, keys, [choice.held(one) for one in held]], moved


def dump_rows(rows: Rows) -> Value:
    return [dict(rows.columns), rows.time, rows.seq]


def load_rows(state: Value) -> Rows:
    columns, time, seq = state
    return Rows(dict(columns), time, seq, 0, 0)


class Zip(Pairing):
    """The n-th left row of a key with its n-th right row; out once the frontier passes the later of both."""

    def __init__(self, left: StreamType, right: StreamType, output: Schema) -> None:
        super().__init__(left, right, output)
        self.counts: list[np.ndarray] = [np.zeros(0, np.int64), np.zeros(0, np.int64)]
        self.waiting = [empty(left.schema), empty(right.schema)]
        self.numbers: list[np.ndarray] = [np.zeros((2, 0), np.int64), np.zeros((2, 0), np.int64)]  # key, ordinal
        self.pairs: list[tuple[Rows, Rows]] = []

    def push(self, port: int, rows: Rows) -> list[Rows]:
        if not len(rows):
            return []
        self.touched = True
        keys = self.key.numbers(rows.columns, len(rows))
        counts = self.counts[port]
        if len(counts) < len(self.key):
            counts = self.counts[port] = np.append(counts, np.zeros(len(self.key) - len(counts), np.int64))
        order = np.argsort(keys, kind="stable")
        heads = np.flatnonzero(np.append(True, np.diff(keys[order]) != 0))
        lengths = np.diff(np.append(heads, len(keys)))
        rank = np.empty(len(keys), np.int64)
        rank[order] = np.arange(len(keys)) - np.repeat(heads, lengths)
        ordinals = counts[keys] + rank
        np.add.at(counts, keys, 1)
        self.waiting[port] = joined([self.waiting[port], rows]) if len(self.waiting[port]) else rows
        self.numbers[port] = np.concatenate((self.numbers[port], np.stack((keys, ordinals))), axis=1)
        self._match()
        return self.passed_by(rows)

    def _match(self) -> None:
        left, right = self.numbers
        if not left.shape[1] or not right.shape[1]:
            return
        known = {pair: place for place, pair in enumerate(zip(*right.tolist(), strict=True))}
        places = [known.get(pair, -1) for pair in zip(*left.tolist(), strict=True)]
        right_at = np.array(places, np.int64)
        left_at = np.flatnonzero(right_at >= 0)
        if not len(left_at):
            return
        right_at = right_at[left_at]
        self.pairs.append((self.waiting[LEFT].take(left_at), self.waiting[RIGHT].take(right_at)))
        for side, used in ((LEFT, left_at), (RIGHT, right_at)):
            rest = np.delete(np.arange(len(self.waiting[side])), used)
            self.waiting[side] = self.waiting[side].take(rest)
            self.numbers[side] = self.numbers[side][:, rest]

    def passed(self, progress: Progress) -> list[Rows]:
        if not self.pairs:
            return []
        self.touched = True
        left, right = joined([pair[0] for pair in self.pairs]), joined([pair[1] for pair in self.pairs])
        time = np.maximum(left.time, right.time)
        free = time < self.frontier.of_rows(left.columns.get(DEVICE), len(time))
        kept = np.flatnonzero(~free)
        self.pairs = [(left.take(kept), right.take(kept))] if len(kept) else []
        chosen = np.flatnonzero(free)
        if not len(chosen):
            return []
        chosen = chosen[pair_order(left.take(chosen), right.take(chosen), time[chosen])]
        return [self.paired(left, right, chosen, chosen, time[chosen])]

    def dump(self) -> Value:
        pairs = [[dump_rows(left), dump_rows(right)] for left, right in self.pairs]
        return [
            super().dump(), list(self.counts), [dump_rows(rows) for rows in self.waiting],
            [list(numbers) for numbers in self.numbers], pairs,
        ]  # fmt: skip

    def load(self, state: Value) -> None:
        inner, self.counts, waiting, numbers, pairs = state
        super().load(inner)
        self.waiting = [load_rows(rows) for rows in waiting]
        self.numbers = [np.stack(pair) for pair in numbers]
        self.pairs = [(load_rows(left), load_rows(right)) for left, right in pairs]

    def cut(self, state: Value, choice: KeyChoice) -> Value:
        inner, counts, waiting, numbers, pairs = state
        inner, moved = self.cut_pairing(inner, choice)
        return [
            inner, [cut_array(count, moved) for count in counts], [choice.rows(rows) for rows in waiting],
            [_cut_numbers(pair, moved) for pair in numbers],
            [[choice.rows(left), choice.rows(right)] for left, right in pairs],
        ]  # fmt: skip


def _cut_numbers(pair: Value, moved: np.ndarray) -> Value:
    keys, ordinals = pair
    stays = moved[keys] >= 0
    return [moved[keys[stays]], ordinals[stays]]


def pair_order(left: Rows, right: Rows, time: np.ndarray) -> np.ndarray:
    """By (time, device, left order, right order)."""
    devices = left.columns.get(DEVICE)
    keys: tuple[np.ndarray, ...] = (right.seq, left.seq)
    if devices is not None and len(left) and devices.strides != (0,):
        keys = (*keys, ranks(devices))
    return np.lexsort((*keys, time))


class Join(Pairing):
    """Every pair of a key with left.time - before <= right.time <= left.time + after.

    Rows stay as long as a row still to come could pair with them. A pair is made when the frontier passes its later
    row, so each is made once. shared.engine.left_join keeps left rows without a pair too.
    """

    def __init__(self, left: StreamType, right: StreamType, output: Schema, *, before_us: int, after_us: int) -> None:
        super().__init__(left, right, output)
        self.before_us, self.after_us = before_us, after_us
        self.kept = [empty(left.schema), empty(right.schema)]

    def passed(self, progress: Progress) -> list[Rows]:
        left, right = self.fresh()
        old_left, old_right = self.kept
        out = []
        for one, other in ((left, joined([old_right, right])), (old_left, right)):
            if len(one) and len(other):
                left_at, right_at = self.pairs(one, other)
                if len(left_at):
                    out.append((one.take(left_at), other.take(right_at)))
        for side, fresh, reach in ((LEFT, left, self.after_us), (RIGHT, right, self.before_us)):
            rows = joined([self.kept[side], fresh]) if len(fresh) else self.kept[side]
            limit = self.frontier.of_rows(rows.columns.get(DEVICE), len(rows))
            wanted = rows.time >= np.maximum(limit, NO_FRONTIER + reach) - reach
            self.kept[side] = rows if wanted.all() else rows.take(np.flatnonzero(wanted))
        if not out:
            return []
        lefts, rights = joined([pair[0] for pair in out]), joined([pair[1] for pair in out])
        time = np.maximum(lefts.time, rights.time)
        order = pair_order(lefts, rights, time)
        return [self.paired(lefts, rights, order, order, time[order])]

    def pairs(self, left: Rows, right: Rows) -> tuple[np.ndarray, np.ndarray]:
        left_keys = self.key.numbers(left.columns, len(left))
        right_keys = self.key.numbers(right.columns, len(right))
        order = np.lexsort((right.time, right_keys))
        key, time = right_keys[order], right.time[order]
        begin = np.searchsorted(key, left_keys, side="left")
        end = np.searchsorted(key, left_keys, side="right")
        left_at, right_at = [], []
        for place, (start, stop, at) in enumerate(zip(begin.tolist(), end.tolist(), left.time.tolist(), strict=True)):
            if start < stop:
                low = start + int(np.searchsorted(time[start:stop], at - self.before_us, side="left"))
                high = start + int(np.searchsorted(time[start:stop], at + self.after_us, side="right"))
                if low < high:
                    left_at.append(np.full(high - low, place, np.int64))
                    right_at.append(order[low:high])
        if not left_at:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        return np.concatenate(left_at), np.concatenate(right_at)

    def dump(self) -> Value:
        return [super().dump(), [dump_rows(rows) for rows in self.kept]]

    def load(self, state: Value) -> None:
        inner, kept = state
        super().load(inner)
        self.kept = [load_rows(rows) for rows in kept]

    def cut(self, state: Value, choice: KeyChoice) -> Value:
        inner, kept = state
        return [self.cut_pairing(inner, choice)[0], [choice.rows(rows) for rows in kept]]


class Beside(ChangesByPart, Pairing):
    """Each row beside the latest row of the other side. `both`: rows of either side go out (combine), else only left
    ones (latest), where a right row of the same time counts as earlier. With `tolerance_us` the last rows are kept with
    their times, after their values, and one that is older counts as none. The class's name stands in snapshots."""

    def __init__(
        self,
        left: StreamType,
        right: StreamType,
        output: Schema,
        *,
        both: bool,
        ordered: bool = True,
        defaults: Sequence[object] | None = None,
        tolerance_us: int | None = None,
    ) -> None:
        super().__init__(left, right, output)
        self.both = both
        self.ordered = ordered
        self.defaults = defaults
        self.tolerance_us = tolerance_us
        self.latest: tuple[dict[int, tuple[object, ...]], ...] = ({}, {})  # key -> the last row's values, by side
        self.changed: tuple[set[int], ...] | None = None

    def push(self, port: int, rows: Rows) -> list[Rows]:
        if self.ordered:
            return super().push(port, rows)
        if not len(rows):
            return []
        sides = [empty(schema) for schema in self.schemas]
        sides[port] = rows
        return self._with_latest(sides[LEFT], sides[RIGHT])

    def passed(self, progress: Progress) -> list[Rows]:
        if not self.ordered:
            return []
        left, right = self.fresh()
        return self._with_latest(left, right) if len(left) or len(right) else []

    def _with_latest(self, left: Rows, right: Rows) -> list[Rows]:
        sides = (left, right)
        numbers = [self.key.numbers(rows.columns, len(rows)) for rows in sides]
        involved = np.unique(np.concatenate(numbers)).tolist()
        # Rows known from before stand in front of the fresh ones of their side.
        known = [self._known(side, involved) for side in (LEFT, RIGHT)]
        whole = [joined([known[side][1], sides[side]]) for side in (LEFT, RIGHT)]
        old = [len(known[side][0]) for side in (LEFT, RIGHT)]
        keys = np.concatenate((known[LEFT][0], numbers[LEFT], known[RIGHT][0], numbers[RIGHT]))
        side = np.repeat([LEFT, RIGHT], [len(whole[LEFT]), len(whole[RIGHT])])
        place = np.concatenate((np.arange(len(whole[LEFT])), np.arange(len(whole[RIGHT]))))
        fresh = place >= np.where(side == LEFT, old[LEFT], old[RIGHT])
        time = np.where(fresh, np.concatenate((whole[LEFT].time, whole[RIGHT].time)), NO_FRONTIER)
        turn = self._turns(whole, side, place, time)
        order = np.lexsort((turn, keys))
        keys, side, place, fresh = keys[order], side[order], place[order], fresh[order]
        time, turn = time[order], turn[order]
        group = np.maximum.accumulate(np.where(np.append(True, keys[1:] != keys[:-1]), np.arange(len(keys)), 0))
        at = []
        for which in (LEFT, RIGHT):
            last = np.maximum.accumulate(np.where(side == which, np.arange(len(keys)), -1))
            at.append(np.where(last >= group, place[np.maximum(last, 0)], -1))
        self._remember(whole, old, sides, numbers)
        if self.tolerance_us is not None:
            known_at = at[RIGHT]
            age = time - np.append(whole[RIGHT].time, NO_FRONTIER)[known_at]  # -1: nobody's, and no match anyway
            at[RIGHT] = np.where(fresh & (age <= self.tolerance_us), known_at, -1)
        emit = fresh & (at[LEFT] >= 0) & ((side == LEFT) | self.both)
        if self.both or self.defaults is None:
            emit &= at[RIGHT] >= 0
        chosen = np.flatnonzero(emit)
        if not len(chosen):
            return []
        rows = whole[RIGHT]
        right_at = at[RIGHT][chosen]
        if self.defaults is not None and (right_at < 0).any():
            rows = joined([rows, self.default_row(self.defaults)])
            right_at = np.where(right_at < 0, len(rows) - 1, right_at)
        left_at = at[LEFT][chosen]
        by_row = np.argsort(turn[chosen])  # in the order of the rows that made them go out
        return [self.paired(whole[LEFT], rows, left_at[by_row], right_at[by_row], time[chosen][by_row])]

    def _turns(self, whole: Sequence[Rows], side: np.ndarray, place: np.ndarray, time: np.ndarray) -> np.ndarray:
        """Each row's turn: known ones first, then by (time, device, input, number) as everywhere where inputs meet. Of
        `latest`, a right row of the same time counts before any left one."""
        seq = np.concatenate((whole[LEFT].seq, whole[RIGHT].seq))
        keys: tuple[np.ndarray, ...] = (place, seq, side)
        if all(DEVICE in rows.columns for rows in whole):
            keys = (*keys, ranks(np.concatenate([rows.columns[DEVICE] for rows in whole])))
        if not self.both:
            keys = (*keys, -side)
        turn = np.empty(len(side), np.int64)
        turn[np.lexsort((*keys, time))] = np.arange(len(side))
        return turn

    def _known(self, side: int, involved: list[int]) -> tuple[np.ndarray, Rows]:
        latest = self.latest[side]
        keys = [key for key in involved if key in latest]
        rows = empty(self.schemas[side])
        if keys:
            values = [latest[key] for key in keys]
            rows.columns = {
                column.name: np.array([row[place] for row in values], dtype(column.kind))
                for place, column in enumerate(self.schemas[side])
            }
            timed = self.tolerance_us is not None
            rows.time = np.array([row[-1] if timed else NO_FRONTIER for row in values], np.int64)
            rows.seq = np.full(len(keys), -1, np.int64)
        return np.array(keys, np.int64), rows

    def _remember(
        self, whole: Sequence[Rows], old: Sequence[int], sides: Sequence[Rows], numbers: Sequence[np.ndarray]
    ) -> None:
        for side in (LEFT, RIGHT):
            rows, keys = sides[side], numbers[side]
            if not len(rows):
                continue
            order = np.argsort(keys, kind="stable")
            ends = np.flatnonzero(np.append(keys[order][1:] != keys[order][:-1], True))
            for place in order[ends].tolist():
                key = int(keys[place])
                row = tuple(
                    rows.columns[name][place].item()
                    if isinstance(rows.columns[name][place], np.generic)
                    else rows.columns[name][place]
                    for name in self.schemas[side].names
                )
                self.latest[side][key] = row if self.tolerance_us is None else (*row, int(rows.time[place]))
                if self.changed is not None:
                    self.changed[side].add(key)

    # -- state ---------------------------------------------------------------------------------------------------

    def dump(self) -> Value:
        self.changed = (set(), set())
        return [super().dump(), [dict(latest) for latest in self.latest]]

    def load(self, state: Value) -> None:
        for latest in self.latest:
            latest.clear()
        self._load(state)

    def _load(self, state: Value) -> None:
        inner, latest = state
        super().load(inner)
        for mine, dumped in zip(self.latest, latest, strict=True):
            mine.update(dumped)
        self.changed = (set(), set())

    def changes(self) -> Value:
        if self.changed is None:
            return ["all", self.dump()]
        some = [{key: self.latest[side][key] for key in sorted(self.changed[side])} for side in (LEFT, RIGHT)]
        self.changed = (set(), set())
        return ["some", [self._dump_pairing(since_mark=True), some]]

    def say_again(self, part: int, parts: int) -> None:
        if self.changed is not None:
            for latest, changed in zip(self.latest, self.changed, strict=True):
                changed.update(number for number in range(part, len(self.key), parts) if number in latest)
            self.key.say_again(part, parts)
            self.say_frontiers_again(part, parts)

    def cut(self, state: Value, choice: KeyChoice) -> Value:
        inner, latest = state
        inner, moved = self.cut_pairing(inner, choice)
        return [inner, [cut_dictionary(side, moved) for side in latest]]


def zip_of(use: Use, _: op.Zip) -> Operator:
    return Zip(use.inputs[LEFT], use.inputs[RIGHT], use.node.schema)


def combine_of(use: Use, operator: op.Combine) -> Operator:
    left, right = use.inputs
    return Beside(left, right, use.node.schema, both=True, ordered=operator.merge == "ordered")


def latest_of(use: Use, operator: op.Latest) -> Operator:
    left, right = use.inputs
    return Beside(
        left,
        right,
        use.node.schema,
        both=False,
        defaults=operator.defaults,
        tolerance_us=operator.tolerance_us,
    )
