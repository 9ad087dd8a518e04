"""Aggregates as data: what one window's rows become.

Meaning, the same on every engine:

* A missing value (NaN in a float column) is skipped by every aggregate of a column; `count()` counts rows. Where all
  values are missing, count, distinct and sum give 0, path_km 0.0, the others NaN.
* sum of whole numbers (and bools) is int64 and wraps modulo 2**64; of floats it is the left fold in stream order,
  in float64, from 0.0 (so never -0.0). mean = sum / number of values, the sum taken in float64 also of whole
  numbers, where it does not wrap. So re-batching changes no bit.
* variance and std are those of the population, from the sums of x - a and (x - a)**2, left folds in stream order, a
  being the window's first value.
* Windows that overlap share work. Hopping by time: the left fold, in order of time, of the folds of the window's panes
  (the stretches between two points where some window begins or ends). Sliding, and hopping by count: the window is cut
  at one of its row numbers, the rows before the cut are folded backwards from it, those after it forwards, and the two
  are added. Either depends on the window's own rows and their numbers only, never on how they were batched.
* min and max keep the column's kind; -0.0 and 0.0 are equal and the answer is 0.0. bool: False < True.
* quantile(q) interpolates linearly between the two nearest ranks, (n - 1) * q, in float64.
* first and last go by (time, stream order) and keep the column's kind.
* distinct counts exact different values.
* top_k gives the k most frequent values, ties to the lesser value: columns NAME_1 .. NAME_k and NAME_1_count ..
  NAME_k_count. Where there are fewer values the count is 0 and the value 0, "" or NaN.
* path_km adds haversine distances between consecutive rows by (time, stream order).
* dft(bins) gives NAME_0 .. NAME_(bins-1), the magnitudes |X_k| of the discrete Fourier transform of the window's
  values in stream order (k = 0 .. bins-1), a missing value taken as 0.0.
* `where` names a bool column: only rows where it holds count. Where none does, sum, count and distinct give 0, path_km
  0.0, floats NaN, min, max, first and last of other kinds 0, False or "".
* A user aggregate is a registered operator type (shared.language.registry) that folds rows itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from shared.errors import UsageError
from shared.language.expressions import FLOATS, TIME, Value, is_number, unknown_column
from shared.language.schema import ADDED, Field, Schema

TOP_K_MAX = 100
BINS_MAX = 4096

Kinds: TypeAlias = tuple[str, ...]
Parameters: TypeAlias = tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`function` is one of AGGREGATES, or "user": then the first parameters are `name` and `version` of its type."""

    function: str
    columns: tuple[str, ...] = ()
    parameters: Parameters = ()
    where: str | None = field(default=None, metadata={ADDED: True})

    def parameter(self, name: str) -> Value:
        return dict(self.parameters)[name]


@dataclass(frozen=True, slots=True)
class AggregateType:
    """How many columns, which parameters, and the result's kind (None where the columns' kinds do not fit).

    `shows_values` is False where the answer says how much there was and nothing of which values.
    """

    arity: tuple[int, ...]
    expects: str
    result: Callable[[Kinds], str | None]
    parameters: tuple[str, ...] = ()
    shows_values: bool = True


def _always(kind: str) -> Callable[[Kinds], str | None]:
    return lambda _: kind


def _sum(kinds: Kinds) -> str | None:
    if kinds[0] == "str":
        return None
    return "float64" if kinds[0] in FLOATS else "int64"


def _float(kinds: Kinds) -> str | None:
    return "float64" if all(is_number(kind) for kind in kinds) else None


def _ordered(kinds: Kinds) -> str | None:
    return kinds[0]


