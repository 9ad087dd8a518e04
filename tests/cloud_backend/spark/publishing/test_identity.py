"""Published results hold every row that `evaluate` returns, and a correction replaces exactly what it corrects."""

from __future__ import annotations

import sqlite3
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import resurge as rs
from cloud_backend.log.log import Record
from cloud_backend.results.rows import ResultRow
from cloud_backend.results.store import Results
from cloud_backend.spark.rollback.roll_back import roll_back
from cloud_backend.spark.rollback.undo import undo
from resurge import col
from shared.batch import Batch
from shared.identity import edge_id
from shared.plan.graph import Plan
from shared.stream.stream import Stream
from shared.wire import columns, frame
from shared.wire.messages import Data
from tests.spark.worlds import SECOND, World

SINK = "out"


def source() -> Stream:
    return rs.sensor("walk", every="1s", columns={"x": "float64", "cell": "int64"}).sync("walk", batch=20)


def joined() -> Stream:
    up = source()
    return up.join(up.where(col.cell > 1).select("x"), within="2s")


def unified() -> Stream:
    up = source()
    return up.union(up.extend(x=col.x * 2))


PROGRAMS = {
    "rows": lambda: source().where(col.x > -5),
    "state": lambda: source().state({"n": 0}, n=rs.state.n + 1),
    "join": joined,
    "union": unified,
    "sliding": lambda: source().sliding("3s").aggregate(n=rs.count(), total=rs.sum("x")),
    "count windows": lambda: source().tumbling(count=3).aggregate(n=rs.count(), total=rs.sum("x")),
    "sliding count": lambda: source().sliding(count=2).aggregate(total=rs.sum("x")),
    "by cell": lambda: source().key_by("cell").where(col.x > -5),
    "by cell, after windows": lambda: (
        source().tumbling("4s").aggregate(total=rs.sum("x"), cell=rs.last("cell")).key_by("cell").extend(y=col.total)
    ),
    "windows": lambda: source().tumbling("4s").aggregate(n=rs.count()),
    "hopping": lambda: source().hopping("4s", every="2s").aggregate(n=rs.count()),
    "sessions": lambda: source().session(gap="500ms").aggregate(n=rs.count()),
}


