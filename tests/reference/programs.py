"""Random programs as users write them, line by line, and beside each line the table that it means."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.reference import functions, tables, values
from tests.reference.expressions import NUMBERS, TEXTS, Expressions
from tests.reference.tables import Aggregates, Cut, Table
from tests.reference.values import Row, Written

SECOND = 1_000_000
DAY = 86_400 * SECOND
DEVICES = ("bb", "aa", "ñ")
COLUMNS = {"v": "float64", "r": "float32", "n": "int64", "s": "int16", "w": "str", "f": "bool"}
KEY_KINDS = ("str", "bool", "int64", "int16")
OUTLIERS = (2.0**30, -(2.0**40))
ROUGH = "rough"  # a float that nothing more is computed from
DAYS = (1_711_670_400, 1_729_814_400, 1_609_459_200)  # before clocks go forward and back in Europe; a new year
ZONES = ("Europe/Berlin", "America/New_York", "Asia/Kathmandu", "America/Sao_Paulo")
NOTHING = {"str": "", "bool": False, "float64": math.nan, "float32": math.nan}  # of whole numbers: 0
HUGE = 1e25  # beside it a sum of the others is lost: only where a window's row is the answer


@dataclass(frozen=True)
class Stream:
    """A line's stream: its name in the program, the kinds of its columns, and the rows it means."""

    name: str
    kinds: Mapping[str, str]
    table: Table
    cloud: bool

    @property
    def key(self) -> tuple[str, ...]:
        return self.table.key


@dataclass(frozen=True)
class Program:
    text: str
    inputs: Mapping[str, Mapping[str, list[Any]]]
    out: Stream
    verbs: frozenset[str]


def program(seed: int) -> Program:
    return Writer(seed).written()