AGGREGATES: Mapping[str, AggregateType] = MappingProxyType(
    {
        "count": AggregateType((0, 1), "no column, or one", _always("int64"), shows_values=False),
        "sum": AggregateType((1,), "a number or bool column", _sum),
        "mean": AggregateType((1,), "a number column", _float),
        "min": AggregateType((1,), "a column", _ordered),
        "max": AggregateType((1,), "a column", _ordered),
        "variance": AggregateType((1,), "a number column", _float),
        "std": AggregateType((1,), "a number column", _float),
        "quantile": AggregateType((1,), "a number column", _float, ("q",)),
        "first": AggregateType((1,), "a column", _ordered),
        "last": AggregateType((1,), "a column", _ordered),
        "top_k": AggregateType((1,), "a column", _ordered, ("k",)),
        "distinct": AggregateType((1,), "a column", _always("int64"), shows_values=False),
        "path_km": AggregateType((2,), "latitude and longitude columns", _float, shows_values=False),
        "dft": AggregateType((1,), "a number column", _float, ("bins",)),
    }
)


def check_aggregate(aggregate: Aggregate, schema: Schema) -> Kinds:
    """The kinds of an aggregate's columns; UsageError where a column or parameter does not fit."""
    kinds = tuple(_column_kind(name, schema) for name in aggregate.columns)
    if aggregate.where is not None and _column_kind(aggregate.where, schema) != "bool":
        raise UsageError(f"{text_of(aggregate)}: its condition must be a bool column", code="aggregate-where")
    kind = AGGREGATES.get(aggregate.function)
    if kind is None:
        if aggregate.function == "user":
            return kinds
        raise UsageError(
            f"{aggregate.function!r} is not an aggregate; known: {', '.join(AGGREGATES)}", code="aggregate-unknown"
        )
    if len(kinds) not in kind.arity or (kinds and kind.result(kinds) is None):
        raise UsageError(
            f"{aggregate.function} takes {kind.expects}, not {_columns_text(aggregate.columns, kinds)}",
            code="aggregate-type",
        )
    if tuple(name for name, _ in aggregate.parameters) != kind.parameters:
        raise UsageError(
            f"{aggregate.function} takes the parameters ({', '.join(kind.parameters)})", code="aggregate-parameter"
        )
    _check_parameters(aggregate)
    return kinds


def _column_kind(name: str, schema: Schema) -> str:
    if name == TIME:
        return "int64"
    if name not in schema:
        raise unknown_column(name, schema)
    return schema.kind(name)


def _columns_text(columns: tuple[str, ...], kinds: Kinds) -> str:
    return ", ".join(f"{name!r} ({kind})" for name, kind in zip(columns, kinds, strict=True)) or "no column"


def _check_parameters(aggregate: Aggregate) -> None:
    for name, value in aggregate.parameters:
        if name == "q":
            fits = isinstance(value, float) and 0.0 <= value <= 1.0
            expected = "a float from 0 to 1"
        else:
            bound = TOP_K_MAX if name == "k" else BINS_MAX
            fits = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= bound
            expected = f"a whole number from 1 to {bound}"
        if not fits:
            raise UsageError(f"{aggregate.function}({name}={value!r}): expected {expected}", code="aggregate-parameter")


def result_fields(name: str, aggregate: Aggregate, schema: Schema) -> tuple[Field, ...]:
    """The columns that a built-in aggregate called `name` adds to a window's row."""
    kinds = check_aggregate(aggregate, schema)
    kind = AGGREGATES[aggregate.function].result(kinds) or "float64"
    if aggregate.function == "top_k":
        places = range(1, int(aggregate.parameter("k")) + 1)
        return tuple(
            made
            for place in places
            for made in (Field(f"{name}_{place}", kind), Field(f"{name}_{place}_count", "int64"))
        )
    if aggregate.function == "dft":
        return tuple(Field(f"{name}_{bin}", kind) for bin in range(int(aggregate.parameter("bins"))))
    return (Field(name, kind),)


def text_of(aggregate: Aggregate) -> str:
    """The aggregate as a person would write it."""
    parts = [*aggregate.columns, *(f"{name}={value!r}" for name, value in aggregate.parameters)]
    condition = "" if aggregate.where is None else f" where {aggregate.where}"
    return f"{aggregate.function}({', '.join(parts)}){condition}"
