"""Expressions over the columns of a stream: a small typed tree, frozen data, evaluated by the engine.

Meaning, the same on every engine:

* Numbers widen before they meet: whole numbers of any width to int64 (a uint64 above 2**63 - 1 wraps), floats to
  float64, and a whole number beside a float to float64. Comparisons compare those widened values; an engine may skip
  the widening only where the answer cannot differ.
* Whole-number arithmetic wraps modulo 2**64. `//` and `%` floor; by zero they give 0 on whole numbers and follow
  IEEE 754 on floats. `/` and `**` always give float64. Floats follow IEEE 754: 1/0 is inf, 0/0 is NaN.
* NaN is the missing float. Every comparison with it is false, except `!=`. There are no other nulls.
* Text compares by code point. `and`, `or`, `not` take bools only; numbers are never truthy.
* `if_else` evaluates both branches for every row. Nothing raises at run time.

Every stream has, beside its schema's columns, the column `time` (int64, event time in microseconds).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from shared.errors import UsageError
from shared.language.schema import KINDS, Schema

TIME = "time"
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float32", "float64")
DEPTH_MAX = 64
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

Value: TypeAlias = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Column:
    name: str


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant. Its kind is bool, int64, float64 or str."""

    kind: str
    value: Value


@dataclass(frozen=True, slots=True)
class Unary:
    """`-` of a number, `not` of a bool."""

    operator: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary:
    """Arithmetic (+ - * / // % **), comparison (< <= > >= == !=), or `and` / `or`."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Cast:
    """To another kind. Float to whole number truncates; out of range or NaN gives the kind's lowest value.

    Text to number is not offered: it could fail at run time. Anything to text gives Python's `str` of the value.
    """

    kind: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class Call:
    """A named function of FUNCTIONS."""

    function: str
    arguments: tuple[Expression, ...]


Expression: TypeAlias = Column | Literal | Unary | Binary | Cast | Call

ARITHMETIC = ("+", "-", "*", "/", "//", "%", "**")
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
CONNECTIVES = ("and", "or")
UNARY = ("-", "not")


def literal(value: object) -> Literal:
    """A Python constant as a literal, numpy's scalars as what they hold; refuses what has no kind."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return Literal("bool", value)
    if isinstance(value, int):
        if not INT64_MIN <= value <= INT64_MAX:
            raise UsageError(f"{value} does not fit in int64; use a float", code="expression-literal")
        return Literal("int64", value)
    if isinstance(value, float):
        return Literal("float64", value)
    if isinstance(value, str):
        return Literal("str", value)
    raise UsageError(
        f"{value!r} cannot stand in an expression; expected a column like col.v, a bool, an int, a float or text",
        code="expression-literal",
    )


# --- Typing ----------------------------------------------------------------------------------------------------


def is_number(kind: str) -> bool:
    return kind in INTEGERS or kind in FLOATS


def widened(*kinds: str) -> str:
    """The kind in which numbers of these kinds meet."""
    return "float64" if any(kind in FLOATS for kind in kinds) else "int64"


def _floats(name: str, count: int) -> Callable[[tuple[str, ...]], str | None]:
    def result(kinds: tuple[str, ...]) -> str | None:
        return "float64" if len(kinds) == count and all(map(is_number, kinds)) else None

    result.__name__ = name
    return result


def _same_number(kinds: tuple[str, ...]) -> str | None:
    return widened(*kinds) if len(kinds) == 1 and is_number(kinds[0]) else None


def _two_numbers(kinds: tuple[str, ...]) -> str | None:
    return widened(*kinds) if len(kinds) == 2 and all(map(is_number, kinds)) else None


def _float_test(kinds: tuple[str, ...]) -> str | None:
    return "bool" if len(kinds) == 1 and is_number(kinds[0]) else None


def _text_to(result: str, count: int) -> Callable[[tuple[str, ...]], str | None]:
    return lambda kinds: result if kinds == ("str",) * count else None


def _split(kinds: tuple[str, ...]) -> str | None:
    return "str" if len(kinds) == 3 and kinds[:2] == ("str", "str") and kinds[2] in INTEGERS else None


def _if_else(kinds: tuple[str, ...]) -> str | None:
    if len(kinds) != 3 or kinds[0] != "bool":
        return None
    if is_number(kinds[1]) and is_number(kinds[2]):
        return widened(kinds[1], kinds[2])
    return kinds[1] if kinds[1] == kinds[2] else None


@dataclass(frozen=True, slots=True)
class Function:
    """`result(kinds)` is the kind of the answer, or None where the arguments do not fit `signature`."""

    signature: str
    result: Callable[[tuple[str, ...]], str | None]


