"""A rewritten plan gives the same rows, bit for bit, as the plan as written, on random programs and inputs."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import strategies as st

import resurge as rs
from resurge import col, state
from shared.plan.encoding import decode_plan, encode_plan
from shared.plan.rewrites import rewrite
from shared.plan.wellformed import check_plan
from shared.stream.drafts import assemble
from tests.examples_drawn import examples_drawn

S = 1_000_000
COLUMNS = {"a": "float64", "b": "int64", "w": "str"}

rows = st.lists(
    st.tuples(
        st.integers(0, 40).map(lambda tenth: tenth * S // 2),
        st.sampled_from(["p", "q"]),
        st.sampled_from([0.0, -0.0, 1.5, -2.25, 1e300, float("nan"), float("inf")]) | st.floats(-100, 100),
        st.integers(-3, 3) | st.sampled_from([2**62, -(2**63)]),
        st.sampled_from(["", "x", "é", "zz"]),
    ),
    max_size=25,
)


def columns_of(drawn: list[tuple]) -> dict[str, list]:
    drawn = sorted(drawn, key=lambda row: row[0])
    return (
        dict(zip(("time", "device", "a", "b", "w"), map(list, zip(*drawn, strict=True)), strict=True))
        if drawn
        else {name: [] for name in ("time", "device", "a", "b", "w")}
    )


def condition(draw, schema) -> rs.Stream:
    name = draw(st.sampled_from(sorted(schema.names)))
    if schema.kind(name) == "str":
        return col[name] != draw(st.sampled_from(["p", "x", "é"]))
    if schema.kind(name) == "bool":
        return ~col[name]
    compared = col[name] > draw(st.sampled_from([-1, 0, 2.5]))
    return draw(st.sampled_from([compared, ~compared, compared | (col.time < 9 * S)]))


def numbers(schema) -> list[str]:
    return [name for name in schema.names if schema.kind(name) in ("float64", "int64")]


def step(draw, stream: rs.Stream, others: list[rs.Stream]) -> rs.Stream:
    """One random verb. Repeated draws of equal verbs on one stream are what sharing is about."""
    schema = stream.schema
    number = draw(st.sampled_from(numbers(schema))) if numbers(schema) else None
    verb = draw(
        st.sampled_from(["where", "where", "select", "extend", "union", "tumbling", "key_by", "state", "significant"])
    )
    if verb == "select" and number is not None:
        kept = draw(
            st.lists(st.sampled_from(sorted(set(schema.names) - set(stream.key)) or [number]), unique=True, max_size=3)
        )
        return stream.select(*kept, c=col[number] * 2)
    if verb == "extend" and number is not None:
        return stream.extend(**{draw(st.sampled_from(["c", "d"])): col[number] + 1})
    if verb == "union":
        alike = [other for other in others if other.type == stream.type]
        return stream.union(draw(st.sampled_from(alike))) if alike else stream
    if verb == "tumbling" and number is not None:
        return stream.tumbling(draw(st.sampled_from(["1s", "3s"]))).aggregate(m=rs.sum(number), n=rs.count())
    if verb == "key_by":
        keys = [
            name
            for name in schema.names
            if schema.kind(name) in ("str", "int64") and name not in ("window_start", "window_end")
        ]
        return stream.key_by(*draw(st.lists(st.sampled_from(keys), unique=True, max_size=2))) if keys else stream
    if verb == "state" and number is not None:
        return stream.state({"s": 0.0}, s=state.s + col[number])
    if verb == "significant" and number is not None:
        return stream.significant(number, change=1.0)
    return stream.where(condition(draw, schema))


@st.composite
def programs(draw) -> list[rs.Stream]:
    source = rs.stream("x", COLUMNS).sync("x")
    streams = [source, source.where(condition(draw, source.schema))]
    for _ in range(draw(st.integers(1, 7))):
        with contextlib.suppress(rs.UsageError):  # a name taken by a key column: not a program, draw on
            streams.append(step(draw, draw(st.sampled_from(streams[-3:])), streams))
    return [streams[-1], draw(st.sampled_from(streams[1:]))]


def bits(answer: dict[str, np.ndarray]) -> dict[str, object]:
    return {
        name: column.tolist() if column.dtype.kind == "T" else (str(column.dtype), column.tobytes())
        for name, column in answer.items()
    }


@pytest.mark.covers("SO-16", "SO-18")
@examples_drawn(70, 2_000, programs(), rows)
def test_rewrites_keep_every_bit(streams: list[rs.Stream], drawn: list[tuple]) -> None:
    sinks = [stream.subscribe(f"out {number}").draft for number, stream in enumerate(streams)]
    written = check_plan(assemble(sinks))
    rewritten = rewrite(written).plan
    check_plan(rewritten)
    assert rewrite(rewritten).plan == rewritten
    assert decode_plan(encode_plan(rewritten)) == rewritten
    inputs = {"x": columns_of(drawn)}
    expected, found = rs.evaluate(written, inputs), rs.evaluate(rewritten, inputs)
    for sink in expected:
        assert bits(found[sink]) == bits(expected[sink]), [node.operator.kind for node in rewritten.nodes]
