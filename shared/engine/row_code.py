"""Expressions as Python source, compiled once: for states whose next value needs the one before, row by row, and for
filters that meet rows one at a time.

What does not read the state is computed for all rows at once, as everywhere in the engine; what reads it becomes one
line of source for each node of the expression, over plain numbers, which costs a hundredth of what numpy takes for one
row. The lines say what `shared.engine.evaluation` says: whole numbers wrap, floats follow IEEE 754 also where Python
would raise. Functions whose bits are numpy's own (`sin`, `**`) are asked of numpy, one value at a time.

The source is made of operators and numbered names only: no text of a plan becomes part of it.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from shared.engine.evaluation import FLOAT_FUNCTIONS, TEXT_FUNCTIONS, Answer, cast, compiled
from shared.language.expressions import (
    FLOATS,
    INTEGERS,
    TIME,
    Binary,
    Call,
    Cast,
    Column,
    Expression,
    Literal,
    Unary,
    columns_of,
    is_number,
    kind_of,
    to_json,
    widened,
)
from shared.language.schema import Field, Schema, dtype

State = tuple[Any, ...]
_ONE_TIME = np.zeros(1, np.int64)


class RowCode:
    """Takes states through rows. `updates` give each state's next value and its kind; `state.NAME` is the value now."""

    def __init__(
        self, names: Sequence[str], updates: Sequence[Expression], kinds: Sequence[str], schema: Schema
    ) -> None:
        self.kinds = kinds
        source = _Source({f"state.{name}": f"s{place}" for place, name in enumerate(names)}, schema)
        after = [source.value(update, kind) for update, kind in zip(updates, kinds, strict=True)]
        self.inputs = source.inputs
        states = ", ".join(f"s{place}" for place in range(len(names)))
        values = [f"v{place}" for place in range(len(source.inputs))]
        step = [*source.lines, f"{states} = {', '.join(after)}"]
        outs = [f"a{place}(s{place})" for place in range(len(names))]
        lists = [f"o{place} = []; a{place} = o{place}.append" for place in range(len(names))]
        given = [f"l{place}" for place in range(len(values))]
        made = f"[{', '.join(f'o{place}' for place in range(len(names)))}]"
        loop = f"for {', '.join((*values, '_'))} in zip({', '.join((*given, 'rows'))}):"
        keyed = f"for {', '.join(('k', *values))}, in zip({', '.join(('keys', *given))}):"  # the comma: k is no tuple
        text = "\n".join(
            [
                f"def one_key(state, {', '.join(('rows', *given))}):",
                *(f"    {line}" for line in (*lists, f"{states}, = state", loop)),
                *(f"        {line}" for line in (*step, *outs)),
                f"    return ({states},), {made}",
                f"def by_key(states, initial, {', '.join(('keys', *given))}):",
                *(f"    {line}" for line in (*lists, "get = states.get", keyed)),
                *(
                    f"        {line}"
                    for line in (f"{states}, = get(k, initial)", *step, f"states[k] = ({states},)", *outs)
                ),
                f"    return {made}",
            ]
        )
        exec(compile(text, "<state updates>", "exec"), source.known)  # noqa: S102  # made above, of nothing foreign
        self._one_key: Callable[..., tuple[State, list[list[Any]]]] = source.known["one_key"]
        self._by_key: Callable[..., list[list[Any]]] = source.known["by_key"]

    def one_key(self, state: State, columns: dict[str, np.ndarray], time: np.ndarray) -> tuple[State, list[np.ndarray]]:
        """One key's rows: its state after them, and each state after each row."""
        state, lists = self._one_key(state, range(len(time)), *self._given(columns, time))
        return state, self._arrays(lists)

    def by_key(
        self,
        states: dict[int, State],
        initial: State,
        keys: list[int],
        columns: dict[str, np.ndarray],
        time: np.ndarray,
    ) -> list[np.ndarray]:
        """Rows of several keys, whose states it changes; each state after each row."""
        return self._arrays(self._by_key(states, initial, keys, *self._given(columns, time)))

    def _given(self, columns: dict[str, np.ndarray], time: np.ndarray) -> list[list[Any]]:
        return [cast(answer(columns, time), kind).tolist() for answer, kind in self.inputs]

    def _arrays(self, lists: list[list[Any]]) -> list[np.ndarray]:
        return [np.array(made, dtype(kind)) for made, kind in zip(lists, self.kinds, strict=True)]