class Readings(World):
    """A world whose devices read several values in one second."""

    def read(self, seconds: int = 8, each: int = 3) -> None:
        (edge,) = self.plan.edges
        records = []
        for number, device in enumerate(self.ids):
            lo, rows = self.next[number] * each, seconds * each
            times = (self.next[number] + np.arange(rows) // each) * SECOND
            end = (self.next[number] + seconds) * SECOND
            content = Batch.of(
                edge.schema, {"x": self.random.normal(size=rows), "cell": self.random.integers(0, 4, rows)}, times,
                lo=lo, frontier_us=end,
            )  # fmt: skip
            self.next[number] += seconds
            codec, payload = columns.encode(content)
            data = Data(
                device, 1, edge_id(edge.name), lo, lo + rows, rows, edge.schema.id, 0, codec, payload, end
            )  # fmt: skip
            records.append(Record(1_700_000_000_000_000, frame.encode(data.frame())))
            self.given.append((device.hex(), content))
        self.log.append(records)
        self.log.sync()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.given: list[tuple[str, Batch]] = []


def plan(program: str) -> Plan:
    return rs.plan_of(PROGRAMS[program]().subscribe(SINK), name="identity")


def evaluated(world: Readings, program: str) -> Counter[tuple[object, ...]]:
    """What `evaluate` returns of the readings so far, up to where the devices have come."""
    names = ("x", "cell")
    given = {name: np.concatenate([batch.columns[name] for _, batch in world.given]) for name in names}
    given["time"] = np.concatenate([batch.time_us for _, batch in world.given])
    given["device"] = np.concatenate([np.full(len(batch), name) for name, batch in world.given])
    stream = PROGRAMS[program]().subscribe(SINK)
    found = rs.evaluate(stream, {"walk": given}, frontier_us=min(world.next) * SECOND)[SINK]
    return Counter(zip(*(found[name].tolist() for name in sorted(found)), strict=True))


def published(world: Readings) -> Counter[tuple[object, ...]]:
    names = sorted({*world.plan.sink(SINK).type.schema.names, "time"})
    return Counter(tuple(_value(row, name, world) for name in names) for row in world.results.latest(SINK))


def _value(row: ResultRow, name: str, world: Readings) -> object:
    key = dict(zip(world.plan.sink(SINK).type.key, row.key, strict=True))
    about = {"time": row.window_end_us, "window_start": row.window_start_us, "window_end": row.window_end_us,
             "complete": row.complete, "device": None}  # fmt: skip
    return (about | key | dict(row.values))[name]


def without_device(rows: Counter[tuple[object, ...]], world: Readings) -> Counter[tuple[object, ...]]:
    """A result by another key does not say its device; and its time is the end of its window, where it has one."""
    names = sorted({*world.plan.sink(SINK).type.schema.names, "time"})
    left_out = {"time"} if "window_end" in names else set()
    if "device" not in world.plan.sink(SINK).type.key:
        left_out.add("device")
    places = [place for place, name in enumerate(names) if name not in left_out]
    found: Counter[tuple[object, ...]] = Counter()
    for row, times in rows.items():
        found[tuple(row[place] for place in places)] += times
    return found


def assert_same(world: Readings, program: str, *, least: int = 20) -> None:
    found, wanted = without_device(published(world), world), without_device(evaluated(world, program), world)
    assert wanted.total() >= least
    assert found == wanted, f"{found.total()} published, {wanted.total()} evaluated"


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_row_that_evaluate_returns_is_published_also_after_a_rollback(tmp_path: Path, program: str) -> None:
    world = Readings(tmp_path, plan(program), devices=3)
    driver = world.driver()
    for _ in range(4):
        world.read()
        driver.drain()
    assert_same(world, program)
    (vertex,) = [name for name in driver.graph.order if driver.graph.vertices[name].sinks]
    done = roll_back(world.store_dir, vertex, 1)
    driver.drain()
    assert_same(world, program)
    assert done.entry is not None
    world.read()
    driver.drain()
    assert_same(world, program)


def test_rows_of_a_wrong_plan_are_taken_back_one_by_one(tmp_path: Path) -> None:
    world = Readings(tmp_path, plan("rows"), devices=3)
    driver = world.driver()
    for _ in range(3):
        world.read()
        driver.drain()
    wrong = rs.plan_of(source().where(col.x > 0).subscribe(SINK), name="identity")
    done = roll_back(world.store_dir, SINK, 0, fixed=wrong)
    driver.drain()
    every = evaluated(world, "rows").total()
    kept = world.results.latest(SINK)
    assert 0 < len(kept) < every
    assert all(float(row.values["x"]) > 0 for row in kept)
    undo(world.store_dir, done.entry or 0)
    driver.drain()
    assert_same(world, "rows")


def test_a_correction_replaces_the_row_of_its_window(tmp_path: Path) -> None:
    stream = source().tumbling("4s", lateness="1m").aggregate(n=rs.count()).subscribe(SINK)
    world = Readings(tmp_path, rs.plan_of(stream, name="identity"), devices=1)
    driver = world.driver()
    world.read(12)
    driver.drain()
    late = Batch.of(world.plan.edges[0].schema, {"x": [1.0], "cell": [1]}, [SECOND], lo=36, frontier_us=12 * SECOND)
    codec, payload = columns.encode(late)
    data = Data(world.ids[0], 1, edge_id("walk"), 36, 37, 1, late.schema.id, 0, codec, payload, 12 * SECOND)
    world.log.append([Record(1_700_000_000_000_000, frame.encode(data.frame()))])
    world.log.sync()
    driver.drain()
    rows = world.results.latest(SINK)
    assert [(row.window_start_us // SECOND, row.values["n"]) for row in rows] == [(0, 13), (4, 12), (8, 12)]


def test_a_results_store_from_before_rows_had_numbers_goes_on(tmp_path: Path) -> None:
    """It kept the last of several rows. A rollback says all of them again, and that one is not there twice."""
    world = Readings(tmp_path, plan("rows"), devices=2)
    driver = world.driver()
    world.read()
    driver.drain()
    every = len(world.results.latest(SINK))
    world.results.close()
    _as_format_1(tmp_path / "results.sqlite")
    world.results = Results(tmp_path / "results.sqlite")
    assert len(world.results.latest(SINK)) == every // 3
    assert {row.row for row in world.results.latest(SINK)} == {0}
    again = world.driver()
    world.read()
    again.drain()
    assert len(world.results.latest(SINK)) == every // 3 + every
    roll_back(world.store_dir, SINK, 0, fixed=rs.plan_of(source().where(col.x > -6).subscribe(SINK), name="identity"))
    again.drain()
    roll_back(world.store_dir, SINK, 0, fixed=rs.plan_of(source().where(col.x > 9).subscribe(SINK), name="identity"))
    again.drain()
    assert world.results.latest(SINK) == []


def _as_format_1(path: Path) -> None:
    """The file as the version before wrote it: one row about a key and window, the last one."""
    database = sqlite3.connect(path, isolation_level=None)
    about = "sink, key, window_start_us, window_end_us, device, revision, retract, complete, content"
    last = "WHERE row = (SELECT max(row) FROM answers b WHERE (b.sink, b.key, b.window_end_us) = (a.sink, a.key, a.window_end_us))"
    for table, number, key in (
        ("answers", "change", "sink, key, window_start_us, window_end_us"), ("downlinks", "seq", "device, seq"),
    ):  # fmt: skip
        rows = database.execute(
            f"SELECT {about}, {number} FROM {table} a {last if table == 'answers' else ''}"
        ).fetchall()
        database.execute(f"DROP TABLE {table}")
        database.execute(
            f"CREATE TABLE {table} (sink TEXT NOT NULL, key TEXT NOT NULL, window_start_us INTEGER NOT NULL,"
            " window_end_us INTEGER NOT NULL, device TEXT NOT NULL, revision INTEGER NOT NULL, retract INTEGER NOT NULL,"
            f" complete INTEGER NOT NULL, content TEXT NOT NULL, {number} INTEGER NOT NULL, PRIMARY KEY ({key})) STRICT,"
            " WITHOUT ROWID"
        )
        database.executemany(f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    database.execute("CREATE UNIQUE INDEX answers_by_change ON answers (change)")
    database.execute("CREATE INDEX answers_by_window ON answers (sink, window_end_us)")
    database.execute("PRAGMA user_version = 1")
    database.close()
