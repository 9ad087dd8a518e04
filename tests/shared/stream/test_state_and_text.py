"""States that keep their rows, the row before, sets of values, missing values and text."""

from __future__ import annotations

import math

import numpy as np
import pytest

import resurge as rs
from resurge import col, state
from shared.errors import UsageError
from shared.plan.encoding import decode_plan, encode_plan
from shared.stream.stream import Stream

COLUMNS = {"v": "float64", "n": "int64", "tag": "str", "flag": "bool"}


def source() -> Stream:
    return rs.stream("x", COLUMNS)


def out(stream: Stream, **columns: list[object]) -> dict[str, list[object]]:
    rows = len(next(iter(columns.values())))
    plain = {"v": [0.0] * rows, "n": [0] * rows, "tag": [""] * rows, "flag": [False] * rows}
    given = {"time": np.arange(rows), **plain, **columns}
    return {name: column.tolist() for name, column in rs.evaluate(stream, {"x": given})["out"].items()}


def test_a_state_keeps_the_rows_own_columns_beside_it() -> None:
    summed = source().state({"total": 0.0}, keep=True, total=state.total + col.v)
    assert summed.schema.names == ("device", "v", "n", "tag", "flag", "total")
    found = out(summed.select("v", "tag", "total"), v=[1.0, 2.0], tag=["a", "b"])
    assert (found["v"], found["tag"], found["total"]) == ([1.0, 2.0], ["a", "b"], [1.0, 3.0])


def test_a_plan_with_a_state_that_keeps_rows_comes_back_and_one_without_is_written_as_before() -> None:
    plans = [rs.plan_of(source().state({"t": 0.0}, keep=keep, t=col.v).subscribe("out")) for keep in (True, False)]
    assert [b'"keep":' in encode_plan(plan) for plan in plans] == [True, False]
    assert [decode_plan(encode_plan(plan)) == plan for plan in plans] == [True, True]


def test_the_row_before_of_the_same_key() -> None:
    keyed = source().key_by("device", "n").previous("v", "tag")
    found = out(keyed, v=[1.0, 2.0, 3.0, 4.0], n=[0, 1, 0, 1], tag=["a", "b", "c", "d"])
    assert found["tag_previous"] == ["", "", "a", "b"]
    assert [None if math.isnan(one) else one for one in found["v_previous"]] == [None, None, 1.0, 2.0]  # type: ignore[arg-type]
    assert found["v"] == [1.0, 2.0, 3.0, 4.0]


def test_several_rows_back_and_a_value_for_the_first() -> None:
    found = out(source().previous("n", rows=2, first=-1), n=[5, 6, 7, 8])
    assert found["n_previous"] == [-1, -1, 5, 6]
    assert found["n"] == [5, 6, 7, 8]
    deltas = source().previous("v", first=0.0).select(d=col.v - col.v_previous)
    assert out(deltas, v=[1.0, 4.0, 9.0])["d"] == [1.0, 3.0, 5.0]


def test_previous_says_what_it_needs() -> None:
    for wrong in (lambda: source().previous(), lambda: source().previous("v", rows=0)):
        with pytest.raises(UsageError, match="previous-rows"):
            wrong()
    with pytest.raises(UsageError, match="column-unknown"):
        source().previous("w")
    with pytest.raises(UsageError, match="state-type"):
        source().previous("tag", first=1)


def test_one_of_several_values() -> None:
    assert out(source().where(col.tag.isin(["a", "c"])), tag=["a", "b", "c"])["tag"] == ["a", "c"]
    many = out(source().where(col.n.isin(range(0, 1000, 2))), n=[1, 2, 998, 999])
    assert many["n"] == [2, 998]


def test_a_missing_float_is_filled() -> None:
    assert out(source().select(v=col.v.fill(-1.0)), v=[1.0, math.nan])["v"] == [1.0, -1.0]


def test_text_is_put_together_taken_apart_and_read() -> None:
    made = source().select(
        whole=rs.concat(col.tag, "/", col.tag), part=rs.split(col.tag, "-", 1), number=rs.parse(col.tag),
        fits=rs.like(col.tag, "a_%"), end=rs.call("ends_with", col.tag, "b"), bare=rs.call("trim", col.tag),
        swapped=rs.call("replace", col.tag, "-", "+"),
    )  # fmt: skip
    found = out(made, tag=["a-b", " 1.5 ", "a", ""])
    assert found["whole"] == ["a-b/a-b", " 1.5 / 1.5 ", "a/a", "/"]
    assert found["part"] == ["b", "", "", ""]
    assert [None if math.isnan(one) else one for one in found["number"]] == [None, 1.5, None, None]  # type: ignore[arg-type]
    assert found["fits"] == [True, False, False, False]
    assert found["end"] == [True, False, False, False]
    assert found["bare"] == ["a-b", "1.5", "a", ""]
    assert found["swapped"] == ["a+b", " 1.5 ", "a", ""]


def test_the_median_of_a_window() -> None:
    assert out(source().tumbling(count=3).aggregate(m=rs.median("v")), v=[5.0, 1.0, 2.0])["m"] == [2.0]