def drops_row(predicates: Sequence[Expression], schema: Schema) -> Callable[[object, Mapping[str, object]], bool]:
    """A test of one row's time and values: True where each is of its column's own Python type and no predicate holds.
    Whatever else is handed in is for others to look at: False."""
    source = _Source({name: f"s{place}" for place, name in enumerate((*schema.names, TIME))}, schema)
    read = {name for predicate in predicates for name in columns_of(predicate)}
    checks: list[str] = []
    for place, field in enumerate((*schema.fields, Field(TIME, "int64"))):
        value = "time" if field.name == TIME else f"row[{source.name_of(field.name)}]"
        checks.append(f"s{place} = {value}")
        checks.append(f"if {source.other_than(f's{place}', field.kind)}: return False")
        if field.kind == "float32" and field.name in read:
            checks.append(f"s{place}, = unpacked(packed(s{place}))")
    holds = [source.value(predicate, "bool") for predicate in predicates]
    text = "\n".join(
        [
            "def drops(time, row):",
            f"    if len(row) != {len(schema.fields)}: return False",
            "    try:",
            *(f"        {line}" for line in checks),
            "    except KeyError:",
            "        return False",
            *(f"    {line}" for line in source.lines),
            f"    return not ({' or '.join(holds)})",
        ]
    )
    exec(compile(text, "<filters>", "exec"), source.known)  # noqa: S102  # made above, of nothing foreign
    drops: Callable[[object, Mapping[str, object]], bool] = source.known["drops"]
    return drops


class _Source:
    """The lines that compute expressions of one row, and the names they know."""

    def __init__(self, states: dict[str, str], schema: Schema) -> None:
        self.states = states
        self.schema = schema
        self.inputs: list[tuple[Answer, str]] = []  # what comes in as lists, and its kind
        self.lines: list[str] = []
        self.known: dict[str, Any] = {"wrap": _wrap, "isfinite": math.isfinite, "root": math.sqrt, **_SPECIAL}
        self._made: dict[tuple[str, str], str] = {}

    def value(self, expression: Expression, kind: str) -> str:
        """The name of the expression's value in this kind."""
        identity = (json.dumps(to_json(expression)), kind)
        if identity not in self._made:
            self._made[identity] = self._value(expression, kind)
        return self._made[identity]

    def _value(self, expression: Expression, kind: str) -> str:
        own = kind_of(expression, self.schema)
        if isinstance(expression, Literal):
            with np.errstate(all="ignore"):
                return self.name_of(cast(np.array([expression.value], dtype(own)), kind).tolist()[0])
        if not any(name in self.states for name in columns_of(expression)):
            self.inputs.append((compiled(expression, self.schema), kind))
            return f"v{len(self.inputs) - 1}"
        if own != kind:
            return self._cast(self.value(expression, own), own, kind)
        match expression:
            case Column(name):
                return self.states[name]
            case Unary("not", operand):
                return self._line(f"not {self.value(operand, 'bool')}")
            case Unary(_, operand):
                return self._whole(f"-{self.value(operand, kind)}", kind)
            case Binary(operator, left, right):
                return self._binary(operator, left, right, kind)
            case Cast(_, operand):
                source = kind_of(operand, self.schema)
                return self._cast(self.value(operand, source), source, kind)
            case Call(function, arguments):
                return self._call(function, arguments, kind)
        raise TypeError(expression)

    def _binary(self, operator: str, left: Expression, right: Expression, kind: str) -> str:
        kinds = kind_of(left, self.schema), kind_of(right, self.schema)
        if kind == "bool":  # a comparison, `and`, `or`
            numbers = is_number(kinds[0]) and is_number(kinds[1])
            meeting = (widened(*kinds),) * 2 if numbers else kinds
            return self._line(f"{self.value(left, meeting[0])} {operator} {self.value(right, meeting[1])}")
        one, other = self.value(left, kind), self.value(right, kind)
        if operator == "**":
            return self._line(f"power({one}, {other})")
        if operator in ("+", "-", "*"):
            return self._whole(f"{one} {operator} {other}", kind)
        if kind == "int64":
            return self._whole(f"{one} {operator} {other} if {other} else 0", kind)
        return self._line(f"{one} {operator} {other} if {other} else {_BY_ZERO[operator]}({one}, {other})")

    def _call(self, function: str, arguments: tuple[Expression, ...], kind: str) -> str:
        kinds = [kind_of(argument, self.schema) for argument in arguments]
        if function == "if_else":
            condition, yes, no = arguments
            first, second = self.value(yes, kind), self.value(no, kind)
            return self._line(f"{first} if {self.value(condition, 'bool')} else {second}")
        if function in ("minimum", "maximum"):
            one, other = (self.value(argument, kind) for argument in arguments)
            better = "<" if function == "minimum" else ">"
            return self._line(f"{other} if {other} {better} {one} or {other} != {other} else {one}")
        if function == "abs":
            return self._whole(f"abs({self.value(arguments[0], kind)})", kind)
        if function in ("is_missing", "is_finite"):
            value = self.value(arguments[0], "float64")
            return self._line(f"{value} != {value}" if function == "is_missing" else f"isfinite({value})")
        if function in FLOAT_FUNCTIONS:
            values = [self.value(argument, "float64") for argument in arguments]
            asked = f"{self.name_of(_scalar(FLOAT_FUNCTIONS[function]))}({', '.join(values)})"
            return self._line(f"root({values[0]}) if {values[0]} >= 0.0 else {asked}" if function == "sqrt" else asked)
        values = [self.value(argument, each) for argument, each in zip(arguments, kinds, strict=True)]
        if function in TEXT_FUNCTIONS:
            return self._line(f"{self.name_of(TEXT_FUNCTIONS[function][0])}({', '.join(values)})")
        return self._line(f"{self.name_of(_by_arrays(function, kinds))}({', '.join(values)})")

    def _cast(self, value: str, source: str, target: str) -> str:
        """As `shared.engine.evaluation.cast`."""
        if source == target or (source, target) == ("float32", "float64"):
            return value
        if source in INTEGERS and target == "float64":
            return self._line(f"float({value})")
        if source in INTEGERS and target in INTEGERS:
            return self._line(f"{self.name_of(_fitting(target))}({value})")
        if (source, target) == ("float64", "float32"):
            return self._line(f"float(single({value}))")
        return self._line(f"{self.name_of(_cast_of(source, target))}({value})")

    def _whole(self, text: str, kind: str) -> str:
        """A line whose value wraps where it is a whole number."""
        name = self._line(text)
        if kind not in FLOATS:
            self.lines.append(f"if not {_INT64[0]} <= {name} <= {_INT64[1]}: {name} = wrap({name})")
        return name

    def _line(self, text: str) -> str:
        name = f"t{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def other_than(self, value: str, kind: str) -> str:
        """The test that a value is not exactly of a kind."""
        if kind in INTEGERS:
            bounds = np.iinfo(kind)
            return f"type({value}) is not int or not {int(bounds.min)} <= {value} <= {int(bounds.max)}"
        if kind == "float32":  # whatever may round to infinity
            return f"type({value}) is not float or {value} > 3e38 or {value} < -3e38"
        return f"type({value}) is not {_PYTHON_TYPES[kind]}" if kind in _PYTHON_TYPES else "True"

    def name_of(self, value: object) -> str:
        name = f"c{len(self.known)}"
        self.known[name] = value
        return name


