"""Where streams begin. `schema` is what the outside world hands in: without `device`, which the engine adds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from shared.errors import UsageError
from shared.language.durations import duration_text
from shared.language.expressions import TIME
from shared.language.schema import Schema
from shared.plan.operators.operator import Operator, Types, check_column_name, check_key, check_name
from shared.plan.stream_type import DEVICE, StreamType, with_device

TICK = Schema.of({"tick": "int64"})
DEVICE_KEY = (DEVICE,)


class Source(Operator):
    """Reads nothing. `input_name` is the name under which its rows are pushed into a pipeline."""

    __slots__ = ()

    name: str

    def arity(self) -> tuple[int, int]:
        return (0, 0)

    @property
    def input_name(self) -> str:
        return self.name

    @property
    def pushed_schema(self) -> Schema:
        """What is pushed."""
        raise NotImplementedError

    def describe(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Sensor(Source):
    """Readings of a device's sensor every `every_us`; 0: only when a `Request` for it asks (see there)."""

    kind: ClassVar[str] = "sensor"

    name: str
    every_us: int
    schema: Schema

    def output_type(self, inputs: Types) -> StreamType:
        check_source(self.name, self.schema)
        if self.every_us < 0:
            raise UsageError(
                f"sensor {self.name!r} is read every {self.every_us} us; expected 0 or more", code="sensor-rate"
            )
        return StreamType(with_device(self.schema), DEVICE_KEY)

    @property
    def pushed_schema(self) -> Schema:
        return self.schema

    def describe(self) -> str:
        return f"sensor {self.name} " + (f"every {duration_text(self.every_us)}" if self.every_us else "on request")


@dataclass(frozen=True, slots=True)
class Timer(Source):
    """One row every `every_us` with the int64 column `tick` = time // every_us, and time a multiple of every_us.

    The device's clock arrives as this numbered input, so a replay sees the same ticks. Input name: "timer NAME".
    """

    kind: ClassVar[str] = "timer"

    name: str
    every_us: int

    def output_type(self, inputs: Types) -> StreamType:
        check_name(self.name)
        if self.every_us <= 0:
            raise UsageError("a timer's interval must be more than zero", code="sensor-rate")
        return StreamType(with_device(TICK), DEVICE_KEY)

    @property
    def input_name(self) -> str:
        return f"timer {self.name}"

    @property
    def pushed_schema(self) -> Schema:
        return TICK

    def describe(self) -> str:
        return f"timer every {duration_text(self.every_us)}"


@dataclass(frozen=True, slots=True)
class Appended(Source):
    """A stream that the program itself appends rows to, on the device."""

    kind: ClassVar[str] = "appended"

    name: str
    schema: Schema

    def output_type(self, inputs: Types) -> StreamType:
        check_source(self.name, self.schema)
        return StreamType(with_device(self.schema), DEVICE_KEY)

    @property
    def pushed_schema(self) -> Schema:
        return self.schema


@dataclass(frozen=True, slots=True)
class Feedback(Source):
    """The far end of a cycle: rows that `Feed(name)` received. They enter before the next row does (on Spark: in the
    next epoch), with their times raised to the frontier where they would be late. The frontier of a feedback edge never
    holds anything back. Where a cycle meets other rows in a union, combine or key_by, it merges by arrival or logged:
    an ordered merge would hold fed rows back until the frontier has passed them, and then they are late."""

    kind: ClassVar[str] = "feedback"

    name: str
    schema: Schema  # with its key columns
    key: tuple[str, ...]

    def output_type(self, inputs: Types) -> StreamType:
        check_name(self.name)
        check_key(self.key, self.schema)
        return StreamType(self.schema, self.key)

    @property
    def input_name(self) -> str:
        return f"feedback {self.name}"

    @property
    def pushed_schema(self) -> Schema:
        return self.schema


def check_source(name: str, schema: Schema) -> None:
    check_name(name)
    if not schema.fields:
        raise UsageError(f"stream {name!r} has no columns", code="schema-empty")
    for column in schema:
        if column.name in (TIME, DEVICE):
            raise UsageError(
                f"column {column.name!r} of {name!r} is there already: every stream has time and device",
                code="column-reserved",
            )
        check_column_name(column.name)
