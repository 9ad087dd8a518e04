"""The worlds of the Spark tests, with their log in Kafka."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import Producer

from cloud_backend.log.format import Record
from cloud_backend.log.kafka.location import parse
from cloud_backend.log.kafka.log import KafkaLog
from cloud_backend.log.partitions import open_log
from shared.wire.frame import FrameType, decode_one
from tests.patience import wait_until
from tests.spark.worlds import World


class LogOfWorld:
    """What a world appends to. `sync` returns when all of it counts, so that an epoch is the same wherever the log is;
    between any two groups something was aborted."""

    def __init__(self, location: str) -> None:
        self.location = location
        self.log = KafkaLog.open(location)
        self.appended = self.trimmed = 0
        self._declared: dict[tuple[object, ...], bytes] = {}
        self.aborted = 0
        self._other = Producer({"bootstrap.servers": parse(location).brokers, "transactional.id": location})
        self._other.init_transactions(60)

    def append(self, records: Sequence[Record]) -> list[int]:
        self.log.append(records)
        self.appended += len(records) + sum(self._replaces(bytes(record.frame)) for record in records)
        return []

    def _replaces(self, encoded: bytes) -> bool:
        """Whether this declares another form of a stream: the log says the former one once more before it."""
        frame, _ = decode_one(encoded)
        if frame.type is not FrameType.DECLARE:
            return False
        key = frame.source, frame.incarnation, frame.edge
        former, self._declared[key] = self._declared.get(key), encoded
        return former is not None and former != encoded

    def sync(self) -> None:
        self.log.commit(self.log.take())
        self._abort()
        wait_until(lambda: self.count() == self.appended - self.trimmed, "what was committed counts")

    def _abort(self) -> None:
        self._other.begin_transaction()
        for partition in range(self.log.partitions):
            self._other.produce(parse(self.location).log_topic, b"never counts", partition=partition)
        self._other.flush(60)
        self._other.abort_transaction(60)
        self.aborted += self.log.partitions

    def count(self) -> int:
        reader = open_log(self.location)
        starts, ends = reader.starts(), reader.ends()
        return sum(1 for each in ends for _ in reader.read(each, starts[each], ends[each]))

    def trim(self, before: dict[str, int]) -> None:
        kept = self.count()
        self.log.trim(before)
        self.trimmed += kept - self.count()

    def close(self) -> None:
        self.log.close()


def in_kafka(world: World, location: str) -> LogOfWorld:
    world.log.close()
    log = LogOfWorld(location)
    world.log, world.log_dir = log, location  # type: ignore[assignment]
    return log
