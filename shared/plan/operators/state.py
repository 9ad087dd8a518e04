"""Operators with a state of their own for each key."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import ClassVar

from shared.errors import UsageError
from shared.language.durations import duration_text
from shared.language.expressions import FLOATS, Expression, Value, columns_of, is_number, kind_of, unknown_column
from shared.language.schema import ADDED, Field, Schema
from shared.plan.operators.operator import (
    KeepsColumns,
    Operator,
    Origins,
    Types,
    check_key_stays,
    check_value,
    keyed,
    unique,
)
from shared.plan.operators.user import check_config
from shared.plan.stream_type import DEVICE, StreamType

STATE = "state."  # before the names of a state's own columns in its updates


@dataclass(frozen=True, slots=True)
class StateColumn:
    """`update` may read the input row's columns, and the state before this row as columns named "state.NAME"."""

    name: str
    kind: str
    initial: Value
    update: Expression


@dataclass(frozen=True, slots=True)
class State(Operator):
    """A stateful stream: after each row, in stream order, the key's new state. Columns: the key, the state's columns;
    with `keep` all of the row's own columns before them.

    All updates of a row read the state as it was before it; the result is cast to the column's kind. `config`: the
    second input's rows (columns named like the state's) set the state, by time; they emit nothing themselves.
    `expire_us`: a row that comes so long after the greatest time of the key's rows, or once the frontier is so far past
    it, finds the initial state.
    """

    kind: ClassVar[str] = "state"

    columns: tuple[StateColumn, ...]
    config: bool = False
    keep: bool = field(default=False, metadata={ADDED: True})
    expire_us: int | None = field(default=None, metadata={ADDED: True})

    def arity(self) -> tuple[int, int]:
        return (2, 2) if self.config else (1, 1)

    def output_type(self, inputs: Types) -> StreamType:
        if not self.columns:
            raise UsageError("a stateful stream needs at least one column", code="state-none")
        if self.expire_us is not None and (self.expire_us <= 0 or self.config):
            raise UsageError(
                "a state that expires takes no config stream, whose settings would be forgotten with it; use "
                ".with_latest(config) and read the settings as columns",
                code="state-expire",
            )
        source = inputs[0]
        own = (Field(STATE + column.name, column.kind) for column in self.columns)
        known = Schema((*source.schema.fields, *own))
        for column in self.columns:
            _check_column(column, kind_of(column.update, known))
        if self.config:
            check_config("state", {column.name: column.initial for column in self.columns}, inputs[1], source)
        own_fields = tuple(Field(column.name, column.kind) for column in self.columns)
        if self.keep:
            check_key_stays(source, own_fields)
            return StreamType(unique((*source.schema.fields, *own_fields)), source.key)
        return keyed(source, own_fields, windowed=False)

    def reads(self, wanted: Collection[str], source: StreamType, port: int) -> set[str]:
        if port:
            return set(source.schema.names)
        passed = wanted if self.keep else ()
        ordered = {DEVICE} if self.config else set()  # rows of both inputs are put in order by it
        return {
            *source.key,
            *ordered,
            *passed,
            *(name for column in self.columns for name in columns_of(column.update)),
        }

    def derives(self, inputs: Types) -> Origins:
        """A state column shows what its update reads, and what the state columns show that it reads; over time also
        what they show in turn."""
        kept = inputs[0].schema.names if self.keep else inputs[0].key
        found: Origins = {name: frozenset(((0, name),)) for name in kept}
        reads = {column.name: set(columns_of(column.update)) for column in self.columns}
        for name in reads:
            reached, waiting = {name}, [name]
            while waiting:
                for read in reads[waiting.pop()]:
                    other = read.removeprefix(STATE)
                    if read.startswith(STATE) and other in reads and other not in reached:
                        reached.add(other)
                        waiting.append(other)
            shown = {(0, read) for each in reached for read in reads[each] if not read.startswith(STATE)}
            if self.config:
                shown |= {(1, each) for each in reached if each in inputs[1].schema}
            found[name] = frozenset(shown)
        return found

    def filter_before(self, predicate: Expression, key: tuple[str, ...]) -> Expression | None:
        return predicate if set(columns_of(predicate)) <= set(key) else None

    def filtered_ports(self) -> int:
        return 1  # a config stream's rows are no rows of the result

    def describe(self) -> str:
        expires = "" if self.expire_us is None else f", forgotten after {duration_text(self.expire_us)}"
        return "state " + ", ".join(column.name for column in self.columns) + expires


