"""One line for every name of the reference page, which the page shows with what it gives. A test runs each.

They share these names: `x` and `y` are streams with the rows below, `cloud` is `x` after `.sync()`, `loop` a feedback stream,
`settings` a stream that sets things, `words` a text for SQL, and `live` a running program.
"""

from __future__ import annotations

import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

import resurge as rs
from resurge import col, state

SECOND = 1_000_000
ROWS: dict[str, dict[str, list[Any]]] = {
    "x": {
        "time": [0, SECOND, 2 * SECOND, 3 * SECOND],
        "v": [1.0, 4.0, float("nan"), 2.5],
        "n": [3, -2, 7, 3],
        "w": ["tea", "Bread ", "tea", "a-b"],
        "ok": [True, False, True, True],
    },
    "y": {"time": [SECOND // 2, 2 * SECOND], "u": [10.0, 20.0]},
    "places": {"time": [0, SECOND], "lat": [47.0, 47.0], "lon": [8.0, 8.01]},
    "timer 1s": {"time": [0, SECOND], "tick": [0, 1]},
    "settings": {"time": [0], "factor": [2.0]},
    "gps": {"time": [0, SECOND], "lat": [47.0, 47.0], "lon": [8.0, 8.1], "accuracy": [5.0, 80.0]},
}


@rs.operator("reference_twice", takes={"v": "float64"}, gives={"twice": "float64"})
def twice(columns: dict[str, np.ndarray], *, factor: float = 2.0) -> dict[str, np.ndarray]:
    return {"twice": columns["v"] * factor}


@rs.operator("reference_sides", takes={"n": "int64"}, gives={"even": {"n": "int64"}, "odd": {"n": "int64"}})
class Sides:
    def process(self, port: str, row: dict[str, Any]) -> Any:
        yield ("odd" if row["n"] % 2 else "even"), {"n": row["n"]}

    def snapshot(self) -> bytes:
        return b""

    def restore(self, state: bytes) -> None:
        pass


@rs.operator("reference_range", takes={"n": "int64"}, gives={"range": "int64"}, over="window")
def spread(columns: dict[str, np.ndarray]) -> dict[str, int]:
    return {"range": int(columns["n"].max() - columns["n"].min())}


@rs.function
def rounded_up(v: float, *, step: int = 5) -> int:
    return 0 if v != v else -int(-v // step) * step


def risk(rows: Any) -> Any:
    return rows.assign(risk=rows["v"] / 10)


@rs.aggregate("reference_product", takes={"n": "int64"}, gives="int64")
class Product:
    def __init__(self) -> None:
        self.value = 1

    def add(self, value: int) -> None:
        self.value *= value

    def result(self) -> int:
        return self.value

    def snapshot(self) -> bytes:
        return self.value.to_bytes(8, "little", signed=True)

    def restore(self, state: bytes) -> None:
        self.value = int.from_bytes(state, "little", signed=True)


def namespace() -> dict[str, Any]:
    """What an example knows, made anew for each."""
    x = rs.stream("x", {"v": "float64", "n": "int64", "w": "str", "ok": "bool"})
    program = Path(tempfile.mkdtemp(prefix="resurge-reference-")) / "program.py"
    program.write_text('import resurge as rs\nrs.stream("x", {"v": "float64"}).sync("x").sync_back("home")\n')
    return {
        "rs": rs, "col": col, "state": state, "np": np, "x": x, "y": rs.stream("y", {"u": "float64"}),
        "places": rs.stream("places", {"lat": "float64", "lon": "float64"}), "cloud": x.sync("x"), "rows": ROWS,
        "loop": rs.feedback("loop", {"v": "float64"}), "settings": rs.stream("settings", {"factor": "float64"}),
        "s": SECOND, "program_py": program, "twice": twice, "Product": Product, "rounded_up": rounded_up, "zlib": zlib,
        "risk": risk,
        "live": rs.Live(x.select("v").subscribe(lambda columns: None, name="rows")),
    }  # fmt: skip


SOURCES = {
    "rs.stream": 'rs.stream("x", {"v": "float64", "n": "int64", "w": "str", "ok": "bool"}).select("v")',
    "rs.sensor": 'rs.sensor("gps", every="1s").where(col.accuracy < 50).select("lat", "lon")',
    "rs.timer": 'rs.timer("1s")',
    "rs.feedback": 'rs.feedback("loop", {"v": "float64"})',
}
STREAM = {
    "where": "x.where(col.v > 2).select('v')",
    "select": 'x.select("n", half=col.v / 2)',
    "extend": "x.select('v').extend(twice=col.v * 2)",
    "significant": 'x.select("n").significant("n", change=5)',
    "distinct": 'x.select("ok").distinct("ok", within="10s")',
    "previous": 'x.select("v").previous("v", first=0.0)',
    "state": 'x.state({"total": 0}, total=state.total + col.n)',
    "key_by": 'cloud.key_by("w").tumbling("1m").aggregate(n=rs.count())',
    "group_by": 'cloud.group_by("w").tumbling("1m").aggregate(n=rs.sum("n"))',
    "union": "x.select(u=col.v).union(y)",
    "zip": 'x.select("v").zip(y)',
    "combine": 'x.select("v").combine(y)',
    "join": 'x.select("v").join(y, within="500ms")',
    "with_latest": 'x.select("v").with_latest(y, defaults={"u": 0.0})',
    "followed_by": 'x.select("v").followed_by(y, within="2s")',
    "map": "x.map(rounded_up, step=2)",
    "apply": 'x.apply("reference_twice", factor=3.0)',
    "port": 'x.apply("reference_sides").port("odd")',
    "gather": 'x.gather("near").key_by().tumbling("1m").aggregate(n=rs.count())',
    "sync": 'x.sync("x", batch=60, within="1m").select("n")',
    "sync_back": 'cloud.tumbling("1m").aggregate(n=rs.count()).sync_back("per_minute", commit="stable")',
    "subscribe": 'x.select("v").subscribe("readings")',
    "feed": 'x.select("v").union(loop, merge="arrival").where(col.v < 2).select(v=col.v * 2).feed(loop)',
    "read": 'x.where(col.ok).read("gps").select("lat", "lon")',
    "tumbling": 'x.tumbling("2s").aggregate(n=rs.count())',
    "hopping": 'x.hopping("2s", every="1s").aggregate(n=rs.count())',
    "sliding": 'x.sliding("2s").aggregate(total=rs.sum("v"))',
    "daily": 'x.daily(2).aggregate(n=rs.count())',
    "session": 'x.session("1500ms").aggregate(n=rs.count())',
    "absent": 'x.absent("1500ms")',
    "type": "x.select('v').type",
    "schema": "x.select('v').schema.names",
    "key": "cloud.key_by('w').key",
}
WINDOWED = {
    "aggregate": 'x.tumbling(count=2).aggregate(low=rs.min("n"), high=rs.max("n"))',
    "apply": 'x.tumbling(count=2).apply("reference_range")',
    "mean": 'x.tumbling("2s").mean("v")',
    "late": 'x.tumbling("2s", lateness="1m").late()',
}
OPERATORS = {
    "+": "col.v + 1",
    "-": "10 - col.n",
    "*": "col.v * col.n",
    "/": "col.n / 2",
    "//": "col.n // 2",
    "%": "col.n % 4",
    "**": "col.n ** 2",
    "<": "col.v < 2.5",
    "<=": "col.v <= 2.5",
    ">": "col.v > 2.5",
    ">=": "col.v >= 2.5",
    "==": 'col.w == "tea"',
    "!=": "col.v != 1.0",
    "and": "(col.v > 1) & col.ok",
    "or": "(col.v > 3) | col.ok",
    "not": "~col.ok",
}
FORMULA = {
    "cast": 'col.v.fill(-1.5).cast("int8")',
    "isin": 'col.w.isin(["tea", "milk"])',
    "fill": "col.v.fill(0.0)",
    "text": "(col.v * 2 > 3).text",
}
EXPRESSIONS = {
    "rs.col": "col.v",
    "rs.state": 'x.state({"peak": -9}, peak=rs.call("maximum", state.peak, col.n))',
    "rs.call": 'rs.call("minimum", col.n, 3)',
    "rs.concat": 'rs.concat(col.w, "!")',
    "rs.floor": "rs.floor(col.v)",
    "rs.haversine": "rs.haversine(47.0, 8.0, 47.0, 8.0 + col.v / 100)",
    "rs.hypot": "rs.hypot(col.v, 3.0)",
    "rs.if_else": "rs.if_else(col.ok, col.n, 0)",
    "rs.is_missing": "rs.is_missing(col.v)",
    "rs.like": 'rs.like(col.w, "%a%")',
    "rs.parse": 'rs.parse(col.n.cast("str"))',
    "rs.split": 'rs.split(col.w, "-", 1)',
    "rs.sqrt": "rs.sqrt(col.v)",
}
BY_NAME = {
    "abs": "abs(col.n)",
    "atan2": 'rs.call("atan2", col.v, 2.0)',
    "ceil": 'rs.call("ceil", col.v)',
    "contains": 'rs.call("contains", col.w, "e")',
    "cos": 'rs.call("cos", col.v)',
    "degrees": 'rs.call("degrees", col.v)',
    "ends_with": 'rs.call("ends_with", col.w, "a")',
    "exp": 'rs.call("exp", col.v)',
    "is_finite": 'rs.call("is_finite", col.v)',
    "length": 'rs.call("length", col.w)',
    "log": 'rs.call("log", col.v)',
    "lower": 'rs.call("lower", col.w)',
    "maximum": 'rs.call("maximum", col.n, 3)',
    "minimum": 'rs.call("minimum", col.n, 3)',
    "radians": 'rs.call("radians", col.v)',
    "replace": 'rs.call("replace", col.w, "e", "E")',
    "round": 'rs.call("round", col.v)',
    "sin": 'rs.call("sin", col.v)',
    "starts_with": 'rs.call("starts_with", col.w, "t")',
    "tan": 'rs.call("tan", col.v)',
    "trim": 'rs.call("trim", col.w)',
    "upper": 'rs.call("upper", col.w)',
}
AGGREGATES = {
    "rs.count": 'rs.count("v")',
    "rs.sum": 'rs.sum("v")',
    "rs.mean": 'rs.mean("v")',
    "rs.min": 'rs.min("w")',
    "rs.max": 'rs.max("n")',
    "rs.variance": 'rs.variance("v")',
    "rs.std": 'rs.std("n")',
    "rs.quantile": 'rs.quantile("v", 0.9)',
    "rs.median": 'rs.median("v")',
    "rs.first": 'rs.first("w")',
    "rs.last": 'rs.last("w")',
    "rs.top_k": 'rs.top_k("w", 1)',
    "rs.distinct": 'rs.distinct("w")',
    "rs.path_km": 'places.tumbling("1m").aggregate(km=rs.path_km("lat", "lon"))',
    "rs.dft": 'rs.dft("n", 2)',
    "rs.user_aggregate": 'rs.user_aggregate("reference_product", "n")',
}
RUNNING = {
    "rs.evaluate": 'rs.evaluate(x.where(col.n > 0).select("n"), {"x": rows["x"]})["out"]["n"].tolist()',
    "rs.Live": 'rs.Live(x.where(col.v > 2).subscribe(print), device="phone")',
    "rs.sql": 'rs.sql("SELECT w, sum(n) AS n FROM x GROUP BY TUMBLE(1 MINUTE), w", x=cloud)',
    "rs.plan_of": 'len(rs.plan_of(cloud.where(col.ok).sync_back("ok")).nodes)',
    "rs.explain": 'rs.explain(cloud.tumbling("1m").aggregate(n=rs.count())).splitlines()[0]',
    "rs.load_program": "rs.load_program(program_py).name",
    "rs.lossless": 'rs.lossless(delay="1m")',
    "rs.limited_loss": 'rs.limited_loss(0.95, delay="1m")',
    "rs.operator": 'rs.operator("reference_twice", takes={"v": "float64"}, gives={"twice": "float64"})(twice)',
    "rs.aggregate": 'rs.aggregate("reference_product", takes={"n": "int64"}, gives="int64")(Product)',
    "rs.function": "rs.function(rounded_up)",
    "rs.frame_operator": 'rs.frame_operator("reference_risk", output={"risk": "float64"})(risk)',
    "rs.register_codec": 'rs.register_codec("small", pack=zlib.compress, unpack=lambda data, most: zlib.decompressobj().decompress(data, most)).name',
    "rs.Stream": "isinstance(x, rs.Stream)",
    "rs.ResurgeError": "issubclass(rs.UsageError, rs.ResurgeError)",
    "rs.UsageError": 'rs.UsageError("what to do", code="a-code").code',
    "rs.PeerError": 'rs.PeerError("what was sent", code="a-code").code',
}
LIVE = {
    "append": 'live.append("x", time=5, v=1.0, n=1, w="tea", ok=True)',
    "advance": "live.advance(10 * s)",
    "close": "live.close()",
}
