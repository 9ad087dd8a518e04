"""Random programs and inputs, by seed. Every verb of the library appears in some of the first 40."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

import resurge as rs
from resurge import col
from shared.language.registry import Row
from shared.stream.formulas import Formula
from shared.stream.stream import Stream

COLUMNS = {"x": "float64", "y": "float32", "n": "int64", "small": "int16", "tag": "str", "flag": "bool"}
DEVICES = ("aa", "bb", "ñ日")
TAGS = ("walk", "", "Straße", "日本語", "🚲")
SECOND = 1_000_000


@rs.operator("conformance_scale", takes={"x": "float64"}, gives={"scaled": "float64"})
def scale(columns, *, factor: float = 2.0):  # type: ignore[no-untyped-def]
    return {"scaled": columns["x"] * factor}


@rs.operator(
    "conformance_span", takes={"x": "float64", "n": "int64"}, gives={"span": "float64", "rows": "int64"}, over="window"
)
def span(columns, *, bias: float = 0.0):  # type: ignore[no-untyped-def]
    values = columns["x"][~np.isnan(columns["x"])]
    return {"span": float(values.max() - values.min()) + bias if len(values) else bias, "rows": len(columns["n"])}


@rs.operator("conformance_debounce", takes={"n": "int64"}, gives={"seen": "int64", "n": "int64"})
class Debounce:
    """Lets every third row of a key through."""

    def __init__(self, *, every: int = 3) -> None:
        self.every = every
        self.seen = 0

    def process(self, port: str, row: Row) -> Iterator[Row]:
        self.seen += 1
        if self.seen % self.every == 0:
            yield {"seen": self.seen, "n": row["n"]}

    def snapshot(self) -> bytes:
        return self.seen.to_bytes(8, "little")

    def restore(self, state: bytes) -> None:
        self.seen = int.from_bytes(state, "little")


@rs.operator("conformance_hold", takes={"x": "float64"}, gives={"x": "float64"})
class Hold:
    """Each row of a key once two more have come, with its own time."""

    def __init__(self) -> None:
        self.held: list[tuple[int, float]] = []

    def process(self, port: str, row: Row) -> Iterator[Row]:
        self.held.append((int(row["time"]), float(row["x"])))
        if len(self.held) > 2:
            time, x = self.held.pop(0)
            yield {"time": time, "x": x}

    def holds_since(self) -> int | None:
        return min((time for time, _ in self.held), default=None)

    def snapshot(self) -> bytes:
        return b"".join(struct.pack("<qd", *each) for each in self.held)

    def restore(self, state: bytes) -> None:
        self.held = list(struct.iter_unpack("<qd", state))


@rs.function(name="conformance_half")
def half(x: float, small: int) -> float:
    return math.nan if math.isnan(x) else x / 2 + small % 3


@rs.function(name="conformance_words", returns={"tag": "str", "score": "float64"})
def words(tag: str, time: int, x: float, *, shout: bool = False) -> dict[str, object]:
    return {"tag": tag.upper() if shout else tag, "score": len(tag) + x * (time % 7)}


@rs.operator("conformance_split", takes={"n": "int64"}, gives={"even": {"n": "int64"}, "odd": {"n": "int64"}})
class Split:
    """Two output ports."""

    def process(self, port: str, row: Row) -> Iterator[tuple[str, Row]]:
        yield ("even", {"n": row["n"]}) if int(row["n"]) % 2 == 0 else ("odd", {"n": -int(row["n"])})

    def snapshot(self) -> bytes:
        return b""

    def restore(self, state: bytes) -> None:
        pass


@rs.aggregate("conformance_range", takes={"x": "float64"}, gives="float64")
class Range:
    def __init__(self) -> None:
        self.low, self.high = np.inf, -np.inf

    def add(self, value: float) -> None:
        self.low, self.high = min(self.low, value), max(self.high, value)

    def result(self) -> float:
        return float(self.high - self.low)

    def snapshot(self) -> bytes:
        return np.array([self.low, self.high]).tobytes()

    def restore(self, state: bytes) -> None:
        self.low, self.high = np.frombuffer(state).tolist()


@dataclass
class Case:
    seed: int
    stream: Stream
    inputs: dict[str, dict[str, np.ndarray]]
    verbs: set[str] = field(default_factory=set)


def columns(draw: np.random.Generator, rows: int) -> dict[str, np.ndarray]:
    """Rows a little out of time order, with duplicate times, missing and infinite values, extreme integers."""
    time = np.sort(draw.integers(0, 60, rows) * SECOND // draw.integers(1, 4)) + draw.integers(0, 3, rows) * SECOND
    x = draw.standard_normal(rows) * 10.0 ** draw.integers(-8, 8, rows)
    x[draw.random(rows) < 0.05] = np.nan
    if draw.random() < 0.3:
        x[draw.random(rows) < 0.02] = np.inf
        x[draw.random(rows) < 0.02] = -0.0
    if draw.random() < 0.3:
        x[draw.random(rows) < 0.01] = 1e25  # an outlier must not spoil its neighbours
    n = draw.integers(-50, 50, rows)
    if draw.random() < 0.3:
        n[draw.random(rows) < 0.1] = np.iinfo(np.int64).max
    text = np.dtypes.StringDType()
    return {
        "time": time.astype(np.int64),
        "x": x,
        "y": draw.standard_normal(rows).astype(np.float32),
        "n": n,
        "small": draw.integers(-(2**15), 2**15, rows).astype(np.int16),
        "tag": np.array(TAGS, text)[draw.integers(0, len(TAGS), rows)],
        "flag": draw.random(rows) < 0.5,
        "device": np.array(DEVICES, text)[draw.integers(0, len(DEVICES), rows)],
    }


ROW_STEPS = (
    "where", "extend", "significant", "significant_metres", "state", "state_config", "apply_rows", "none", "state_keep",
    "previous", "text", "map", "distinct_within", "state_expire", "hold",
)  # fmt: skip
PAIR_STEPS = (
    "union", "zip", "combine", "join", "with_latest", "none", "join_left", "none", "as_of", "as_of_left", "join_on", "none",
    "followed_by",
)  # fmt: skip
WINDOWS = (
    "tumbling",
    "hopping",
    "hopping_odd",
    "daily",
    "sliding",
    "session",
    "count",
    "count_hopping",
    "count_sliding",
    "calendar",
    "none",
)
ENDS = (
    "aggregate", "aggregate", "aggregate", "aggregate", "apply_window", "machine", "ports", "absent", "none",
)  # fmt: skip
KEYS = (("device",), ("device", "tag"), ("tag",), (), ("flag", "small"))


def case(seed: int, rows: int = 400, *, device_only: bool = False) -> Case:
    draw = np.random.default_rng(seed)

    # Walk through each list so that few seeds see all of it, then mix.
    def choose(options: tuple, stride: int):  # type: ignore[no-untyped-def]
        if seed < 60:
            return options[(seed * stride + seed // len(options)) % len(options)]
        return options[int(draw.integers(0, len(options)))]

    made = Case(seed, rs.sensor("a", every="1s", columns=COLUMNS), {})
    second = rs.sensor("b", every="1s", columns=COLUMNS)
    made.inputs["a"] = columns(draw, int(draw.integers(1, rows)))
    key = choose(KEYS, 1)
    pair = choose(PAIR_STEPS, 1)
    step = choose(ROW_STEPS, 3)
    window = choose(WINDOWS, 1)
    end = choose(ENDS, 2)
    if device_only:
        key, pair = ("device",), "none" if pair == "join_on" else pair
    stream = rows_step(made, made.stream, second, step)
    if pair != "none" or step == "state_config":
        made.inputs["b"] = columns(draw, int(draw.integers(1, rows)))
    stream = pair_step(made, stream, second, pair)
    if pair == "join_on":
        key = ("tag",)  # it is keyed by what it was joined on
    elif not device_only and (draw.random() < 0.5 or "device" not in key):
        stream = stream.sync("up")
        made.verbs.add("sync")
    if key != ("device",) and stream.key != key:
        stream = stream.key_by(*key)
        made.verbs.add("key_by" if key else "key_by_nothing")
    if "sync" in made.verbs and draw.random() < 0.35:
        stream = keyed_again(made, stream, key, draw)
    if window in ("calendar", "daily"):
        spread_over_days(made)
    made.stream = end_step(made, stream, window, end, draw)
    if draw.random() < 0.3:
        made.stream = made.stream.where(col.time > 5 * SECOND)
    return made


def covering(seeds: range, rows: int) -> list[int]:
    """Few of these seeds that use every verb that any of them uses."""
    verbs = {seed: case(seed, rows).verbs for seed in seeds}
    missing: set[str] = set().union(*verbs.values())
    chosen: list[int] = []
    while missing:
        chosen.append(max(seeds, key=lambda seed: len(verbs[seed] & missing)))
        missing -= verbs[chosen[-1]]
    return sorted(chosen)


def keyed_again(made: Case, stream: Stream, key: tuple[str, ...], draw: np.random.Generator) -> Stream:
    """Rows that are together go apart again, by what was computed from them, or go back to their device: rows of several
    keys and one time meet."""
    if draw.random() < 0.5:
        made.verbs.add("key_by_computed")
        stream = stream.extend(part=col.n % 3).key_by("part")
        if draw.random() < 0.6:
            made.verbs.add("key_by_thrice")
            stream = stream.key_by("flag", "part")
        return stream
    made.verbs.add("key_by_device_again")
    if draw.random() < 0.5 and "device" not in key:  # a key that has all of the key before only parts rows further
        return stream.key_by("device", *key)
    return stream.key_by("device")


def spread_over_days(made: Case) -> None:
    """Seconds become four hours, in the days around a night in which Berlin's clocks went forward."""
    for given in made.inputs.values():
        given["time"] = given["time"] * 14_400 + 1_711_400_000 * SECOND


