"""What a program hands in as a column is taken exactly, or refused by column and row."""

from __future__ import annotations

import datetime
import math

import numpy as np
import pytest

import resurge as rs
from shared.errors import UsageError
from shared.language.values import column_of


def taken(values: object, kind: str, column: str = "v") -> list[object]:
    return column_of(values, kind, column=column, where="input 'x'", code="evaluate-input").tolist()


@pytest.mark.parametrize(
    ("values", "kind", "wanted"),
    [
        ([1, 2.0, True], "int64", [1, 2, 1]),
        ([-128, 127], "int8", [-128, 127]),
        (np.array([2**63], np.uint64), "uint64", [2**63]),
        ([2**63, 0], "uint64", [2**63, 0]),
        ([1, 2.5], "float64", [1.0, 2.5]),
        (np.array([0.1]), "float32", [float(np.float32(0.1))]),
        ([True, 0], "bool", [True, False]),
        (["a", "日"], "str", ["a", "日"]),
        (np.array(["a", "b"]), "str", ["a", "b"]),
        (np.array(["a"], object), "str", ["a"]),
        ((1, 2), "int32", [1, 2]),
        (range(3), "int16", [0, 1, 2]),
        ([], "int64", []),
    ],
)
def test_what_is_exact_is_taken(values: object, kind: str, wanted: list[object]) -> None:
    assert taken(values, kind) == wanted


def test_none_is_a_missing_float_and_nothing_else() -> None:
    assert math.isnan(taken([1.0, None], "float64")[1])  # type: ignore[arg-type]
    for kind in ("str", "int64", "bool"):
        with pytest.raises(UsageError, match="row 1"):
            taken([{"str": "a", "int64": 1, "bool": True}[kind], None], kind)


def test_times_come_as_datetimes_in_whole_microseconds() -> None:
    at = datetime.datetime(2024, 5, 1, 12, 0, 0, 7, tzinfo=datetime.UTC)
    us = (at - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1)
    nanoseconds = np.array([us * 1000], "datetime64[ns]")
    assert taken([at], "int64", "time") == taken(nanoseconds, "int64", "time") == [us]
    assert taken(np.array(["2024-05-01"], "datetime64[D]"), "int64", "time") == [1_714_521_600_000_000]


@pytest.mark.parametrize(
    ("values", "kind", "column", "says"),
    [
        ([1, 300], "int8", "v", "300 in row 1"),
        (np.array([1, 300]), "int8", "v", "300 in row 1"),
        ([1.5], "int64", "v", "1.5 in row 0"),
        ([math.nan], "int64", "v", "nan in row 0"),
        ([-1], "uint8", "v", "-1 in row 0"),
        (["False"], "bool", "v", "False"),
        ([True, "True"], "bool", "v", "'True' in row 1"),
        ([2], "bool", "v", "2 in row 0"),
        (["a", 1], "str", "v", "1 in row 1"),
        ([1], "str", "v", "takes str"),
        (["1"], "float64", "v", "takes float64"),
        ([2**53 + 1], "float64", "v", "row 0"),
        ([1e300], "float32", "v", "1e+300 in row 0"),
        ([[1.0, 2.0]], "float64", "v", "dimensions"),
        (np.zeros((2, 2)), "float64", "v", "2 dimensions"),
        (5.0, "float64", "v", "one value per row"),
        ("abc", "str", "v", "one value per row"),
        (np.array(["NaT"], "datetime64[us]"), "int64", "time", "NaT in row 0"),
        (np.array([1], "datetime64[ns]"), "int64", "time", "row 0"),
        (np.array([1], "datetime64[us]"), "int64", "v", "datetime64"),
        ([datetime.datetime(2024, 5, 1)], "int64", "time", "row 0"),  # noqa: DTZ001  # a time without a zone is none
    ],
)
def test_what_is_not_exact_is_refused_by_column_and_row(values: object, kind: str, column: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        taken(values, kind, column)
    assert repr(column) in caught.value.message
    assert says in caught.value.message


def test_evaluate_reads_datetimes_as_what_they_say() -> None:
    stream = rs.stream("x", {"v": "float64"})
    times = np.array([0, 1], "datetime64[s]").astype("datetime64[ns]")
    assert rs.evaluate(stream, {"x": {"time": times, "v": [1.0, 2.0]}})["out"]["time"].tolist() == [0, 1_000_000]


def test_live_takes_no_ragged_rows() -> None:
    stream = rs.stream("x", {"v": "float64", "n": "int8"})
    live = rs.Live(stream.subscribe("out"))
    with pytest.raises(UsageError, match="'v' of 'x' has 1 values, time has 2"):
        live.append("x", time=[0, 1], v=[1.0], n=[1, 2])
    with pytest.raises(UsageError, match="300 in row 0"):
        live.append("x", time=0, v=1.0, n=300)
    with pytest.raises(UsageError, match="one value per row"):
        live.append("x", time=[0, 1], v=1.0, n=[1, 2])
