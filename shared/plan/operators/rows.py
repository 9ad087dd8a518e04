"""Stateless operators: one row in, one or none out; numbers and times kept. And what brings rows together or apart."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from shared.errors import UsageError
from shared.language.expressions import Column, Expression, columns_of, kind_of, substitute, text_of
from shared.language.schema import Field, Schema
from shared.plan.operators.operator import (
    KeepsColumns,
    Operator,
    Origins,
    Types,
    check_key,
    check_merge,
    unique,
)
from shared.plan.stream_type import DEVICE, StreamType


@dataclass(frozen=True, slots=True)
class Where(KeepsColumns):
    """Keeps the rows for which the bool expression is true."""

    kind: ClassVar[str] = "where"

    predicate: Expression

    def output_type(self, inputs: Types) -> StreamType:
        kind = kind_of(self.predicate, inputs[0].schema)
        if kind != "bool":
            raise UsageError(f"where takes a condition (bool), not {kind}; compare it with something", code="where")
        return inputs[0]

    def reads(self, wanted: Collection[str], source: StreamType, port: int) -> set[str]:
        return {*wanted, *columns_of(self.predicate)}

    def describe(self) -> str:
        return f"where {text_of(self.predicate)}"


@dataclass(frozen=True, slots=True)
class Select(Operator):
    """Exactly these columns, in this order, each computed from the input row. Includes the key columns unchanged: a
    column that is assigned is another column, and rows would no longer be kept apart by it."""

    kind: ClassVar[str] = "select"

    columns: tuple[tuple[str, Expression], ...]

    def output_type(self, inputs: Types) -> StreamType:
        source = inputs[0]
        schema = self._schema(source)
        given = dict(self.columns)
        for name in source.key:
            if given.get(name) != Column(name):
                what = "assigns" if name in schema else "leaves out"
                raise UsageError(
                    f"this {what} the key column {name!r}, which keeps these rows apart; keep it as it is, and give "
                    "what is computed another name: key_by that name to put rows together by it",
                    code="select-key",
                )
        return StreamType(schema, source.key)

    def _schema(self, source: StreamType) -> Schema:
        return unique(Field(name, kind_of(expression, source.schema)) for name, expression in self.columns)

    def reads(self, wanted: Collection[str], source: StreamType, port: int) -> set[str]:
        return {used for name, expression in self.columns if name in wanted for used in columns_of(expression)}

    def derives(self, inputs: Types) -> Origins:
        return {name: frozenset((0, used) for used in columns_of(expression)) for name, expression in self.columns}

    def filter_before(self, predicate: Expression, key: tuple[str, ...]) -> Expression | None:
        passed = {name: expression for name, expression in self.columns if isinstance(expression, Column)}
        return substitute(predicate, passed) if set(columns_of(predicate)) <= {*passed, "time"} else None

    @property
    def only_drops(self) -> bool:
        """True where every column is one of the input's under its own name."""
        return all(expression == Column(name) for name, expression in self.columns)

    def describe(self) -> str:
        texts = ((name, text_of(expression)) for name, expression in self.columns)
        return "select " + ", ".join(name if text == name else f"{name}={text}" for name, text in texts)


@dataclass(frozen=True, slots=True)
class KeyBy(KeepsColumns):
    """Rows unchanged, kept apart by these columns from here on; no columns: all rows together.

    On the cloud this is where rows of different devices meet, so the merge mode and the idle rule apply here: the
    frontier is the least over the active devices; a device silent for `idle_after_us` of event time, measured against
    the greatest frontier, leaves the active set, windows that close without it say complete=false, and its later rows
    are late rows (see WindowAggregate.lateness_us).
    """

    kind: ClassVar[str] = "key_by"

    columns: tuple[str, ...]
    merge: str = "ordered"
    idle_after_us: int | None = None

    def output_type(self, inputs: Types) -> StreamType:
        check_key(self.columns, inputs[0].schema)
        check_merge(self.merge)
        if self.idle_after_us is not None and self.idle_after_us <= 0:
            raise UsageError("idle_after must be more than zero", code="duration")
        return StreamType(inputs[0].schema, self.columns)

    def only_parts(self, before: tuple[str, ...]) -> bool:
        """Whether rows of one key stay as they came: those of one device, kept apart as before or further."""
        return DEVICE in self.columns and (set(before) <= set(self.columns) or self.merge != "ordered")

    def reads(self, wanted: Collection[str], source: StreamType, port: int) -> set[str]:
        return {*wanted, *source.key, *self.columns, DEVICE}

    def filter_before(self, predicate: Expression, key: tuple[str, ...]) -> Expression | None:
        return predicate

    def describe(self) -> str:
        return f"key by {', '.join(self.columns) or 'nothing'} ({self.merge})"


@dataclass(frozen=True, slots=True)
class Union(KeepsColumns):
    """The rows of two or more streams with the same columns (by name; the first one's order) and key."""

    kind: ClassVar[str] = "union"

    merge: str = "ordered"

    def arity(self) -> tuple[int, int]:
        return (2, 64)

    def output_type(self, inputs: Types) -> StreamType:
        check_merge(self.merge)
        first = inputs[0]
        wanted = {column.name: column.kind for column in first.schema}
        for other in inputs[1:]:
            if {column.name: column.kind for column in other.schema} != wanted or other.key != first.key:
                raise UsageError(
                    f"union joins streams of the same columns and key: {first} is not {other}", code="graph-alphabet"
                )
        return first

    def filter_before(self, predicate: Expression, key: tuple[str, ...]) -> Expression | None:
        return predicate

    def describe(self) -> str:
        return f"union ({self.merge})"