def _check_column(column: StateColumn, kind: str) -> None:
    check_value(Field(column.name, column.kind), column.initial, code="state-type")
    if kind != column.kind and not (is_number(kind) and is_number(column.kind)):
        raise UsageError(f"state {column.name!r} is {column.kind}, but its update gives {kind}", code="state-type")
    if kind in FLOATS and column.kind not in FLOATS:
        raise UsageError(
            f"state {column.name!r} starts with the whole number {column.initial}, but its update gives {kind}; "
            f"start with {column.initial}.0, or cast the update",
            code="state-type",
        )


@dataclass(frozen=True, slots=True)
class Significant(KeepsColumns):
    """Keeps a key's first row, and each row that differs enough from the last one kept, in stream order.

    With `metres`, columns are (latitude, longitude) in degrees and the haversine distance is at least metres. Else
    some column differs by at least `change`, or a missing value came or went.
    """

    kind: ClassVar[str] = "significant"

    columns: tuple[str, ...]
    metres: float | None = None
    change: float | None = None

    def output_type(self, inputs: Types) -> StreamType:
        if (self.metres is None) == (self.change is None):
            raise UsageError("significant takes metres= (for latitude, longitude) or change=", code="significant")
        if self.metres is not None and len(self.columns) != 2:
            raise UsageError("significant(metres=...) takes two columns, latitude and longitude", code="significant")
        if not self.columns:
            raise UsageError("significant needs at least one column", code="significant")
        if not (self.metres or self.change or 0.0) > 0.0:
            raise UsageError("significant's distance must be more than zero", code="significant")
        schema = inputs[0].schema
        for name in self.columns:
            if name not in schema:
                raise unknown_column(name, schema)
            if not is_number(schema.kind(name)):
                raise UsageError(f"significant compares numbers; {name!r} is {schema.kind(name)}", code="significant")
        return inputs[0]

    def reads(self, wanted: Collection[str], source: StreamType, port: int) -> set[str]:
        return {*wanted, *source.key, *self.columns}

    def filter_before(self, predicate: Expression, key: tuple[str, ...]) -> Expression | None:
        return predicate if set(columns_of(predicate)) <= set(key) else None

    def describe(self) -> str:
        distance = f"by {self.metres} m" if self.metres is not None else f"by {self.change}"
        return f"significant {', '.join(self.columns)} {distance}"


@dataclass(frozen=True, slots=True)
class Distinct(KeepsColumns):
    """Drops a row where one of its key with the same values in `columns` was kept less than `within_us` before or after
    it in time, in stream order. A kept row counts until the frontier is `within_us` past it. NaN is equal to NaN."""

    kind: ClassVar[str] = "distinct"

    columns: tuple[str, ...]
    within_us: int

    def output_type(self, inputs: Types) -> StreamType:
        if self.within_us <= 0:
            raise UsageError("distinct's within= must be more than zero", code="duration")
        schema = inputs[0].schema
        for name in self.columns:
            if name not in schema:
                raise unknown_column(name, schema)
        if not self.columns:
            raise UsageError("distinct compares at least one column", code="distinct")
        return inputs[0]

    def reads(self, wanted: Collection[str], source: StreamType, port: int) -> set[str]:
        return {*wanted, *source.key, *self.columns}

    def filter_before(self, predicate: Expression, key: tuple[str, ...]) -> Expression | None:
        return predicate if set(columns_of(predicate)) <= {*key, *self.columns} else None

    def describe(self) -> str:
        return f"distinct {', '.join(self.columns)} within {duration_text(self.within_us)}"
