"""What somebody hands in as a column, as the array of its kind: exactly, or refused by row.

Exact means that the value survives: 2.0 is a whole number, 2.5 is not; 300 is no int8; text is no number and no number
is text. A float may be handed in for float32, which rounds it. None and NaN are missing floats, and nothing else. Event
times may come as numpy datetimes or aware Python ones, in whole microseconds.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import numpy as np

from shared.errors import UsageError
from shared.language.expressions import FLOATS, TIME
from shared.language.schema import dtype

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class _Inexact(Exception):
    """At this row, or anywhere where the row is None."""

    def __init__(self, why: str, row: int | None = None) -> None:
        super().__init__(why)
        self.row = row


def column_of(values: object, kind: str, *, column: str, where: str, code: str) -> np.ndarray:
    """The values as a column of this kind. UsageError with the column and the row where one of them is not exactly so;
    `where` says what the column belongs to, like "input 'gps'"."""
    target = dtype(kind)
    if isinstance(values, np.ndarray) and values.dtype == target and values.ndim == 1:
        return values
    if type(values) is list and (exact := _plain(values, kind)) is not None:
        return exact
    try:
        return _converted(_listed(values), kind, is_time=column == TIME)
    except _Inexact as error:
        at = "" if error.row is None else f" in row {error.row}"
        raise UsageError(f"column {column!r} of {where} takes {kind}, not {error}{at}", code=code) from None


_PLAIN: dict[str, set[type]] = {"float64": {float}, "float32": {float}, "str": {str}, "bool": {bool}}
_INT: set[type] = {int}  # of every other kind
_FLOAT32_MAX = float(np.finfo(np.float32).max)


def _plain(values: list[object], kind: str) -> np.ndarray | None:
    """Values of exactly the kind's own Python type, as most rows have; None where they must be looked at one by one.
    A row of twelve columns is appended five times as fast by it."""
    if set(map(type, values)) != _PLAIN.get(kind, _INT):
        return None
    if kind == "float32" and any(value < -_FLOAT32_MAX or value > _FLOAT32_MAX for value in values):  # type: ignore[operator]
        return None
    try:
        return np.array(values, dtype(kind))
    except OverflowError:  # a whole number that the kind does not hold
        return None


def _listed(values: object) -> np.ndarray:
    """The values in one row, in whatever type numpy finds for them; mixed ones as objects."""
    if isinstance(values, str | bytes) or not (isinstance(values, Sequence) or hasattr(values, "__array__")):
        raise _Inexact(f"{values!r}: hand in one value per row, like [{values!r}]")
    if isinstance(values, np.ndarray):
        found = values
    elif isinstance(values, Sequence):
        kinds = {type(value) for value in values}
        plain = len(kinds) == 1 and kinds <= {int, float, bool, str}
        try:
            found = np.array(values, dtype=None if plain else object)
        except (OverflowError, ValueError):
            found = np.array(values, dtype=object)
    else:
        found = np.asarray(values)
    if found.ndim != 1:
        raise _Inexact(f"an array of {found.ndim} dimensions; one value per row is wanted")
    return found


def _converted(values: np.ndarray, kind: str, *, is_time: bool) -> np.ndarray:
    held = values.dtype.kind
    if held == "M" and is_time:
        return _times(values)
    if held == "O":
        return _from_objects(values.tolist(), kind, is_time=is_time)
    if kind == "str":
        if held not in "UT":
            raise _Inexact(_shown(values), 0 if len(values) else None)
        return values.astype(dtype("str"))
    if held not in "biuf":
        raise _Inexact(_shown(values), 0 if len(values) else None)
    if kind in FLOATS:
        return _floats(values, kind)
    if kind == "bool":
        fits = (values == 0) | (values == 1)
    elif held == "f":
        bounds = np.iinfo(dtype(kind))
        fits = (values >= float(bounds.min)) & (values < float(bounds.max) + 1.0) & (values == np.floor(values))
    else:
        bounds = np.iinfo(dtype(kind))
        fits = (values >= bounds.min) & (values <= bounds.max)
    _check(fits, values)
    return values.astype(dtype(kind))


def _floats(values: np.ndarray, kind: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        made: np.ndarray = values.astype(dtype(kind))
        if values.dtype.kind == "f":
            _check(np.isfinite(made) | ~np.isfinite(values), values)  # a float32 may round, not overflow
        elif values.dtype.kind != "b":
            _check(made.astype(values.dtype) == values, values)
    return made


def _times(values: np.ndarray) -> np.ndarray:
    _check(~np.isnat(values), values)
    made = values.astype("datetime64[us]")
    _check(made.astype(values.dtype) == values, values)
    whole: np.ndarray = made.astype(np.int64)
    return whole


def _from_objects(values: list[object], kind: str, *, is_time: bool) -> np.ndarray:
    """Values of several types, one by one."""
    made = []
    for row, value in enumerate(values):
        try:
            made.append(_converted_one(value, kind, is_time=is_time))
        except _Inexact as error:
            raise _Inexact(str(error), row) from None
    return np.array(made, dtype(kind))


def _converted_one(value: object, kind: str, *, is_time: bool) -> object:
    if isinstance(value, np.generic) and not isinstance(value, np.datetime64):
        value = value.item()
    if value is None and kind in FLOATS:
        return np.nan
    if is_time and isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return (value - _EPOCH) // datetime.timedelta(microseconds=1)
    if is_time and isinstance(value, np.datetime64):
        return int(_times(np.array([value]))[0])
    if kind == "str" and isinstance(value, str):
        return value
    if kind != "str" and isinstance(value, bool | int | float):
        exact = np.array([value])
        if exact.dtype.kind == "O":
            raise _Inexact(repr(value))
        return _converted(exact, kind, is_time=False)[0]
    raise _Inexact(repr(value))


def _check(fits: np.ndarray, values: np.ndarray) -> None:
    if not fits.all():
        row = int(np.argmin(fits))
        raise _Inexact(str(values[row]) if values.dtype.kind == "M" else repr(values[row].item()), row)


def _shown(values: np.ndarray) -> str:
    return f"{values.dtype.name}" if not len(values) else f"{values[0]!s} ({values.dtype.name})"