def rows_step(made: Case, stream: Stream, second: Stream, step: str) -> Stream:
    made.verbs.add(step)
    if step == "where":
        return stream.where((col.x > -1.0) & (col.small < 20_000) | (col.tag == "walk")).where(col.n + 1 > -40)
    if step == "extend":
        return stream.extend(
            x=col.x * 2.0 + col.y, n=col.n * 3 // (col.small % 7), tag=rs.if_else(col.flag, col.tag, "other")
        )
    if step == "significant":
        return stream.significant("x", change=0.5)
    if step == "significant_metres":
        return stream.extend(lat=col.y, lon=col.small / 400).significant("lat", "lon", metres=50_000)
    if step == "state":
        peak = rs.if_else(col.x > rs.state.peak, col.x, rs.state.peak)
        return stream.state(
            {"peak": -1e300, "n": 0, "x": 0.0}, peak=peak, n=rs.state.n + col.n, x=rs.state.x + col.y
        ).extend(small=rs.call("minimum", col.n, 3), tag="s", flag=col.peak > 0, y=col.x)
    if step == "state_keep":
        return stream.state({"level": 0.0}, keep=True, level=rs.state.level * 0.5 + col.y).extend(x=col.level)
    if step == "previous":
        return stream.previous("x", "tag", rows=2).extend(x=col.x - col.x_previous.fill(0.5), tag=col.tag_previous)
    if step == "distinct_within":
        return stream.distinct("tag", "flag", within="3s")
    if step == "state_expire":
        total = rs.state.total + col.y
        return stream.state({"total": 0.0}, keep=True, expire="2s", total=total).extend(x=col.total)
    if step == "text":
        halves = rs.concat(rs.split(col.tag, "a", 0), "-", rs.call("upper", col.tag))
        return stream.where(col.tag.isin(["walk", "", "🚲"]) | rs.like(col.tag, "%a%")).extend(tag=halves)
    if step == "map":
        kept = stream.map(half, keep=True).extend(x=col.conformance_half)
        return kept.map("conformance_words", shout=True).extend(x=col.score, n=1, small=2, flag=True, y=col.score)
    if step == "state_config":
        config = second.where(col.flag).select("n")
        return stream.state({"n": 0, "x": 0.0}, config=config, n=rs.state.n + 1, x=col.x).extend(
            small=col.n % 5, tag="c", flag=col.n > 3, y=col.x
        )
    if step == "hold":
        return stream.apply("conformance_hold").extend(n=1, small=2, tag="h", flag=col.x > 0, y=col.x)
    if step == "apply_rows":
        return stream.apply("conformance_scale", factor=0.5).extend(
            x=col.scaled, n=1, small=2, tag="r", flag=True, y=col.scaled
        )
    return stream


