"""The functions of the expression language and the aggregates, as a program calls them."""

from __future__ import annotations

from shared.language.aggregates import Aggregate
from shared.language.expressions import Value
from shared.language.registry import operator_type, parameters_of
from shared.stream.drafts import located
from shared.stream.formulas import Formula, Operand, call, column_name

# --- Expressions ------------------------------------------------------------------------------------------------------


def sqrt(value: Operand) -> Formula:
    return call("sqrt", value)


def floor(value: Operand) -> Formula:
    return call("floor", value)


def hypot(x: Operand, y: Operand) -> Formula:
    return call("hypot", x, y)


def haversine(lat1: Operand, lon1: Operand, lat2: Operand, lon2: Operand) -> Formula:
    """Metres along the great circle between two points in degrees."""
    return call("haversine", lat1, lon1, lat2, lon2)


def if_else(condition: Operand, then: Operand, otherwise: Operand) -> Formula:
    return call("if_else", condition, then, otherwise)


def is_missing(value: Operand) -> Formula:
    """True where a float is NaN."""
    return call("is_missing", value)


def concat(*texts: Operand) -> Formula:
    """Texts one after the other: `rs.concat(col.tag, "/", col.device)`."""
    made = call("concat", texts[0], texts[1]) if len(texts) > 1 else call("concat", texts[0], "")
    for text in texts[2:]:
        made = call("concat", made, text)
    return made


def like(text: Operand, pattern: str) -> Formula:
    """True where a text has this form: % is any text, _ one character."""
    return call("like", text, pattern)


def split(text: Operand, separator: str, number: int) -> Formula:
    """Part `number` of a text, from 0; "" where there is none."""
    return call("split", text, separator, number)


def parse(text: Operand) -> Formula:
    """The number that a text says; NaN where it says none."""
    return call("parse", text)


@located
def _named(column: str) -> str:
    return column_name(column, where="an aggregate")


# --- Aggregates -------------------------------------------------------------------------------------------------------


def count(column: str | None = None) -> Aggregate:
    """Rows, or values of a column that are not missing."""
    return Aggregate("count", () if column is None else (_named(column),))


def sum(column: str) -> Aggregate:
    return Aggregate("sum", (_named(column),))


def mean(column: str) -> Aggregate:
    return Aggregate("mean", (_named(column),))


def min(column: str) -> Aggregate:
    return Aggregate("min", (_named(column),))


def max(column: str) -> Aggregate:
    return Aggregate("max", (_named(column),))


def variance(column: str) -> Aggregate:
    """Of the population."""
    return Aggregate("variance", (_named(column),))


def std(column: str) -> Aggregate:
    """Of the population."""
    return Aggregate("std", (_named(column),))


def quantile(column: str, q: float) -> Aggregate:
    return Aggregate("quantile", (_named(column),), (("q", float(q)),))


def median(column: str) -> Aggregate:
    return quantile(column, 0.5)


def first(column: str) -> Aggregate:
    return Aggregate("first", (_named(column),))


def last(column: str) -> Aggregate:
    return Aggregate("last", (_named(column),))


def top_k(column: str, k: int) -> Aggregate:
    """The k most frequent values and how often each came: columns NAME_1, NAME_1_count, ..."""
    return Aggregate("top_k", (_named(column),), (("k", k),))


def distinct(column: str) -> Aggregate:
    """How many different values."""
    return Aggregate("distinct", (_named(column),))


def path_km(lat: str, lon: str) -> Aggregate:
    """Kilometres along the window's positions, in order of time."""
    return Aggregate("path_km", (_named(lat), _named(lon)))


def dft(column: str, bins: int) -> Aggregate:
    """Magnitudes of the first `bins` frequencies: columns NAME_0, NAME_1, ..."""
    return Aggregate("dft", (_named(column),), (("bins", bins),))


def user_aggregate(name: str, *columns: str, **parameters: Value) -> Aggregate:
    """An aggregate registered with @rs.aggregate, over these columns."""
    kind = operator_type(name)
    chosen = parameters_of(kind, parameters)
    return Aggregate("user", tuple(map(_named, columns)), (("name", name), ("version", kind.version), *chosen))
