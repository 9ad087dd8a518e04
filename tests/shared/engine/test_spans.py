"""Windows that overlap row by row answer from their own rows: no row outside a window can spoil it."""

from __future__ import annotations

import math

import numpy as np
import pytest

import resurge as rs
from shared.stream.stream import Stream

SECOND = 1_000_000


def source() -> Stream:
    return rs.stream("a", {"v": "float64", "k": "int64"})


def evaluated(stream: Stream, values: list[float], keys: list[int] | None = None) -> dict[str, np.ndarray]:
    rows = {"time": np.arange(len(values)) * SECOND, "v": values, "k": keys or [0] * len(values)}
    return rs.evaluate(stream, {"a": rows})["out"]


def test_one_outlier_touches_only_the_windows_that_hold_it() -> None:
    values = [1.0, 1e9, 1.0, 2.0, 3.0, 4.0]
    found = evaluated(source().sliding(count=2).aggregate(sd=rs.std("v"), m=rs.mean("v")), values)
    assert found["sd"][2:].tolist() == [0.5, 0.5, 0.5]
    assert found["m"][2:].tolist() == [1.5, 2.5, 3.5]
    huge = evaluated(source().sliding(count=2).mean("v"), [1.0, 1e30, 1.0, 2.0, 3.0])
    assert huge["v"].tolist()[2:] == [1.5, 2.5]


def folds(window: np.ndarray) -> dict[str, float]:
    """The left folds that define the aggregates, over the values that are there."""
    there = window[~np.isnan(window)]
    if not len(there):
        return {"total": 0.0, "m": math.nan, "sd": math.nan}
    away = there - there[0]
    first, second = math.fsum(away), math.fsum(away * away)
    spread = max(0.0, (second - first * first / len(there)) / len(there))
    return {"total": math.fsum(there), "m": math.fsum(there) / len(there), "sd": math.sqrt(spread)}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["count", "hopping", "time"])
def test_every_window_is_exact_to_rounding_whatever_stands_around_it(kind: str, seed: int) -> None:
    draw = np.random.default_rng(seed)
    rows, size = 400, int(draw.integers(1, 70))
    values = draw.standard_normal(rows) * 10.0 ** draw.integers(-3, 3, rows)
    values[draw.random(rows) < 0.02] = 1e25
    values[draw.random(rows) < 0.05] = np.nan
    hop = size if kind == "hopping" and size < 3 else max(1, size // 3) if kind == "hopping" else 1
    opened = {
        "count": lambda: source().key_by("device", "k").sliding(count=size),
        "hopping": lambda: source().key_by("device", "k").hopping(count=size, every_count=hop),
        "time": lambda: source().key_by("device", "k").sliding(f"{size}s"),
    }[kind]()
    keys = draw.integers(0, 3, rows)
    asked = opened.aggregate(total=rs.sum("v"), m=rs.mean("v"), sd=rs.std("v"))
    found = evaluated(asked, values.tolist(), keys.tolist())
    wanted: list[tuple[int, int, dict[str, float]]] = []
    for key in range(3):
        own = np.flatnonzero(keys == key)
        for end in range(len(own)):
            if kind == "time":
                held = own[: end + 1][own[: end + 1] > own[end] - size]
            elif end + 1 >= size and (end + 1 - size) % hop == 0:
                held = own[end + 1 - size : end + 1]
            else:
                continue
            wanted.append((int(own[end]), key, folds(values[held])))
    wanted.sort(key=lambda one: one[0])
    assert found["k"].tolist() == [key for _, key, _ in wanted]
    for name in ("total", "m", "sd"):
        expected = np.array([one[name] for _, _, one in wanted])
        scale = np.array([max(1.0, abs(one["m"]) if not math.isnan(one["m"]) else 1.0) for _, _, one in wanted])
        assert np.allclose(found[name] / scale, expected / scale, rtol=1e-9, atol=1e-9, equal_nan=True), name


def test_first_and_last_skip_missing_values_in_sliding_windows() -> None:
    nan = math.nan
    asked = source().sliding(count=3).aggregate(a=rs.first("v"), b=rs.last("v"))
    found = evaluated(asked, [nan, 2.0, nan, nan, nan, 6.0])
    assert [None if math.isnan(one) else one for one in found["a"].tolist()] == [2.0, 2.0, None, 6.0]
    assert [None if math.isnan(one) else one for one in found["b"].tolist()] == [2.0, 2.0, None, 6.0]


def test_the_spread_of_times_in_count_windows_is_that_of_their_numbers() -> None:
    asked = source().sliding(count=2).aggregate(sd=rs.std("time"), m=rs.mean("time"))
    found = evaluated(asked, [0.0] * 3)
    assert found["sd"].tolist() == [SECOND / 2] * 2
    assert found["m"].tolist() == [SECOND / 2, 3 * SECOND / 2]
