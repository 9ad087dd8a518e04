"""Windows of rows of one key, made into one row each."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from shared.errors import UsageError
from shared.language.aggregates import AGGREGATES, Aggregate, check_aggregate, result_fields
from shared.language.aggregates import text_of as aggregate_text
from shared.language.durations import duration_text
from shared.language.expressions import Expression, columns_of
from shared.language.registry import operator_type, parameters_of
from shared.language.schema import Field
from shared.language.windows import CalendarWindow, SessionWindow, TimeWindow, Window, check_window
from shared.language.windows import text_of as window_text
from shared.plan.operators.operator import KeepsColumns, Operator, Origins, Types, key_origins, keyed
from shared.plan.stream_type import COMPLETE, WINDOW_END, WINDOW_START, StreamType


@dataclass(frozen=True, slots=True)
class WindowAggregate(Operator):
    """One row per window (shared.language.windows) and key.

    Columns: the key, window_start, window_end (int64 microseconds), the aggregates, complete (bool: every active
    device's frontier had passed window_end). A row with time < frontier is late: within `lateness_us` of the frontier
    it corrects its window, which goes out again whole (the same key, window_start, window_end: an upsert); beyond it
    the row is dropped and counted. Downstream frontier: this one's less lateness_us. Count windows know no lateness.
    """

    kind: ClassVar[str] = "window"

    window: Window
    aggregates: tuple[tuple[str, Aggregate], ...]
    lateness_us: int = 0

    def output_type(self, inputs: Types) -> StreamType:
        check_window(self.window)
        if self.lateness_us < 0:
            raise UsageError("lateness must not be negative", code="duration")
        if self.lateness_us and not isinstance(self.window, TimeWindow | CalendarWindow | SessionWindow):
            raise UsageError(
                f"{window_text(self.window)}: these windows go out with the row that ends them and are not corrected, "
                "so lateness= has no meaning; leave it out, or use tumbling, hopping or session windows by time",
                code="window-lateness",
            )
        if not self.aggregates:
            raise UsageError("aggregate needs at least one aggregate, like count=rs.count()", code="aggregate-none")
        fields = [field for name, aggregate in self.aggregates for field in fields_of(name, aggregate, inputs[0])]
        return keyed(inputs[0], (*fields, Field(COMPLETE, "bool")), windowed=True)

    def reads(self, wanted: Collection[str], source: StreamType, port: int) -> set[str]:
        conditions = {aggregate.where for _, aggregate in self.aggregates if aggregate.where is not None}
        return {*source.key, *conditions, *(name for _, aggregate in self.aggregates for name in aggregate.columns)}

    def derives(self, inputs: Types) -> Origins:
        found = {**key_origins(inputs[0]), **dict.fromkeys((WINDOW_START, WINDOW_END, COMPLETE), frozenset())}
        for name, aggregate in self.aggregates:
            kind = AGGREGATES.get(aggregate.function)
            read = (*aggregate.columns, *([] if aggregate.where is None else [aggregate.where]))
            shown = frozenset((0, column) for column in read) if kind is None or kind.shows_values else ()
            found.update((field.name, frozenset(shown)) for field in fields_of(name, aggregate, inputs[0]))
        return found

    def filter_before(self, predicate: Expression, key: tuple[str, ...]) -> Expression | None:
        return predicate if set(columns_of(predicate)) <= set(key) else None

    def describe(self) -> str:
        parts = ", ".join(f"{name}={aggregate_text(aggregate)}" for name, aggregate in self.aggregates)
        late = f", corrections for {duration_text(self.lateness_us)}" if self.lateness_us else ""
        return f"{window_text(self.window)}: {parts}{late}"


@dataclass(frozen=True, slots=True)
class Late(KeepsColumns):
    """The rows that windows with this lateness leave out: those further behind the frontier, which is that of the row's
    device where the key has it. They go out at once, behind the frontier as they are."""

    kind: ClassVar[str] = "late"

    lateness_us: int = 0

    def output_type(self, inputs: Types) -> StreamType:
        if self.lateness_us < 0:
            raise UsageError("lateness must not be negative", code="duration")
        return inputs[0]

    def reads(self, wanted: Collection[str], source: StreamType, port: int) -> set[str]:
        return {*wanted, *source.key}

    def filter_before(self, predicate: Expression, key: tuple[str, ...]) -> Expression | None:
        return predicate

    def describe(self) -> str:
        return f"late rows, by more than {duration_text(self.lateness_us)}" if self.lateness_us else "late rows"


def fields_of(name: str, aggregate: Aggregate, source: StreamType) -> tuple[Field, ...]:
    """The columns that an aggregate called `name` adds to a window's row."""
    if aggregate.function != "user":
        return result_fields(name, aggregate, source.schema)
    kinds = check_aggregate(aggregate, source.schema)
    given = dict(aggregate.parameters)
    kind = operator_type(str(given.pop("name", "")), int(str(given.pop("version", 0))))
    if kind.form != "aggregate":
        raise UsageError(f"operator type {kind.name!r} is not an aggregate", code="operator-form")
    wanted = tuple(column.kind for column in kind.inputs[0][1])
    if kinds != wanted:
        raise UsageError(
            f"aggregate {kind.name!r} takes columns of {', '.join(wanted)}, not {', '.join(kinds)}",
            code="aggregate-type",
        )
    parameters_of(kind, given)
    return (Field(name, kind.outputs[0][1].fields[0].kind),)
