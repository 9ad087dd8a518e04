"""`resurge bench engine`: the engine, through the public API, against hand-written numpy and the peers. Goals 1 to 4.

The numpy contenders are what one would write for speed alone: their sums change with the batching. Ours never do; what
that costs is among the figures, by itself.
"""

from __future__ import annotations

import statistics
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

import resurge as rs
from resurge import col
from resurge.bench import _operator_peers as peers
from resurge.bench._operator_peers import LAYOUT, RATE, WIDTH
from resurge.bench._rounds import at_least, at_most, interleave, ratio, versions
from shared.batch import END_OF_TIME, NO_FRONTIER, Batch
from shared.engine.pipeline import Pipeline
from shared.plan.placement import device_fragment
from shared.stream.declare import plan_of
from shared.stream.stream import Stream

SMALL = 1_024
SIZES = (1, 4, 16, 64, 256, 1_024, 4_096)
KINDS = {name: LAYOUT[name].name for name in LAYOUT.names or () if name != "ts"}


def run(rounds: int = 5, quick: bool = False) -> dict[str, Any]:
    rounds = 2 if quick else rounds
    rows = RATE // 8 if quick else 2 * RATE
    data = peers.football(rows)
    figures: dict[str, Any] = {"rows": rows}
    checks = [
        *_query1(data, rounds, figures),
        *_sliding(data, rounds, figures),
        *_keyed(data, rounds, figures),
        *_latency(data, rounds, figures),
        *_sizes(data, rounds, figures),
        *_overlap(rounds, figures),
    ]
    figures["bytes_per_key"] = _memory_per_key(2_000 if quick else 50_000)
    figures["batch_invariance"] = _invariance(rounds)
    return {
        "bench": "engine",
        "checks": checks,
        "figures": figures,
        "rounds": rounds,
        "versions": versions("numpy", "reactivex", "bytewax", "streamz", "river", "polars"),
    }


def _pipeline(stream: Stream) -> Pipeline:
    return Pipeline(device_fragment(plan_of(stream.subscribe("out"))))


def _football() -> Stream:
    return rs.sensor("football", every="1s", columns=KINDS)


def _batches(pipeline: Pipeline, columns: dict[str, np.ndarray], time_us: np.ndarray, size: int) -> list[Batch]:
    """What a device's sensors hand in, made beforehand as the peers' inputs are."""
    schema = pipeline.fragment.inputs[0].schema
    made = []
    for start in range(0, len(time_us), size):
        stop = min(len(time_us), start + size)
        piece = {name: columns[name][start:stop] for name in schema.names}
        frontier = int(time_us[stop:].min()) if stop < len(time_us) else NO_FRONTIER
        made.append(
            Batch(schema, piece, time_us[start:stop], np.arange(start, stop, dtype=np.int64), start, stop, frontier)
        )
    return made


def _columns(data: np.ndarray) -> dict[str, np.ndarray]:
    return {name: np.ascontiguousarray(data[name]) for name in data.dtype.names or ()}


