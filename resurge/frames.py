"""DataFrames in and out of `evaluate`: pandas, polars and Arrow, none of which is imported before it is used.

Times are datetimes there: `time`, `window_start` and `window_end` go out in whole microseconds of UTC, aware of it, and
come in from any zone; a datetime without a zone is UTC, as numpy's are. Everything else goes in as any column does:
what is not exactly of its column's kind is refused by column and row (shared.language.values). A null is a missing
float, and nothing else. A frame's index is not a column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from shared.errors import UsageError
from shared.language.expressions import TIME
from shared.plan.stream_type import WINDOW_END, WINDOW_START

TIMES = (TIME, WINDOW_START, WINDOW_END)
LIBRARIES = {"pandas": "pandas", "polars": "polars", "arrow": "pyarrow"}

Frame = Any  # a pandas or polars DataFrame, or an Arrow table: they have no types here
Columns = Mapping[str, object]


# --- In ---------------------------------------------------------------------------------------------------------------


def columns_of(name: str, given: object) -> Columns:
    """The columns of one input, whatever it came as, as sequences and numpy arrays."""
    library = _library(given)
    if isinstance(given, Mapping):
        return {str(column): _values(values) for column, values in given.items()}
    names = [] if library is None else _names(given, library)
    if library is None or names is None:
        raise UsageError(
            f"input {name!r} is {type(given).__name__}; expected columns by name, or a DataFrame of pandas, polars or "
            "Arrow",
            code="frames-input",
        )
    odd = [column for column in names if not isinstance(column, str) or names.count(column) > 1]
    if odd:
        raise UsageError(
            f"input {name!r} has a column called {odd[0]!r}; each needs a text of its own", code="frames-input"
        )
    frame: Frame = given
    return {column: _times_as_numbers(column, _values(frame[column])) for column in names}


def _library(value: object) -> str | None:
    home = type(value).__module__.partition(".")[0]
    return next((name for name, module in LIBRARIES.items() if module == home), None)


def _names(frame: Frame, library: str) -> list[Any] | None:
    """The names of a frame's columns; None where it is no frame."""
    if library == "arrow":
        return list(frame.column_names) if hasattr(frame, "column_names") else None
    return list(frame.columns) if hasattr(frame, "columns") else None


def _values(column: Any) -> object:
    """One column as something that `shared.language.values` can read without losing anything."""
    match _library(column):
        case "pandas":
            return _of_pandas(column)
        case "polars":
            return _of_polars(column)
        case "arrow":
            return _of_arrow(column)
    return column


def _of_pandas(series: Any) -> object:
    if getattr(series.dtype, "tz", None) is not None:
        series = series.dt.tz_convert("UTC").dt.tz_localize(None) if hasattr(series, "dt") else series.tz_convert(None)
    if isinstance(series.dtype, np.dtype) and series.dtype.kind != "O":
        return series.to_numpy()
    pandas = _imported("pandas")
    return [None if value is pandas.NA or value is pandas.NaT else value for value in series.tolist()]


def _of_polars(series: Any) -> object:
    polars = _imported("polars")
    if series.null_count() or series.dtype == polars.String:
        return series.to_list()
    if series.dtype == polars.Datetime and series.dtype.time_zone is not None:
        series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    plain = series.dtype.is_integer() or series.dtype.is_float() or series.dtype in (polars.Boolean, polars.Datetime)
    return series.to_numpy() if plain else series.to_list()


def _of_arrow(column: Any) -> object:
    arrow = _imported("arrow")
    if arrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    plain = arrow.types.is_integer(column.type) or arrow.types.is_floating(column.type)
    if column.null_count or not (plain or arrow.types.is_boolean(column.type) or arrow.types.is_timestamp(column.type)):
        return column.to_pylist()
    if arrow.types.is_timestamp(column.type):
        return column.cast(arrow.timestamp(column.type.unit)).to_numpy()  # an aware one counts in UTC already
    return column.to_numpy()


def _times_as_numbers(name: str, values: object) -> object:
    """Window bounds are plain whole numbers to a program; a frame has them as datetimes."""
    if name in (WINDOW_START, WINDOW_END) and isinstance(values, np.ndarray) and values.dtype.kind == "M":
        whole = values.astype("datetime64[us]")
        inexact = np.flatnonzero(np.isnat(values) | (whole.astype(values.dtype) != values))
        if len(inexact):
            row = int(inexact[0])
            raise UsageError(
                f"column {name!r} is {values[row]} in row {row}; expected whole microseconds", code="frames-time"
            )
        return whole.astype(np.int64)
    return values


# --- Out --------------------------------------------------------------------------------------------------------------


def framed(columns: Mapping[str, np.ndarray], library: str) -> Frame:
    """The columns of one sink as a DataFrame of this library."""
    if library not in LIBRARIES:
        raise UsageError(f"frames={library!r} is not one of {', '.join(LIBRARIES)}", code="frames-library")
    made: dict[str, Callable[[ModuleType, str, np.ndarray], object]] = {
        "pandas": _to_pandas, "polars": _to_polars, "arrow": _to_arrow,
    }  # fmt: skip
    module = _imported(library)
    whole = {name: made[library](module, name, values) for name, values in columns.items()}
    return module.table(whole) if library == "arrow" else module.DataFrame(whole)


def _is_time(name: str, values: np.ndarray) -> bool:
    if name not in TIMES or values.dtype != np.int64:
        return False
    without = np.flatnonzero(values == np.iinfo(np.int64).min)
    if len(without):
        raise UsageError(f"column {name!r} has no datetime for row {int(without[0])}", code="frames-time")
    return True


def _to_pandas(pandas: Any, name: str, values: np.ndarray) -> object:
    if _is_time(name, values):
        return pandas.Series(values.astype("datetime64[us]")).dt.tz_localize("UTC")
    return np.array(values.tolist(), object) if values.dtype.kind == "T" else values


def _to_polars(polars: Any, name: str, values: np.ndarray) -> object:
    if _is_time(name, values):
        return polars.Series(name, values).cast(polars.Datetime("us", "UTC"))
    return polars.Series(name, values.tolist(), polars.String) if values.dtype.kind == "T" else values


def _to_arrow(arrow: Any, name: str, values: np.ndarray) -> object:
    if _is_time(name, values):
        return arrow.array(values).cast(arrow.timestamp("us", tz="UTC"))
    return arrow.array(values.tolist(), arrow.string()) if values.dtype.kind == "T" else arrow.array(values)


def _imported(library: str) -> ModuleType:
    try:
        return import_module(LIBRARIES[library])
    except ModuleNotFoundError:
        raise UsageError(
            f"{LIBRARIES[library]} is not installed here: pip install {LIBRARIES[library]}", code="frames-library"
        ) from None
