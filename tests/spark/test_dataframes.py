"""`format("resurge")` on a real session: the same rows as the engine's, also after a streaming query was stopped."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from cloud_backend.log.log import Record
from cloud_backend.log.reader import Reader
from cloud_backend.spark.slots import WHOLE
from cloud_backend.spark.task import log_input
from cloud_backend.spark.task.specification import Slice
from shared.identity import edge_id
from shared.wire import frame
from shared.wire.messages import Declare
from tests.claims import Claim
from tests.spark.slow_workers import until_its_worker_starts
from tests.spark.worlds import World, cells_plan

pytestmark = pytest.mark.spark


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path, cells_plan(), devices=3)
    (edge,) = world.plan.edges
    declared = [
        Record(1, frame.encode(Declare(device, 1, edge_id(edge.name), edge.name, edge.schema).frame()))
        for device in world.ids
    ]
    world.log.append(declared)
    world.log.sync()
    return world


def _digest(rows: Iterable[tuple[Any, ...]]) -> str:
    lines = sorted(repr(row) for row in rows)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _engine_rows(world: World) -> list[tuple[Any, ...]]:
    (edge,) = world.plan.edges
    end = Reader(world.log_dir).valid_end()
    found, _ = log_input.read_edges(world.log_dir, [Slice("0", 0, end)], {edge.name: edge.schema}, WHOLE)
    return [
        (unit.device, int(seq), float(x), int(cell))
        for unit in found[edge.name].units
        for seq, x, cell in zip(unit.batch.seq, unit.batch.columns["x"], unit.batch.columns["cell"], strict=True)
    ]


def _of(frame_: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame_.select("_device", "_seq", "x", "cell").collect()]


def test_a_frame_has_the_engines_rows_and_a_stopped_query_goes_on_exactly(
    world: World, spark: Any, claim: Claim, tmp_path: Path
) -> None:
    world.append()
    walk = spark.read.format("resurge").option("log", str(world.log_dir)).option("stream", "walk")
    assert _digest(_of(walk.load())) == _digest(_engine_rows(world))

    def follow() -> None:
        """Until it has caught up; the query and all it knew are gone then, but for its checkpoint."""
        rows = spark.readStream.format("resurge").option("log", str(world.log_dir)).option("stream", "walk").load()
        query = (
            rows.writeStream.format("parquet").option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()

    until_its_worker_starts(follow)
    world.append()
    world.append()
    until_its_worker_starts(follow)
    expected, found = _engine_rows(world), _of(spark.read.parquet(str(tmp_path / "out")))
    claim(f"1 stop, {len(found)} rows compared, digests {_digest(found)[:12]} {_digest(expected)[:12]}")
    assert len(expected) == 3 * 90
    assert max(Counter(found).values()) == 1
    assert _digest(found) == _digest(expected)


def test_records_results_epochs_and_what_a_rollback_did_to_them(world: World, spark: Any) -> None:
    driver = world.started(3)
    recorded = (
        spark.read.format("resurge")
        .option("store", str(world.store_dir))
        .option("edge", "cells")
        .option("epochs", "1..3")
    ).load()
    rows, _ = world.check(least_rows=10)
    said = (
        spark.read.format("resurge").option("results", str(world.root / "results.sqlite"))
        .option("store", str(world.store_dir)).option("sink", "cells").load()
    )  # fmt: skip
    current = [row for row in world.results.current() if row.sink == "cells"]
    found = {(row["cell"], row["devices"], row["total"]) for row in said.collect()}
    assert found == {(row.key[0], row.values["devices"], row.values["total"]) for row in current}
    assert {(row["cell"], row["devices"], row["total"]) for row in recorded.collect()} >= found
    epochs = spark.read.format("resurge").option("store", str(world.store_dir)).option("table", "epochs").load()
    assert [(row["epoch"], row["vertices"], row["committed"]) for row in epochs.orderBy("epoch").collect()] == [
        (number, 3, 3) for number in (1, 2, 3)
    ]
    assert rows
    assert driver.manifest.last_cut == 3
