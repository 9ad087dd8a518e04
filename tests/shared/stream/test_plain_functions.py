"""Plain Python functions of one row: what they are called with, how they travel, what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

import resurge as rs
from resurge import col
from shared.errors import UsageError
from shared.language.registry import _types
from shared.plan.encoding import decode_plan, encode_plan
from shared.plan.wellformed import check_activation

S = 1_000_000
ROWS = {"x": {"time": [0, S], "v": [1.5, float("nan")], "n": [300, -2], "tag": ["a", "\xe9"], "on": [True, False]}}


def x() -> rs.Stream:
    return rs.stream("x", {"v": "float32", "n": "int16", "tag": "str", "on": "bool"})


@rs.function
def plain_kmh(v: float) -> float:
    return v * 3.6


@rs.function(name="plain named", returns={"said": "str", "later": "int64"}, version=4)
def said(tag: str, time: int, n: int, on: bool, *, times: int = 2):  # type: ignore[no-untyped-def]
    assert {type(value) for value in (time, n)} == {int}
    assert type(on) is bool
    return {"said": tag * times, "later": time + n, "beside": "not asked for"}


def out(stream: rs.Stream) -> dict[str, list[object]]:
    return {name: column.tolist() for name, column in rs.evaluate(stream, ROWS)["out"].items()}


def test_a_function_gets_values_of_one_row_and_gives_a_column_of_its_name() -> None:
    found = out(x().map(plain_kmh))
    assert list(found) == ["time", "device", "plain_kmh"]
    assert found["plain_kmh"][0] == 1.5 * 3.6
    assert np.isnan(found["plain_kmh"][1])


def test_several_columns_parameters_time_and_the_row_s_own_columns() -> None:
    found = out(x().map("plain named", keep=True, times=3))
    assert list(found) == ["time", "device", "v", "n", "tag", "on", "said", "later"]
    assert (found["said"], found["later"], found["n"]) == (["aaa", "\xe9\xe9\xe9"], [300, S - 2], [300, -2])


def test_a_plan_names_the_function_and_holds_no_code(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = encode_plan(rs.plan_of(x().map(said, times=1)))
    (applied,) = (node for node in json.loads(encoded)["nodes"] if node["operator"] == "apply")
    assert applied["fields"]["operator"] == "plain named"
    assert applied["fields"]["operator_version"] == 4
    assert b"not asked for" not in encoded
    monkeypatch.delitem(_types, "plain named")
    plan = decode_plan(encoded)  # another side may have it
    with pytest.raises(UsageError, match="needs the operator type plain named@4, which is not on the device") as caught:
        check_activation(plan, {"device": set()})
    assert caught.value.code == "activation-operator"


def wrong_value(v: float) -> int:
    return v / 2  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("wrong", "code", "says"),
    [
        (lambda: x().map(len), "operator-unknown", "@rs.function"),
        (lambda: x().map("nobody"), "operator-unknown", "nobody"),
        (lambda: x().select("v").map(said), "graph-alphabet", "tag"),
        (lambda: x().select(v=col.tag).map(plain_kmh), "graph-alphabet", "float64"),
        (lambda: x().map(said, often=2), "operator-parameter", "often"),
        (lambda: x().extend(plain_kmh=1).map(plain_kmh, keep=True), "column-twice", "plain_kmh"),
        (lambda: rs.function(lambda v: v), "function-arguments", "of which kind"),
        (lambda: rs.function(lambda *v: v), "function-arguments", "by name"),
        (lambda: x().map("conformance_debounce"), "operator-form", "apply"),
    ],
)
def test_what_cannot_be_is_refused_at_its_line(wrong: Callable[[], object], code: str, says: str) -> None:
    from tests.conformance import programs

    assert programs.Debounce
    with pytest.raises(UsageError, match=says) as caught:
        wrong()
    assert caught.value.code == code
    assert "test_plain_functions.py" in str(caught.value)


def test_a_value_of_another_kind_is_refused_by_row() -> None:
    rs.function(name="plain wrong")(wrong_value)
    with pytest.raises(UsageError, match=r"'plain wrong' gives takes int64, not 0.75 in row 0") as caught:
        out(x().map(wrong_value))
    assert caught.value.code == "operator-output"
