"""The functions of the expression language and the aggregates, as a program calls them."""

from __future__ import annotations

from shared.stream.aggregates import Aggregate
from shared.stream.expressions import Value
from shared.stream.registry import operator_type, parameters_of
from shared.stream.terms import Operand, Term, call

# --- Expressions ------------------------------------------------------------------------------------------------------


def sqrt(value: Operand) -> Term:
    return call("sqrt", value)


def floor(value: Operand) -> Term:
    return call("floor", value)


def hypot(x: Operand, y: Operand) -> Term:
    return call("hypot", x, y)


def haversine(lat1: Operand, lon1: Operand, lat2: Operand, lon2: Operand) -> Term:
    """Metres along the great circle between two points in degrees."""
    return call("haversine", lat1, lon1, lat2, lon2)


def if_else(condition: Operand, then: Operand, otherwise: Operand) -> Term:
    return call("if_else", condition, then, otherwise)


def is_missing(value: Operand) -> Term:
    """True where a float is NaN."""
    return call("is_missing", value)


# --- Aggregates -------------------------------------------------------------------------------------------------------


def count(column: str | None = None) -> Aggregate:
    """Rows, or values of a column that are not missing."""
    return Aggregate("count", () if column is None else (column,))


def sum(column: str) -> Aggregate:
    return Aggregate("sum", (column,))


def mean(column: str) -> Aggregate:
    return Aggregate("mean", (column,))


def min(column: str) -> Aggregate:
    return Aggregate("min", (column,))


def max(column: str) -> Aggregate:
    return Aggregate("max", (column,))


def variance(column: str) -> Aggregate:
    """Of the population."""
    return Aggregate("variance", (column,))


def std(column: str) -> Aggregate:
    """Of the population."""
    return Aggregate("std", (column,))


def quantile(column: str, q: float) -> Aggregate:
    return Aggregate("quantile", (column,), (("q", float(q)),))


def first(column: str) -> Aggregate:
    return Aggregate("first", (column,))


def last(column: str) -> Aggregate:
    return Aggregate("last", (column,))


def top_k(column: str, k: int) -> Aggregate:
    """The k most frequent values and how often each came: columns NAME_1, NAME_1_count, ..."""
    return Aggregate("top_k", (column,), (("k", k),))


def distinct(column: str) -> Aggregate:
    """How many different values."""
    return Aggregate("distinct", (column,))


def path_km(lat: str, lon: str) -> Aggregate:
    """Kilometres along the window's positions, in order of time."""
    return Aggregate("path_km", (lat, lon))


def dft(column: str, bins: int) -> Aggregate:
    """Magnitudes of the first `bins` frequencies: columns NAME_0, NAME_1, ..."""
    return Aggregate("dft", (column,), (("bins", bins),))


def user_aggregate(name: str, *columns: str, **parameters: Value) -> Aggregate:
    """An aggregate registered with @rs.aggregate, over these columns."""
    kind = operator_type(name)
    chosen = parameters_of(kind, parameters)
    return Aggregate("user", columns, (("name", name), ("version", kind.version), *chosen))
