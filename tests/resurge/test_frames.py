"""DataFrames in and out: the same rows as plain columns, times exact, and nothing converted that would change."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas
import polars
import pyarrow
import pytest

import resurge as rs
from resurge import col, frames
from shared.errors import UsageError

S = 1_000_000
START = datetime.datetime(2024, 3, 31, 0, 59, 59, 123457, tzinfo=datetime.UTC)
TIMES = [START + datetime.timedelta(seconds=each) for each in (0, 1, 1, 7)]
MICROSECONDS = [
    (each - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1) for each in TIMES
]
PLAIN: dict[str, list[Any]] = {
    "v": [1.5, float("nan"), -0.0, 2.5],
    "n": [2**53 + 1, -1, 0, 9],
    "tag": ["a", "", "Straße", "🚲"],
    "on": [True, False, True, True],
}
KINDS = {"v": "float64", "n": "int64", "tag": "str", "on": "bool"}

MAKERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pandas.DataFrame,
    "polars": lambda columns: polars.DataFrame(columns, strict=False),
    "arrow": pyarrow.table,
}


def x() -> rs.Stream:
    return rs.stream("x", KINDS)


def expected(stream: rs.Stream) -> dict[str, list[Any]]:
    found = rs.evaluate(stream, {"x": {"time": MICROSECONDS, **PLAIN}})["out"]
    return {name: column.tolist() for name, column in found.items()}


def listed(frame: Any, library: str) -> dict[str, list[Any]]:
    if library == "pandas":
        return {name: frame[name].tolist() for name in frame.columns}
    return frame.to_pydict() if library == "arrow" else frame.to_dict(as_series=False)


@pytest.mark.parametrize("library", MAKERS)
def test_a_frame_means_what_its_columns_mean_and_comes_back_as_one(library: str) -> None:
    stream = x().where(col.n != 0)
    frame = MAKERS[library]({"time": TIMES, **PLAIN})
    found = listed(rs.evaluate(stream, {"x": frame}, frames=library)["out"], library)
    wanted = expected(stream)
    assert list(found) == list(wanted)
    assert [each.astimezone(datetime.UTC) for each in found.pop("time")] == [TIMES[0], TIMES[1], TIMES[3]]
    del wanted["time"]
    assert repr(found) == repr(wanted)  # bits of floats and types of values too


@pytest.mark.parametrize("library", MAKERS)
def test_results_go_in_again_window_bounds_included(library: str) -> None:
    windows = x().tumbling("2s").aggregate(n=rs.count())
    made = rs.evaluate(windows, {"x": MAKERS[library]({"time": TIMES, **PLAIN})}, frames=library)["out"]
    bounds = listed(made, library)
    assert bounds["window_end"][0] - bounds["window_start"][0] == datetime.timedelta(seconds=2)
    assert bounds["window_start"][0].tzinfo is not None
    kinds = {"window_start": "int64", "window_end": "int64", "n": "int64", "complete": "bool"}
    again = rs.stream("w", kinds).select(length=col.window_end - col.window_start)
    assert rs.evaluate(again, {"w": made})["out"]["length"].tolist() == [2 * S] * len(bounds["n"])


@pytest.mark.parametrize("library", MAKERS)
def test_no_rows_keep_their_kinds(library: str) -> None:
    empty = rs.evaluate(
        x().where(col.n > 100).where(col.n < 0), {"x": {"time": [], **{name: [] for name in KINDS}}}, frames=library
    )
    frame = empty["out"]
    types = [str(each) for each in (frame.dtypes if library != "arrow" else frame.schema.types)]
    assert len(types) == 6
    assert "us" in types[0]
    assert "UTC" in types[0]
    assert rs.evaluate(x(), {"x": frame}, frames=library)["out"].shape == frame.shape


def test_times_of_any_zone_and_unit_are_the_same_moments() -> None:
    berlin = [each.astimezone(ZoneInfo("Europe/Berlin")) for each in TIMES]  # the night the clocks go forward
    ways = [
        pandas.DataFrame({"time": berlin}),
        pandas.DataFrame(
            {"time": pandas.Series(TIMES).dt.tz_convert("Asia/Tokyo").astype("datetime64[ns, Asia/Tokyo]")}
        ),
        pandas.DataFrame({"time": np.array(MICROSECONDS, "datetime64[us]")}),
        {"time": pandas.Series(berlin)},
        polars.DataFrame({"time": berlin}),
        polars.DataFrame({"time": polars.Series(TIMES).dt.cast_time_unit("ns")}),
        pyarrow.table({"time": pyarrow.array(MICROSECONDS, pyarrow.timestamp("us", "Europe/Berlin"))}),
        pyarrow.table({"time": pyarrow.array([each * 1000 for each in MICROSECONDS], pyarrow.timestamp("ns"))}),
        pyarrow.table({"time": MICROSECONDS}),
        polars.DataFrame({"time": MICROSECONDS}),
    ]
    stream = rs.stream("x", {"v": "float64"})
    for way in ways:
        assert rs.evaluate(stream, {"x": way})["out"]["time"].tolist() == MICROSECONDS, way


def test_kinds_of_columns_that_only_frames_have() -> None:
    stream = rs.stream("x", {"v": "float32", "n": "int8", "tag": "str"})
    ways = [
        pandas.DataFrame(
            {
                "time": [0, 1],
                "v": pandas.array([1, None], "Int64"),
                "n": pandas.array([1, 2], "Int8"),
                "tag": pandas.Categorical(["b", "a"]),
            }
        ),
        pandas.DataFrame(
            {"time": [0, 1], "v": [1.0, None], "n": [1.0, 2.0], "tag": pandas.array(["b", "a"], "string")}
        ),
        polars.DataFrame(
            {"time": [0, 1], "v": [1, None], "n": [1, 2], "tag": polars.Series(["b", "a"], dtype=polars.Categorical)}
        ),
        pyarrow.table(
            {
                "time": [0, 1],
                "v": pyarrow.array([1, None]),
                "n": [1, 2],
                "tag": pyarrow.array(["b", "a"]).dictionary_encode(),
            }
        ),
    ]
    for way in ways:
        found = rs.evaluate(stream, {"x": way})["out"]
        assert (found["n"].tolist(), found["tag"].tolist()) == ([1, 2], ["b", "a"])
        assert found["v"][0] == 1.0
        assert np.isnan(found["v"][1])


NANOSECONDS = pandas.Series(["2024-01-01T00:00:00.000000001Z"]).astype("datetime64[ns, UTC]")


@pytest.mark.parametrize(
    ("frame", "code", "says"),
    [
        (pandas.DataFrame({"time": [0, 1], "n": pandas.array([1, None], "Int64")}), "evaluate-input", "'n'.*None in row 1"),
        (polars.DataFrame({"time": [0, 1], "n": [1, None]}), "evaluate-input", "'n'.*None in row 1"),
        (pyarrow.table({"time": [0, 1], "n": [None, 1]}), "evaluate-input", "'n'.*None in row 0"),
        (pandas.DataFrame({"time": [0, 1], "n": [1.0, 2.5]}), "evaluate-input", "'n'.*2.5 in row 1"),
        (polars.DataFrame({"time": [0], "n": [300]}), "evaluate-input", "'n'.*300 in row 0"),
        (polars.DataFrame({"time": [0], "n": [decimal.Decimal(1)]}), "evaluate-input", "'n'.*Decimal.* in row 0"),
        (pyarrow.table({"time": [0], "n": ["1"]}), "evaluate-input", "'n'.*1 .str.* in row 0"),
        (pandas.DataFrame({"time": NANOSECONDS, "n": [1]}), "evaluate-input", "'time'.*000000001 in row 0"),
        (pandas.DataFrame({"time": [TIMES[0], None], "n": [1, 1]}), "evaluate-input", "'time'.*NaT in row 1"),
        (polars.DataFrame({"time": [TIMES[0], None], "n": [1, 1]}), "evaluate-input", "'time'.*None in row 1"),
        (pyarrow.table({"time": pyarrow.array([1], pyarrow.timestamp("ns", "UTC")), "n": [1]}), "evaluate-input", "'time'.*in row 0"),
        (pandas.DataFrame({"time": [0], "n": [1], "more": [1]}), "evaluate-input", "no column 'more'"),
        (pandas.DataFrame([[0, 1]], columns=["time", "time"]), "frames-input", "'time'"),
        (pandas.DataFrame([[0, 1]], columns=["time", 7]), "frames-input", "7"),
        (pandas.Series([1]), "frames-input", "Series"),
        ([1, 2], "frames-input", "list"),
    ],
)  # fmt: skip
def test_what_would_change_is_refused_by_column_and_row(frame: object, code: str, says: str) -> None:
    stream = rs.stream("x", {"n": "int8"})
    with pytest.raises(UsageError, match=says) as caught:
        rs.evaluate(stream, {"x": frame})
    assert caught.value.code == code


def test_a_library_that_is_unknown_or_not_here_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = rs.stream("x", {"n": "int8"})
    with pytest.raises(UsageError, match="pandas, polars, arrow") as caught:
        rs.evaluate(stream, {"x": {"time": [0], "n": [1]}}, frames="excel")
    assert caught.value.code == "frames-library"
    monkeypatch.setitem(frames.LIBRARIES, "polars", "polars_is_not_here")
    with pytest.raises(UsageError, match="pip install polars_is_not_here"):
        rs.evaluate(stream, {"x": {"time": [0], "n": [1]}}, frames="polars")


def test_a_time_that_is_no_datetime_is_refused() -> None:
    with pytest.raises(UsageError, match="'time' has no datetime for row 1") as caught:
        frames.framed({"time": np.array([0, np.iinfo(np.int64).min])}, "pandas")
    assert caught.value.code == "frames-time"
    odd = pandas.DataFrame({"time": [0], "window_start": NANOSECONDS, "window_end": [1]})
    with pytest.raises(UsageError, match=r"'window_start' is .*000000001 in row 0") as caught:
        rs.evaluate(rs.stream("w", {"window_start": "int64", "window_end": "int64"}), {"w": odd})
    assert caught.value.code == "frames-time"
