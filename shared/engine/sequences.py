"""One thing after another: each row with the first row of another stream that follows it in time."""

from __future__ import annotations

import numpy as np

from shared.engine.joins import LEFT, RIGHT, Pairing, dump_rows, load_rows, pair_order
from shared.engine.key_choice import KeyChoice
from shared.engine.operator import Operator, Use
from shared.engine.rows import Progress, Rows, empty, joined
from shared.engine.snapshots import Value
from shared.language.schema import Schema
from shared.plan import operators as op
from shared.plan.operators import DEVICE
from shared.plan.stream_type import StreamType


class FollowedBy(Pairing):
    """Left rows wait until a right row follows, or none can any more. Right rows need not wait: what the frontier lets
    go is in order of time, so every left row before them is there."""

    def __init__(self, left: StreamType, right: StreamType, output: Schema, *, within_us: int) -> None:
        super().__init__(left, right, output)
        self.within_us = within_us
        self.waiting = empty(left.schema)

    def passed(self, progress: Progress) -> list[Rows]:
        left, right = self.fresh()
        if len(left):
            self.waiting = joined([self.waiting, left]) if len(self.waiting) else left
        left = self.waiting
        follower = self._followers(left, right)
        found = follower >= 0
        limit = self.frontier.of_rows(left.columns.get(DEVICE), len(left))
        self.waiting = left.take(np.flatnonzero(~found & (left.time + self.within_us >= limit)))
        left_at = np.flatnonzero(found)
        right_at = follower[left_at]
        near = right.time[right_at] - left.time[left_at] <= self.within_us
        left_at, right_at = left_at[near], right_at[near]
        if not len(left_at):
            return []
        time = right.time[right_at]
        order = pair_order(left.take(left_at), right.take(right_at), time)
        return [self.paired(left, right, left_at[order], right_at[order], time[order])]

    def _followers(self, left: Rows, right: Rows) -> np.ndarray:
        """For each left row the place of its key's first right row of a later time; -1 where there is none."""
        count = len(left)
        if not count or not len(right):
            return np.full(count, -1, np.int64)
        keys = np.concatenate([self.key.numbers(rows.columns, len(rows)) for rows in (left, right)])
        time = np.concatenate((left.time, right.time))
        is_left = np.arange(len(keys)) < count
        # By key and time; right rows before left ones of the same time, so that what comes next is later.
        order = np.lexsort((is_left, time, keys))
        places = np.where(is_left[order], len(order), np.arange(len(order)))
        upcoming = np.minimum.accumulate(places[::-1])[::-1]  # in the order: the next right row from here
        followers = np.full(len(keys), -1, np.int64)
        known = upcoming < len(order)
        next_rows = order[np.minimum(upcoming, len(order) - 1)]
        same = known & (keys[next_rows] == keys[order])
        followers[order[same]] = next_rows[same] - count
        return followers[:count]

    def dump(self) -> Value:
        return [super().dump(), dump_rows(self.waiting)]

    def load(self, state: Value) -> None:
        inner, waiting = state
        super().load(inner)
        self.waiting = load_rows(waiting)

    def cut(self, state: Value, choice: KeyChoice) -> Value:
        inner, waiting = state
        return [self.cut_pairing(inner, choice)[0], choice.rows(waiting)]


def followed_by_of(use: Use, operator: op.FollowedBy) -> Operator:
    return FollowedBy(use.inputs[LEFT], use.inputs[RIGHT], use.node.schema, within_us=operator.within_us)
