"""`resurge bench engine`: the engine, through the public API, against numpy and the peers. Goals 1 to 4, and 15.

The numpy contenders are what one would write for speed alone: their sums change with the batching. Ours never do; what
that costs is among the figures, by itself.
"""

from __future__ import annotations

import os
import statistics
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import polars as pl

import resurge as rs
from resurge import col, state
from resurge.bench import _operator_peers as peers
from resurge.bench._operator_peers import LAYOUT, RATE, WIDTH
from resurge.bench._rounds import Rates, at_least, at_most, interleave, ratio, timed, versions
from shared.batch import END_OF_TIME, NO_FRONTIER, Batch
from shared.engine.pipeline import Pipeline
from shared.plan.placement import device_fragment
from shared.stream.declarations import plan_of
from shared.stream.stream import Stream

SMALL = 1_024
LEAST_SECONDS = 0.05  # a contender's turn: shorter ones repeat their work, or a turn would time cold caches
SIZES = (1, 4, 16, 64, 256, 1_024, 4_096)
KINDS = {name: LAYOUT[name].name for name in LAYOUT.names or () if name != "ts"}


METHOD = (
    "Every contender once per round, in turn, for 50 ms at least, one thread each, the first round not counted. A "
    "check is the median over rounds of the ratio within a round, by the wall clock; `processor` is the same by "
    "processor time, which other work on the machine disturbs less. Ours goes through the public API: batches in, "
    "batches out, state restored from bytes each time. The naive hopping windows are at an advantage: all rows lie in "
    "one array, nothing comes in batches. They are checked at the football data's rate; the figures also have 1,000 "
    "rows per hop, where what a batch and a window cost outweighs the rows."
)


