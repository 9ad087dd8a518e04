"""Expressions over columns: an expression becomes one function from a run's columns to a column.

The meaning is that of shared.language.expressions. Widening is skipped only where it cannot change the answer:
comparing a narrow column with a constant that the narrow type holds exactly. Functions whose vector code could
depend on the memory layout get contiguous input, so that a row's answer never depends on the batch it came in.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from shared.language.expressions import (
    FLOATS,
    TIME,
    Binary,
    Call,
    Cast,
    Column,
    Expression,
    Literal,
    Unary,
    is_number,
    kind_of,
    widened,
)
from shared.language.schema import Schema, dtype

EARTH_RADIUS_METRES = 6_371_008.8

Columns: TypeAlias = Mapping[str, np.ndarray]
Answer: TypeAlias = Callable[[Columns, np.ndarray], np.ndarray]  # columns and times -> a column


def compiled(expression: Expression, schema: Schema) -> Answer:
    """A function that computes the expression for every row of a run."""
    inner = _compile(expression, schema)
    kind = kind_of(expression, schema)
    if isinstance(expression, Column):
        return inner

    def full(columns: Columns, time: np.ndarray) -> np.ndarray:
        value = inner(columns, time)
        if np.ndim(value) == 0:  # built of constants only
            return np.full(len(time), value, dtype=dtype(kind))
        return value

    return full


def _compile(expression: Expression, schema: Schema) -> Answer:
    match expression:
        case Column(name):
            if name == TIME:
                return lambda _, time: time
            return lambda columns, _: columns[name]
        case Literal(kind, value):
            scalar = np.array(value, dtype=dtype(kind))[()]
            return lambda _columns, _time: scalar
        case Unary(operator, operand):
            inner = _compile(operand, schema)
            if operator == "not":
                return lambda columns, time: np.logical_not(inner(columns, time))
            wide = _widen(operand, widened(kind_of(operand, schema)), schema)
            return lambda columns, time: np.negative(wide(columns, time))
        case Binary(operator, left, right):
            return _binary(operator, left, right, schema)
        case Cast(kind, operand):
            inner = _compile(operand, schema)
            return lambda columns, time: cast(inner(columns, time), kind)
        case Call(function, arguments):
            return _call(function, arguments, schema)


def _widen(expression: Expression, kind: str, schema: Schema) -> Answer:
    """The operand in the kind in which it meets the other; int64 from uint64 wraps."""
    inner = _compile(expression, schema)
    if kind_of(expression, schema) == kind:
        return inner
    wide = np.dtype(kind)
    return lambda columns, time: inner(columns, time).astype(wide)


_COMPARE: dict[str, Callable[..., np.ndarray]] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
}  # fmt: skip


_ARITHMETIC: dict[str, Callable[..., np.ndarray]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.true_divide, "//": np.floor_divide, "%": np.remainder,
    "**": np.power, "and": np.logical_and, "or": np.logical_or,
}  # fmt: skip


def _binary(operator: str, left: Expression, right: Expression, schema: Schema) -> Answer:
    kinds = kind_of(left, schema), kind_of(right, schema)
    if operator in _COMPARE:
        return _comparison(_COMPARE[operator], left, right, kinds, schema)
    function = _ARITHMETIC[operator]
    if operator in ("and", "or"):
        first, second = _compile(left, schema), _compile(right, schema)
        return lambda columns, time: function(first(columns, time), second(columns, time))
    wide = "float64" if operator in ("/", "**") else widened(*kinds)
    first, second = _widen(left, wide, schema), _widen(right, wide, schema)
    if operator == "**":
        # One exponent for all rows would go another way in numpy than an exponent for each: (-inf) ** 0.5 is not sqrt.
        return lambda columns, time: function(
            _per_row(first(columns, time), len(time)), _per_row(second(columns, time), len(time))
        )
    return lambda columns, time: function(first(columns, time), second(columns, time))


def _comparison(
    function: Callable[..., np.ndarray], left: Expression, right: Expression, kinds: tuple[str, str], schema: Schema
) -> Answer:
    if is_number(kinds[0]) and is_number(kinds[1]):
        narrow = _narrow_constant(right, kinds[0])
        if narrow is not None:
            first = _compile(left, schema)
            return lambda columns, time: function(first(columns, time), narrow)
        wide = widened(*kinds)
        one, other = _widen(left, wide, schema), _widen(right, wide, schema)
    else:
        one, other = _compile(left, schema), _compile(right, schema)
    return lambda columns, time: function(one(columns, time), other(columns, time))


def _narrow_constant(expression: Expression, kind: str) -> np.generic | None:
    """The constant in the column's own narrow kind, where that kind holds it exactly."""
    if not isinstance(expression, Literal) or kind == "uint64":
        return None
    if (kind in FLOATS) != (expression.kind in FLOATS) and kind not in FLOATS:
        return None
    if isinstance(expression.value, str):
        return None
    try:
        with np.errstate(all="ignore"):
            narrow = dtype(kind).type(expression.value)
    except (OverflowError, ValueError):
        return None
    return narrow if narrow.item() == expression.value else None


