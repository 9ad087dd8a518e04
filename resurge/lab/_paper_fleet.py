"""The setting of NebulaStream-MSS with real processes: a coordinator with the sink, seven hubs, and a phone that feeds
Query 1 and Query 2 and walks between hubs (Fig 4). Hubs have the paper's workers' numbers; worker 0 is the coordinator,
worker 8 the phone.

Readings are rows of the DEBS recording (or its stand-in), again and again at the paper's rate, with the signs of `vx`
and `az` drawn so that as many pass the filters as in the paper. They lie in a WFDB record, which a node reads without
parsing text. A reading is a function of its number, and its number follows from its event time; so what a sink holds is
compared with what the readings of the same numbers give.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import resurge as rs
from resurge.bench._recordings import FOOTBALL, football_rows
from resurge.lab._linked_nodes import Links, Network
from resurge.lab._paper_load import KEPT_BY_BOTH, KEPT_BY_FILTER, TUPLES_PER_SECOND
from resurge.up.process_fleet import COORDINATOR, PHONE, ProcessFleet
from shared.errors import PeerError
from shared.hosting.sink import read_sink, sink_file
from shared.language.schema import Schema
from shared.plan.cuts import region_vertices
from shared.plan.graph import Plan
from shared.wire import codecs
from shared.wire.frame import FrameType, decode_one
from shared.wire.messages import Data

COUNTS_PER_SECOND = 62_464  # numbers of 8 bytes: the paper's 488 KB/s
NEAR: Links = (
    ("hub1", COORDINATOR), ("hub2", "hub1"), ("hub3", "hub1"), ("hub4", "hub1"), ("hub5", "hub2"), ("hub6", "hub3"),
    ("hub7", "hub4"),
)  # fmt: skip
LINKS: Links = (*NEAR, (PHONE, "hub5"), (PHONE, "hub6"), (PHONE, "hub7"), (PHONE, "hub2"))
SNAPSHOTS = (
    ("hub5", "hub6", "hub7"),
    ("hub6", "hub7"),
    ("hub2", "hub7"),
)  # whom the phone reaches, the one it uses first
FILTER_1, FILTER_2 = "where mv_7 > 0", "where mv_12 > 1"
HOST = "hub1"  # where the rows that are left leave for the sink
NAMES = [name for name in FOOTBALL if name != "ts"]
SIGNALS = ["mv", *(f"mv_{number}" for number in range(2, len(NAMES) + 1))]
STORED = {"x": (1.0, -20_000), "v": (0.001, 0), "a": (0.001, 0)}  # gain and zero, to fit 16 bits
LOW = 30_000  # a counter in two numbers of 16 bits
GOLDEN = 0.6180339887
LOOK_S, PATIENCE_S = 0.02, 300.0
Columns = dict[str, np.ndarray[Any, Any]]

KINDS = {signal: np.dtype(FOOTBALL[name]).name for signal, name in zip(SIGNALS, NAMES, strict=True)}
QUERY_1 = f"""\
import resurge as rs
from resurge import col

player = rs.sensor("player", every="EVERY", columns={KINDS!r})
rows = player.gather("player", batch=60000, within="100ms")
rows.where(col.mv_7 > 0).where(col.mv_12 > 1).subscribe("fast")
"""
QUERY_2 = f"""\
import resurge as rs
from resurge import col

binary = rs.sensor("binary", every="EVERY", columns={{"mv": "int64", "mv_2": "int64"}})
binary.select(n=col.mv + col.mv_2 * {LOW}).gather("counter", batch=60000, within="100ms").subscribe("all")
"""


@dataclass(frozen=True, slots=True)
class Sunk:
    """What a sink holds, column by column, `time` among them."""

    columns: Columns
    lost: int  # numbers that came as tombstones

    @property
    def rows(self) -> int:
        return len(self.columns["time"])

    @property
    def digest(self) -> str:
        found = hashlib.sha256()
        for name in sorted(self.columns):
            found.update(name.encode() + np.ascontiguousarray(self.columns[name]).tobytes())
        return found.hexdigest()[:16]


def player_rows(numbers: np.ndarray[Any, Any]) -> Columns:
    """Query 1's readings, as they are stored."""
    rows = football_rows()
    found: Columns = {name: rows[name][numbers % len(rows[name])].astype(np.float64) for name in NAMES}
    drawn = numbers * GOLDEN % 1
    for name, passes in (("vx", drawn < KEPT_BY_FILTER), ("az", drawn < KEPT_BY_BOTH)):
        found[name] = (np.abs(found[name]) % 9_000 + 2) * np.where(passes, 1, -1)
    return found


