"""Windows, durations and aggregates as data: what is refused, and what columns they give."""

from __future__ import annotations

import datetime

import pytest

from shared.errors import UsageError
from shared.language import windows
from shared.language.aggregates import Aggregate, check_aggregate, result_fields
from shared.language.durations import duration_text, microseconds
from shared.language.schema import Schema
from shared.language.windows import CountWindow, SessionWindow, SlidingTimeWindow, TimeWindow, check_window
from shared.stream import functions
from shared.stream.formulas import Formula

SCHEMA = Schema.of({"lat": "float64", "lon": "float64", "word": "str", "n": "int32", "on": "bool"})


@pytest.mark.parametrize(
    ("text", "length_us"),
    [
        ("250us", 250),
        ("5ms", 5_000),
        ("1.5s", 1_500_000),
        ("10m", 600_000_000),
        ("1 h", 3_600_000_000),
        ("7d", 604_800_000_000),
    ],
)
def test_durations_as_people_write_them(text: str, length_us: int) -> None:
    assert microseconds(text) == length_us
    assert microseconds(duration_text(length_us)) == length_us


def test_a_timedelta_is_a_duration_too() -> None:
    assert microseconds(datetime.timedelta(seconds=5)) == 5_000_000


@pytest.mark.parametrize("text", ["", "5", "s", "-5s", "0s", "5 weeks", "1e3s", "99999d", "٣s"[:1]])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        microseconds(text)
    assert caught.value.code == "duration"


def test_a_hop_longer_than_its_window_says_what_would_be_lost() -> None:
    with pytest.raises(UsageError, match="hop 10s is longer than its size 5s; rows between windows would be dropped"):
        check_window(TimeWindow(5_000_000, 10_000_000))
    with pytest.raises(UsageError, match="window-hop"):
        check_window(CountWindow(3, 4))


@pytest.mark.parametrize(
    "window",
    [
        TimeWindow(0, 0),
        TimeWindow(10**12, 1),
        CountWindow(0, 0),
        CountWindow(10**7, 1),
        SlidingTimeWindow(0),
        SessionWindow(-1),
    ],
)
def test_windows_out_of_bounds_are_refused(window: windows.Window) -> None:
    with pytest.raises(UsageError, match="window-"):
        check_window(window)


def test_windows_in_words() -> None:
    assert windows.text_of(TimeWindow(60_000_000, 60_000_000)) == "tumbling 1m"
    assert windows.text_of(TimeWindow(60_000_000, 5_000_000)) == "hopping 1m every 5s"
    assert windows.text_of(CountWindow(12, 1)) == "sliding 12 rows"
    assert windows.text_of(CountWindow(12, 6)) == "hopping 12 rows every 6"
    assert windows.text_of(SessionWindow(300_000_000)) == "session gap 5m"


@pytest.mark.parametrize(
    ("aggregate", "kinds"),
    [
        (functions.count(), {"a": "int64"}),
        (functions.count("word"), {"a": "int64"}),
        (functions.sum("n"), {"a": "int64"}),
        (functions.sum("on"), {"a": "int64"}),
        (functions.sum("lat"), {"a": "float64"}),
        (functions.mean("n"), {"a": "float64"}),
        (functions.min("word"), {"a": "str"}),
        (functions.max("n"), {"a": "int32"}),
        (functions.variance("n"), {"a": "float64"}),
        (functions.std("lat"), {"a": "float64"}),
        (functions.quantile("lat", 0.9), {"a": "float64"}),
        (functions.first("on"), {"a": "bool"}),
        (functions.last("word"), {"a": "str"}),
        (functions.distinct("word"), {"a": "int64"}),
        (functions.path_km("lat", "lon"), {"a": "float64"}),
        (functions.top_k("word", 2), {"a_1": "str", "a_1_count": "int64", "a_2": "str", "a_2_count": "int64"}),
        (functions.dft("lat", 2), {"a_0": "float64", "a_1": "float64"}),
    ],
)
def test_result_columns_of_every_aggregate(aggregate: Formula, kinds: dict[str, str]) -> None:
    (measured,) = aggregate.measured.values()
    assert {field.name: field.kind for field in result_fields("a", measured.aggregate, SCHEMA)} == kinds


@pytest.mark.parametrize(
    ("aggregate", "code"),
    [
        (functions.sum("word"), "aggregate-type"),
        (functions.mean("on"), "aggregate-type"),
        (functions.path_km("lat", "word"), "aggregate-type"),
        (functions.sum("latt"), "column-unknown"),
        (functions.quantile("lat", 1.5), "aggregate-parameter"),
        (functions.top_k("word", 0), "aggregate-parameter"),
        (functions.dft("lat", 10**6), "aggregate-parameter"),
        (Aggregate("median", ("lat",)), "aggregate-unknown"),
        (Aggregate("quantile", ("lat",)), "aggregate-parameter"),
        (Aggregate("sum", ()), "aggregate-type"),
        (Aggregate("sum", ("lat",), where="lat"), "aggregate-where"),
        (Aggregate("sum", ("lat",), where="lit"), "column-unknown"),
    ],
)
def test_wrong_aggregates_are_refused_before_anything_runs(aggregate: Formula | Aggregate, code: str) -> None:
    if isinstance(aggregate, Formula):
        (measured,) = aggregate.measured.values()
        aggregate = measured.aggregate
    with pytest.raises(UsageError) as caught:
        check_aggregate(aggregate, SCHEMA)
    assert caught.value.code == code


def test_aggregates_in_words() -> None:
    assert repr(functions.quantile("lat", 0.5)) == "<quantile(lat, q=0.5)>"
