"""Whole pipelines from Kafka: epoch jobs against Structured Streaming. And the data source against Parquet files."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cloud_backend.log.format import Record
from cloud_backend.log.kafka.log import KafkaLog
from cloud_backend.log.partitions import open_log
from cloud_backend.results.store import Results
from cloud_backend.spark.cluster.session import SparkRunner
from cloud_backend.spark.control.driver import JobManager, JobSettings, Runner
from resurge.bench._brokers import Cluster
from resurge.bench._kafka_streaming import KafkaStreaming
from resurge.bench._pipelines import against_structured
from resurge.bench._rounds import at_least, interleave, ratio, timed
from resurge.bench._spark_world import World
from shared.identity import edge_id
from shared.wire.frame import encode
from shared.wire.messages import Declare

PARTITIONS = 4
LOOK_S, DELIVERED_S = 0.02, 60.0


class KafkaWorld(World):
    """The same program and rows, with the log in Kafka."""

    location = ""

    def open(self, location: str) -> None:
        self.log.close()
        self.location = location
        self.kafka = KafkaLog.open(location)
        self._reader = open_log(location)

    def append(self, given: dict[str, np.ndarray]) -> None:
        """And wait until brokers deliver it: a commit returns a little before."""
        before = self._reader.ends()
        self.kafka.append(self.encoded(given))
        group = self.kafka.take()
        self.kafka.commit(group)
        deadline = time.monotonic() + DELIVERED_S
        while any(self._reader.ends()[str(part.partition)] == before[str(part.partition)] for part in group.parts):
            if time.monotonic() > deadline:
                raise RuntimeError(f"brokers do not deliver what they committed: not within {DELIVERED_S:.0f} s")
            time.sleep(LOOK_S)

    def driver(self, runner: Runner, **settings: object) -> JobManager:
        chosen = JobSettings(epoch_s=0.0, balance=False, **settings)  # type: ignore[arg-type]
        results = Results(self.root / "results.sqlite")
        return JobManager(
            self.location, self.root / "store", self.plan, results=results, runner=runner, settings=chosen
        )


def check_of_epochs(
    root: Path, cluster: Cluster, session: Any, runner: SparkRunner, rows: int, rounds: int, goal: float,
    figures: dict[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """Seconds per epoch from what is in Kafka to results, ours and theirs in turn on the same rows."""
    world = KafkaWorld(root, rows, users=max(1000, rows // 2))
    world.open(f"kafka://{cluster.address}/epochs-{rows}?partitions={PARTITIONS}")
    driver = world.driver(runner)
    theirs = KafkaStreaming(session, root / "structured", cluster.address, f"rows-{rows}", PARTITIONS)
    value, figures[f"from Kafka, epochs of {rows} rows"] = against_structured(world, driver, theirs, rounds)
    world.kafka.close()
    return at_least(f"from Kafka, epochs of {rows} rows, times Structured Streaming with its connector", value, goal)


def measure_source(root: Path, session: Any, rows: int, rounds: int, figures: dict[str, Any]) -> None:
    """Rows per second of a sum over every column, by the data source over a log on a disk and over Parquet files that
    hold the same rows, as the source gives them."""
    from pyspark.sql import functions as f

    import pyspark_resurge  # noqa: F401 - Spark finds the source by this package

    world = World(root, rows, users=1000)
    (edge,) = world.plan.edges
    declared = [Declare(device, 1, edge_id(edge.name), edge.name, edge.schema) for device in world.ids]
    world.log.append([Record(0, encode(each.frame())) for each in declared])
    for _ in range(4):
        world.append(world.epoch_columns())
    world.log.close()
    log = str(root / "log")

    def source() -> Any:
        return session.read.format("resurge").option("log", log).option("stream", "points").load()

    files = root / "parquet"
    files.mkdir()
    table = source().toArrow()
    for number, part in enumerate(np.array_split(np.arange(4 * rows), 2)):
        pq.write_table(table.take(pa.array(part)), files / f"{number}.parquet")

    def summed(frame: Any) -> tuple[Any, ...]:
        columns = [f.count("*"), f.sum("user"), f.sum("cell"), f.round(f.sum("x"), 3), f.max("_seq"), f.max("_time")]
        return tuple(frame.agg(*columns).first())

    assert summed(source()) == summed(session.read.parquet(str(files))), "the two do not hold the same rows"
    rates = interleave(
        {
            "resurge": lambda: timed(lambda: summed(source()), 4 * rows),
            "parquet": lambda: timed(lambda: summed(session.read.parquet(str(files))), 4 * rows),
        },
        rounds,
    )
    value = round(ratio(rates, "resurge", "parquet"), 3)
    figures.setdefault("reported", {})["data source: rows/s, times Parquet files"] = value
    figures["data source"] = {
        "rows": 4 * rows,
        **{f"{who}_rows_per_s": round(statistics.median(each)) for who, each in rates.items()},
    }