def pair_step(made: Case, stream: Stream, second: Stream, pair: str) -> Stream:
    made.verbs.add(pair)
    narrow = stream.select("x", "n", "small", "tag", "flag", "y")
    other = second.select("x", "n")
    if pair == "union":
        wide = stream.select(x=col.x * 1.0, n=col.n, small=col.small + 0, tag=col.tag, flag=col.flag, y=col.y * 1.0)
        return wide.union(
            second.select(x=col.x, n=col.n, small=col.small + 0, tag=col.tag, flag=col.flag, y=col.y * 1.0)
        )
    if pair == "zip":
        return narrow.zip(other)
    if pair == "combine":
        return narrow.combine(other)
    if pair == "join":
        return narrow.join(other.where(col.n > 10), before="500ms", after="1s")
    if pair == "followed_by":
        return narrow.followed_by(other.where(col.n > 10), within="1500ms")
    if pair == "join_left":
        return narrow.join(other.where(col.n > 10), before="500ms", after="1s", left=True, defaults={"n": -1})
    if pair == "join_on":
        made.verbs.add("sync")
        tagged = second.where(col.n > 35).select("x", label=col.tag).sync("second")
        return narrow.sync("up").join(tagged, within="300ms", on={"tag": "label"}, left=bool(made.seed % 2))
    if pair in ("as_of", "as_of_left"):
        return narrow.with_latest(other, tolerance="700ms", left=pair == "as_of_left")
    if pair == "with_latest":
        return narrow.with_latest(other, defaults={"x": 0.5, "n": -1})
    return narrow


