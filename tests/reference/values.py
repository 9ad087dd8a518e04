"""What expressions mean on one row, in plain Python: written from docs/semantics.md, not from the engine.

An expression is the text that a user writes and a function of a row. Whole numbers are Python's, wrapped to 64 bits;
floats are numpy's float64, so that nothing raises.
"""

from __future__ import annotations

import fnmatch
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Row = dict[str, Any]
WIDTHS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


@dataclass(frozen=True)
class Written:
    """An expression: as it is written, its kind, and its value on a row."""

    text: str
    kind: str
    of: Callable[[Row], Any]


def wrapped(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def as_float(value: Any) -> np.float64:
    return np.float64(value)


def arithmetic(operator: str, left: Any, right: Any, kind: str) -> Any:
    """`/` and `**` give floats; `//` and `%` floor, and by zero are 0 on whole numbers; whole numbers wrap."""
    if kind == "float64":
        a, b = as_float(left), as_float(right)
        with np.errstate(all="ignore"):
            if operator == "/":
                return a / b
            if operator == "//":
                return np.floor_divide(a, b)
            if operator == "%":
                return np.remainder(a, b)
            return {"+": a + b, "-": a - b, "*": a * b}[operator]
    if operator in ("//", "%") and right == 0:
        return 0
    return wrapped(
        {"+": int.__add__, "-": int.__sub__, "*": int.__mul__, "//": int.__floordiv__, "%": int.__mod__}[operator](
            int(left), int(right)
        )
    )


def compared(operator: str, left: Any, right: Any) -> bool:
    """With NaN every comparison is false, except !=. Whole numbers meet floats as floats."""
    if isinstance(left, float) or isinstance(right, float):
        left, right = as_float(left), as_float(right)
    return bool(
        {
            "<": lambda: left < right, "<=": lambda: left <= right, ">": lambda: left > right,
            ">=": lambda: left >= right, "==": lambda: left == right, "!=": lambda: left != right,
        }[operator]()
    )  # fmt: skip


def cast(value: Any, kind: str) -> Any:
    """Float to whole number truncates; out of range, or NaN, is the kind's lowest value."""
    if kind == "str":
        return str(value.item() if isinstance(value, np.generic) else value)
    if kind == "float64":
        return as_float(value)
    bits = WIDTHS[kind]
    lowest, highest = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    if isinstance(value, float):
        if math.isnan(value) or math.isinf(value):
            return lowest
        whole = math.trunc(value)
        return whole if lowest <= whole <= highest else lowest
    return (int(value) - lowest) % 2**bits + lowest


def missing(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def like(text: str, pattern: str) -> bool:
    """% is any text, _ one character."""
    quoted = "".join({"%": "*", "_": "?"}.get(one, f"[{one}]" if one in "*?[" else one) for one in pattern)
    return re.match(fnmatch.translate(quoted), text) is not None


def split(text: str, separator: str, number: int) -> str:
    parts = text.split(separator) if separator else [text]
    return parts[number] if 0 <= number < len(parts) else ""


def parsed(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def least(left: Any, right: Any) -> Any:
    return next((one for one in (left, right) if missing(one)), min(left, right))


def greatest(left: Any, right: Any) -> Any:
    return next((one for one in (left, right) if missing(one)), max(left, right))


def of_float(function: Callable[[np.float64], Any]) -> Callable[[Any], Any]:
    def answer(value: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(as_float(value))

    return answer


MEANINGS: dict[str, Callable[..., Any]] = {
    "sqrt": of_float(np.sqrt), "floor": of_float(np.floor), "ceil": of_float(np.ceil), "round": of_float(np.rint),
    "sin": of_float(np.sin), "is_missing": missing, "is_finite": math.isfinite, "lower": str.lower, "upper": str.upper,
    "trim": str.strip, "contains": str.__contains__, "starts_with": str.startswith, "ends_with": str.endswith,
}  # fmt: skip
