"""Frame operators at work: functions of a DataFrame, in a cloud job only.

What a DataFrame is, is not known here: a phone has no pandas. Cloud code hands in how such a function is called
(`call_frames_with`); where nobody did, a frame operator is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from shared.engine.operator import Operator
from shared.engine.rows import Numbering, Rows, read_only
from shared.engine.snapshots import Value
from shared.errors import UsageError
from shared.language.expressions import TIME
from shared.language.registry import Named, OperatorType, operator_type
from shared.plan.operators import Apply
from shared.plan.stream_type import StreamType

# Columns with `time` among them, what comes out, the use's parameters -> checked columns with `time`.
Caller: TypeAlias = Callable[
    [OperatorType, Mapping[str, np.ndarray], StreamType, Mapping[str, object]], dict[str, np.ndarray]
]

_callers: list[Caller] = []


def call_frames_with(caller: Caller) -> None:
    """How frame operators are called in this process."""
    _callers[:] = [caller]


class FrameRows(Operator):
    """Rows through a function that sees them as one frame and gives any number of rows, numbered anew."""

    def __init__(self, operator: Apply, source: StreamType, output: StreamType) -> None:
        self.kind = operator_type(operator.operator, operator.operator_version)
        if not _callers:
            raise UsageError(
                f"frame operator {self.kind.name!r} runs in a cloud job only; there are no DataFrames here",
                code="operator-frame",
            )
        self.caller = _callers[0]
        self.named = Named(self.kind)
        self.columns = source.schema.names
        self.output = output
        self.parameters = dict(operator.parameters)
        self.numbering = Numbering()

    def push(self, port: int, rows: Rows) -> list[Rows]:
        if not len(rows):
            return []
        given = read_only({TIME: rows.time, **{name: rows.columns[name] for name in self.columns}})
        with self.named:
            made = self.caller(self.kind, given, self.output, self.parameters)
        time = made.pop(TIME)
        return [self.numbering.rows(made, time)]

    def dump(self) -> Value:
        return self.numbering.next

    def load(self, state: Value) -> None:
        self.numbering.next = state

    def changes(self) -> Value:
        return self.dump()

    def apply(self, changes: Value) -> None:
        self.load(changes)
