"""The functions of the expression language and the aggregates, as a program calls them."""

from __future__ import annotations

from shared.language.expressions import Value
from shared.language.registry import operator_type, parameters_of
from shared.stream.drafts import located
from shared.stream.formulas import Formula, Operand, call, column_name
from shared.stream.measures import measure

# --- Expressions ------------------------------------------------------------------------------------------------------


def sqrt(value: Operand) -> Formula:
    """The square root; NaN of a negative number."""
    return call("sqrt", value)


def floor(value: Operand) -> Formula:
    """The greatest whole number that is not more, as a float."""
    return call("floor", value)


def hypot(x: Operand, y: Operand) -> Formula:
    """The length of (x, y): sqrt(x*x + y*y)."""
    return call("hypot", x, y)


def haversine(lat1: Operand, lon1: Operand, lat2: Operand, lon2: Operand) -> Formula:
    """Metres along the great circle between two points in degrees."""
    return call("haversine", lat1, lon1, lat2, lon2)


def if_else(condition: Operand, then: Operand, otherwise: Operand) -> Formula:
    """One value where the condition holds, else the other."""
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


# --- Aggregates -------------------------------------------------------------------------------------------------------
#
# Each counts the rows for which `where` holds, all rows without it. They are formulas: `rs.sum("bytes") / rs.count()`.


@located
def _named(column: str) -> str:
    return column_name(column, where="an aggregate")


def count(column: str | None = None, *, where: Operand | None = None) -> Formula:
    """Rows, or values of a column that are not missing: `rs.count(where=col.speed > 30)`."""
    return measure("count", () if column is None else (_named(column),), where=where)


def sum(column: str, *, where: Operand | None = None) -> Formula:
    """The sum: int64 of whole numbers and bools, float64 of floats."""
    return measure("sum", (_named(column),), where=where)


def mean(column: str, *, where: Operand | None = None) -> Formula:
    """The mean, as a float."""
    return measure("mean", (_named(column),), where=where)


def min(column: str, *, where: Operand | None = None) -> Formula:
    """The least value: number, text or bool."""
    return measure("min", (_named(column),), where=where)


def max(column: str, *, where: Operand | None = None) -> Formula:
    """The greatest value: number, text or bool."""
    return measure("max", (_named(column),), where=where)


def variance(column: str, *, where: Operand | None = None) -> Formula:
    """The variance, of the population."""
    return measure("variance", (_named(column),), where=where)


def std(column: str, *, where: Operand | None = None) -> Formula:
    """The standard deviation, of the population."""
    return measure("std", (_named(column),), where=where)


def quantile(column: str, q: float, *, where: Operand | None = None) -> Formula:
    """The value below which the share `q` lies, between the two nearest where it falls between."""
    return measure("quantile", (_named(column),), (("q", float(q)),), where=where)


def median(column: str, *, where: Operand | None = None) -> Formula:
    """The middle value: quantile 0.5."""
    return quantile(column, 0.5, where=where)


def first(column: str, *, where: Operand | None = None) -> Formula:
    """The value of the earliest row, by (time, stream order)."""
    return measure("first", (_named(column),), where=where)


def last(column: str, *, where: Operand | None = None) -> Formula:
    """The value of the latest row, by (time, stream order)."""
    return measure("last", (_named(column),), where=where)


def top_k(column: str, k: int, *, where: Operand | None = None) -> Formula:
    """The k most frequent values and how often each came: columns NAME_1, NAME_1_count, ..."""
    return measure("top_k", (_named(column),), (("k", k),), where=where)


def distinct(column: str, *, where: Operand | None = None) -> Formula:
    """How many different values."""
    return measure("distinct", (_named(column),), where=where)


def path_km(lat: str, lon: str, *, where: Operand | None = None) -> Formula:
    """Kilometres along the window's positions, in order of time."""
    return measure("path_km", (_named(lat), _named(lon)), where=where)


def dft(column: str, bins: int, *, where: Operand | None = None) -> Formula:
    """Magnitudes of the first `bins` frequencies: columns NAME_0, NAME_1, ..."""
    return measure("dft", (_named(column),), (("bins", bins),), where=where)


def user_aggregate(name: str, *columns: str, **parameters: Value) -> Formula:
    """An aggregate registered with @rs.aggregate, over these columns."""
    kind = operator_type(name)
    chosen = parameters_of(kind, parameters)
    return measure("user", tuple(map(_named, columns)), (("name", name), ("version", kind.version), *chosen))