def counter_rows(numbers: np.ndarray[Any, Any]) -> Columns:
    return {"low": (numbers % LOW).astype(np.float64), "high": (numbers // LOW).astype(np.float64)}


def write_record(path: Path, columns: Columns, hertz: int) -> None:
    """A WFDB record: `path` is its header."""
    name = path.stem
    raw = np.empty((len(next(iter(columns.values()))), len(columns)), "<i2")
    lines = [f"{name} {len(columns)} {hertz}"]
    for at, (column, values) in enumerate(columns.items()):
        gain, zero = STORED.get(column, (1.0, 0))
        raw[:, at] = _in_16_bits(column, values)
        lines.append(f"{name}.dat 16 {gain:g}({zero})")
    path.write_text("\n".join(lines) + "\n")
    raw.tofile(path.with_suffix(".dat"))


class PaperFleet(ProcessFleet):
    """Nine nodes and both queries, at one `share`-th of the paper's rates, with so many seconds of readings."""

    def __init__(
        self, folder: Path, network: Network, *, share: int = 1, seconds: float = 60.0, forward: str = "dynamic",
        spool_mb: int = 50,
    ) -> None:  # fmt: skip
        self.network = network
        self._seconds = seconds
        self.rates = {"player": TUPLES_PER_SECOND // share, "binary": COUNTS_PER_SECOND // share}
        makes: Mapping[str, Callable[[np.ndarray[Any, Any]], Columns]] = {
            "player": player_rows, "binary": counter_rows,
        }  # fmt: skip
        for name, hertz in self.rates.items():
            write_record(folder / f"{name}.hea", makes[name](np.arange(round(seconds * hertz))), hertz)
        programs = {"fast": folder / "query1.py", "all": folder / "query2.py"}
        for (sink, text), hertz in zip(
            (("fast", QUERY_1), ("all", QUERY_2)), self.rates.values(), strict=True
        ):  # fmt: skip
            programs[sink].write_text(text.replace("EVERY", f"{round(1e6 / hertz)}us"))
        self.programs = programs
        self._read_to: dict[str, tuple[int, int]] = {}  # by sink, of its file, and the newest event time in it
        super().__init__(
            folder, programs["fast"], hubs=7, strategy="none", every=500, modules=(), hosts={"fast": HOST}, keepers=0,
            recordings={name: folder / f"{name}.hea" for name in self.rates},
        )  # fmt: skip
        asked = f'sink = "{COORDINATOR}"\nplace = "push-down"\nforward = "{forward}"\n'
        query = self._said().replace(f'sink = "{COORDINATOR}"\n', asked)
        head, _, first = query.partition("[[query]]")
        second = first.replace('"q"', '"q2"').replace("query1.py", "query2.py").replace('"fast"', '"all"')
        links = "".join(f"[[link]]\nbetween = {json.dumps(list(link))}\n" for link in LINKS)
        self.file.write_text(f"{head}[[query]]{first}\n[[query]]{second}\n{links}")
        # One filter each on the phone and on the hubs next to it; what ends runs where rows leave for the sink.
        for name in self.names:
            self.give_room(name, {COORDINATOR: 0, HOST: 64}.get(name, 1))
        (folder / PHONE).mkdir(exist_ok=True)
        (folder / PHONE / "settings.toml").write_text(f"fleet_spool_mb = {spool_mb}\n")

    def _said(self) -> str:
        return self.file.read_text()

    def give_room(self, name: str, capacity: int) -> None:
        """As the coordinator reads it when it starts."""
        lines = self._said().splitlines()
        at = lines.index(f'name = "{name}"')
        if lines[at + 1].startswith("capacity = "):
            del lines[at + 1]
        lines.insert(at + 1, f"capacity = {capacity}")
        self.file.write_text("\n".join(lines) + "\n")

    def address(self, name: str) -> str:
        return self.network.address(name)

    def run_by(self, name: str) -> list[str]:
        return self.network.run_by(name)

    def begin(self) -> None:
        """All others first: the phone's readings begin when it does."""
        self.start(*(name for name in self.names if name != PHONE))
        self.until(lambda: all((self.folder / name / "status.json").exists() for name in self.processes), "the hubs")
        self.start(PHONE)

    def until(self, is_so: Callable[[], bool], what: str) -> float:
        """The moment at which it is so."""
        end = time.monotonic() + PATIENCE_S
        while not is_so():
            if time.monotonic() > end or self.ended():
                raise RuntimeError(
                    f"{what} did not come within {PATIENCE_S:.0f} s; ended: {self.ended()}\n{self.logs()}"
                )
            time.sleep(LOOK_S)
        return time.monotonic()

    def sunk_bytes(self) -> int:
        return sum(path.stat().st_size for path in (self.folder / COORDINATOR / "fleet").glob("sink-*"))

    def way(self, query: str = "q") -> list[tuple[str, ...]]:
        """Over whom the phone's rows go, as the coordinator says."""
        return [tuple(nodes) for name, _, nodes in self.shown()["ways"] if name == query]

    def applied(self, query: str = "q") -> list[tuple[str, ...]]:
        """Who applies what on the way, as the coordinator says."""
        return [(each["node"], *each["operators"]) for each in self.shown()["applied"] if each["query"] == query]

    def terms(self) -> set[int]:
        return {each["term"] for each in self.shown()["placements"]}

    def newest_us(self) -> int:
        """The event time up to which both sinks hold rows."""
        return min(self._newest_us("q", "fast"), self._newest_us("q2", "all"))

    def _newest_us(self, query: str, sink: str) -> int:
        """Read on from what was read before: at the paper's rates a sink grows by megabytes a second."""
        path = self.folder / COORDINATOR / "fleet" / sink_file(query, sink, 1)
        at, newest_us = self._read_to.get(sink, (0, 0))
        last = None
        if path.exists():
            with path.open("rb") as file:
                file.seek(at)
                data = file.read()
            size, start = len(data), 0
            while start < size:
                try:
                    frame, start = decode_one(data, start)
                except PeerError:  # not whole yet
                    break
                last = frame if frame.type is FrameType.DATA else last
            at += start
        if last is not None:
            newest_us = int(codecs.decode_data(Data.of(last), self._schema(sink)).time_us[-1])
        self._read_to[sink] = at, newest_us
        return newest_us

    def sunk(self) -> dict[str, Sunk]:
        """What each sink holds now. RuntimeError where a number is missing or there twice."""
        return {"fast": self._sunk("q", "fast"), "all": self._sunk("q2", "all")}

    def _sunk(self, query: str, sink: str) -> Sunk:
        schema = self._schema(sink)
        parts: dict[str, list[Any]] = {name: [] for name in ("time", *schema.names)}
        head = lost = 0
        for frame, _ in read_sink(self.disk, sink_file(query, sink, 1)):
            if frame.seq != head:
                raise RuntimeError(f"number {frame.seq} of {sink} where {head} should be")
            head += frame.count
            if frame.type is not FrameType.DATA:
                lost += frame.count
                continue
            batch = codecs.decode_data(Data.of(frame), schema)
            parts["time"].append(batch.time_us)
            for name, column in batch.columns.items():
                parts[name].append(column)
        joined = {name: np.concatenate(many) if many else np.zeros(0) for name, many in parts.items()}
        return Sunk({name: column for name, column in joined.items() if name != "device"}, lost)

    def _schema(self, sink: str) -> Schema:
        outputs = [output for vertex in region_vertices(self._plan(sink)) for output in vertex.fragment.outputs]
        return next(each.schema for each in outputs if each.kind == "subscribe")

    def _plan(self, sink: str) -> Plan:
        return rs.load_program(self.programs[sink])

    def readings_end_us(self) -> int:
        """The event time behind the last reading: nothing newer ever arrives."""
        return self._origin_us() + round(self._seconds * 1e6)

    def _origin_us(self) -> int:
        origin_us: int = json.loads((self.folder / PHONE / "clock.json").read_text())["origin_us"]
        return origin_us

    def without_failures(self, found: Mapping[str, Sunk]) -> dict[str, Sunk]:
        """What each sink would hold, from its first row to its last."""
        origin_us, ideal = self._origin_us(), {}
        for (sink, got), sensor in zip(found.items(), self.rates, strict=True):
            hertz = self.rates[sensor]
            ends = (got.columns["time"][[0, -1]] - origin_us) * hertz / 1e6
            numbers = np.arange(round(ends[0]), round(ends[1]) + 1)
            rows = player_rows(numbers) if sensor == "player" else counter_rows(numbers)
            given = {
                "time": origin_us + np.round(numbers * (1e6 / hertz)).astype(np.int64),
                **dict(zip(SIGNALS, map(as_stored, rows.items()), strict=False)),
            }
            results = rs.evaluate(self._plan(sink), {sensor: given})[sink]
            ideal[sink] = Sunk({name: results[name].astype(got.columns[name].dtype) for name in got.columns}, 0)
        return ideal


def _in_16_bits(name: str, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    gain, zero = STORED.get(name, (1.0, 0))
    rounded = np.round(values * gain + zero)
    stored: np.ndarray[Any, Any] = rounded.astype("<i2")
    if not np.array_equal(stored, rounded):
        raise RuntimeError(f"values of {name} do not fit 16 bits")
    return stored


def as_stored(item: tuple[str, np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """As a node reads them: over whole numbers, which have no negative zero."""
    name, values = item
    gain, zero = STORED.get(name, (1.0, 0))
    read: np.ndarray[Any, Any] = (_in_16_bits(name, values).astype(np.float64) - zero) / gain
    return read
