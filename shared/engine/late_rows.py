"""The rows that windows of a given lateness leave out: the other half of what `KeyedWindows.accepted` lets in."""

from __future__ import annotations

import numpy as np

from shared.engine.key_choice import KeyChoice
from shared.engine.operator import Operator, Stateful, Use
from shared.engine.rows import Progress, Rows, beyond
from shared.engine.snapshots import Value
from shared.plan import operators as op
from shared.plan.operators import DEVICE


class LateRows(Stateful):
    """Passes rows on that are further behind the frontier than the lateness. It stands beside the windows and hears of
    the same rows and frontiers, so it judges each row as they do."""

    def __init__(self, lateness_us: int, *, by_device: bool) -> None:
        super().__init__(1)
        self.lateness_us = lateness_us
        self.by_device = by_device

    def push(self, port: int, rows: Rows) -> list[Rows]:
        devices = rows.columns.get(DEVICE) if self.by_device else None
        frontier = self.frontier.of_rows(devices, len(rows))
        return [rows.take(np.flatnonzero(beyond(rows.time, frontier, self.lateness_us)))]

    def passed(self, progress: Progress) -> list[Rows]:
        self.touched = True
        return []

    def dump(self) -> Value:
        return self.dump_frontiers()

    def load(self, state: Value) -> None:
        self.load_frontiers(state)

    def cut(self, state: Value, choice: KeyChoice) -> Value:
        return state  # frontiers are about devices and time, not about keys


def late_of(use: Use, operator: op.Late) -> Operator:
    return LateRows(operator.lateness_us, by_device=DEVICE in use.inputs[0].key)
