"""Expressions are typed before anything runs, and survive their JSON form exactly."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import UsageError
from shared.language import expressions
from shared.language.schema import KINDS, Schema
from shared.stream.formulas import call, col, expression_of

GPS = Schema.of({"lat": "float64", "accuracy": "float32", "steps": "int16", "mode": "str", "indoor": "bool"})


def kind(term: object) -> str:
    return expressions.kind_of(expression_of(term), GPS)


def test_whole_numbers_widen_to_int64_and_floats_to_float64() -> None:
    assert kind(col.steps + 1) == "int64"
    assert kind(col.accuracy + col.steps) == "float64"
    assert kind(col.steps / 2) == "float64"
    assert kind(col.steps // 2) == "int64"
    assert kind(col.steps**2) == "float64"
    assert kind(-col.accuracy) == "float64"


def test_comparisons_and_connectives_give_bools() -> None:
    assert kind((col.lat < 50) & ~col.indoor | (col.mode == "walk")) == "bool"
    assert kind(col.time >= 0) == "bool"


@pytest.mark.parametrize(
    ("term", "says"),
    [
        (col.mode + 1, r"\+ does not take str and int64; expected two numbers"),
        (col.mode < 3, "< does not take str and int64"),
        (col.lat & col.indoor, "and does not take float64 and bool"),
        (~col.lat, "not does not take float64; expected a bool"),
        (call("sqrt", col.mode), r"sqrt does not take str; expected sqrt\(number\)"),
        (call("if_else", col.indoor, 1, "x"), "if_else does not take bool and int64 and str"),
        (col.mode.cast("int64"), "cast to int64 of does not take str"),
    ],
)
def test_a_wrong_type_says_what_was_expected(term: object, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        kind(term)
    assert caught.value.code == "expression-type"


def test_an_unknown_column_lists_the_columns_there_are() -> None:
    with pytest.raises(
        UsageError, match=r"'acuracy' is not in this stream \(has: lat, accuracy, .*time\); did you mean"
    ) as caught:
        kind(col.acuracy < 5)
    assert caught.value.code == "column-unknown"


def test_an_expression_is_no_python_condition() -> None:
    with pytest.raises(UsageError, match="instead of and, or, not") as caught:
        bool(col.lat < 5 and col.lat > 3)
    assert caught.value.code == "expression-truth"


def test_constants_outside_int64_and_other_objects_are_refused() -> None:
    for value in (2**63, -(2**63) - 1, None, [1], 1j):
        with pytest.raises(UsageError) as caught:
            expressions.literal(value)
        assert caught.value.code == "expression-literal"


def test_text_reads_like_the_program() -> None:
    term = (col.accuracy < 50) & ~(col.mode == "still")
    assert expressions.text_of(term.expression) == "(accuracy < 50) and not (mode == 'still')"
    assert expressions.text_of(call("hypot", col.x, -col.y).expression) == "hypot(x, -y)"


def test_substitution_replaces_columns_everywhere() -> None:
    term = call("hypot", col.a, -col.b) > col.a.cast("float64")
    replaced = expressions.substitute(
        term.expression, {"a": expressions.Column("x"), "b": expressions.Literal("int64", 2)}
    )
    assert set(expressions.columns_of(replaced)) == {"x"}


@pytest.mark.parametrize(
    "damaged",
    [
        None, [], ["column"], ["column", 3], ["literal", "int64", "3"], ["literal", "int64", True], ["literal", "float64", 1.5],
        ["literal", "float64", "no"], ["literal", "bytes", "x"], ["binary", "<=>", ["column", "a"], ["column", "a"]],
        ["unary", "+", ["column", "a"]], ["call", "eval", ["column", "a"]], ["cast", "object", ["column", "a"]], {"column": "a"},
    ],
)  # fmt: skip
def test_json_that_is_no_expression_is_refused(damaged: object) -> None:
    with pytest.raises(UsageError) as caught:
        expressions.from_json(damaged)
    assert caught.value.code in ("expression-json", "expression-literal")


def test_json_nested_too_deep_is_refused_before_the_stack_ends() -> None:
    value: object = ["column", "a"]
    for _ in range(500):
        value = ["unary", "-", value]
    with pytest.raises(UsageError, match="nests deeper"):
        expressions.from_json(value)


literals = st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(max_size=5)).map(
    expressions.literal
)
trees: st.SearchStrategy[expressions.Expression] = st.recursive(
    literals | st.sampled_from(["a", "b c", "é", "state.x"]).map(expressions.Column),
    lambda inner: st.one_of(
        st.builds(expressions.Unary, st.sampled_from(["-", "not"]), inner),
        st.builds(
            expressions.Binary,
            st.sampled_from([*expressions.ARITHMETIC, *expressions.COMPARISONS, "and", "or"]),
            inner,
            inner,
        ),
        st.builds(expressions.Cast, st.sampled_from(KINDS), inner),
        st.builds(
            expressions.Call, st.sampled_from(sorted(expressions.FUNCTIONS)), st.lists(inner, max_size=3).map(tuple)
        ),
    ),
    max_leaves=10,
)


@given(trees)
def test_json_form_is_exact(tree: expressions.Expression) -> None:
    again = expressions.from_json(expressions.to_json(tree))
    assert expressions.to_json(again) == expressions.to_json(tree)
    assert type(again) is type(tree)


@given(st.floats())
def test_a_float_keeps_its_value_in_json(value: float) -> None:
    again = expressions.from_json(expressions.to_json(expressions.Literal("float64", value)))
    assert isinstance(again, expressions.Literal)
    if math.isnan(value):
        assert math.isnan(float(again.value))
    else:
        assert struct.pack("d", float(again.value)) == struct.pack("d", value)


def test_zero_and_minus_zero_have_different_json() -> None:
    assert expressions.to_json(expressions.literal(0.0)) != expressions.to_json(expressions.literal(-0.0))
    assert expressions.to_json(expressions.literal(1)) != expressions.to_json(expressions.literal(True))
