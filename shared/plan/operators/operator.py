"""What every operator type says of itself: its place in plans, its type rule, what it reads and what its output shows.

The rules stand beside the data they are about, so that a new operator is one class here and one in the engine. Rules
that an operator does not give are the careful ones: it reads everything, and each of its columns may show everything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import ClassVar, TypeAlias

from shared.errors import UsageError
from shared.language.expressions import TIME, Expression, Value, is_number, literal, unknown_column
from shared.language.schema import Field, Schema
from shared.plan.stream_type import WINDOW_END, WINDOW_START, StreamType

MERGES = ("ordered", "logged", "arrival")
KEY_KINDS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "str")

Types: TypeAlias = tuple[StreamType, ...]
Origins: TypeAlias = dict[str, frozenset[tuple[int, str]]]  # output column -> (input port, column)


class Operator:
    """Frozen data. Subclasses are dataclasses; their fields are what a plan's JSON holds."""

    __slots__ = ()

    kind: ClassVar[str]  # the operator's name in plans, explanations and errors
    deterministic: bool = True  # the same rows always give the same output

    def arity(self) -> tuple[int, int]:
        """The least and the greatest number of inputs."""
        return (1, 1)

    def output_type(self, inputs: Types) -> StreamType:
        """The type of the output; UsageError where inputs, columns, kinds, windows or parameters do not fit."""
        raise NotImplementedError

    def reads(self, wanted: Collection[str], source: StreamType, port: int) -> set[str]:
        """The columns of one input that it reads, given which columns of its own output are read. `time` and a state's
        own columns may be among them, though no input has those."""
        return set(source.schema.names)

    def derives(self, inputs: Types) -> Origins:
        """For each output column, the input columns whose values it may show. A column left out shows everything."""
        return {}

    def filter_before(self, predicate: Expression, key: tuple[str, ...]) -> Expression | None:
        """The condition to put on its inputs instead of on its output; None where that could differ. `key` is that of
        its output."""
        return None

    def filtered_ports(self) -> int:
        """How many inputs a condition goes to when it moves before this operator."""
        return self.arity()[1]

    def describe(self) -> str:
        """In a few words."""
        return self.kind


class KeepsColumns(Operator):
    """Each row goes out as it came in, or not at all."""

    __slots__ = ()

    def output_type(self, inputs: Types) -> StreamType:
        return inputs[0]

    def derives(self, inputs: Types) -> Origins:
        return {name: frozenset((port, name) for port in range(len(inputs))) for name in inputs[0].schema.names}


# --- Rules that several operators share -------------------------------------------------------------------------------


def key_origins(source: StreamType) -> Origins:
    """The key columns, passed on from the first input."""
    return {name: frozenset(((0, name),)) for name in source.key}


def check_name(name: str) -> None:
    if not name or len(name) > 200 or not name.isprintable() or "/" in name:
        raise UsageError(f"{name!r} is not a name: 1 to 200 printable characters, no slash", code="plan-name")


def check_column_name(name: str) -> None:
    if not name or len(name) > 200 or not name.isprintable() or name.startswith("state.") or name == TIME:
        raise UsageError(
            f"{name!r} is not a column's name: 1 to 200 printable characters, not 'time', not 'state. ...'",
            code="column-name",
        )


def check_key(columns: tuple[str, ...], schema: Schema) -> None:
    for name in columns:
        if name not in schema:
            raise unknown_column(name, schema)
        if schema.kind(name) not in KEY_KINDS:
            raise UsageError(
                f"column {name!r} is {schema.kind(name)} and cannot be a key; cast or floor it to a whole number first",
                code="key-kind",
            )
    if len(set(columns)) != len(columns):
        raise UsageError(f"the key names a column twice: {', '.join(columns)}", code="key-kind")


def check_merge(merge: str) -> None:
    if merge not in MERGES:
        raise UsageError(f"merge {merge!r} is not one of {', '.join(MERGES)}", code="merge-mode")


def check_value(column: Field, value: Value, *, code: str) -> None:
    kind = literal(value).kind
    if (
        kind != column.kind
        and not (kind == "int64" and is_number(column.kind))
        and not (kind == "float64" and column.kind == "float32")
    ):
        raise UsageError(f"{value!r} is {kind}, but {column.name!r} is {column.kind}", code=code)


def unique(columns: Iterable[Field]) -> Schema:
    """A schema of these columns, each named once."""
    fields = tuple(columns)
    seen: set[str] = set()
    for column in fields:
        check_column_name(column.name)
        if column.name in seen:
            raise UsageError(f"two output columns are called {column.name!r}; rename one", code="column-twice")
        seen.add(column.name)
    return Schema(fields)


def check_key_stays(source: StreamType, fields: Iterable[Field]) -> None:
    """Refuse to make a key column anew: rows would no longer be kept apart by it."""
    for column in fields:
        if column.name in source.key:
            raise UsageError(
                f"this makes the key column {column.name!r} anew, which keeps these rows apart; give it another name, "
                "and key_by that name to put rows together by it",
                code="select-key",
            )


def keyed(source: StreamType, fields: Iterable[Field], *, windowed: bool) -> StreamType:
    """The key, a window's bounds where there is one, and these columns."""
    fields = tuple(fields)
    check_key_stays(source, fields)
    key = [Field(name, source.schema.kind(name)) for name in source.key]
    bounds = [Field(WINDOW_START, "int64"), Field(WINDOW_END, "int64")] if windowed else []
    return StreamType(unique((*key, *bounds, *fields)), source.key)