class Writer:
    def __init__(self, seed: int) -> None:
        self.draw = np.random.default_rng([seed, 16])
        self.lines: list[str] = []
        self.inputs: dict[str, dict[str, list[Any]]] = {}
        self.verbs: set[str] = set()
        # Rows of several devices meet on the cloud or in a region: the same table.
        self.crossing = "gather" if seed % 4 == 3 else "sync"
        self.huge = self.draw.random() < 0.05
        self.days = self.draw.random() < 0.08  # rows over weeks, for windows of local days
        self.count = 0

    # -- the whole -------------------------------------------------------------------------------------------------------

    def written(self) -> Program:
        cloud = self.draw.random() < 0.6
        stream = self.source("x", cloud=cloud)
        for _ in range(int(self.draw.integers(0, 3))):
            stream = self.row_step(stream)
        if self.draw.random() < 0.6:
            stream = self.pair_step(stream)
        stream = self.key_step(stream)
        if self.draw.random() < 0.4:
            stream = self.row_step(stream)
        if self.draw.random() < 0.7:
            stream = self.window_step(stream)
            if not self.huge:
                stream = self.after_window(stream)
        text = "\n".join([*self.lines, f"out = {stream.name}"])
        return Program(text, self.inputs, stream, frozenset(self.verbs))

    def after_window(self, stream: Stream) -> Stream:
        """Windows are rows like others: they are filtered, keyed and cut into windows again."""
        if self.draw.random() < 0.4:
            stream = self.row_step(stream)
        if self.draw.random() < 0.4:
            stream = self.key_step(stream)
        if self.draw.random() < 0.3:
            stream = self.window_step(stream)
        return stream

    def line(self, verb: str, text: str, kinds: Mapping[str, str], table: Table, *, cloud: bool) -> Stream:
        self.count += 1
        name = f"s{self.count}"
        self.lines.append(f"{name} = {text}")
        self.verbs.add(verb)
        return Stream(name, dict(kinds), table, cloud)

    def after(self, verb: str, stream: Stream, text: str, kinds: Mapping[str, str], table: Table) -> Stream:
        return self.line(verb, f"{stream.name}.{text}", kinds, table, cloud=stream.cloud)

    def pick(self, options: Any) -> Any:
        return options[int(self.draw.integers(len(options)))]

    # -- sources ---------------------------------------------------------------------------------------------------------

    def source(self, name: str, *, cloud: bool) -> Stream:
        rows = self.rows()
        self.inputs[name] = {column: [row[column] for row in rows] for column in ("time", "device", *COLUMNS)}
        table = Table(tuple(rows))
        kinds = {"device": "str", **COLUMNS}
        made = self.line("stream", f"rs.stream({name!r}, {COLUMNS!r})", kinds, table, cloud=False)
        if not cloud:
            return made
        return self.line(self.crossing, f"{made.name}.{self.crossing}({name!r})", kinds, table, cloud=True)

    def rows(self) -> list[Row]:
        count = 0 if self.draw.random() < 0.04 else int(self.draw.integers(1, 60))
        step = int(self.pick((1, SECOND // 4, SECOND)))  # by the microsecond there are many ties
        span = int(self.pick((8, 40)))
        times = np.sort(self.draw.integers(0, span, count)) + self.draw.integers(0, 3, count) - 4
        if self.days:
            step, times = 3600 * SECOND, times * int(self.pick((1, 5))) + self.pick(DAYS) // 3600
        devices = DEVICES[: int(self.draw.integers(1, 4))]
        return [self.row(int(time) * step, str(self.pick(devices))) for time in times]

    def row(self, time: int, device: str) -> Row:
        eighths = float(self.draw.integers(-64, 65)) / 8  # sums of such numbers are exact
        odd = self.draw.random()
        value = math.nan if odd < 0.08 else self.pick(OUTLIERS) if odd < 0.12 else -0.0 if odd < 0.14 else eighths
        if self.huge and odd > 0.93:
            value = HUGE
        n = int(self.draw.integers(-9, 10))
        return {
            "time": time, "device": device, "v": value, "r": float(self.draw.integers(-16, 17)) / 4,
            "n": int(self.pick((2**63 - 1, -(2**63)))) if self.draw.random() < 0.01 else n,
            "s": int(self.draw.integers(-5, 6)), "w": str(self.pick(TEXTS[:5])), "f": bool(self.draw.random() < 0.5),
        }  # fmt: skip

    # -- row by row ------------------------------------------------------------------------------------------------------

    def row_step(self, stream: Stream) -> Stream:
        steps = (
            self.where, self.extend, self.select, self.significant, self.state, self.previous, self.state_keep, self.map,
            self.distinct,
        )  # fmt: skip
        return steps[int(self.draw.integers(len(steps)))](stream)

    def where(self, stream: Stream) -> Stream:
        test = Expressions(self.draw, stream.kinds).condition(3)
        return self.after("where", stream, f"where({test.text})", stream.kinds, tables.where(stream.table, test.of))

    def computed(self, stream: Stream, names: tuple[str, ...]) -> dict[str, Written]:
        draws = Expressions(self.draw, stream.kinds)
        makers = (draws.number, draws.text, draws.condition, lambda: draws.number(2, whole=True))
        return {name: makers[int(self.draw.integers(len(makers)))]() for name in names if name not in stream.key}

    def extend(self, stream: Stream) -> Stream:
        made = self.computed(stream, ("z", self.pick(("v", "q"))))
        given = ", ".join(f"{name}={one.text}" for name, one in made.items())
        kinds = {**stream.kinds, **{name: one.kind for name, one in made.items()}}
        table = tables.extend(stream.table, {name: one.of for name, one in made.items()})
        return self.after("extend", stream, f"extend({given})", kinds, table)

    def select(self, stream: Stream) -> Stream:
        names = [name for name in stream.kinds if name not in stream.key and self.draw.random() < 0.7]
        made = {name: one for name, one in self.computed(stream, ("z",)).items() if name not in names}
        given = ", ".join([*map(repr, names), *(f"{name}={one.text}" for name, one in made.items())])
        kinds = {name: kind for name, kind in stream.kinds.items() if name in (*stream.key, *names)}
        table = tables.select(stream.table, names, {name: one.of for name, one in made.items()})
        return self.after(
            "select", stream, f"select({given})", {**kinds, **{name: one.kind for name, one in made.items()}}, table
        )

    def significant(self, stream: Stream) -> Stream:
        names = [name for name, kind in stream.kinds.items() if kind in ("float64", "float32", "int16")][:2]
        if not names:
            return self.where(stream)
        change = self.pick((0.25, 1.0, 4.0))
        given = ", ".join(map(repr, names))
        table = tables.significant(stream.table, names, change)
        return self.after("significant", stream, f"significant({given}, change={change})", stream.kinds, table)

    def state(self, stream: Stream, *, keep: bool = False) -> Stream:
        fields: dict[str, str] = {"total": "float64", "steps": "int64"}
        if any(name in stream.kinds for name in fields):
            return self.where(stream)
        draws = Expressions(self.draw, stream.kinds, fields)
        chosen = draws.number(2)
        updates = {"total": chosen, "steps": draws.number(2, whole=True)}
        start: Row = {"total": 0.5, "steps": 1}
        of = {"total": lambda row: np.float64(chosen.of(row)), "steps": updates["steps"].of}
        given = ", ".join(f"{name}={one.text}" for name, one in updates.items())
        expire = self.draw.random() < 0.25
        more = ("keep=True, " if keep else "") + ('expire="2s", ' if expire else "")
        text = f"state({start!r}, {more}{given})"
        own = stream.kinds if keep else {name: stream.kinds[name] for name in stream.key}
        table = tables.state(stream.table, start, of, keep=keep, expire_us=2 * SECOND if expire else 2**62)
        if expire:
            self.verbs.add("expire")
        return self.after("state_keep" if keep else "state", stream, text, {**own, **fields}, table)

    def state_keep(self, stream: Stream) -> Stream:
        return self.state(stream, keep=True)

    def distinct(self, stream: Stream) -> Stream:
        exact = ("str", "bool", "int16") if "window_start" in stream.kinds else ("str", "bool", "int16", "float64")
        names = [name for name, kind in stream.kinds.items() if kind in exact][:6]
        names = [name for name in names if name not in stream.key and self.draw.random() < 0.4]
        if not names:
            return self.where(stream)
        given = ", ".join(map(repr, names))
        table = tables.distinct(stream.table, names, 2 * SECOND)
        return self.after("distinct_rows", stream, f'distinct({given}, within="2s")', stream.kinds, table)

    def map(self, stream: Stream) -> Stream:
        keep = bool(self.draw.random() < 0.5)
        own = stream.kinds if keep else {name: stream.kinds[name] for name in stream.key}
        if (stream.kinds.get("v"), stream.kinds.get("n")) == ("float64", "int64") and "reference_pace" not in own:
            table = tables.mapped(
                stream.table, lambda row: {"reference_pace": functions.pace(row["v"], row["n"])}, keep=keep
            )
            text = f'map("reference_pace", keep={keep})'
            return self.after("map", stream, text, {**own, "reference_pace": "str"}, table)
        if stream.kinds.get("w") == "str" and not {"early", "part"} & set(own):
            table = tables.mapped(stream.table, lambda row: functions.parts(row["time"], row["w"], size=3), keep=keep)
            text = f'map("reference_parts", keep={keep}, size=3)'
            return self.after("map", stream, text, {**own, "early": "bool", "part": "int64"}, table)
        return self.where(stream)

    def previous(self, stream: Stream) -> Stream:
        names = [name for name in stream.kinds if f"{name}_previous" not in stream.kinds and name not in stream.key]
        names = [name for name in names if not name.endswith("_previous") and stream.kinds[name] != ROUGH][:2]
        if not names:
            return self.where(stream)
        back = int(self.draw.integers(1, 4))
        first = {name: NOTHING.get(stream.kinds[name], 0) for name in names}
        text = f"previous({', '.join(map(repr, names))}, rows={back})"
        kinds = {**stream.kinds, **{f"{name}_previous": stream.kinds[name] for name in names}}
        return self.after("previous", stream, text, kinds, tables.previous(stream.table, names, back, first))

    # -- several streams, keys ---------------------------------------------------------------------------------------------

    def pair_step(self, stream: Stream) -> Stream:
        other = self.source("y", cloud=stream.cloud)
        if self.draw.random() < 0.4:
            other = self.where(other)
        steps = (self.union, self.zip, self.combine, self.join, self.with_latest, self.state_config, self.followed_by)
        return steps[int(self.draw.integers(len(steps)))](stream, other)

    def union(self, stream: Stream, other: Stream) -> Stream:
        common = [name for name in stream.kinds if stream.kinds[name] == other.kinds.get(name) and name != "device"]
        given = ", ".join(map(repr, common))
        kinds = {name: stream.kinds[name] for name in ("device", *common)}
        table = tables.union([tables.select(one.table, common, {}) for one in (stream, other)])
        return self.after("union", stream, f"select({given}).union({other.name}.select({given}))", kinds, table)

    def paired_kinds(self, stream: Stream, other: Stream) -> dict[str, str]:
        kinds = dict(stream.kinds)
        for name, kind in other.kinds.items():
            if name not in stream.key:
                kinds[f"{name}_right" if name in stream.kinds else name] = kind
        return kinds

    def zip(self, stream: Stream, other: Stream) -> Stream:
        table = tables.zipped(stream.table, other.table)
        return self.after("zip", stream, f"zip({other.name})", self.paired_kinds(stream, other), table)

    def combine(self, stream: Stream, other: Stream) -> Stream:
        table = tables.combined(stream.table, other.table)
        return self.after("combine", stream, f"combine({other.name})", self.paired_kinds(stream, other), table)

    def stand_ins(self, other: Stream) -> Row:
        return {name: NOTHING.get(kind, 0) for name, kind in other.kinds.items()}

    def join(self, stream: Stream, other: Stream) -> Stream:
        if self.draw.random() < 0.5:
            text, before, after = 'within="1s"', SECOND, SECOND
        else:
            text, before, after = 'before="500ms", after="2s"', SECOND // 2, 2 * SECOND
        left, right, verb = stream, other, "join"
        if stream.cloud and stream.kinds.get("w") == "str" and self.draw.random() < 0.4:
            text = f'{text}, on="w"'
            self.verbs.add("join_on")
            left = replace(stream, table=tables.key_by(stream.table, ("w",)))
            right = replace(other, table=tables.key_by(other.table, ("w",)))
        stand_ins = None
        if self.draw.random() < 0.3:
            text, verb, stand_ins = f"{text}, left=True", "join_left", self.stand_ins(other)
        table = tables.joined(left.table, right.table, before, after, stand_ins)
        return self.after(verb, stream, f"join({other.name}, {text})", self.paired_kinds(left, right), table)

    def followed_by(self, stream: Stream, other: Stream) -> Stream:
        table = tables.followed_by(stream.table, other.table, 2 * SECOND)
        text = f'followed_by({other.name}, within="2s")'
        return self.after("followed_by", stream, text, self.paired_kinds(stream, other), table)

    def with_latest(self, stream: Stream, other: Stream) -> Stream:
        narrow = tables.select(other.table, ["v", "w"], {})
        kinds = {"device": "str", "v": "float64", "w": "str"}
        chosen = self.after("select", other, 'select("v", "w")', kinds, narrow)
        text, verb, tolerance, stand_ins = "", "with_latest", 2**62, None
        if self.draw.random() < 0.4:
            text, verb, tolerance = ', tolerance="1s"', "as_of", SECOND
        if self.draw.random() < 0.6:
            stand_ins = self.stand_ins(chosen)
            if self.draw.random() < 0.5:
                stand_ins |= {"v": 0.5, "w": "none"}
                text = f"{text}, defaults={{'v': 0.5, 'w': 'none'}}"
            else:
                text = f"{text}, left=True"
        table = tables.with_latest(stream.table, narrow, stand_ins, tolerance)
        return self.after(verb, stream, f"with_latest({chosen.name}{text})", self.paired_kinds(stream, chosen), table)

    def state_config(self, stream: Stream, other: Stream) -> Stream:
        fields = {"level": "float64", "seen": "int64"}
        setting = self.after(
            "select", other, "select(level=col.v)", {"device": "str", "level": "float64"},
            tables.select(other.table, [], {"level": lambda row: row["v"]}),
        )  # fmt: skip
        number = Expressions(self.draw, stream.kinds, fields).number(1)
        of = {"level": lambda row: np.float64(number.of(row)), "seen": lambda row: row["state.seen"] + 1}
        text = f"state({{'level': 0.0, 'seen': 0}}, config={setting.name}, level={number.text}, seen=state.seen + 1)"
        table = tables.state_with_config(stream.table, setting.table, {"level": 0.0, "seen": 0}, of)
        return self.after("state_config", stream, text, {"device": "str", **fields}, table)

    def key_step(self, stream: Stream) -> Stream:
        if self.draw.random() < 0.35:
            return stream
        fit = [name for name, kind in stream.kinds.items() if kind in KEY_KINDS and name not in ("complete", "device")]
        names = [name for name in fit if self.draw.random() < 0.3][:2]
        with_device = "device" in stream.kinds and (not stream.cloud or self.draw.random() < 0.4)
        if not stream.cloud and not with_device:
            return stream
        key = (*(("device",) if with_device else ()), *names)
        text = f"key_by({', '.join(map(repr, key))})"
        made = self.after("key_by", stream, text, stream.kinds, tables.key_by(stream.table, key))
        return made if self.draw.random() < 0.8 else self.key_step(made)

    # -- windows ---------------------------------------------------------------------------------------------------------

    def window_step(self, stream: Stream) -> Stream:
        windows: tuple[tuple[str, str, Cut], ...] = (
            ("tumbling", 'tumbling("5s")', tables.by_time(5 * SECOND, 5 * SECOND)),
            ("hopping", 'hopping("6s", every="2s")', tables.by_time(6 * SECOND, 2 * SECOND)),
            ("hopping", 'hopping("7s", every="3s")', tables.by_time(7 * SECOND, 3 * SECOND)),
            ("daily", "daily(2)", tables.by_time(2 * DAY, DAY)),
            ("sliding", 'sliding("4s")', tables.sliding(4 * SECOND)),
            ("session", 'session("3s")', tables.sessions(3 * SECOND)),
            ("tumbling_count", "tumbling(count=4)", tables.by_count(4, 4)),
            ("hopping_count", "hopping(count=5, every_count=2)", tables.by_count(5, 2)),
            ("sliding_count", "sliding(count=3)", tables.by_count(3, 1)),
        )
        verb, text, cut = windows[int(self.draw.integers(len(windows)))]
        if self.days and self.draw.random() < 0.7:
            zone, unit = self.pick(ZONES), self.pick(("1d", "1w", "1mo"))
            verb, text, cut = "zone", f'tumbling("{unit}", zone="{zone}")', tables.by_calendar(zone, unit)
        if set(tables.BOUNDS) & set(stream.key):
            return stream  # a window's row has its own bounds
        if not {"rows", "silent_since"} & set(stream.key) and self.draw.random() < 0.05:
            own = {name: stream.kinds[name] for name in stream.key}
            bounds = dict.fromkeys((*tables.BOUNDS, "rows", "silent_since"), "int64")
            made = tables.absent(stream.table, 3 * SECOND)
            return self.after("absent", stream, 'absent("3s")', {**own, **bounds, "complete": "bool"}, made)
        chosen, kinds, means = self.aggregates(stream)
        own = {name: stream.kinds[name] for name in stream.key}
        kinds = {**own, "window_start": "int64", "window_end": "int64", **kinds, "complete": "bool"}
        table = tables.aggregated(stream.table, cut, means)
        return self.after(verb, stream, f"{text}.aggregate({', '.join(chosen)})", kinds, table)

    def aggregates(self, stream: Stream) -> tuple[list[str], dict[str, str], Aggregates]:
        chosen: list[str] = []
        kinds: dict[str, str] = {}
        means: Aggregates = {}
        for number in range(int(self.draw.integers(1, 5))):
            name = f"a{self.count}{'abcd'[number]}"
            text, added, mean = self.measured(stream, name)
            chosen.append(f"{name}={text}")
            kinds.update(added)
            means[name] = mean
        return chosen, kinds, means

    def measured(self, stream: Stream, name: str) -> tuple[str, dict[str, str], Callable[..., Row]]:
        """An aggregate, or two of them in a formula."""
        text, added, mean = self.conditional(stream, name)
        if self.huge or self.draw.random() > 0.2 or added.get(name) not in NUMBERS:
            return text, added, mean
        other, more, also = self.conditional(stream, name)
        if more.get(name) not in NUMBERS:
            return text, added, mean
        self.verbs.add("formula")
        sign = self.pick(("+", "-", "*", "/"))
        whole = {added[name], more[name]} <= {"int64", "int16"} and sign != "/"
        kind = "int64" if whole else "float64"
        return (
            f"{text} {sign} {other}", {name: kind},
            lambda rows: {name: values.arithmetic(sign, mean(rows)[name], also(rows)[name], kind)},
        )  # fmt: skip

    def conditional(self, stream: Stream, name: str) -> tuple[str, dict[str, str], Callable[..., Row]]:
        text, added, mean = self.aggregate(stream, name)
        if self.draw.random() > 0.2 or text.startswith("rs.dft"):  # a transform of no rows is not said anywhere
            return text, added, mean
        self.verbs.add("condition")
        test = Expressions(self.draw, stream.kinds).condition(1)
        text = f"{text[:-1]}{'' if text.endswith('()') else ', '}where={test.text})"
        return text, added, lambda rows: mean([row for row in rows if test.of(row)])

    def aggregate(self, stream: Stream, name: str) -> tuple[str, dict[str, str], Callable[..., Row]]:
        """An aggregate as it is written, the columns it adds and what they are."""
        numbers = [one for one, kind in stream.kinds.items() if kind in NUMBERS]
        everything = [one for one, kind in stream.kinds.items() if one not in tables.BOUNDS and kind != ROUGH]
        function = self.pick(FUNCTIONS if numbers else ("count",))
        self.verbs.add(function)
        column = self.pick(everything if function in OF_ANYTHING else numbers) if function != "count" else ""
        kind = stream.kinds.get(column, "")
        plain = {"float32": "float64"}.get(kind, kind)
        none = NOTHING.get(plain, 0)
        if function == "count":
            return "rs.count()", {name: "int64"}, lambda rows: {name: len(rows)}
        if function == "count_of":
            return f"rs.count({column!r})", {name: "int64"}, lambda rows: {name: len(tables.known(rows, column))}
        if function in ("min", "max"):
            choose: Callable[..., Any] = min if function == "min" else max
            return (
                f"rs.{function}({column!r})", {name: kind}, lambda rows: {name: tables.extreme(rows, column, choose, none)}
            )  # fmt: skip
        if function in ("first", "last"):
            place = 0 if function == "first" else -1
            return (
                f"rs.{function}({column!r})", {name: kind},
                lambda rows: {name: tables.end_value(rows, column, place, none)},
            )  # fmt: skip
        if function == "distinct":
            return (
                f"rs.distinct({column!r})",
                {name: "int64"},
                lambda rows: {name: tables.known(rows, column).nunique()},
            )
        if function == "sum":
            summed = "float64" if plain == "float64" else "int64"
            return (
                f"rs.sum({column!r})",
                {name: summed},
                lambda rows: {name: tables.total(tables.known(rows, column), whole=summed == "int64")},
            )
        if function == "mean":
            return f"rs.mean({column!r})", {name: "float64"}, lambda rows: {name: tables.mean(rows, column)}
        if function in ("std", "variance"):
            root = function == "std"
            return (
                f"rs.{function}({column!r})", {name: ROUGH},
                lambda rows: {name: tables.spread(rows, column, root=root)},
            )  # fmt: skip
        if function == "quantile":
            q = float(self.pick((0.0, 0.25, 0.5, 0.9, 1.0)))
            return (
                f"rs.quantile({column!r}, {q})", {name: "float64"},
                lambda rows: {name: tables.quantile(rows, column, q)},
            )  # fmt: skip
        if function == "top_k":
            added = {f"{name}_1": kind, f"{name}_2": kind, f"{name}_1_count": "int64", f"{name}_2_count": "int64"}
            return (f"rs.top_k({column!r}, 2)", added, lambda rows: tables.most_frequent(rows, column, name, 2, none))
        if function == "dft":
            added = {f"{name}_{place}": ROUGH for place in range(2)}
            return f"rs.dft({column!r}, 2)", added, lambda rows: tables.magnitudes(rows, column, name, 2)
        lon = self.pick(numbers)
        return (
            f"rs.path_km({column!r}, {lon!r})", {name: ROUGH}, lambda rows: {name: tables.path_km(rows, column, lon)}
        )  # fmt: skip


FUNCTIONS = (
    "count", "count_of", "sum", "sum", "mean", "min", "max", "first", "last", "std", "variance", "quantile", "distinct",
    "top_k", "dft", "path_km",
)  # fmt: skip
OF_ANYTHING = ("count_of", "min", "max", "first", "last", "distinct", "top_k")
