"""States over whole batches and row by row give the bits of the expressions' own meaning, one row at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

import resurge as rs
from resurge import col, state
from shared.batch import Batch
from shared.engine.evaluation import cast, compiled
from shared.engine.keyed_state import StatefulStream
from shared.engine.pipeline import Pipeline
from shared.language.expressions import Binary, Call, Cast, Column, Expression, Literal, Unary
from shared.language.schema import Field, Schema, dtype
from shared.plan import operators as op
from shared.plan.operators import StateColumn
from shared.plan.placement import device_fragment
from shared.stream.drafts import draft
from shared.stream.stream import Stream

SOURCE = {"x": "float64", "f": "float32", "n": "int64", "u": "uint64", "b": "bool", "t": "str", "k": "int64"}
STATES = {"a": "float64", "m": "int64", "g": "bool", "h": "float32", "w": "int16", "s": "str"}
FLOATS = [0.0, -0.0, 1.5, -2.25, math.inf, -math.inf, math.nan, 1e308, -3.0, 0.1]
WHOLE = [0, 1, -1, 7, -9, 2**63 - 1, -(2**63), 3, 2**53 + 1, 1000]


def given(seed: int, rows: int, keys: int) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    return {
        "x": draw.choice(FLOATS, rows),
        "f": draw.choice([value for value in FLOATS if value != 1e308], rows).astype(np.float32),
        "n": draw.choice(np.array(WHOLE, np.int64), rows),
        "u": draw.choice(np.array([0, 1, 2**64 - 1, 2**63, 12], np.uint64), rows),
        "b": draw.random(rows) < 0.5,
        "t": np.array(draw.choice(["", "a", "1.5", "é,b"], rows).tolist(), dtype("str")),
        "k": draw.integers(0, keys, rows),
    }


def one_row_at_a_time(columns: Sequence[StateColumn], rows: dict[str, np.ndarray]) -> dict[str, list[object]]:
    """The meaning: each update over arrays of one row, cast to its kind."""
    schema = Schema(tuple(Field(name, kind) for name, kind in SOURCE.items()))
    known = Schema((*schema.fields, *(Field(f"state.{column.name}", column.kind) for column in columns)))
    updates = [compiled(column.update, known) for column in columns]
    states: dict[int, list[np.ndarray]] = {}
    made: dict[str, list[object]] = {column.name: [] for column in columns}
    with np.errstate(all="ignore"):
        for place, key in enumerate(rows["k"].tolist()):
            before = states.get(key) or [np.array([column.initial], dtype(column.kind)) for column in columns]
            row = {name: values[place : place + 1] for name, values in rows.items()}
            row |= {f"state.{column.name}": value for column, value in zip(columns, before, strict=True)}
            states[key] = [
                cast(update(row, np.array([place])), column.kind)
                for update, column in zip(updates, columns, strict=True)
            ]
            for column, value in zip(columns, states[key], strict=True):
                made[column.name].append(value.tolist()[0])
    return made


def engine(columns: Sequence[StateColumn], rows: dict[str, np.ndarray], size: int) -> dict[str, list[object]]:
    source = rs.stream("in", SOURCE).key_by("device", "k")
    stream = Stream(draft(op.State(tuple(columns)), source.draft))
    plan = rs.plan_of(stream.subscribe("out"))
    pipeline = Pipeline(device_fragment(plan), device="ann")
    outputs: list[tuple[str, Batch]] = []
    total = len(rows["k"])
    schema = pipeline.fragment.inputs[0].schema
    for start in range(0, total, size):
        stop = min(total, start + size)
        piece = {name: values[start:stop] for name, values in rows.items()}
        batch = Batch.of(schema, piece, np.arange(start, stop), lo=start, frontier_us=stop)
        outputs += pipeline.push("in", batch)
    outputs += pipeline.advance("in", 2**62)
    return {
        column.name: [value for _, out in outputs for value in out.columns[column.name].tolist()] for column in columns
    }


def bits(values: list[object]) -> list[object]:
    """Values that compare by their bits; one missing value is like another."""
    return [
        ("missing" if math.isnan(value) else value.hex()) if isinstance(value, float) else (type(value), value)
        for value in values
    ]


def check(columns: Sequence[StateColumn], rows: dict[str, np.ndarray], sizes: Sequence[int]) -> None:
    wanted = one_row_at_a_time(columns, rows)
    for size in sizes:
        found = engine(columns, rows, size)
        for column in columns:
            assert bits(found[column.name]) == bits(wanted[column.name]), (size, column.update)


def drawn(draw: np.random.Generator, kind: str, depth: int) -> Expression:
    """A random expression of this kind that may read columns and states."""

    def one(*among: str) -> str:
        return str(draw.choice(among))

    if depth == 0 or draw.random() < 0.15:
        if kind == "float64":
            name = one("x", "f", "state.a", "state.a", "state.h", "")
            return Column(name) if name else Literal("float64", float(draw.choice(FLOATS)))
        if kind == "int64":
            name = one("n", "u", "state.m", "state.m", "state.w", "time", "")
            return Column(name) if name else Literal("int64", WHOLE[int(draw.integers(len(WHOLE)))])
        if kind == "str":
            return Column(one("t", "state.s"))
        return Column(one("b", "state.g"))
    number = one("int64", "float64")
    deeper = depth - 1
    if kind == "str":
        if draw.random() < 0.5:
            return Call(one("upper", "trim"), (drawn(draw, "str", deeper),))
        return Call("if_else", (drawn(draw, "bool", deeper), drawn(draw, "str", deeper), drawn(draw, "str", deeper)))
    if kind == "bool":
        match one("compare", "connect", "not", "test", "text"):
            case "compare":
                sides = drawn(draw, number, deeper), drawn(draw, one("int64", "float64"), deeper)
                return Binary(one("<", "<=", ">", ">=", "==", "!="), *sides)
            case "connect":
                return Binary(one("and", "or"), drawn(draw, "bool", deeper), drawn(draw, "bool", deeper))
            case "not":
                return Unary("not", drawn(draw, "bool", deeper))
            case "test":
                return Call(one("is_missing", "is_finite"), (drawn(draw, number, deeper),))
        return Call("contains", (drawn(draw, "str", deeper), Literal("str", "A")))
    match one("binary", "binary", "choice", "unary", "extreme", "abs", "cast", "function"):
        case "choice":
            return Call("if_else", (drawn(draw, "bool", deeper), drawn(draw, kind, deeper), drawn(draw, kind, deeper)))
        case "unary":
            return Unary("-", drawn(draw, kind, deeper))
        case "extreme":
            return Call(one("minimum", "maximum"), (drawn(draw, kind, deeper), drawn(draw, kind, deeper)))
        case "abs":
            return Call("abs", (drawn(draw, kind, deeper),))
        case "cast":
            return Cast(kind, drawn(draw, one("int64", "float64", "bool"), deeper))
        case "function" if kind == "float64":
            return Call(one("sqrt", "floor", "sin", "exp"), (drawn(draw, number, deeper),))
    if kind == "int64":
        return Binary(one("+", "-", "*", "//", "%"), drawn(draw, kind, deeper), drawn(draw, kind, deeper))
    return Binary(one("+", "-", "*", "/", "//", "%", "**"), drawn(draw, kind, deeper), drawn(draw, number, deeper))


def widest(kind: str) -> str:
    return {"float32": "float64", "int16": "int64"}.get(kind, kind)


@pytest.mark.parametrize("seeds", [range(25), pytest.param(range(25, 1_500), marks=pytest.mark.soak)], ids=len)
def test_random_updates_mean_the_same_row_by_row(seeds: range) -> None:
    initial = {"a": 0.5, "m": 3, "g": False, "h": 1.0, "w": 2, "s": "x"}
    for seed in seeds:
        draw = np.random.default_rng(seed)
        columns = [
            StateColumn(name, kind, initial[name], drawn(draw, widest(kind), int(draw.integers(1, 5))))
            for name, kind in STATES.items()
        ]
        try:
            check(columns, given(seed, 90, int(draw.integers(1, 6))), (7, 90))
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise


A, M, G, X, N, B = (Column(name) for name in ("state.a", "state.m", "state.g", "x", "n", "b"))
W, F = Column("state.w"), Column("f")


def choice(condition: Expression, yes: Expression, no: Expression) -> Expression:
    return Call("if_else", (condition, yes, no))


FOLDS = {
    "sum": ("a", Binary("+", A, X)),
    "sum of halves": ("a", Binary("+", F, A)),
    "difference": ("a", Binary("-", A, X)),
    "product": ("a", Binary("*", X, A)),
    "whole sum": ("m", Binary("+", M, N)),
    "count": ("m", Binary("+", M, Literal("int64", 1))),
    "narrow sum": ("w", Binary("+", W, N)),
    "narrow product": ("w", Binary("*", N, W)),
    "largest": ("a", Call("maximum", (A, X))),
    "largest, row first": ("a", Call("maximum", (X, A))),
    "smallest": ("a", Call("minimum", (A, X))),
    "smallest whole": ("m", Call("minimum", (N, M))),
    "peak": ("a", choice(Binary(">", X, A), X, A)),
    "peak, ties taken": ("a", choice(Binary("<=", A, X), X, A)),
    "trough": ("a", choice(Binary("<", X, A), X, A)),
    "trough, ties taken": ("a", choice(Binary("<=", X, A), X, A)),
    "whole peak": ("m", choice(Binary(">", N, M), N, M)),
    "seen": ("g", Binary("or", G, B)),
    "never": ("g", Binary("and", B, G)),
    "hold": ("a", A),
    "last": ("a", X),
    "last known": ("a", choice(Call("is_missing", (X,)), A, X)),
    "count of some": ("m", choice(B, Binary("+", M, Literal("int64", 1)), M)),
    "sum of some": ("a", choice(B, Binary("+", A, X), A)),
    "sum since": ("a", choice(B, X, Binary("+", A, X))),
    "count since": ("m", choice(B, Literal("int64", 0), Binary("+", M, Literal("int64", 1)))),
    "peak since": ("a", choice(B, X, choice(Binary(">", X, A), X, A))),
    "held, taken, added": ("a", choice(B, X, choice(Binary(">", N, Literal("int64", 0)), Binary("+", A, X), A))),
}


@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("initial", [0, 1])
def test_folds_over_a_batch_mean_the_same_row_by_row(name: str, initial: int) -> None:
    of, update = FOLDS[name]
    kind = STATES[of]
    start = {"float64": (-0.0, math.nan), "bool": (False, True)}.get(kind, (0, -3))[initial]
    columns = [
        StateColumn(of, kind, start, update),
        StateColumn("before", kind, start, Column(f"state.{of}")),
        StateColumn("twice", kind, start, choice(B, Column("state.before"), Column(f"state.{of}"))),
    ]
    for seed, keys in ((1, 1), (2, 3), (3, 40)):
        rows = given(seed, 300, keys)
        if seed == 2:
            rows["x"] = np.where(np.isnan(rows["x"]) & (np.arange(300) < 290), 0.0, rows["x"])
        check(columns, rows, (5, 100, 300))


def operator_of(stream: Stream) -> StatefulStream:
    (found,) = (
        one
        for one in Pipeline(device_fragment(rs.plan_of(stream.subscribe("out"))))._operators
        if isinstance(one, StatefulStream)
    )
    return found


def test_counters_sums_extremes_and_previous_are_folds_over_the_batch() -> None:
    source = rs.stream("in", {"x": "float64", "n": "int64"})
    sums = source.state(
        {"s": 0.0, "c": 0, "hi": -1e9},
        s=state.s + col.x,
        c=state.c + 1,
        hi=rs.if_else(col.x > state.hi, col.x, state.hi),
    )
    assert operator_of(sums).scans is not None
    assert operator_of(source.previous("x", rows=3)).scans is not None
    assert operator_of(source.state({"s": 0.0}, s=0.9 * state.s + 0.1 * col.x)).scans is None  # only row by row


def test_a_state_that_reads_no_column_goes_on_from_what_a_config_set() -> None:
    source, settings = rs.stream("in", {"x": "float64"}), rs.stream("settings", {"level": "float64"})
    kept = source.state({"level": 0.0, "seen": 0}, config=settings, level=state.level, seen=state.seen + 1)
    devices = ["a", "b", "a", "b"]
    rows = {"in": {"time": [5, 6, 7, 8], "device": devices, "x": [0.0] * 4}}
    rows["settings"] = {"time": [0, 1], "device": ["a", "b"], "level": [7.0, 8.0]}
    out = rs.evaluate(kept, rows)["out"]
    assert (out["level"].tolist(), out["seen"].tolist()) == ([7.0, 8.0, 7.0, 8.0], [1, 1, 2, 2])