# Functions of floats compute in float64. round is to even; floor, ceil and round stay floats. haversine is the
# great-circle distance in metres between (lat1, lon1) and (lat2, lon2) in degrees on a sphere of radius 6 371 008.8 m.
# like knows % for any text and _ for one character. split gives part `number` of a text, from 0, "" where there is
# none; an empty separator does not split. parse gives the number that a text says, as Python reads it, else NaN.
FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        "abs": Function("abs(number)", _same_number),
        "sqrt": Function("sqrt(number)", _floats("sqrt", 1)),
        "exp": Function("exp(number)", _floats("exp", 1)),
        "log": Function("log(number)", _floats("log", 1)),
        "floor": Function("floor(number)", _floats("floor", 1)),
        "ceil": Function("ceil(number)", _floats("ceil", 1)),
        "round": Function("round(number)", _floats("round", 1)),
        "sin": Function("sin(radians)", _floats("sin", 1)),
        "cos": Function("cos(radians)", _floats("cos", 1)),
        "tan": Function("tan(radians)", _floats("tan", 1)),
        "atan2": Function("atan2(y, x)", _floats("atan2", 2)),
        "hypot": Function("hypot(x, y)", _floats("hypot", 2)),
        "radians": Function("radians(degrees)", _floats("radians", 1)),
        "degrees": Function("degrees(radians)", _floats("degrees", 1)),
        "haversine": Function("haversine(lat1, lon1, lat2, lon2)", _floats("haversine", 4)),
        "minimum": Function("minimum(number, number)", _two_numbers),
        "maximum": Function("maximum(number, number)", _two_numbers),
        "is_missing": Function("is_missing(number)", _float_test),
        "is_finite": Function("is_finite(number)", _float_test),
        "if_else": Function("if_else(bool, a, b) with a and b alike", _if_else),
        "lower": Function("lower(text)", _text_to("str", 1)),
        "upper": Function("upper(text)", _text_to("str", 1)),
        "length": Function("length(text)", _text_to("int64", 1)),
        "contains": Function("contains(text, part)", _text_to("bool", 2)),
        "starts_with": Function("starts_with(text, part)", _text_to("bool", 2)),
        "ends_with": Function("ends_with(text, part)", _text_to("bool", 2)),
        "like": Function("like(text, pattern)", _text_to("bool", 2)),
        "concat": Function("concat(text, text)", _text_to("str", 2)),
        "trim": Function("trim(text)", _text_to("str", 1)),
        "replace": Function("replace(text, old, new)", _text_to("str", 3)),
        "split": Function("split(text, separator, number)", _split),
        "parse": Function("parse(text)", _text_to("float64", 1)),
    }
)


def kind_of(expression: Expression, schema: Schema) -> str:
    """The kind of an expression over a stream's columns; UsageError where it has none, naming what there is."""
    match expression:
        case Column(name):
            if name == TIME:
                return "int64"
            if name not in schema:
                raise unknown_column(name, schema)
            return schema.kind(name)
        case Literal(kind, _):
            return kind
        case Unary(operator, operand):
            kind = kind_of(operand, schema)
            if operator == "-" and is_number(kind):
                return widened(kind)
            if operator == "not" and kind == "bool":
                return "bool"
            raise _mismatch(operator, (kind,), "a number" if operator == "-" else "a bool")
        case Binary(operator, left, right):
            return _binary_kind(operator, kind_of(left, schema), kind_of(right, schema))
        case Cast(kind, operand):
            source = kind_of(operand, schema)
            if source == "str" and kind != "str":
                raise _mismatch(f"cast to {kind} of", (source,), "a number or a bool: text could fail to parse")
            return kind
        case Call(function, arguments):
            kinds = tuple(kind_of(argument, schema) for argument in arguments)
            result = FUNCTIONS[function].result(kinds)
            if result is None:
                raise _mismatch(function, kinds, FUNCTIONS[function].signature)
            return result


def _binary_kind(operator: str, left: str, right: str) -> str:
    kinds = (left, right)
    numbers = is_number(left) and is_number(right)
    if operator in ARITHMETIC:
        if not numbers:
            raise _mismatch(operator, kinds, "two numbers")
        return "float64" if operator in ("/", "**") else widened(left, right)
    if operator in COMPARISONS:
        if not (numbers or (left == right and (left == "str" or operator in ("==", "!=")))):
            raise _mismatch(operator, kinds, "two numbers or two texts; bools only with == and !=")
        return "bool"
    if kinds != ("bool", "bool"):
        raise _mismatch(operator, kinds, "two bools; compare numbers first")
    return "bool"