_INT64 = (-(2**63), 2**63 - 1)
_PYTHON_TYPES = {"float64": "float", "str": "str", "bool": "bool"}


def _wrap(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def _fitting(kind: str) -> Callable[[int], int]:
    """Whole numbers modulo the kind's width."""
    bounds = np.iinfo(kind)
    low, span = int(bounds.min), int(bounds.max) - int(bounds.min) + 1
    return lambda value: (value - low) % span + low


def _quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    """Without numpy's warnings: what a function gives where it is not defined is part of its meaning."""

    def asked(*values: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*values)

    return asked


def _scalar(function: Callable[..., Any]) -> Callable[..., float]:
    return _quiet(lambda *values: float(function(*values)))


_SINGLE = struct.Struct("f")
_BY_ZERO = {"/": "divide", "//": "floor_divide", "%": "remainder"}
_SPECIAL: dict[str, Callable[..., Any]] = {
    "divide": _scalar(np.true_divide),
    "floor_divide": _scalar(np.floor_divide),
    "remainder": _scalar(np.remainder),
    "power": _scalar(lambda base, exponent: np.power(np.array([base]), np.array([exponent]))[0]),
    "single": np.float32,
    "packed": _SINGLE.pack,  # rounds as numpy does, in a third of the time
    "unpacked": _SINGLE.unpack,
}


def _cast_of(source: str, target: str) -> Callable[[object], object]:
    return _quiet(lambda value: cast(np.array([value], dtype(source)), target).tolist()[0])


def _by_arrays(function: str, kinds: Sequence[str]) -> Callable[..., object]:
    """A function without a form of its own here, over columns of one row."""
    names = [str(place) for place in range(len(kinds))]
    schema = Schema(tuple(Field(name, kind) for name, kind in zip(names, kinds, strict=True)))
    answer = compiled(Call(function, tuple(Column(name) for name in names)), schema)

    def of_values(*values: object) -> object:
        columns = {name: np.array([value], dtype(kind)) for name, kind, value in zip(names, kinds, values, strict=True)}
        return answer(columns, _ONE_TIME).tolist()[0]

    return _quiet(of_values)
