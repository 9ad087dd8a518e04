"""The peers of the engine at the paper's queries: the same tuples, the same answers, one thread each."""

from __future__ import annotations

import os

os.environ.setdefault("POLARS_MAX_THREADS", "1")

from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import bytewax.operators as bop
import bytewax.operators.windowing as bw
import numpy as np
import polars as pl
import reactivex as rx
import reactivex.operators as ro
import streamz
from bytewax.dataflow import Dataflow
from bytewax.testing import TestingSink, TestingSource, run_main
from reactivex.subject import Subject
from river import stats, utils

RATE = 56_375  # tuples a second in the paper
WIDTH = 100  # of the sliding mean
# The paper's 62-byte tuple: sensor id, picoseconds, position, speed, acceleration.
LAYOUT = np.dtype(
    [("sid", "<u2"), ("ts", "<i8"), ("x", "<i4"), ("y", "<i4"), ("z", "<i4"), ("v", "<f8"), ("a", "<f8")]
    + [(name, "<f4") for name in ("vx", "vy", "vz", "ax", "ay", "az")]
)
VX, AZ, V, SID, TS = 7, 12, 5, 0, 1
SECOND_PS = 10**12


def football(rows: int, seed: int = 7) -> np.ndarray:
    """Tuples like those of DEBS 2013 with the paper's selectivities: vx > 0 in 67.6 %, then az > 1 in 24 % of all."""
    draw = np.random.default_rng(seed)
    made = np.zeros(rows, LAYOUT)
    made["sid"] = np.array([13, 14, 97, 98])[np.arange(rows) % 4]
    step = SECOND_PS // RATE
    made["ts"] = 10**16 + np.arange(rows, dtype=np.int64) * step + draw.integers(-step // 4, step // 4, rows)
    speed = [_smooth(draw, rows, 60) for _ in range(3)]
    force = [_smooth(draw, rows, 20) for _ in range(3)]
    speed[0] -= np.quantile(speed[0], 1 - 0.676)
    kept = force[2][speed[0] > 0]
    force[2] = (force[2] - np.quantile(kept, 1 - 0.24 / 0.676)) * 3000 + 1
    for name, values in zip(("vx", "vy", "vz"), speed, strict=True):
        made[name] = np.round(values * 4000)
    made["ax"], made["ay"], made["az"] = np.round(force[0] * 3000), np.round(force[1] * 3000), np.floor(force[2])
    made["v"], made["a"] = np.round(np.abs(speed[0] * 3e6)), np.round(np.abs(force[0] * 6e6))
    for name, values in zip(("x", "y", "z"), speed, strict=True):
        made[name] = np.round(np.cumsum(values) * 3)
    return made


def _smooth(draw: np.random.Generator, rows: int, samples: int) -> np.ndarray:
    kernel = np.exp(-np.arange(6 * samples) / samples)
    noise = np.convolve(draw.standard_normal(rows + len(kernel)), kernel, "valid")[:rows]
    scaled: np.ndarray = noise / noise.std()
    return scaled


def moving(row: tuple[Any, ...]) -> bool:
    return bool(row[VX] > 0)


def lifting(row: tuple[Any, ...]) -> bool:
    return bool(row[AZ] > 1)


# --- Query 1: two filters -------------------------------------------------------------------------------------------


def query1_python(rows: Sequence[tuple[Any, ...]]) -> int:
    return len([row for row in (row for row in rows if row[VX] > 0) if row[AZ] > 1])


def query1_rx(rows: Sequence[tuple[Any, ...]]) -> int:
    out: list[Any] = []
    rx.from_iterable(rows).pipe(ro.filter(moving), ro.filter(lifting)).subscribe(out.append)
    return len(out)


def query1_bytewax(rows: Sequence[tuple[Any, ...]]) -> int:
    out: list[Any] = []
    flow = Dataflow("query1")
    stream = bop.input("in", flow, TestingSource(rows, batch_size=1000))
    stream = bop.filter("lifting", bop.filter("moving", stream, moving), lifting)
    bop.output("out", stream, TestingSink(out))
    run_main(flow)
    return len(out)


def query1_numpy(columns: dict[str, np.ndarray], size: int) -> int:
    count = 0
    for start in range(0, len(columns["ts"]), size):
        batch = {name: values[start : start + size] for name, values in columns.items()}
        index = np.flatnonzero((batch["vx"] > 0) & (batch["az"] > 1))
        out = {name: values.take(index) for name, values in batch.items()}
        count += len(out["ts"])
    return count


def query1_polars(frames: Sequence[pl.DataFrame]) -> int:
    return sum(len(frame.filter((pl.col("vx") > 0) & (pl.col("az") > 1))) for frame in frames)


def rx_pusher(out: list[Any]) -> Callable[[Any], Any]:
    subject: Subject[Any] = Subject()
    subject.pipe(ro.filter(moving), ro.filter(lifting)).subscribe(out.append)
    push: Callable[[Any], Any] = subject.on_next
    return push


def streamz_pusher(out: list[Any]) -> Callable[[Any], Any]:
    stream = streamz.Stream()
    stream.filter(moving).filter(lifting).sink(out.append)
    return stream.emit  # type: ignore[no-any-return]


# --- Sliding mean over 100 rows -------------------------------------------------------------------------------------


def sliding_numpy(values: np.ndarray, size: int) -> None:
    tail = np.zeros(0)
    for start in range(0, len(values), size):
        batch = np.concatenate((tail, values[start : start + size]))
        sums = np.cumsum(batch)
        if len(batch) >= WIDTH:
            out = sums[WIDTH - 1 :].copy()
            out[1:] -= sums[:-WIDTH]
            out /= WIDTH
        tail = batch[-(WIDTH - 1) :]


def sliding_rx(values: Sequence[float]) -> None:
    window: deque[float] = deque()
    out: list[float] = []

    def slide(total: float, value: float) -> float:
        window.append(value)
        total += value
        if len(window) > WIDTH:
            total -= window.popleft()
        return total

    rx.from_iterable(values).pipe(ro.scan(slide, 0.0), ro.map(lambda total: total / WIDTH)).subscribe(out.append)


def sliding_bytewax(pairs: Sequence[tuple[str, float]]) -> None:
    out: list[Any] = []
    flow = Dataflow("sliding")
    stream = bop.input("in", flow, TestingSource(pairs, batch_size=1000))

    def slide(state: list[Any] | None, value: float) -> tuple[list[Any], float]:
        if state is None:
            state = [deque(), 0.0]
        state[0].append(value)
        state[1] += value
        if len(state[0]) > WIDTH:
            state[1] -= state[0].popleft()
        return state, state[1] / WIDTH

    bop.output("out", bop.stateful_map("slide", stream, slide), TestingSink(out))
    run_main(flow)


def sliding_river(values: Sequence[float]) -> None:
    mean = utils.Rolling(stats.Mean(), window_size=WIDTH)
    out = []
    for value in values:
        mean.update(value)
        out.append(mean.get())


# --- A state that only goes row by row ------------------------------------------------------------------------------


def smooth(before: float, value: float) -> float:
    return 0.9 * before + 0.1 * value


def smooth_python(values: np.ndarray) -> np.ndarray:
    state, out = 0.0, []
    for value in values.tolist():
        state = smooth(state, value)
        out.append(state)
    return np.array(out)


# --- Keyed tumbling windows of one second: count, mean and maximum of v per sensor ----------------------------------


def keyed_numpy(columns: dict[str, np.ndarray], size: int) -> None:
    """Fast and not batch-invariant: sums per batch are added up."""
    first = int(columns["ts"][0]) // SECOND_PS
    keys = 8
    table = np.zeros(65_536, np.int64)
    for place, sid in enumerate(np.unique(columns["sid"])):
        table[sid] = place
    count, total, high = np.zeros(keys * 4), np.zeros(keys * 4), np.full(keys * 4, -1.0)
    for start in range(0, len(columns["ts"]), size):
        value = columns["v"][start : start + size]
        group = (columns["ts"][start : start + size] // SECOND_PS - first) * keys + table[
            columns["sid"][start : start + size]
        ]
        count += np.bincount(group, minlength=keys * 4)
        total += np.bincount(group, value, keys * 4)
        np.maximum.at(high, group, value)


def keyed_rx(rows: Sequence[tuple[Any, ...]]) -> None:
    out: list[Any] = []

    def add(state: tuple[int, float, float], row: tuple[Any, ...]) -> tuple[int, float, float]:
        return (state[0] + 1, state[1] + row[V], row[V] if row[V] > state[2] else state[2])

    rx.from_iterable(rows).pipe(
        ro.group_by(lambda row: (row[SID], row[TS] // SECOND_PS)),
        ro.flat_map(lambda group: group.pipe(ro.reduce(add, (0, 0.0, -1.0)))),
    ).subscribe(out.append)


EPOCH = datetime(2020, 1, 1, tzinfo=UTC)


def bytewax_events(rows: Sequence[tuple[Any, ...]]) -> list[tuple[str, tuple[datetime, float]]]:
    return [(str(row[SID]), (EPOCH + timedelta(microseconds=(row[TS] // 10**6) % 10**9), row[V])) for row in rows]


def keyed_bytewax(events: Sequence[tuple[str, tuple[datetime, float]]]) -> None:
    out: list[Any] = []
    flow = Dataflow("keyed")
    stream = bop.input("in", flow, TestingSource(events, batch_size=1000))
    clock = bw.EventClock(lambda event: event[0], wait_for_system_duration=timedelta(seconds=1))
    windows = bw.TumblingWindower(length=timedelta(seconds=1), align_to=EPOCH)

    def add(state: list[float], event: tuple[datetime, float]) -> list[float]:
        state[0] += 1
        state[1] += event[1]
        state[2] = max(state[2], event[1])
        return state

    def merge(one: list[float], other: list[float]) -> list[float]:
        return [one[0] + other[0], one[1] + other[1], max(one[2], other[2])]

    closed = bw.fold_window("windows", stream, clock, windows, lambda: [0, 0.0, -1.0], add, merge)
    bop.output("out", closed.down, TestingSink(out))
    run_main(flow)


def keyed_polars(frames: Sequence[pl.DataFrame]) -> None:
    for frame in frames:
        frame.group_by("sid", pl.col("ts") // SECOND_PS).agg(
            pl.len(), pl.col("v").mean().alias("mean"), pl.col("v").max().alias("high")
        )


def frames_of(columns: dict[str, np.ndarray], size: int) -> list[pl.DataFrame]:
    total = len(columns["ts"])
    return [
        pl.DataFrame({name: values[start : start + size] for name, values in columns.items()})
        for start in range(0, total, size)
    ]


def rolling_polars(series: pl.Series) -> None:
    series.rolling_mean(WIDTH)
