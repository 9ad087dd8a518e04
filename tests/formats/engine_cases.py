"""Programs whose plans and engine states are frozen: every operator type, every kind of window, every stateful operator.

Rows come from plain arithmetic, so that any version can make them again.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import resurge as rs
from resurge import col, state
from shared.batch import Batch
from shared.engine.pipeline import Pipeline
from shared.language.aggregates import Aggregate
from shared.language.windows import CalendarWindow
from shared.plan import operators as op
from shared.plan.fragments import Fragment
from shared.plan.graph import Plan
from shared.plan.placement import cloud_fragment, device_fragment
from shared.stream.drafts import draft
from shared.stream.formulas import Formula
from shared.stream.stream import Sink, Stream
from tests.conformance import programs

REGISTERED = (
    programs.scale,
    programs.span,
    programs.Debounce,
    programs.Split,
    programs.Range,
    programs.half,
    programs.words,
)  # users' types, used below
COLUMNS = {"x": "float64", "n": "int64", "tag": "str", "flag": "bool", "small": "int16"}
STEP_US = 400_000
DEVICES = ("aa", "bb")
Row = dict[str, object]


def a() -> Stream:
    return rs.sensor("a", every="1s", columns=COLUMNS)


def b() -> Stream:
    return rs.sensor("b", every="1s", columns=COLUMNS)


def aggregates() -> dict[str, object]:
    return {
        "rows": rs.count(), "values": rs.count("x"), "total": rs.sum("x"), "whole": rs.sum("n"), "average": rs.mean("x"),
        "low": rs.min("x"), "high": rs.max("n"), "low_tag": rs.min("tag"), "spread": rs.variance("x"),
        "deviation": rs.std("small"), "middle": rs.quantile("x", 0.5), "oldest": rs.first("x"), "newest": rs.last("tag"),
        "often": rs.top_k("tag", 2), "kinds": rs.distinct("tag"), "way": rs.path_km("x", "x"), "wave": rs.dft("x", 2),
        "range": rs.user_aggregate("conformance_range", "x"),
    }  # fmt: skip


def conditional() -> dict[str, Formula]:
    return {
        "low": rs.min("n", where=col.flag), "word": rs.first("tag", where=col.n > 0), "kinds": rs.distinct("tag", where=col.flag),
        "total": rs.sum("x", where=col.flag), "share": rs.count(where=col.n > 0) / rs.count(),
    }  # fmt: skip


def cycle() -> Sink:
    fed = rs.feedback("echo", {"x": "float64"})
    mixed = a().select("x").union(fed.select("x"), merge="arrival")
    mixed.select(x=col.x * 0.5).where(col.x > 1.0).feed(fed)
    return mixed.subscribe("out")


def ports() -> Stream:
    split = a().apply("conformance_split")
    return split.port("even").union(split.port("odd"))


def summed(stream: Stream) -> Stream:
    fields: dict[str, object] = {"level": 0.0, "steps": 0}
    return stream.state(fields, level=state.level * 0.5 + col.n, steps=state.steps + 1)  # type: ignore[arg-type]


def local_day() -> Stream:
    """Midnight is 13 seconds after that of UTC, so that a day ends within the rows."""
    window = CalendarWindow("day", "Frozen/Place", ((0, -13), (20, -8)))
    return Stream(draft(op.WindowAggregate(window, (("rows", Aggregate("count", ())),), 1_000_000), a().draft))


CASES: dict[str, Callable[[], Stream | Sink]] = {
    "tumbling": lambda: a().tumbling("2s").aggregate(**aggregates()),
    "tumbling_late": lambda: a().tumbling("2s", lateness="4s").aggregate(**aggregates()),
    "hopping": lambda: a().hopping("3s", every="1s").aggregate(**aggregates()),
    "hopping_odd": lambda: a().hopping("3s", every="2s").aggregate(**aggregates()),
    "sliding": lambda: a().sliding("3s").aggregate(**aggregates()),
    "session": lambda: a().session(gap="1s").aggregate(**aggregates()),
    "session_late": lambda: a().session(gap="1s", lateness="3s").aggregate(**aggregates()),
    "conditional": lambda: a().hopping("3s", every="1s").aggregate(**conditional()),
    "conditional_sliding": lambda: a().sliding(count=4).aggregate(**conditional()),
    "calendar": local_day,
    "calendar_month": lambda: a().tumbling("1mo", zone="America/New_York").aggregate(total=rs.sum("x")),
    "late": lambda: a().tumbling("2s", lateness="1s").late(),
    "distinct": lambda: a().distinct("tag", "flag", "x", within="3s"),
    "state_expire": lambda: a().sync("up").key_by("tag", "flag").state(
        {"steps": 0}, keep=True, expire="1500ms", steps=state.steps + 1
    ),
    "absent": lambda: a().where(col.n > 0).absent("1s"),
    "followed_by": lambda: a().select("x").followed_by(b().where(col.n > 2).select("n"), within="1s"),
    "count": lambda: a().tumbling(count=5).aggregate(**aggregates()),
    "count_hopping": lambda: a().hopping(count=6, every_count=2).aggregate(**aggregates()),
    "count_sliding": lambda: a().sliding(count=4).aggregate(**aggregates()),
    "mean": lambda: a().sliding(count=4).aggregate(x=rs.mean("x")),
    "window_function": lambda: a().tumbling("2s").apply("conformance_span", bias=1.0),
    "rows_function": lambda: a().apply("conformance_scale", config=b().select(factor=col.x)),
    "machine": lambda: a().apply("conformance_debounce"),
    "ports": ports,
    "map": lambda: a().map("conformance_half", keep=True).map("conformance_words", shout=True).sliding(count=3).aggregate(s=rs.sum("score")),
    "state": lambda: summed(a()),
    "state_config": lambda: a().state({"n": 0}, config=b().select("n"), n=state.n + col.n),
    "significant": lambda: a().significant("x", change=3.0),
    "union": lambda: a().union(b()),
    "zip": lambda: a().zip(b()),
    "combine": lambda: a().combine(b()),
    "join": lambda: a().join(b(), before="500ms", after="1s"),
    "with_latest": lambda: a().with_latest(b()),
    "join_left": lambda: a().join(b().where(col.n > 2), before="500ms", after="1s", left=True),
    "as_of": lambda: a().with_latest(b().where(col.n > 2), tolerance="700ms", left=True),
    "key_by": lambda: a().sync("up").key_by("tag", idle_after="5s").tumbling("2s").aggregate(**aggregates()),
    "key_by_logged": lambda: a().sync("up").key_by(merge="logged").hopping("2s", every="1s").aggregate(rows=rs.count()),
    "two_keys": lambda: a().sync("up").key_by("device", "tag").session(gap="1s").aggregate(x=rs.sum("x")).sync_back("home"),
    "feedback": cycle,
    "timer": lambda: rs.timer("1s").with_latest(a(), defaults={"x": 0.0, "n": 1, "tag": "", "flag": False, "small": 0}),
    "appended": lambda: rs.stream("marks", {"x": "float64"}).where((col.x > 0.0) | ~rs.is_missing(col.x)).select(
        y=rs.if_else(col.x > 1.0, rs.hypot(col.x, 2.0), -col.x), z=(col.x // 2.0).cast("int32")
    ),
    "request": lambda: rs.timer("2s").read("a", COLUMNS),
    "contract": lambda: a().sync(
        "up", batch=5, within="2s", codec="none", contract=rs.limited_loss(0.5, delay="1m"), evict="priority",
        priority=3, deadline="1h",
    ),
}  # fmt: skip


def fragment(name: str, plan: Plan) -> Fragment:
    """The piece of a case that is run: the cloud's where there is one, else the device's. Vertices of Spark and devices
    keep the states of the same operators."""
    if plan.edges and name != "contract":
        return cloud_fragment(plan)
    return device_fragment(plan)


def columns(kinds: list[tuple[str, str]], source: int, start: int, stop: int) -> dict[str, np.ndarray]:
    numbers = np.arange(start, stop)
    made: dict[str, np.ndarray] = {
        "time": numbers * STEP_US + (numbers * 7919) % 3 * 300_000,
        "x": ((numbers * 37 + source * 5) % 23) * 0.375 - 2.0,
        "n": (numbers * 13 + source) % 11 - 4,
        "small": ((numbers * 29) % 17).astype(np.int16),
        "tag": np.array(["walk", "", "日本"], np.dtypes.StringDType())[(numbers * 5) % 3],
        "flag": numbers % 2 == 0,
        "device": np.array(DEVICES, np.dtypes.StringDType())[(numbers * 3) % 4 // 2],
        "tick": numbers,
        "factor": (numbers % 5) * 0.5,
    }
    made["x"][numbers % 11 == 10] = np.nan
    return {"time": made["time"], **{column: made[column] for column, _ in kinds}}


def pushed(pipeline: Pipeline, part: int) -> list[Row]:
    """One of three parts of the rows, pushed into every input with a frontier behind it; the rows that come out."""
    found: list[Row] = []
    for source, entry in enumerate(pipeline.fragment.inputs):
        if entry.name.startswith("feedback "):
            continue
        for start in range(part * 14, part * 14 + 14, 7):
            rows = columns(entry.schema.to_json(), source, start, start + 7)
            batch = Batch.of(entry.schema, rows, rows["time"], lo=start)
            found += listed(pipeline.push(entry.name, batch))
            found += listed(pipeline.advance(entry.name, (start + 5) * STEP_US))
    return found


def listed(outputs: list[tuple[str, Batch]]) -> list[Row]:
    rows: list[Row] = []
    for name, batch in outputs:
        names = batch.schema.names
        values = zip(batch.time_us.tolist(), *(batch.columns[column].tolist() for column in names), strict=True)
        rows += [{"": name, **dict(zip(("time", *names), map(exact, one), strict=True))} for one in values]
    return rows


def exact(value: object) -> object:
    """A value as JSON that keeps every bit of a float."""
    return value.hex() if isinstance(value, float) else value
