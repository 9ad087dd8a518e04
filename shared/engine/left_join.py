"""The join that keeps every left row: beside each right row in its interval, or beside defaults where there is none.

That a row has no pair is known only when the frontier has passed the end of its interval. So that the order of what
goes out depends on the rows alone, pairs wait as long: a row goes out once the frontier has passed its time by the
interval's length, and what follows is told a frontier that much lower.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shared.batch import NO_FRONTIER
from shared.engine.joins import LEFT, RIGHT, Join, dump_rows, load_rows, pair_order
from shared.engine.key_choice import KeyChoice
from shared.engine.operator import Operator, Use
from shared.engine.rows import Progress, Rows, joined
from shared.engine.snapshots import Value
from shared.language.schema import Schema
from shared.plan import operators as op
from shared.plan.operators import DEVICE
from shared.plan.stream_type import StreamType


class LeftJoin(Join):
    """`kept` are left rows whose interval is still open, and right rows that one of those, or of those to come, could
    reach; `made` are left rows and what stands beside each, waiting for their turn."""

    def __init__(
        self,
        left: StreamType,
        right: StreamType,
        output: Schema,
        *,
        before_us: int,
        after_us: int,
        defaults: Sequence[object],
    ) -> None:
        super().__init__(left, right, output, before_us=before_us, after_us=after_us)
        self.default = self.default_row(defaults)
        self.made: list[tuple[Rows, Rows]] = []

    def passed(self, progress: Progress) -> list[Rows]:
        left, right = (joined([kept, fresh]) for kept, fresh in zip(self.kept, self.fresh(), strict=True))
        closed = left.time < self._limit(left, self.after_us)
        if closed.any():
            self._beside(left.take(np.flatnonzero(closed)), right)
        reached = right.time >= self._limit(right, self.after_us + self.before_us)
        self.kept = [left.take(np.flatnonzero(~closed)), right.take(np.flatnonzero(reached))]
        return self._due()

    def _limit(self, rows: Rows, behind_us: int) -> np.ndarray | int:
        """Each row's frontier less so much."""
        frontier = self.frontier.of_rows(rows.columns.get(DEVICE), len(rows))
        return np.maximum(frontier, NO_FRONTIER + behind_us) - behind_us

    def _beside(self, left: Rows, right: Rows) -> None:
        right = joined([right, self.default])
        left_at, right_at = self.pairs(left, right.slice(0, len(right) - 1))
        alone = np.delete(np.arange(len(left)), np.unique(left_at))
        left_at = np.concatenate((left_at, alone))
        right_at = np.concatenate((right_at, np.full(len(alone), len(right) - 1)))
        self.made.append((left.take(left_at), right.take(right_at)))

    def _due(self) -> list[Rows]:
        if not self.made:
            return []
        left, right = joined([each[LEFT] for each in self.made]), joined([each[RIGHT] for each in self.made])
        time = np.maximum(left.time, right.time)
        due = time < self._limit(left, self.after_us)
        kept = np.flatnonzero(~due)
        self.made = [(left.take(kept), right.take(kept))] if len(kept) else []
        chosen = np.flatnonzero(due)
        if not len(chosen):
            return []
        chosen = chosen[pair_order(left.take(chosen), right.take(chosen), time[chosen])]
        return [self.paired(left, right, chosen, chosen, time[chosen])]

    def outward(self, progress: Progress) -> Progress:
        held = {name: at - self.after_us for name, at in progress.devices.items()}
        return Progress(max(progress.floor_us - self.after_us, NO_FRONTIER), held, progress.complete_us)

    def dump(self) -> Value:
        return [super().dump(), [[dump_rows(left), dump_rows(right)] for left, right in self.made]]

    def load(self, state: Value) -> None:
        inner, made = state
        super().load(inner)
        self.made = [(load_rows(left), load_rows(right)) for left, right in made]

    def cut(self, state: Value, choice: KeyChoice) -> Value:
        inner, made = state
        return [super().cut(inner, choice), [_cut_pair(pair, choice) for pair in made]]


def _cut_pair(pair: Value, choice: KeyChoice) -> Value:
    """Both rows of a pair stay or go by the left one's key: defaults have none of their own."""
    left, right = pair
    stays = choice.of(left[0], len(left[1]))
    columns, time, seq = right
    return [choice.rows(left), [{name: column[stays] for name, column in columns.items()}, time[stays], seq[stays]]]


def join_of(use: Use, operator: op.Join) -> Operator:
    left, right, output = use.inputs[LEFT], use.inputs[RIGHT], use.node.schema
    before_us, after_us, defaults = operator.before_us, operator.after_us, operator.defaults
    if defaults is None:
        return Join(left, right, output, before_us=before_us, after_us=after_us)
    return LeftJoin(left, right, output, before_us=before_us, after_us=after_us, defaults=defaults)
