"""A cycle has one meaning: each row goes round before the next one enters, in `evaluate` and `Live`, in any batches."""

from __future__ import annotations

import numpy as np
import pytest

import resurge as rs
from resurge import col, state
from shared.stream.stream import Stream

SECOND = 1_000_000
VALUES = [1.0, 3.0, 0.5, 20.0, 2.0, 7.0]


def counted(merge: str) -> tuple[Stream, Stream]:
    """Rows double until they pass four; a state numbers them as they come by."""
    back = rs.feedback("back", {"v": "float64"})
    source = rs.stream("x", {"v": "float64"})
    both = source.union(back, merge=merge)
    both.where(col.v < 4).select(v=col.v * 2).feed(back)
    return source, both.state({"turn": 0, "last": 0.0}, turn=state.turn + 1, last=col.v)


def damped() -> tuple[Stream, Stream]:
    """The average goes back and lowers what comes in."""
    back = rs.feedback("back", {"scale": "float64"})
    source = rs.stream("x", {"v": "float64"})
    lowered = source.with_latest(back, defaults={"scale": 1.0}).select(v=col.v * col.scale)
    lowered.sliding(count=2).mean("v").where(col.v > 5).select(scale=0.5).feed(back)
    return source, lowered


PROGRAMS = {
    "arrival": lambda: counted("arrival"),
    "logged": lambda: counted("logged"),
    "latest": damped,
}


def live_rows(name: str, sizes: list[int]) -> list[tuple[float, ...]]:
    _, stream = PROGRAMS[name]()
    found: list[tuple[float, ...]] = []

    def keep(columns: dict[str, np.ndarray]) -> None:
        names = [column for column in columns if column not in ("device",)]
        found.extend(zip(*(columns[column].tolist() for column in names), strict=True))

    live = rs.Live(stream.subscribe(keep, name="out"))
    at = 0
    for size in sizes:
        live.append("x", time=[(at + step) * SECOND for step in range(size)], v=VALUES[at : at + size])
        at += size
    live.close()
    return found


@pytest.mark.covers("EC-4")
@pytest.mark.parametrize("name", PROGRAMS)
def test_evaluate_and_live_agree_on_a_cycle_in_any_batches(name: str) -> None:
    _, stream = PROGRAMS[name]()
    rows = {"time": np.arange(len(VALUES)) * SECOND, "v": VALUES}
    out = rs.evaluate(stream, {"x": rows})["out"]
    expected = list(zip(*(out[column].tolist() for column in out if column != "device"), strict=True))
    assert live_rows(name, [1] * 6) == expected
    assert live_rows(name, [2, 4]) == expected
    assert live_rows(name, [6]) == expected


def test_a_row_goes_round_before_the_next_one_enters() -> None:
    _, stream = counted("arrival")
    out = rs.evaluate(stream, {"x": {"time": [0, SECOND], "v": [1.0, 3.0]}})["out"]
    assert out["last"].tolist() == [1.0, 2.0, 4.0, 3.0, 6.0]
    assert out["turn"].tolist() == [1, 2, 3, 4, 5]


def test_what_a_users_function_does_to_its_input_reaches_nobody_else() -> None:
    @rs.operator("cycles_spoiler", takes={"v": "float64"}, gives={"v2": "float64"})
    def spoiler(columns):  # type: ignore[no-untyped-def]
        columns["v"] *= 2.0
        return {"v2": columns["v"]}

    source = rs.stream("x", {"v": "float64"})
    given = np.array([1.0, 2.0])
    with pytest.raises(ValueError, match="read-only"):
        rs.evaluate(source.apply("cycles_spoiler"), {"x": {"time": [0, 1], "v": given}})
    assert given.tolist() == [1.0, 2.0]
    seen: list[np.ndarray] = []
    live = rs.Live(source.subscribe(lambda columns: seen.append(columns["v"]), name="out"))
    live.append("x", time=0, v=1.0)
    with pytest.raises(ValueError, match="read-only"):
        seen[0][0] = 5.0


def test_combine_breaks_ties_in_the_order_of_union() -> None:
    left = rs.stream("a", {"v": "float64", "k": "int64"}).sync("a").key_by("k")
    right = rs.stream("b", {"w": "float64", "k": "int64"}).sync("b").key_by("k")
    rows = {
        "a": {"time": [0, SECOND], "v": [1.0, 2.0], "k": [0, 0], "device": ["a", "b"]},
        "b": {"time": [0, SECOND], "w": [10.0, 20.0], "k": [0, 0], "device": ["a", "a"]},
    }
    union = rs.evaluate(left.select(x=col.v, device=col.device).union(right.select(x=col.w, device=col.device)), rows)[
        "out"
    ]
    assert union["x"].tolist() == [1.0, 10.0, 20.0, 2.0]  # at one time by device, then by input
    combined = rs.evaluate(left.combine(right), rows)["out"]
    assert list(zip(combined["v"].tolist(), combined["w"].tolist(), strict=True)) == [
        (1.0, 10.0),
        (1.0, 20.0),
        (2.0, 20.0),
    ]


def test_explain_takes_a_stream() -> None:
    assert "tumbling 1m" in rs.explain(rs.stream("x", {"v": "float64"}).tumbling("1m").mean("v"))


def test_constants_of_numpy_and_powers_of_columns_are_expressions() -> None:
    source = rs.stream("x", {"v": "float64"})
    out = rs.evaluate(source.select(p=2**col.v, q=col.v + np.int64(1)), {"x": {"time": [0], "v": [3.0]}})["out"]
    assert (out["p"].tolist(), out["q"].tolist()) == ([8.0], [4.0])