def conditional() -> dict[str, Formula]:
    """Aggregates of some rows, in every way in which a condition is kept, and arithmetic on aggregates."""
    small = rs.call("minimum", col.small, 5000) > 0
    return {
        "some": rs.count("x", where=small),
        "of_some": rs.variance("x", where=col.flag) + rs.sum("n", where=small),
        "first_of_some": rs.first("tag", where=small),
        "ratio": rs.sum("n") / rs.count() + rs.if_else(rs.max("small", where=col.flag) > 0, rs.mean("x"), 0.5),
    }


def end_step(made: Case, stream: Stream, window: str, end: str, draw: np.random.Generator) -> Stream:
    if end == "machine":
        made.verbs.add(end)
        return stream.apply("conformance_debounce", every=int(draw.integers(1, 4)))
    if end == "absent":
        made.verbs.add(end)
        return stream.absent("2s")
    if end == "ports":
        made.verbs.add(end)
        split = stream.apply("conformance_split")
        return split.port("even").union(split.port("odd"))
    if end == "none" or window == "none":
        return stream
    made.verbs.update((window, end))
    opened = {
        "tumbling": lambda: stream.tumbling("5s"),
        "hopping": lambda: stream.hopping("6s", every="2s"),
        "daily": lambda: stream.daily(2),
        "hopping_odd": lambda: stream.hopping("7s", every="3s"),
        "sliding": lambda: stream.sliding("4s"),
        "session": lambda: stream.session(gap="2s"),
        "count": lambda: stream.tumbling(count=7),
        "count_hopping": lambda: stream.hopping(count=9, every_count=4),
        "count_sliding": lambda: stream.sliding(count=5),
        "calendar": lambda: stream.tumbling(("1d", "1w", "1mo")[made.seed % 3], zone="Europe/Berlin"),
    }[window]()
    if end == "apply_window":
        return opened.apply("conformance_span", bias=1.0)
    every = {
        "rows": rs.count(), "values": rs.count("x"), "total": rs.sum("x"), "whole": rs.sum("n"), "average": rs.mean("x"),
        "of_ints": rs.mean("small"), "low": rs.min("x"), "high": rs.max("n"), "low_tag": rs.min("tag"), "any": rs.max("flag"),
        "spread": rs.variance("x"), "deviation": rs.std("y"), "middle": rs.quantile("x", 0.5), "oldest": rs.first("x"),
        "newest": rs.last("tag"), "often": rs.top_k("tag", 2), "kinds": rs.distinct("tag"), "way": rs.path_km("y", "x"),
        "wave": rs.dft("y", 3), "range": rs.user_aggregate("conformance_range", "x"),
    }  # fmt: skip
    kinds = {column.name: column.kind for column in stream.schema}
    every = {name: one for name, one in every.items() if name != "range" or kinds["x"] == "float64"}
    names = [name for name in every if draw.random() < 0.5] or ["rows"]
    every.update(conditional())
    names += [name for name in ("some", "of_some", "first_of_some", "ratio") if draw.random() < 0.3]
    made.verbs.update(part.aggregate.function for name in names for part in every[name].measured.values())
    made.verbs.update(name for name in names if name in ("of_some", "first_of_some", "ratio"))
    return opened.aggregate(**{name: every[name] for name in names})
