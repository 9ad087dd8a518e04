"""Several streams, row by row, key by key; the inputs have the same key, which appears once.

A column of the right input whose name the left one has gets `suffix`. All merge ordered, but for Combine's mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from shared.errors import UsageError
from shared.language.durations import duration_text
from shared.language.expressions import Value
from shared.language.schema import ADDED, Field
from shared.plan.operators.operator import Operator, Origins, Types, check_merge, check_value, unique
from shared.plan.stream_type import StreamType


class Pair(Operator):
    """The left row's columns, then the right row's but for the key."""

    __slots__ = ()

    suffix: str

    def arity(self) -> tuple[int, int]:
        return (2, 2)

    def output_type(self, inputs: Types) -> StreamType:
        left, right = inputs
        kinds = [[side.schema.kind(name) for name in side.key] for side in inputs]
        if left.key != right.key or kinds[0] != kinds[1]:
            raise UsageError(
                f"{self.kind} pairs rows of the same key: {left} is not keyed like {right}. Use key_by",
                code="graph-alphabet",
            )
        added = [Field(self.label(column.name, left), column.kind) for column in added_columns(right)]
        return StreamType(unique((*left.schema.fields, *added)), left.key)

    def label(self, name: str, left: StreamType) -> str:
        """What a right column is called in the output."""
        return name + self.suffix if name in left.schema else name

    def derives(self, inputs: Types) -> Origins:
        left, right = inputs
        return {
            **{name: frozenset(((0, name),)) for name in left.schema.names},
            **{self.label(column.name, left): frozenset(((1, column.name),)) for column in added_columns(right)},
        }


def added_columns(right: StreamType) -> list[Field]:
    """What the right side brings: all but the key."""
    return [column for column in right.schema if column.name not in right.key]


def check_defaults(defaults: Sequence[Value] | None, right: StreamType) -> None:
    """What stands in for a right row: a value of its kind for each column that is not key."""
    if defaults is None:
        return
    added = added_columns(right)
    if len(added) != len(defaults):
        raise UsageError(
            f"defaults must give a value for each of {', '.join(column.name for column in added)}",
            code="latest-defaults",
        )
    for column, value in zip(added, defaults, strict=True):
        check_value(column, value, code="latest-defaults")


@dataclass(frozen=True, slots=True)
class Zip(Pair):
    """The n-th row of the left with the n-th of the right, in stream order. Time: the later of both."""

    kind: ClassVar[str] = "zip"

    suffix: str = "_right"


@dataclass(frozen=True, slots=True)
class Combine(Pair):
    """At every row of either input, the latest row of both, once both have had one. Time: the newer row's."""

    kind: ClassVar[str] = "combine"

    suffix: str = "_right"
    merge: str = "ordered"

    def output_type(self, inputs: Types) -> StreamType:
        check_merge(self.merge)
        return Pair.output_type(self, inputs)

    def describe(self) -> str:
        return f"combine ({self.merge})"


@dataclass(frozen=True, slots=True)
class Join(Pair):
    """Every pair with left.time - before_us <= right.time <= left.time + after_us. Time: the later of both.

    A pair goes out once the frontier passes its time; pairs are ordered by (time, left order, right order).

    With `defaults` (one per right column that is not key, in order) a left row without a pair goes out beside them, at
    its own time. Whether it has one is known `after_us` later: then all rows go out that much later, in the same
    order, and what follows sees the frontier less `after_us`.
    """

    kind: ClassVar[str] = "join"

    before_us: int
    after_us: int
    suffix: str = "_right"
    defaults: tuple[Value, ...] | None = field(default=None, metadata={ADDED: True})

    def output_type(self, inputs: Types) -> StreamType:
        if self.before_us < 0 or self.after_us < 0:
            raise UsageError("a join's interval must not be negative", code="join-interval")
        check_defaults(self.defaults, inputs[1])
        return Pair.output_type(self, inputs)

    def describe(self) -> str:
        left = "" if self.defaults is None else "left "
        return f"{left}join from {duration_text(self.before_us)} before to {duration_text(self.after_us)} after"


@dataclass(frozen=True, slots=True)
class Latest(Pair):
    """Each left row with the last right row, by (time, stream order), whose time <= the left row's; goes out once the
    frontier passes it, in (time, stream order). With `tolerance_us` a right row older than that does not count. Left
    rows without one take `defaults` (one per right column that is not key, in order), or are dropped where defaults is
    None."""

    kind: ClassVar[str] = "latest"

    defaults: tuple[Value, ...] | None = None
    suffix: str = "_right"
    tolerance_us: int | None = field(default=None, metadata={ADDED: True})

    def output_type(self, inputs: Types) -> StreamType:
        if self.tolerance_us is not None and self.tolerance_us < 0:
            raise UsageError("with_latest's tolerance must not be negative", code="duration")
        check_defaults(self.defaults, inputs[1])
        return Pair.output_type(self, inputs)

    def describe(self) -> str:
        return "with latest" + (
            "" if self.tolerance_us is None else f", at most {duration_text(self.tolerance_us)} old"
        )


@dataclass(frozen=True, slots=True)
class FollowedBy(Pair):
    """Each left row with the first right row of a later time, by (time, stream order), where that is at most
    `within_us` later. Time: the right row's. A pair goes out once the frontier passes it; pairs are ordered by (time,
    left order)."""

    kind: ClassVar[str] = "followed_by"

    within_us: int
    suffix: str = "_right"

    def output_type(self, inputs: Types) -> StreamType:
        if self.within_us <= 0:
            raise UsageError("followed_by's within= must be more than zero", code="duration")
        return Pair.output_type(self, inputs)

    def describe(self) -> str:
        return f"followed by, within {duration_text(self.within_us)}"
