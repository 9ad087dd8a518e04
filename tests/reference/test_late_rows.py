"""Rows behind the frontier: what stands in the end, and how many were dropped, against docs/semantics.md.

A row below the frontier is late. As long as the frontier is at most `lateness` past it, it corrects its windows, which go
out again whole; beyond that it is dropped and counted. A session that a late row lengthens or joins stands in place of
those within it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import resurge as rs
from tests.claims import Claim
from tests.reference import tables
from tests.reference.tables import Cut, Table
from tests.reference.values import Row

SECOND = 1_000_000
WINDOWS: tuple[tuple[str, Cut], ...] = (
    ('tumbling("5s", lateness={late!r})', tables.by_time(5 * SECOND, 5 * SECOND)),
    ('hopping("6s", every="2s", lateness={late!r})', tables.by_time(6 * SECOND, 2 * SECOND)),
    ('hopping("7s", every="3s", lateness={late!r})', tables.by_time(7 * SECOND, 3 * SECOND)),
    ('session("3s", lateness={late!r})', tables.sessions(3 * SECOND)),
    ('sliding("4s")', tables.sliding(4 * SECOND)),  # it corrects nothing: late rows are dropped
)
Answer = dict[tuple[Any, ...], tuple[int, float, float]]


def appended(draw: np.random.Generator) -> list[list[Row]]:
    """Batches whose times run ahead and fall back."""
    at, made = 0, []
    for _ in range(int(draw.integers(1, 25))):
        at += int(draw.integers(-3, 5))
        times = at + draw.integers(-4, 5, int(draw.integers(1, 4)))
        made.append(
            [
                {"time": int(time) * SECOND // 2, "k": int(draw.integers(0, 2)), "v": float(draw.integers(-9, 9))}
                for time in times
            ]
        )
    return made


def standing(text: str, batches: list[list[Row]]) -> tuple[Answer, int]:
    """What whoever listened holds in the end, and how many rows were dropped."""
    held: Answer = {}

    def take(columns: dict[str, np.ndarray]) -> None:
        for k, start, end, n, total, newest in zip(
            *(columns[name].tolist() for name in ("k", "window_start", "window_end", "n", "total", "newest")),
            strict=True,
        ):
            if "session" in text:
                for key in [key for key in held if key[0] == k and start <= key[1] and key[2] <= end]:
                    del held[key]
            place = len(held) if "sliding" in text else 0  # it has a row for each reading, several of one window
            held[k, start, end, place] = (n, total, newest)

    source = rs.stream("x", {"k": "int64", "v": "float64"})
    opened = eval(f"stream.{text}", {"stream": source.key_by("device", "k")})
    made = opened.aggregate(n=rs.count(), total=rs.sum("v"), newest=rs.last("v"))
    live = rs.Live(made.subscribe(take, name="out"))
    for rows in batches:
        live.append(source, **{name: [row[name] for row in rows] for name in ("time", "k", "v")})
    live.close()
    return held, sum(live._pipeline.late().values())


def wanted(cut: Cut, late_us: int, batches: list[list[Row]]) -> tuple[Answer, int]:
    frontier = -(2**62)
    taken: list[Row] = []
    dropped = 0
    for rows in batches:
        for row in rows:
            if row["time"] < frontier and frontier - row["time"] > late_us:
                dropped += 1
            else:
                taken.append(row)
        frontier = max(frontier, *(row["time"] for row in rows))
    means: tables.Aggregates = {
        "n": lambda rows: {"n": len(rows)},
        "total": lambda rows: {"total": sum(row["v"] for row in rows)},
        "newest": lambda rows: {"newest": tables.by_order_of_time(rows)[-1]["v"]},
    }
    answer = tables.aggregated(Table(tuple(taken), ("k",)), cut, means)
    found = {
        (row["k"], row["window_start"], row["window_end"], place): (row["n"], row["total"], row["newest"])
        for place, row in enumerate(answer.rows)
    }
    return found, dropped


@pytest.mark.parametrize("programs", [60, pytest.param(3_000, marks=pytest.mark.soak)])
def test_what_stands_after_late_rows_is_what_the_reference_says(programs: int, claim: Claim) -> None:
    lost = 0
    for seed in range(programs):
        draw = np.random.default_rng([seed, 3])
        window, cut = WINDOWS[int(draw.integers(len(WINDOWS)))]
        seconds = int(draw.choice([0, 1, 2, 5, 30])) if "{late" in window else 0
        text = window.format(late=f"{seconds}s" if seconds else None)
        batches = appended(draw)
        found, dropped = standing(text, batches)
        expected, gone = wanted(cut, seconds * SECOND, batches)
        mine = sorted((key[:3], value) for key, value in found.items())
        others = sorted((key[:3], value) for key, value in expected.items())
        assert (mine, dropped) == (others, gone), f"program {seed}: x.{text} over {batches}"
        lost += gone
    assert lost, "no row was late enough"
    claim(f"{programs} programs with late rows, {lost} rows dropped, none differs from the reference")