def _query1(data: np.ndarray, rounds: int, figures: dict[str, Any]) -> list[dict[str, Any]]:
    columns, tuples, rows = _columns(data), data.tolist(), len(data)
    pipeline = _pipeline(_football().where(col.vx > 0).where(col.az > 1))
    batches = _batches(pipeline, columns, columns["ts"] // 10**6, RATE)
    frames = peers.frames_of(columns, RATE)
    expected = int(((data["vx"] > 0) & (data["az"] > 1)).sum())

    def ours() -> int:
        return sum(len(out) for batch in batches for _, out in pipeline.push("football", batch))

    contenders = {
        "ours": ours,
        "numpy": lambda: peers.query1_numpy(columns, RATE),
        "rx": lambda: peers.query1_rx(tuples),
        "bytewax": lambda: peers.query1_bytewax(tuples),
        "polars": lambda: peers.query1_polars(frames),
        "python": lambda: peers.query1_python(tuples),
    }
    wrong = {name: found for name, work in contenders.items() if (found := work()) != expected}
    rates = interleave({name: _rate(work, rows) for name, work in contenders.items()}, rounds)
    figures["query1"] = {"selectivity": expected / rows, "wrong": wrong, "rows_per_second": _medians(rates)}
    return [
        at_least("query 1 vs numpy columns", ratio(rates, "ours", "numpy"), 0.85),
        at_least("query 1 vs RxPY", ratio(rates, "ours", "rx"), 15),
        at_least("query 1 vs bytewax", ratio(rates, "ours", "bytewax"), 25),
        at_least("query 1 vs polars", ratio(rates, "ours", "polars"), 1.2),
    ]


def _rate(work: Callable[[], object], rows: int) -> Callable[[], float]:
    """Rows per second of processor time: every contender has one thread, and the machine may have other work."""

    def timed() -> float:
        start = time.process_time()
        work()
        return rows / (time.process_time() - start)

    return timed


def _medians(rates: dict[str, list[float]]) -> dict[str, float]:
    return {name: round(statistics.median(values)) for name, values in rates.items()}


def _sliding(data: np.ndarray, rounds: int, figures: dict[str, Any]) -> list[dict[str, Any]]:
    values = data["vy"].astype(np.float64)
    listed, rows = values.tolist(), len(values)
    pairs = [("k", value) for value in listed]
    series = pl.Series(values)
    stream = rs.sensor("probe", every="1s", columns={"x": "float64"}).sliding(count=WIDTH).mean("x").select("x")
    pipeline = _pipeline(stream)
    batches = _batches(pipeline, {"x": values}, np.arange(rows) * 20, SMALL)
    fresh = pipeline.snapshot()

    def ours() -> list[np.ndarray]:
        pipeline.restore(fresh)
        return [out.columns["x"] for batch in batches for _, out in pipeline.push("probe", batch)]

    reference = np.lib.stride_tricks.sliding_window_view(values, WIDTH).mean(1)
    error = float(np.abs(np.concatenate(ours()) - reference).max())
    rates = interleave(
        {
            "ours": _rate(ours, rows),
            "numpy": _rate(lambda: peers.sliding_numpy(values, SMALL), rows),
            "rx": _rate(lambda: peers.sliding_rx(listed), rows),
            "bytewax": _rate(lambda: peers.sliding_bytewax(pairs), rows),
            "river": _rate(lambda: peers.sliding_river(listed), rows),
            "polars": _rate(lambda: peers.rolling_polars(series), rows),
        },
        rounds,
    )
    figures["sliding"] = {"greatest_error": error, "rows_per_second": _medians(rates)}
    return [
        at_least("sliding mean vs numpy cumsum", ratio(rates, "ours", "numpy"), 0.8),
        at_least("sliding mean vs RxPY scan", ratio(rates, "ours", "rx"), 25),
        at_least("sliding mean vs bytewax", ratio(rates, "ours", "bytewax"), 40),
        at_least("sliding mean vs river", ratio(rates, "ours", "river"), 80),
        at_least("sliding mean vs polars", ratio(rates, "ours", "polars"), 1),
    ]


def _keyed(data: np.ndarray, rounds: int, figures: dict[str, Any]) -> list[dict[str, Any]]:
    columns, tuples, rows = _columns(data), data.tolist(), len(data)
    stream = (
        _football().key_by("device", "sid").tumbling("1s")
        .aggregate(n=rs.count(), mean=rs.mean("v"), high=rs.max("v"))
    )  # fmt: skip
    pipeline = _pipeline(stream)
    batches = _batches(pipeline, columns, columns["ts"] // 10**6, SMALL)
    fresh = pipeline.snapshot()
    frames = peers.frames_of(columns, RATE)
    events = peers.bytewax_events(tuples[: rows // 2])

    def ours() -> int:
        pipeline.restore(fresh)
        outputs = [out for batch in batches for out in pipeline.push("football", batch)]
        outputs += pipeline.advance("football", END_OF_TIME)
        return sum(int(out.columns["n"].sum()) for _, out in outputs)

    figures["keyed"] = {"all_rows_counted": ours() == rows}
    rates = interleave(
        {
            "ours": _rate(ours, rows),
            "numpy": _rate(lambda: peers.keyed_numpy(columns, SMALL), rows),
            "rx": _rate(lambda: peers.keyed_rx(tuples), rows),
            "bytewax": _rate(lambda: peers.keyed_bytewax(events), len(events)),
            "polars": _rate(lambda: peers.keyed_polars(frames), rows),
        },
        rounds,
    )
    figures["keyed"]["rows_per_second"] = _medians(rates)
    return [
        at_least("keyed tumbling vs numpy", ratio(rates, "ours", "numpy"), 0.7),
        at_least("keyed tumbling vs RxPY", ratio(rates, "ours", "rx"), 80),
        at_least("keyed tumbling vs bytewax", ratio(rates, "ours", "bytewax"), 250),
        at_least("keyed tumbling vs polars", ratio(rates, "ours", "polars"), 1.5),
    ]


def _rows_of(data: np.ndarray) -> list[tuple[Any, ...]]:
    """Rows as the engine takes them: the time, then the schema's columns."""
    names = list(KINDS)
    return list(zip((data["ts"] // 10**6).tolist(), *(data[name].tolist() for name in names), strict=True))


def _latency(data: np.ndarray, rounds: int, figures: dict[str, Any]) -> list[dict[str, Any]]:
    out: list[Any] = []
    count = min(3_000, len(data))
    tuples, rows = data[:count].tolist(), _rows_of(data[:count])
    pipeline = _pipeline(_football().where(col.vx > 0).where(col.az > 1))
    contenders: dict[str, tuple[Callable[[Any], object], list[Any]]] = {
        "ours": (pipeline.row_input("football", out.append), rows),
        "rx": (peers.rx_pusher(out), tuples),
        "streamz": (peers.streamz_pusher(out), tuples),
        "python": (lambda row: row[peers.VX] > 0 and row[peers.AZ] > 1 and out.append(row), tuples),
    }
    halves: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds + 1):
        for name, (push, events) in contenders.items():
            taken = []
            for event in events:
                start = time.perf_counter_ns()
                push(event)
                taken.append(time.perf_counter_ns() - start)
            if turn:
                halves[name].append(float(np.percentile(taken, 50)))
    figures["latency_ns_p50"] = {name: statistics.median(values) for name, values in halves.items()}

    def against(peer: str) -> float:
        return statistics.median(mine / theirs for mine, theirs in zip(halves["ours"], halves[peer], strict=True))

    return [
        at_most("one event p50 vs RxPY", against("rx"), 0.7),
        at_most("one event p50 vs streamz", against("streamz"), 0.2),
    ]


def _sizes(data: np.ndarray, rounds: int, figures: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows in, rows out, at every batch size."""
    count = min(16_384, len(data))
    tuples, rows = data[:count].tolist(), _rows_of(data[:count])
    through = _pipeline(_football().where(col.vx > 0).where(col.az > 1)).rows_input("football")
    found = {}
    for size in SIZES:
        theirs = [tuples[start : start + size] for start in range(0, count, size)]
        mine = [rows[start : start + size] for start in range(0, count, size)]

        def ours(mine: list[list[Any]] = mine) -> int:
            return sum(len(through(batch)) for batch in mine)

        def plain(theirs: list[list[Any]] = theirs) -> int:
            return sum(peers.query1_python(batch) for batch in theirs)

        rates = interleave({"ours": _rate(ours, count), "python": _rate(plain, count)}, rounds)
        found[size] = round(ratio(rates, "ours", "python"), 3)
    figures["vs_python_by_batch_size"] = found
    return [at_least("vs plain Python at the worst batch size", min(found.values()), 1.0)]


def _overlap(rounds: int, figures: dict[str, Any]) -> list[dict[str, Any]]:
    """Incremental windows against computing each window from its rows, with numpy."""
    rows, keys, size, hop = 40_000, 8, 20, 1  # seconds; 95 % overlap
    draw = np.random.default_rng(3)
    values, groups, at = (
        draw.standard_normal(rows),
        draw.integers(0, keys, rows).astype(np.uint16),
        np.arange(rows) * 1_000,
    )
    probe = rs.sensor("probe", every="1s", columns={"x": "float64", "k": "uint16"})
    asked = {"n": rs.count(), "mean": rs.mean("x"), "high": rs.max("x")}
    hopping = _pipeline(probe.key_by("device", "k").hopping(f"{size}s", every=f"{hop}s").aggregate(**asked))
    batches = _batches(hopping, {"x": values, "k": groups}, at, SMALL)
    waves = _pipeline(probe.sliding(count=WIDTH).aggregate(wave=rs.dft("x", 4)).select("wave_1"))
    wave_batches = _batches(waves, {"x": values, "k": groups}, at, SMALL)
    fresh, fresh_waves = hopping.snapshot(), waves.snapshot()

    def naive() -> None:
        for start in range(1 - size, rows // 1_000, hop):
            low, high = np.searchsorted(at, (start * 10**6, (start + size) * 10**6))
            group, value = groups[low:high], values[low:high]
            count, total = np.bincount(group, minlength=keys), np.bincount(group, value, keys)
            most = np.full(keys, -np.inf)
            np.maximum.at(most, group, value)
            with np.errstate(invalid="ignore"):
                total / count

    def ours(pipeline: Pipeline, state: bytes, pushes: list[Batch]) -> None:
        pipeline.restore(state)
        for batch in pushes:
            pipeline.push("probe", batch)
        pipeline.advance("probe", END_OF_TIME)

    windows = np.lib.stride_tricks.sliding_window_view(values, WIDTH)
    rates = interleave(
        {
            "hopping": _rate(lambda: ours(hopping, fresh, batches), rows),
            "naive hopping": _rate(naive, rows),
            "waves": _rate(lambda: ours(waves, fresh_waves, wave_batches), rows),
            "naive waves": _rate(lambda: np.abs(np.fft.fft(windows, axis=1)[:, :4]), rows),
        },
        rounds,
    )
    figures["overlap_rows_per_second"] = _medians(rates)
    return [
        at_least("hopping windows vs naive at 95 % overlap", ratio(rates, "hopping", "naive hopping"), 3),
        at_least("sliding DFT vs naive", ratio(rates, "waves", "naive waves"), 3),
    ]


def _memory_per_key(keys: int) -> float:
    """Bytes of a key with one open window of three aggregates, the key's own text or number included."""
    stream = rs.sensor("probe", every="1s", columns={"x": "float64", "k": "int64"}).key_by("device", "k").tumbling("1h")
    pipeline = _pipeline(stream.aggregate(n=rs.count(), mean=rs.mean("x"), high=rs.max("x")))
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    numbers = np.arange(keys, dtype=np.int64) * 1_000_003
    schema = pipeline.fragment.inputs[0].schema
    pipeline.push("probe", Batch.of(schema, {"x": np.ones(keys), "k": numbers}, np.arange(keys)))
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return round((after - before) / keys, 1)


def _invariance(rounds: int) -> dict[str, float]:
    """What a strict left fold costs beside the naive kernel, as time ratios: 1.0 is free."""
    draw = np.random.default_rng(4)
    values, groups = draw.standard_normal(SMALL), draw.integers(0, 8, SMALL)
    total = np.zeros(8)
    carried = np.empty(SMALL + 1)

    def naive_keyed() -> None:
        for _ in range(200):
            total[:] += np.bincount(groups, values, 8)

    def strict_keyed() -> None:
        for _ in range(200):
            np.add.at(total, groups, values)

    def naive_prefix() -> None:
        for _ in range(200):
            np.cumsum(values)

    def strict_prefix() -> None:
        for _ in range(200):
            carried[1:] = values
            np.add.accumulate(carried, out=carried)

    rates = interleave(
        {
            name: _rate(work, 1)
            for name, work in {
                "naive keyed": naive_keyed,
                "strict keyed": strict_keyed,
                "naive prefix": naive_prefix,
                "strict prefix": strict_prefix,
            }.items()
        },
        rounds,
    )
    return {
        "keyed sum": round(ratio(rates, "naive keyed", "strict keyed"), 2),
        "prefix sum": round(ratio(rates, "naive prefix", "strict prefix"), 2),
    }
