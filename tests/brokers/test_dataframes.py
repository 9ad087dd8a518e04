"""Streams of a log in Kafka as DataFrames: every partition's rows, once, whole or followed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cloud_backend.log.partitions import open_log, partition_of
from cloud_backend.spark.cluster.session import SparkRunner
from shared.identity import DeviceId, device_id
from shared.language.schema import Schema
from tests.brokers.worlds import LogOfWorld
from tests.claims import Claim
from tests.cloud_backend.dataframes.test_stream_rows import Writer

pytestmark = pytest.mark.brokers

OLD, NEW = Schema.of({"v": "float64"}), Schema.of({"v": "float64", "w": "int64"})
DEVICES = [device_id(b"device %d" % number) for number in range(6)]


class KafkaWriter(Writer):
    def __init__(self, location: str) -> None:
        self.path = location  # type: ignore[assignment]
        self.log = LogOfWorld(location)  # type: ignore[assignment]
        self.next, self.sent = {}, []


def test_rows_of_all_partitions_are_read_once_and_followed(
    tmp_path: Path, runner: SparkRunner, location: Callable[..., str], claim: Claim
) -> None:
    where, spark = location(2), runner.session
    writer = KafkaWriter(where)
    assert len({partition_of(DeviceId(each), 2) for each in DEVICES}) == 2
    for number, device in enumerate(DEVICES):
        writer.declare(device, "walk", OLD)
        writer.send(device, "walk", OLD, v=[float(number), 1.0])
    writer.lose(DEVICES[0], "walk", 3)
    walk = spark.read.format("resurge").option("log", where)
    rows = walk.option("stream", "walk").load()
    assert {(row["_device"], row["_seq"]) for row in rows.collect()} == _sent(writer)

    def follow() -> None:
        query = (
            spark.readStream.format("resurge").option("log", where).option("stream", "walk").load()
            .writeStream.format("parquet").option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()

    follow()
    there = open_log(where).ends()
    for device in DEVICES[:3]:
        writer.declare(device, "walk", NEW)
        writer.send(device, "walk", NEW, v=[2.0], w=[7])
    follow()
    found = [(row["_device"], row["_seq"]) for row in spark.read.parquet(str(tmp_path / "out")).collect()]
    assert len(found) == len({*found}) == 15
    assert {*found} == _sent(writer)
    newer = walk.option("stream", "walk").option("startingOffset", json.dumps(there)).load().collect()
    assert sorted(row["w"] for row in newer) == [7, 7, 7]
    lost = spark.read.format("resurge").option("log", where).option("table", "ledger").load().collect()
    assert [(row["device"], row["edge"], row["lo"], row["hi"]) for row in lost] == [(DEVICES[0].hex(), "walk", 2, 5)]
    claim(f"2 partitions, 1 stop, {len(found)} rows, 1 tombstone, {writer.log.aborted} records aborted")
    writer.log.close()


def _sent(writer: Writer) -> set[tuple[str, int]]:
    return {(device, int(seq)) for device, batch in writer.sent for seq in batch.seq}
