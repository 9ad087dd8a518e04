"""Rows of several edges in an order of their own, however they came."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.batch import END_OF_TIME, NO_FRONTIER, Batch
from shared.hosting.ordered_input import OrderedEdge, OrderedInput
from shared.language.schema import Schema

SCHEMA = Schema.of({"x": "int64"})
EDGES = {"a": OrderedEdge("left"), "b": OrderedEdge("right"), "c": OrderedEdge("right")}


def batch(times: list[int], lo: int) -> Batch:
    values = {"x": np.array(times) * 10 + np.arange(lo, lo + len(times))}
    return Batch.of(SCHEMA, values, np.array(times), lo=lo, frontier_us=times[-1])


def rows(runs: list[tuple[str, Batch]]) -> list[tuple[str, int, int, int]]:
    """(input, number, time, value) of everything that went."""
    return [
        (name, *row)
        for name, each in runs
        for row in zip(each.seq.tolist(), each.time_us.tolist(), each.columns["x"].tolist(), strict=True)
    ]


@st.composite
def schedules(draw: st.DrawFn) -> tuple[dict[str, list[int]], list[tuple[str, int]]]:
    """The rows of every edge, and the pieces in which they come: (edge, how many)."""
    made = {edge: sorted(draw(st.lists(st.integers(1, 30), max_size=8))) for edge in EDGES}
    pieces = []
    for edge, times in made.items():
        left = len(times)
        while left:
            count = draw(st.integers(1, left))
            pieces.append((edge, count))
            left -= count
    order = draw(st.permutations(pieces))
    return made, order


def run(
    made: dict[str, list[int]], order: list[tuple[str, int]], restore_at: int = -1
) -> list[tuple[str, int, int, int]]:
    held, out = OrderedInput(EDGES), []
    at = dict.fromkeys(EDGES, 0)
    for place, (edge, count) in enumerate(order):
        lo = at[edge]
        held.take(edge, batch(made[edge][lo : lo + count], lo))
        at[edge] = lo + count
        out += rows(held.release()[0])
        if place == restore_at:
            empty = Batch.of(SCHEMA, {"x": np.empty(0, np.int64)}, np.empty(0, np.int64), lo=0, frontier_us=NO_FRONTIER)
            again = OrderedInput(EDGES)
            again.load(held.dump(), dict.fromkeys(EDGES, empty))
            held = again
    for edge in EDGES:
        held.advance(edge, END_OF_TIME)
    return out + rows(held.release()[0])


@pytest.mark.covers("T10")
@given(schedules(), st.integers(-1, 12))
def test_the_order_does_not_depend_on_arrival_batches_or_restarts(
    schedule: tuple[dict[str, list[int]], list[tuple[str, int]]], restore_at: int
) -> None:
    made, order = schedule
    whole = [(edge, len(times)) for edge, times in made.items() if times]
    found = run(made, order, restore_at)
    assert found == run(made, whole)
    assert [time for _, _, time, _ in found] == sorted(time for times in made.values() for time in times)


def test_a_fed_back_edge_lets_a_delay_s_worth_through_each_round() -> None:
    held = OrderedInput({"a": OrderedEdge("left"), "f": OrderedEdge("right", delay_us=10)})
    held.take("a", batch([1, 5, 12, 30], 0))
    first, floor_us = held.release()
    assert ([row[2] for row in rows(first)], floor_us) == ([1, 5], 11)
    assert held.release() == ([], 11), "nothing more before something has come round"
    held.take("f", batch([5], 0))
    held.advance("f", 11)
    second, floor_us = held.release()
    assert ([(row[0], row[2]) for row in rows(second)], floor_us) == ([("left", 12), ("right", 15)], 21)


def test_time_alone_does_not_go_round_for_ever() -> None:
    held = OrderedInput({"a": OrderedEdge("left"), "f": OrderedEdge("right", delay_us=1_000_000)})
    held.take("a", batch([1], 0))
    held.advance("a", END_OF_TIME)
    floor_us, rounds = held.release()[1], 0
    while rounds < 100:
        held.advance("f", floor_us)
        before, floor_us = floor_us, held.release()[1]
        if floor_us == before:
            break
        rounds += 1
    assert rounds <= 12
    held.take("f", batch([5], 0))
    assert rows(held.release()[0]) == [("right", 0, 1_000_005, 50)], "a row that comes late still goes"
