"""Columns as a pandas DataFrame and back, for frame operators. Importing this makes them run in this process; pandas
itself is imported when the first one does.

Times (`time`, `window_start`, `window_end`) are datetimes of UTC in the frame. What comes back is checked by column and
row: only a float may be missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shared.engine.frame_rows import call_frames_with
from shared.errors import UsageError
from shared.language.expressions import TIME
from shared.language.registry import OperatorType
from shared.language.values import column_of
from shared.plan.stream_type import WINDOW_END, WINDOW_START, StreamType

TIMES = (TIME, WINDOW_START, WINDOW_END)


def called(
    kind: OperatorType, given: Mapping[str, np.ndarray], output: StreamType, parameters: Mapping[str, object]
) -> dict[str, np.ndarray]:
    """What a frame operator gives for these columns: `time` and the output's columns, in their kinds."""
    import pandas

    frame = pandas.DataFrame({name: _to_pandas(pandas, name, values) for name, values in given.items()})
    answer: Any = kind.implementation(frame, **parameters)
    if not isinstance(answer, pandas.DataFrame):
        raise _refused(kind, f"gave {type(answer).__name__}; expected a pandas DataFrame")
    names = list(answer.columns)
    wanted = {TIME: "int64", **{column.name: column.kind for column in output.schema}}
    for name in wanted:
        if names.count(name) != 1:
            how = "lacks the column" if name not in names else "has more than one column"
            raise _refused(kind, f"the frame it gave {how} {name!r} (has: {', '.join(map(str, names))})")
    where = f"what frame operator {kind.name!r} gives"
    made = {
        name: column_of(_of_pandas(pandas, name, answer[name]), want, column=name, where=where, code="operator-output")
        for name, want in wanted.items()
    }
    _demand_times_of_keys(pandas, kind, given, made, output.key)
    return made


def _demand_times_of_keys(
    pandas: Any, kind: OperatorType, given: Mapping[str, np.ndarray], made: Mapping[str, np.ndarray], key: Sequence[str]
) -> None:
    """Each row out belongs to a key that had rows, and lies between their first and last: anything else would be
    another range's row, or come behind the frontier."""
    before, after = given[TIME], made[TIME]
    numbers = np.zeros(len(before) + len(after), np.int64)  # of each row's key, by first appearance: given ones first
    for name in key:
        both = np.concatenate((given[name], made[name]))
        codes, values = pandas.factorize(both.astype(object) if both.dtype.kind == "T" else both)
        numbers, _ = pandas.factorize(numbers * len(values) + codes)
    own, out = numbers[: len(before)], numbers[len(before) :]
    known = int(own.max()) + 1
    strange = np.flatnonzero(out >= known)
    if len(strange):
        row = int(strange[0])
        says = ", ".join(repr(made[name][row : row + 1].tolist()[0]) for name in key)
        names = ", ".join(map(repr, key))
        raise _refused(kind, f"column {names} says {says} in row {row}; no row that was given has that key")
    first, last = np.full(known, before.max()), np.full(known, before.min())
    np.minimum.at(first, own, before)
    np.maximum.at(last, own, before)
    outside = np.flatnonzero((after < first[out]) | (after > last[out]))
    if len(outside):
        row = int(outside[0])
        span = f"from {first[out[row]]} to {last[out[row]]} us"
        raise _refused(
            kind, f"column 'time' is {after[row]} us in row {row}; the rows that were given of its key are {span}"
        )


def _to_pandas(pandas: Any, name: str, values: np.ndarray) -> Any:
    if name in TIMES and values.dtype == np.int64:
        return pandas.Series(values.astype("datetime64[us]")).dt.tz_localize("UTC")
    return np.array(values.tolist(), object) if values.dtype.kind == "T" else np.array(values)


def _of_pandas(pandas: Any, name: str, series: Any) -> Any:
    if getattr(series.dtype, "tz", None) is not None:
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    if isinstance(series.dtype, np.dtype) and series.dtype.kind == "M" and name in TIMES:
        values = series.to_numpy()
        whole = values.astype("datetime64[us]")
        if not np.isnat(values).any() and bool((whole.astype(values.dtype) == values).all()):
            return whole.astype(np.int64)
        return values  # refused by row
    if isinstance(series.dtype, np.dtype) and series.dtype.kind != "O":
        return series.to_numpy()
    return [None if value is pandas.NA or value is pandas.NaT else value for value in series.tolist()]


def _refused(kind: OperatorType, why: str) -> UsageError:
    return UsageError(f"frame operator {kind.name!r}: {why}", code="operator-output")


call_frames_with(called)
