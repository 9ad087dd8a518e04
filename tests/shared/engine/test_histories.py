"""The heap of rows that sliding windows keep gives each key its own rows back, through growth and packing."""

from __future__ import annotations

import math

import numpy as np
import pytest

import resurge as rs
from shared.engine.histories import Histories

EMPTY = {"x": np.empty(0, np.float64)}


@pytest.mark.parametrize("seed", range(5))
def test_every_key_gets_back_what_was_put_last(seed: int) -> None:
    draw = np.random.default_rng(seed)
    heap, model = Histories(EMPTY, rows_max=40), {}
    for turn in range(60):
        heap.reserve(10 + 3 * turn)
        keys = draw.permutation(10 + 3 * turn)[: int(draw.integers(1, 12))]
        lengths = draw.integers(0, 41, len(keys))
        values = draw.standard_normal(int(lengths.sum()))
        times = np.arange(len(values)) + turn
        stops = np.cumsum(lengths)
        for key, length, stop in zip(keys.tolist(), lengths.tolist(), stops.tolist(), strict=True):
            model[key] = (turn, times[stop - length : stop].tolist(), values[stop - length : stop].tolist())
        if turn % 3:
            heap.put(keys, np.full(len(keys), turn), lengths, times, {"x": values})
        else:
            for key in keys.tolist():
                number, time, column = model[key]
                heap.put_one(key, number, np.array(time, np.int64), {"x": np.array(column)})
        for key, (number, time, column) in model.items():
            found, columns = heap.of(key)
            assert (int(heap.number[key]), found.tolist(), columns["x"].tolist()) == (number, time, column)
    rows = sum(len(time) for _, time, _ in model.values())
    assert len(heap.time) < 12 * rows + 1_000  # what moved away is not kept for ever


def first_and_last(rows: list[tuple[int, float]]) -> tuple[float, float]:
    """By (time, stream order), of the values that are there."""
    known = [(time, place, value) for place, (time, value) in enumerate(rows) if not math.isnan(value)]
    return (min(known)[2], max(known)[2]) if known else (math.nan, math.nan)


@pytest.mark.parametrize("keys", [1, 7])
@pytest.mark.parametrize("ordered", [True, False])
def test_first_and_last_of_sliding_windows_go_by_time_whatever_the_order_of_rows(keys: int, ordered: bool) -> None:
    draw = np.random.default_rng(keys)
    rows, size = 400, 6
    time = draw.integers(0, 60, rows)
    time = np.sort(time) if ordered else time
    value = np.where(draw.random(rows) < 0.4, np.nan, draw.standard_normal(rows))
    key = draw.integers(0, keys, rows)
    stream = rs.stream("a", {"v": "float64", "k": "int64"}).key_by("device", "k", merge="arrival").sliding(count=size)
    out = rs.evaluate(
        stream.aggregate(first=rs.first("v"), last=rs.last("v")), {"a": {"time": time, "v": value, "k": key}}
    )["out"]
    wanted = []
    seen: dict[int, list[tuple[int, float]]] = {}
    for at, of, one in zip(time.tolist(), key.tolist(), value.tolist(), strict=True):
        seen.setdefault(of, []).append((at, one))
        if len(seen[of]) >= size:
            wanted.append((of, *first_and_last(seen[of][-size:])))
    found = list(zip(out["k"].tolist(), out["first"].tolist(), out["last"].tolist(), strict=True))
    assert len(found) == len(wanted)
    assert np.array_equal(np.array(found), np.array(wanted), equal_nan=True)
