"""What a query costs before it is refused, and whose schema it reads."""

from __future__ import annotations

import time

import pytest
import sqlglot

from cloud_backend.coordinator.queries import compile_sql
from shared.errors import UsageError
from shared.language.schema import Schema
from shared.plan.encoding import decode_plan, encode_plan

GPS = {"gps": Schema.of({"lat": "float64", "lon": "float64"})}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT " + "+".join(["1"] * 6000) + " AS x FROM gps",
        "SELECT lat FROM gps WHERE " + " AND ".join(["lat > 1"] * 1200),
        "SELECT lat FROM gps WHERE " + "(" * 25 + "lat > 1" + " IN (TRUE, FALSE))" * 25,
        "SELECT lat FROM gps WHERE " + "(" * 25 + "lat" + " BETWEEN 1 AND 2)" * 25,
        "SELECT " + ", ".join(f"lat + {number} AS c{number}" for number in range(900)) + " FROM gps",
        "SELECT " + "- " * 700 + "1 AS x FROM gps",
    ],
    ids=["plus", "and", "in", "between", "columns", "minus"],
)
def test_a_query_that_would_take_long_is_refused_before_it_is_built(sql):
    began = time.process_time()
    with pytest.raises(UsageError, match=r"sql-size|sql-syntax"):
        compile_sql(sql, "q", GPS)
    assert time.process_time() - began < 5  # it was minutes


@pytest.mark.parametrize("function", ["COUNT()", "SUM()", "ROUND()", "ABS()", "MAX(COUNT())"])
def test_a_function_of_nothing_is_refused(function):
    with pytest.raises(UsageError, match="sql-"):
        compile_sql(f"SELECT {function} AS n FROM gps GROUP BY TUMBLE(10 SECONDS)", "q", GPS)


def test_signs_without_end_are_refused_before_they_are_read(monkeypatch):
    """Reading them into tokens holds the interpreter, and so every exchange."""
    monkeypatch.setattr(sqlglot, "tokenize", lambda _: pytest.fail("it was read"))
    with pytest.raises(UsageError, match="sql-size"):
        compile_sql("SELECT " + "+".join(["1"] * 6000) + " AS x FROM gps", "q", GPS)


def test_a_long_text_in_quotes_is_one_word():
    assert compile_sql(f"SELECT lat FROM gps WHERE '{'x ' * 5000}' = 'y'", "q", GPS).name == "q"


def test_a_query_at_the_limits_is_a_plan_that_can_be_read_back():
    conditions = " AND ".join(["lat > 1"] * 50)
    many = ", ".join(str(number) for number in range(500))
    plan = compile_sql(f"SELECT lat FROM gps WHERE {conditions} AND lon IN ({many})", "q", GPS)
    assert decode_plan(encode_plan(plan)) == plan


def test_a_stream_that_cannot_be_written_down_is_in_nobody_else_s_way():
    odd = GPS | {"": Schema.of({"x": "float64"}), "a b": Schema.of({"device": "str"})}
    assert compile_sql("SELECT lat FROM gps", "q", odd).name == "q"