def cast(value: np.ndarray, kind: str) -> np.ndarray:
    """The value in another kind, as `Cast` defines it."""
    array = np.asarray(value)
    target = dtype(kind)
    if array.dtype == target:
        return array
    if kind == "str":
        flat = [str(item) for item in np.atleast_1d(array).tolist()]
        return np.array(flat, dtype=target).reshape(array.shape)
    if array.dtype.kind == "f" and target.kind in "iu":
        bounds = np.iinfo(target)
        wide = array.astype(np.float64)
        fits = (wide > float(bounds.min) - 1.0) & (wide < float(bounds.max) + 1.0)
        if bounds.min == -(2**63):
            fits = (wide >= float(bounds.min)) & (wide < float(bounds.max))
        elif bounds.max == 2**64 - 1:
            fits = (wide > -1.0) & (wide < float(bounds.max))
        return np.where(fits, np.where(fits, wide, 0.0).astype(target), bounds.min)
    return array.astype(target)


def haversine_metres(lat1: np.ndarray, lon1: np.ndarray, lat2: np.ndarray, lon2: np.ndarray) -> np.ndarray:
    """Great-circle distance between points in degrees, on a sphere."""
    first, second = np.radians(lat1), np.radians(lat2)
    half_lat = np.sin((second - first) * 0.5)
    half_lon = np.sin(np.radians(lon2 - lon1) * 0.5)
    root = half_lat * half_lat + np.cos(first) * np.cos(second) * (half_lon * half_lon)
    metres: np.ndarray = 2.0 * EARTH_RADIUS_METRES * np.arcsin(np.sqrt(np.minimum(root, 1.0)))
    return metres


def _least(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.where((right < left) | np.isnan(right), right, left)


def _greatest(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.where((right > left) | np.isnan(right), right, left)


FLOAT_FUNCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "sqrt": np.sqrt, "exp": np.exp, "log": np.log, "floor": np.floor, "ceil": np.ceil, "round": np.rint,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "atan2": np.arctan2, "hypot": np.hypot, "radians": np.radians,
    "degrees": np.degrees, "haversine": haversine_metres,
}  # fmt: skip

_NUMBER_FUNCTIONS: dict[str, Callable[..., np.ndarray]] = {"abs": np.abs, "minimum": _least, "maximum": _greatest}


@functools.lru_cache(maxsize=1_000)
def _pattern(text: str) -> re.Pattern[str]:
    """A LIKE pattern as a regular expression: % is any text, _ one character."""
    parts = (".*" if one == "%" else "." if one == "_" else re.escape(one) for one in text)
    return re.compile("".join(parts), re.DOTALL)


def _part(text: str, separator: str, number: int) -> str:
    parts = text.split(separator) if separator else [text]
    return parts[number] if 0 <= number < len(parts) else ""


def _parsed(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


TEXT_FUNCTIONS: dict[str, tuple[Callable[..., object], str]] = {
    "lower": (str.lower, "str"),
    "upper": (str.upper, "str"),
    "length": (len, "int64"),
    "contains": (lambda text, part: part in text, "bool"),
    "starts_with": (str.startswith, "bool"),
    "ends_with": (str.endswith, "bool"),
    "like": (lambda text, pattern: _pattern(pattern).fullmatch(text) is not None, "bool"),
    "concat": (lambda text, more: text + more, "str"),
    "trim": (str.strip, "str"),
    "replace": (lambda text, old, new: text.replace(old, new) if old else text, "str"),
    "split": (_part, "str"),
    "parse": (_parsed, "float64"),
}


def _call(name: str, arguments: tuple[Expression, ...], schema: Schema) -> Answer:
    kinds = [kind_of(argument, schema) for argument in arguments]
    if name in FLOAT_FUNCTIONS:
        function = FLOAT_FUNCTIONS[name]
        wide = [_widen(argument, "float64", schema) for argument in arguments]
        return lambda columns, time: function(*(_contiguous(one(columns, time)) for one in wide))
    if name in TEXT_FUNCTIONS:
        text_function, kind = TEXT_FUNCTIONS[name]
        texts = [compiled(argument, schema) for argument in arguments]

        def of_text(columns: Columns, time: np.ndarray) -> np.ndarray:
            lists = [one(columns, time).tolist() for one in texts]
            return np.array([text_function(*row) for row in zip(*lists, strict=True)], dtype=dtype(kind))

        return of_text
    if name == "if_else":
        condition = _compile(arguments[0], schema)
        if is_number(kinds[1]):
            meeting = widened(kinds[1], kinds[2])
            yes, no = _widen(arguments[1], meeting, schema), _widen(arguments[2], meeting, schema)
        else:
            yes, no = compiled(arguments[1], schema), compiled(arguments[2], schema)
        return lambda columns, time: np.where(condition(columns, time), yes(columns, time), no(columns, time))
    if name in ("is_missing", "is_finite"):
        floats = _widen(arguments[0], "float64", schema)
        test = np.isnan if name == "is_missing" else np.isfinite
        return lambda columns, time: test(floats(columns, time))
    wides = [_widen(argument, widened(*kinds), schema) for argument in arguments]
    whole = _NUMBER_FUNCTIONS[name]
    return lambda columns, time: whole(*(one(columns, time) for one in wides))


def _per_row(value: np.ndarray, rows: int) -> np.ndarray:
    return np.ascontiguousarray(value) if np.ndim(value) else np.full(rows, value)


def _contiguous(value: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(value) if np.ndim(value) else value