def run(rounds: int = 5, quick: bool = False) -> dict[str, Any]:
    rounds = 2 if quick else rounds
    rows = RATE // 8 if quick else 4 * RATE
    data = peers.football(rows)
    # What else the machine had to do: above its processors, wall-clock ratios of short runs say little.
    figures: dict[str, Any] = {"rows": rows, "load_average": round(os.getloadavg()[0], 1), "processors": os.cpu_count()}
    checks = [
        *_query1(data, rounds, figures),
        *_sliding(data, rounds, figures),
        *_keyed(data, rounds, figures),
        *_latency(data, rounds, figures),
        *_sizes(data, rounds, figures),
        *_overlap(rounds, figures, quick=quick),
        *_states(20_000 if quick else 400_000, rounds, figures),
        *_edges(20_000 if quick else 400_000, rounds, figures),
        *_many_keys(5_000 if quick else 50_000, rounds, figures),
    ]
    figures["bytes_per_key"] = _memory_per_key(2_000 if quick else 50_000)
    figures["batch_invariance"] = _invariance(rounds)
    return {
        "bench": "engine",
        "method": METHOD,
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

    contenders: dict[str, Callable[[], int]] = {
        "ours": ours,
        "numpy": lambda: peers.query1_numpy(columns, RATE),
        "rx": lambda: peers.query1_rx(tuples),
        "bytewax": lambda: peers.query1_bytewax(tuples),
        "polars": lambda: peers.query1_polars(frames),
        "python": lambda: peers.query1_python(tuples),
    }
    wrong = {name: found for name, work in contenders.items() if (found := work()) != expected}
    contest = _Contest({name: (work, rows) for name, work in contenders.items()}, rounds)
    figures["query1"] = {"selectivity": expected / rows, "wrong": wrong, "rows_per_second": contest.medians()}
    return [
        contest.check("query 1 vs numpy columns", "ours", "numpy", 0.85),
        contest.check("query 1 vs RxPY", "ours", "rx", 15),
        contest.check("query 1 vs bytewax", "ours", "bytewax", 25),
        contest.check("query 1 vs polars", "ours", "polars", 1.2),
    ]


class _Contest:
    """Contenders in interleaved rounds, timed by the wall clock and by the processor."""

    def __init__(self, contenders: dict[str, tuple[Callable[[], object], int]], rounds: int) -> None:
        self.processor: Rates = {name: [] for name in contenders}
        timed = {name: self._timed(name, work, rows) for name, (work, rows) in contenders.items()}
        self.wall = interleave(timed, rounds)
        self.processor = {
            name: rates[1:] for name, rates in self.processor.items()
        }  # as the wall clock's: not the first

    def _timed(self, name: str, work: Callable[[], object], rows: int) -> Callable[[], float]:
        def timed() -> float:
            turns, wall, busy = 0, time.perf_counter(), time.process_time()
            while not turns or time.perf_counter() - wall < LEAST_SECONDS:
                work()
                turns += 1
            busy, wall = time.process_time() - busy, time.perf_counter() - wall
            self.processor[name].append(turns * rows / busy)
            return turns * rows / wall

        return timed

    def check(self, name: str, ours: str, peer: str, goal: float) -> dict[str, Any]:
        made = at_least(name, ratio(self.wall, ours, peer), goal)
        return {**made, "processor": round(ratio(self.processor, ours, peer), 3)}

    def slowest(self, *names: str) -> float:
        """Million rows per second of processor time of the slowest of these."""
        return min(statistics.median(self.processor[name]) for name in names) / 1e6

    def medians(self) -> dict[str, float]:
        return {name: round(statistics.median(values)) for name, values in self.wall.items()}


def _sliding(data: np.ndarray, rounds: int, figures: dict[str, Any]) -> list[dict[str, Any]]:
    values = data["vy"].astype(np.float64)
    listed, rows = values.tolist(), len(values)
    pairs = [("k", value) for value in listed]
    series = pl.Series(values)
    stream = rs.sensor("probe", every="1s", columns={"x": "float64"}).sliding(count=WIDTH).mean("x").select("x")
    pipeline = _pipeline(stream)
    batches = _batches(pipeline, {"x": values}, np.arange(rows) * 20, SMALL)
    fresh = pipeline.snapshot()

    def ours() -> int:
        pipeline.restore(fresh)
        return sum(len(out) for batch in batches for _, out in pipeline.push("probe", batch))

    made = [out.columns["x"] for batch in batches for _, out in pipeline.push("probe", batch)]
    reference = np.lib.stride_tricks.sliding_window_view(values, WIDTH).mean(1)
    error = float(np.abs(np.concatenate(made) - reference).max())
    contest = _Contest(
        {
            "ours": (ours, rows),
            "numpy": (lambda: peers.sliding_numpy(values, SMALL), rows),
            "rx": (lambda: peers.sliding_rx(listed), rows),
            "bytewax": (lambda: peers.sliding_bytewax(pairs), rows),
            "river": (lambda: peers.sliding_river(listed), rows),
            "polars": (lambda: peers.rolling_polars(series), rows),
        },
        rounds,
    )
    figures["sliding"] = {
        "greatest_error": error,
        "rows_per_second": contest.medians(),
        "vs_river": round(ratio(contest.wall, "ours", "river"), 2),
        "vs_polars": round(ratio(contest.wall, "ours", "polars"), 2),  # it gets the whole series at once
    }
    return [
        contest.check("sliding mean vs numpy cumsum", "ours", "numpy", 0.6),
        contest.check("sliding mean vs RxPY scan", "ours", "rx", 25),
        contest.check("sliding mean vs bytewax", "ours", "bytewax", 40),
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
    contest = _Contest(
        {
            "ours": (ours, rows),
            "numpy": (lambda: peers.keyed_numpy(columns, SMALL), rows),
            "rx": (lambda: peers.keyed_rx(tuples), rows),
            "bytewax": (lambda: peers.keyed_bytewax(events), len(events)),
            "polars": (lambda: peers.keyed_polars(frames), rows),
        },
        rounds,
    )
    figures["keyed"]["rows_per_second"] = contest.medians()
    return [
        contest.check("keyed tumbling vs numpy", "ours", "numpy", 0.7),
        contest.check("keyed tumbling vs RxPY", "ours", "rx", 80),
        contest.check("keyed tumbling vs bytewax", "ours", "bytewax", 250),
        contest.check("keyed tumbling vs polars", "ours", "polars", 1.5),
    ]


def _latency(data: np.ndarray, rounds: int, figures: dict[str, Any]) -> list[dict[str, Any]]:
    """One event at a time to a callback, as a program does it: `Live.append`, a subject's `on_next`, an emit."""
    out: list[Any] = []
    count = min(3_000, len(data))
    tuples = data[:count].tolist()
    names = list(KINDS)
    rows = [
        {"time": at, **dict(zip(names, values, strict=True))}
        for at, values in zip((data["ts"][:count] // 10**6).tolist(), _values(data[:count]), strict=True)
    ]
    source = _football()
    live = rs.Live(source.where(col.vx > 0).where(col.az > 1).subscribe(out.append, name="out"))
    contenders: dict[str, tuple[Callable[[Any], object], list[Any]]] = {
        "ours": (lambda row: live.append("football", **row), rows),
        "rx": (peers.rx_pusher(out), tuples),
        "streamz": (peers.streamz_pusher(out), tuples),
        "python": (partial(_append_if_both, out), tuples),
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

    figures["latency_vs_streamz"] = round(against("streamz"), 3)
    return [at_most("one event p50 vs RxPY", against("rx"), 2.0)]


def _append_if_both(out: list[Any], row: tuple[Any, ...]) -> None:
    if row[peers.VX] > 0 and row[peers.AZ] > 1:
        out.append(row)


def _values(data: np.ndarray) -> list[tuple[Any, ...]]:
    return list(zip(*(data[name].tolist() for name in KINDS), strict=True))


def _sizes(data: np.ndarray, rounds: int, figures: dict[str, Any]) -> list[dict[str, Any]]:
    """A node's batches, from one row to many, as its loop pushes them."""
    count = min(16_384, len(data))
    columns, tuples = _columns(data[:count]), data[:count].tolist()
    pipeline = _pipeline(_football().where(col.vx > 0).where(col.az > 1))
    found = {}
    for size in SIZES:
        theirs = [tuples[start : start + size] for start in range(0, count, size)]
        mine = _batches(pipeline, columns, columns["ts"] // 10**6, size)

        def ours(mine: list[Batch] = mine) -> int:
            return sum(len(out) for batch in mine for _, out in pipeline.push("football", batch))

        def plain(theirs: list[list[Any]] = theirs) -> int:
            return sum(peers.query1_python(batch) for batch in theirs)

        contest = _Contest({"ours": (ours, count), "python": (plain, count)}, rounds)
        found[size] = contest.check(str(size), "ours", "python", 0.5)
    figures["vs_python_by_batch_size"] = {size: check["value"] for size, check in found.items()}
    worst = min(found.values(), key=lambda check: float(check["value"]))
    return [{**worst, "name": "vs plain Python at the worst batch size"}]


def _overlap(rounds: int, figures: dict[str, Any], *, quick: bool) -> list[dict[str, Any]]:
    """Incremental windows against computing each window from its rows, with numpy."""
    by_rate = {rate: _hopping(rate, rounds) for rate in (1_000, RATE // 8 if quick else RATE)}
    figures["hopping_vs_naive_by_rows_per_hop"] = {rate: check["value"] for rate, check in by_rate.items()}
    values = np.random.default_rng(3).standard_normal(40_000)
    probe = rs.sensor("probe", every="1s", columns={"x": "float64"})
    pipeline = _pipeline(probe.sliding(count=WIDTH).aggregate(wave=rs.dft("x", 4)).select("wave_1"))
    batches = _batches(pipeline, {"x": values}, np.arange(len(values)) * 1_000, SMALL)
    windows = np.lib.stride_tricks.sliding_window_view(values, WIDTH)
    contest = _Contest(
        {
            "ours": (_through(pipeline, batches), len(values)),
            "naive": (lambda: np.abs(np.fft.fft(windows, axis=1)[:, :4]), len(values)),
        },
        rounds,
    )
    return [by_rate[max(by_rate)], contest.check("sliding DFT vs naive", "ours", "naive", 3)]


def _states(rows: int, rounds: int, figures: dict[str, Any]) -> list[dict[str, Any]]:
    """`.state` through `evaluate`: updates that are folds, and one that only goes row by row against plain Python."""
    values = np.random.default_rng(5).standard_normal(rows)
    given = {"probe": {"time": np.arange(rows) * 1_000, "x": values}}
    probe = rs.stream("probe", {"x": "float64"})
    folds = {
        "sum": probe.state({"s": 0.0}, s=state.s + col.x),
        "count": probe.state({"n": 0}, n=state.n + 1),
        "peak": probe.state({"p": -1e9}, p=rs.if_else(col.x > state.p, col.x, state.p)),
        "since": probe.state({"n": 0}, n=rs.if_else(col.x > 2, 0, state.n + 1)),
        "previous": probe.previous("x"),
    }
    smooth = probe.state({"e": 0.0}, e=0.9 * state.e + 0.1 * col.x)
    series = pl.Series(values)
    contest = _Contest(
        {
            **{name: (partial(rs.evaluate, stream, given), rows) for name, stream in folds.items()},
            "step": (partial(rs.evaluate, smooth, given), rows),
            "python": (lambda: peers.smooth_python(values), rows),
            "numpy": (lambda: np.add.accumulate(values), rows),
            "polars": (series.cum_sum, rows),
        },
        rounds,
    )
    same = rs.evaluate(smooth, given)["out"]["e"].tobytes() == peers.smooth_python(values).tobytes()
    figures["state"] = {"same_bits_as_python": same, "rows_per_second": contest.medians()}
    return [
        at_least("state: the slowest of five folds, million rows per CPU second", contest.slowest(*folds), 1.0),
        contest.check("state: a step by itself vs a plain Python loop", "step", "python", 0.5),
    ]


def _edges(rows: int, rounds: int, figures: dict[str, Any]) -> list[dict[str, Any]]:
    """`first` and `last` of sliding windows through `evaluate`, rows in order of time and not."""
    draw = np.random.default_rng(6)
    values, time_us = draw.standard_normal(rows), np.arange(rows) * 1_000
    window = rs.stream("probe", {"x": "float64"}).sliding(count=WIDTH)
    stream = window.aggregate(first=rs.first("x"), last=rs.last("x"))
    ordered = {"probe": {"time": time_us, "x": values}}
    mixed = {"probe": {"time": time_us + draw.integers(-50_000, 50_000, rows), "x": values}}
    frame = pl.DataFrame({"x": values})
    contest = _Contest(
        {
            "ordered": (partial(rs.evaluate, stream, ordered), rows),
            "mixed": (partial(rs.evaluate, stream, mixed), rows),
            "numpy": (lambda: (values[: 1 - WIDTH].copy(), values[WIDTH - 1 :].copy()), rows),
            "polars": (lambda: frame.select(first=pl.col("x").shift(WIDTH - 1), last="x"), rows),
        },
        rounds,
    )
    figures["first_last"] = {"rows_per_second": contest.medians()}
    rate = contest.slowest("ordered", "mixed")
    return [at_least("first and last in sliding windows, million rows per CPU second", rate, 2.0)]


def _many_keys(keys: int, rounds: int, figures: dict[str, Any]) -> list[dict[str, Any]]:
    """Sliding against tumbling windows over many keys, as a job's or a relay's batches come, and all at once."""
    rows = 4 * keys
    draw = np.random.default_rng(7)
    columns = {"x": draw.standard_normal(rows), "k": draw.integers(0, keys, rows)}
    time_us = np.arange(rows) * 100
    probe = rs.stream("probe", {"x": "float64", "k": "int64"}).key_by("device", "k")
    programs = {
        "tumbling": probe.tumbling("5s").aggregate(m=rs.mean("x")),
        "by count": probe.sliding(count=10).aggregate(m=rs.mean("x")),
        "by time": probe.sliding("5s").aggregate(m=rs.mean("x")),
    }

    def contenders(size: int) -> dict[str, tuple[Callable[[], object], int]]:
        made: dict[str, tuple[Callable[[], object], int]] = {}
        for name, stream in programs.items():
            pipeline = _pipeline(stream)
            made[name] = (_through(pipeline, _batches(pipeline, columns, time_us, size)), rows)
        return made

    frame = pl.DataFrame(columns)
    found = {}
    for size in (4_096, rows):
        contest = _Contest(
            {**contenders(size), "polars": (lambda: frame.select(pl.col("x").rolling_mean(10).over("k")), rows)}, rounds
        )
        found[size] = contest
        figures.setdefault("many_keys", {})[f"{size} rows a batch"] = contest.medians()
    return [
        found[size].check(f"sliding {name} vs tumbling, {keys} keys, {size} rows a batch", name, "tumbling", 0.5)
        for size in found
        for name in ("by count", "by time")
    ]


def _through(pipeline: Pipeline, batches: list[Batch]) -> Callable[[], None]:
    fresh = pipeline.snapshot()

    def work() -> None:
        pipeline.restore(fresh)
        for batch in batches:
            pipeline.push("probe", batch)
        pipeline.advance("probe", END_OF_TIME)

    return work


def _hopping(rate: int, rounds: int) -> dict[str, Any]:
    """Windows of 20 s every second, eight keys, this many rows a second."""
    size, keys = 20, 8
    rows = 24 * rate
    draw = np.random.default_rng(3)
    values, groups = draw.standard_normal(rows), draw.integers(0, keys, rows).astype(np.uint16)
    at = np.arange(rows) * (10**6 // rate)
    probe = rs.sensor("probe", every="1s", columns={"x": "float64", "k": "uint16"})
    asked = {"n": rs.count(), "mean": rs.mean("x"), "high": rs.max("x")}
    pipeline = _pipeline(probe.key_by("device", "k").hopping(f"{size}s", every="1s").aggregate(**asked))
    batches = _batches(pipeline, {"x": values, "k": groups}, at, SMALL)

    def naive() -> None:
        for start in range(1 - size, int(at[-1]) // 10**6 + 1):
            low, high = np.searchsorted(at, (start * 10**6, (start + size) * 10**6))
            group, value = groups[low:high], values[low:high]
            count, total = np.bincount(group, minlength=keys), np.bincount(group, value, keys)
            most = np.full(keys, -np.inf)
            np.maximum.at(most, group, value)
            with np.errstate(invalid="ignore"):
                total / count

    contest = _Contest({"ours": (_through(pipeline, batches), rows), "naive": (naive, rows)}, rounds)
    return contest.check("hopping windows vs naive at 95 % overlap", "ours", "naive", 3)


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
            "naive keyed": lambda: timed(naive_keyed, 1),
            "strict keyed": lambda: timed(strict_keyed, 1),
            "naive prefix": lambda: timed(naive_prefix, 1),
            "strict prefix": lambda: timed(strict_prefix, 1),
        },
        rounds,
    )
    return {
        "keyed sum": round(ratio(rates, "naive keyed", "strict keyed"), 2),
        "prefix sum": round(ratio(rates, "naive prefix", "strict prefix"), 2),
    }
