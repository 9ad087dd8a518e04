"""The peer of `bench scale`: the program of `bench spark` by Structured Streaming, its input from Kafka by Spark's own
connector. One message holds a device's batch as JSON, which is kinder than a message for each row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from resurge.bench import _downloads
from resurge.bench._structured_streaming import StructuredStreaming

# The newest that there is of each; the second is only about Kerberos, which nothing here uses.
VERSION = "4.2.0"
MODULES = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", VERSION),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
)


def settings() -> dict[str, str]:
    """What a session needs that runs this. NotReachable where the connector cannot be fetched."""
    folder = _downloads.jars(f"spark-sql-kafka-0-10-{VERSION}", *MODULES, transitive=False)
    found = ",".join(str(folder / f"{module}-{version}.jar") for _, module, version in MODULES)
    return {**StructuredStreaming.SETTINGS, "spark.jars": found}


class KafkaStreaming(StructuredStreaming):
    def __init__(self, session: Any, root: Path, address: str, topic: str, partitions: int) -> None:
        self._address, self._topic, self._partitions = address, topic, partitions
        admin = AdminClient({"bootstrap.servers": address})
        admin.create_topics([NewTopic(topic, partitions, 3)])[topic].result()
        self._producer = Producer({"bootstrap.servers": address, "message.max.bytes": 8_000_000})
        super().__init__(session, root)

    def rows(self) -> Any:
        from pyspark.sql import functions as f

        read = self.session.readStream.format("kafka").option("kafka.bootstrap.servers", self._address)
        messages = read.option("subscribe", self._topic).option("startingOffsets", "earliest").load()
        fields = "time bigint, user bigint, cell bigint, x double"
        rows = messages.select(f.explode(f.from_json(f.col("value").cast("string"), f"array<struct<{fields}>>")))
        return rows.select(f.timestamp_micros("col.time").alias("time"), "col.user", "col.cell", "col.x")

    def prepare(self, given: dict[str, np.ndarray], epoch: int) -> None:  # noqa: ARG002 - as the peer that reads files
        """The epoch's rows into Kafka, a message for each device."""
        for device in np.unique(given["device"]).tolist():
            part = given["device"] == device
            rows = zip(*(given[name][part].tolist() for name in ("time", "user", "cell", "x")), strict=True)
            value = json.dumps([dict(zip(("time", "user", "cell", "x"), row, strict=True)) for row in rows])
            self._producer.produce(self._topic, value.encode(), partition=device % self._partitions)
        self._producer.flush(60)

    def process(self) -> None:
        for query in self.queries:
            query.processAllAvailable()
