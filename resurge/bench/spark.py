"""`resurge bench spark`: epoch jobs against plain Structured Streaming, state deltas, and three rules of rollback.

Both run the same three-vertex program over the same rows in one local session, epoch by epoch in turn. Ours reads the
ingest log (decoding included); Structured Streaming reads Parquet, keeps state in RocksDB with changelog and checkpoint
format 2, and chains its two aggregations through a Parquet sink. What both end with is compared before a ratio counts.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import resurge as rs
from cloud_backend.spark.cluster.session import SparkRunner, open_session
from cloud_backend.spark.control.schedule import parse_physical
from cloud_backend.spark.rollback.roll_back import roll_back
from cloud_backend.spark.storage.store import Store
from cloud_backend.spark.task import state
from resurge.bench._pipelines import against_structured
from resurge.bench._rounds import at_least, at_most, interleave, ratio, versions
from resurge.bench._spark_world import SECOND, World
from resurge.bench._structured_streaming import StructuredStreaming
from shared.batch import Batch
from shared.engine.pipeline import Pipeline
from shared.plan.vertices import vertices
from shared.recovery.rollback import Rule


def run(rounds: int = 5, quick: bool = False) -> dict[str, Any]:
    rounds = 2 if quick else rounds
    session = open_session("local[2]", settings=StructuredStreaming.SETTINGS)
    figures: dict[str, Any] = {}
    checks: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="resurge-bench-") as directory:
        root = Path(directory)
        runner = SparkRunner(session, root / "code")
        sizes = [(2_000, 1.5)] if quick else [(10_000, 1.5), (200_000, 2.0)]
        for rows, goal in sizes:
            checks.append(_epochs(root / str(rows), session, runner, rows, rounds, goal, figures))
        checks += _deltas(root / "deltas", rounds, 20_000 if quick else 1_100_000, figures)
        checks += _rollbacks(root / "rollback", runner, rounds, 4_000 if quick else 100_000, figures)
    session.stop()
    return {
        "bench": "spark", "checks": checks, "figures": figures, "rounds": rounds,
        "versions": versions("pyspark", "numpy", "pyarrow"),
    }  # fmt: skip


def _epochs(
    root: Path, session: Any, runner: SparkRunner, rows: int, rounds: int, goal: float, figures: dict[str, Any]
) -> dict[str, Any]:
    """Seconds per epoch of the whole pipeline, ours and theirs in turn on the same rows."""
    world = World(root, rows, users=max(1000, rows // 2))
    driver = world.driver(runner)
    theirs = StructuredStreaming(session, root / "structured")
    value, measured = against_structured(world, driver, theirs, rounds)
    figures[f"epochs of {rows} rows"] = measured | {"cache": driver.events.cache}
    return at_least(f"epoch of {rows} rows, times Structured Streaming", value, goal)


def _deltas(root: Path, rounds: int, keys: int, figures: dict[str, Any]) -> list[dict[str, Any]]:
    """Task time with 1 % of the keys touched: writing what changed against writing the state again."""
    plan = rs.plan_of(
        rs.sensor("points", every="1s", columns={"user": "int64", "x": "float64"})
        .sync("points")
        .key_by("user")
        .tumbling("1000h")
        .aggregate(n=rs.count(), total=rs.sum("x"), low=rs.min("x"), high=rs.max("x"))
        .subscribe("out")
    )
    (vertex,) = vertices(plan)
    (edge,) = vertex.inputs
    schema = vertex.fragment.inputs[0].schema
    store = Store(root)
    store.create()
    pipeline = Pipeline(vertex)
    random = np.random.default_rng(1)

    def push(users: np.ndarray, at: int) -> None:
        device = np.broadcast_to(np.array(["d"], np.dtypes.StringDType()), (len(users),))
        given = {"device": device, "user": users, "x": random.random(len(users))}
        pipeline.push(edge, Batch.of(schema, given, np.full(len(users), at * SECOND), lo=at << 32))
        pipeline.advance(edge, at * SECOND)

    push(np.arange(keys), 1)
    base = pipeline.snapshot()
    touched = keys // 100
    epoch = 1

    def delta() -> float:
        nonlocal epoch
        epoch += 1
        begun = time.perf_counter()
        push(random.integers(0, keys, touched), epoch)
        state.save(store, "v", pipeline, ("base",), (len(base),))
        return 1 / (time.perf_counter() - begun)

    def rewrite() -> float:
        nonlocal epoch
        epoch += 1
        begun = time.perf_counter()
        push(random.integers(0, keys, touched), epoch)
        store.write_file("v", "base", pipeline.snapshot())
        return 1 / (time.perf_counter() - begun)

    rates = interleave({"delta": delta, "rewrite": rewrite}, rounds)
    figures["state"] = {"keys": keys, "bytes": len(base), "touched": touched}
    return [
        at_most("task with 1 % of keys touched, times rewriting the state", 1 / ratio(rates, "delta", "rewrite"), 0.15)
    ]


def _rollbacks(
    root: Path, runner: SparkRunner, rounds: int, rows: int, figures: dict[str, Any]
) -> list[dict[str, Any]]:
    """The same failures under three rules: the last vertex, or one range of the second with unchanged output."""
    world = World(root, rows, users=rows // 2)
    driver = world.driver(runner)
    for _ in range(7):
        world.append(world.epoch_columns())
        driver.drain()
    last, middle = driver.graph.order[-1], driver.graph.order[-2]
    first_range = min(driver.manifest.vertices[middle])
    bytes_read: dict[str, list[tuple[float, float]]] = {}

    def recover(name: str, vertex: str, rule: Rule, one_range: bool = False) -> float:
        ranges = [first_range] if one_range else None
        before = {
            (each, range_): lineage.term
            for each, lineages in driver.manifest.vertices.items()
            for range_, lineage in lineages.items()
        }
        undone = roll_back(driver.store.root, vertex, 1, ranges=ranges, rule=rule)
        begun = time.perf_counter()
        driver.drain()
        took = time.perf_counter() - begun
        read = sum(
            committed.bytes_read + committed.state_bytes_read
            for vertex_moved, range_ in map(parse_physical, undone.plan.rollback)
            for epoch, committed in driver.manifest.vertices[vertex_moved][range_].commits.items()
            if epoch > undone.plan.epoch and committed.term > before[vertex_moved, range_]
        )
        bytes_read.setdefault(name, []).append((read, undone.cost["state_bytes"] + undone.cost["replay_bytes"]))
        return 1 / took

    rates = interleave(
        {
            "full": lambda: recover("full", last, Rule.FULL),
            "sonora, second vertex": lambda: recover("sonora", middle, Rule.SONORA),
            "last vertex": lambda: recover("last", last, Rule.CHANGED),
            "one range": lambda: recover("range", middle, Rule.CHANGED, one_range=True),
        },
        rounds,
    )
    figures["rollback of 6 epochs"] = {name: round(1 / statistics.median(values), 3) for name, values in rates.items()}
    figures["rollback bytes, read and predicted"] = bytes_read
    off = {
        name: statistics.median(abs(read / model - 1) for read, model in pairs[1:])
        for name, pairs in bytes_read.items()
    }
    figures["rollback bytes, deviation from the model"] = {name: round(value, 3) for name, value in off.items()}
    return [
        at_most("bytes read by a full rollback, deviation from |R| S + r lost", off["full"], 0.15),
        at_most("last vertex rolled back, times full rollback", 1 / ratio(rates, "last vertex", "full"), 0.4),
        at_most("one range rolled back, times full rollback", 1 / ratio(rates, "one range", "full"), 0.4),
    ]
