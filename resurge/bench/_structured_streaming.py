"""The peer of `bench spark` and, from Kafka, of `bench scale`: the same program as two chained Structured Streaming
queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


class StructuredStreaming:
    SETTINGS: ClassVar[dict[str, str]] = {
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    }

    def __init__(self, session: Any, root: Path) -> None:
        self.root = root
        self.session = session
        for name in ("input", "staging", "users", "cells"):
            (root / name).mkdir(parents=True)
        self.schema = "time timestamp, user bigint, cell bigint, x double"
        self.queries = [self._users(), self._cells()]

    def rows(self) -> Any:
        """What the first query reads."""
        return self.session.readStream.schema(self.schema).parquet(str(self.root / "input"))

    def _users(self) -> Any:
        from pyspark.sql import functions as f

        users = (
            self.rows()
            .where("x > 0.1")
            .withWatermark("time", "0 seconds")
            .groupBy(f.window("time", "60 seconds"), "user")
            .agg(f.count("*").alias("n"), f.sum("x").alias("total"), f.max_by("cell", "time").alias("cell"))
            .select(f.col("window.end").alias("time"), "user", "total", "cell")
        )
        return self._started(users, "users")

    def _cells(self) -> Any:
        from pyspark.sql import functions as f

        schema = "time timestamp, user bigint, total double, cell bigint"
        rows = self.session.readStream.schema(schema).parquet(str(self.root / "users"))
        # A user's row belongs to the minute it closes, as in ours, where it carries the last moment of its window.
        cells = (
            rows.withColumn("time", f.col("time") - f.expr("INTERVAL 1 MICROSECOND"))
            .withWatermark("time", "0 seconds")
            .groupBy(f.window("time", "60 seconds"), "cell")
            .agg(f.count("*").alias("users"), f.sum("total").alias("total"))
            .select(f.col("window.start").alias("start"), "cell", "users", "total")
        )
        return self._started(cells, "cells")

    def _started(self, frame: Any, name: str) -> Any:
        writer = frame.writeStream.outputMode("append").format("parquet").option("path", str(self.root / name))
        return writer.option("checkpointLocation", str(self.root / f"checkpoint-{name}")).start()

    def prepare(self, given: dict[str, np.ndarray], epoch: int) -> None:
        """The epoch's rows as one file outside the watched directory; moving it in is part of processing."""
        table = pa.table(
            {
                "time": pa.array(given["time"], pa.timestamp("us", tz="UTC")),
                "user": given["user"], "cell": given["cell"], "x": given["x"],
            }
        )  # fmt: skip
        self.next = self.root / "staging" / f"{epoch:06d}.parquet"
        pq.write_table(table, self.next)

    def process(self) -> None:
        self.next.rename(self.root / "input" / self.next.name)
        for query in self.queries:
            query.processAllAvailable()

    def stop(self) -> None:
        for query in self.queries:
            query.stop()

    def results(self) -> dict[tuple[int, int], tuple[int, float]]:
        rows = self.session.read.parquet(str(self.root / "cells")).collect()
        return {
            (int(row["start"].timestamp() * 1_000_000), row["cell"]): (row["users"], round(row["total"], 6))
            for row in rows
        }