def unknown_column(name: str, schema: Schema) -> UsageError:
    """The error for a column that a stream does not have; it lists the ones it has."""
    import difflib

    near = difflib.get_close_matches(name, schema.names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return UsageError(
        f"column {name!r} is not in this stream (has: {', '.join((*schema.names, TIME))}){hint}", code="column-unknown"
    )


def _mismatch(operator: str, kinds: tuple[str, ...], expected: str) -> UsageError:
    return UsageError(f"{operator} does not take {' and '.join(kinds)}; expected {expected}", code="expression-type")


def too_deep() -> UsageError:
    """The error for an expression that plans do not carry."""
    return UsageError(
        f"an expression nests deeper than {DEPTH_MAX}: a chain of + or & is as deep as it is long. Put brackets around "
        "halves of it, or compute it in steps with extend",
        code="expression-depth",
    )


# --- Walking ---------------------------------------------------------------------------------------------------


def children(expression: Expression) -> tuple[Expression, ...]:
    match expression:
        case Unary(_, operand) | Cast(_, operand):
            return (operand,)
        case Binary(_, left, right):
            return (left, right)
        case Call(_, arguments):
            return arguments
    return ()


def depth_of(expression: Expression) -> int:
    """How deep an expression nests: a column or a constant is 0."""
    return max((1 + depth_of(child) for child in children(expression)), default=0)


def columns_of(expression: Expression) -> Iterator[str]:
    """Every column name an expression reads, possibly more than once."""
    if isinstance(expression, Column):
        yield expression.name
    for child in children(expression):
        yield from columns_of(child)


def substitute(expression: Expression, columns: Mapping[str, Expression]) -> Expression:
    """The expression with columns replaced by the expressions that compute them."""
    match expression:
        case Column(name):
            return columns.get(name, expression)
        case Unary(operator, operand):
            return Unary(operator, substitute(operand, columns))
        case Binary(operator, left, right):
            return Binary(operator, substitute(left, columns), substitute(right, columns))
        case Cast(kind, operand):
            return Cast(kind, substitute(operand, columns))
        case Call(function, arguments):
            return Call(function, tuple(substitute(argument, columns) for argument in arguments))
    return expression


def text_of(expression: Expression) -> str:
    """The expression as a person would write it, for explanations and errors."""
    match expression:
        case Column(name):
            return name
        case Literal(_, value):
            return repr(value)
        case Unary(operator, operand):
            return f"not {_nested(operand)}" if operator == "not" else f"-{_nested(operand)}"
        case Binary(operator, left, right):
            return f"{_nested(left)} {operator} {_nested(right)}"
        case Cast(kind, operand):
            return f"{kind}({text_of(operand)})"
        case Call(function, arguments):
            return f"{function}({', '.join(map(text_of, arguments))})"


def _nested(expression: Expression) -> str:
    return f"({text_of(expression)})" if isinstance(expression, Binary) else text_of(expression)


# --- JSON ------------------------------------------------------------------------------------------------------


def to_json(expression: Expression) -> list[object]:
    """A nested list; distinct meanings give distinct lists, -0.0 and NaN included, so it also serves as identity."""
    match expression:
        case Column(name):
            return ["column", name]
        case Literal(kind, value):
            return ["literal", kind, float(value).hex() if kind == "float64" else value]
        case Unary(operator, operand):
            return ["unary", operator, to_json(operand)]
        case Binary(operator, left, right):
            return ["binary", operator, to_json(left), to_json(right)]
        case Cast(kind, operand):
            return ["cast", kind, to_json(operand)]
        case Call(function, arguments):
            return ["call", function, *map(to_json, arguments)]


def from_json(value: object, depth: int = 0) -> Expression:
    """The reverse of `to_json`; refuses by name whatever it does not know, and trees deeper than DEPTH_MAX."""
    if depth > DEPTH_MAX:
        raise UsageError(f"an expression nests deeper than {DEPTH_MAX}; split it", code="expression-json")
    match value:
        case ["column", str(name)]:
            return Column(name)
        case ["literal", str(kind), content]:
            return _literal_from_json(kind, content)
        case ["unary", str(operator), operand] if operator in UNARY:
            return Unary(operator, from_json(operand, depth + 1))
        case ["binary", str(operator), left, right] if operator in (*ARITHMETIC, *COMPARISONS, *CONNECTIVES):
            return Binary(operator, from_json(left, depth + 1), from_json(right, depth + 1))
        case ["cast", str(kind), operand] if kind in KINDS:
            return Cast(kind, from_json(operand, depth + 1))
        case ["call", str(function), *arguments] if function in FUNCTIONS:
            return Call(function, tuple(from_json(argument, depth + 1) for argument in arguments))
    raise UsageError(f"{_clipped(value)} is not an expression this version knows", code="expression-json")


def _literal_from_json(kind: str, content: object) -> Literal:
    if kind == "float64" and isinstance(content, str):
        try:
            return Literal("float64", float.fromhex(content))
        except (ValueError, OverflowError):
            pass
    elif kind in ("bool", "int64", "str"):
        found = literal(content)
        if found.kind == kind:
            return found
    raise UsageError(f"{_clipped(content)} is not a literal of kind {kind!r}", code="expression-json")


def _clipped(value: object) -> str:
    text = repr(value[:2] if isinstance(value, list) else value)
    return text if len(text) <= 80 else text[:77] + "..."
