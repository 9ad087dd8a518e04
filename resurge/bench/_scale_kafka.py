"""The log in Kafka against a bare transactional producer of the same groups, on the same brokers.

The peer produces the same bytes to the same partitions and commits one transaction per group. It keeps no index, no
chain and no account, and knows no duplicate. Where there are several partitions a second one makes a transaction for
each of them, at once, as a log must whose partitions may have different owners: what is lost against the first by that
alone.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from cloud_backend.log.format import Record
from cloud_backend.log.kafka.log import KafkaLog
from cloud_backend.log.kafka.topics import LOG_SETTINGS, MESSAGE_BYTES_MAX
from cloud_backend.log.partitions import partition_of
from resurge.bench._brokers import Cluster
from resurge.bench._rounds import at_least, interleave, ratio
from shared.identity import device_id, edge_id
from shared.wire.frame import claimed_source, encode
from shared.wire.messages import Data

DEVICES = 200
GOAL = 0.5


class Ours:
    def __init__(self, location: str) -> None:
        self.log = KafkaLog.open(location)

    def commit(self, group: list[Record]) -> None:
        self.log.append(group)
        self.log.commit(self.log.take())


class Bare:
    def __init__(self, address: str, topic: str, name: str) -> None:
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "transactional.id": name,
                "linger.ms": 0,
                "compression.type": "none",
                "message.max.bytes": MESSAGE_BYTES_MAX,
            }
        )
        self._producer.init_transactions(60)

    def commit(self, group: list[tuple[int, bytes]]) -> None:
        self._producer.begin_transaction()
        for partition, value in group:
            self._producer.produce(self._topic, value, partition=partition)
        self._producer.commit_transaction(60)


class BareEach:
    """A bare producer for each partition, each with a transaction of its own."""

    def __init__(self, address: str, topic: str, partitions: int) -> None:
        self._producers = [Bare(address, topic, f"{topic}/{each}") for each in range(partitions)]
        self._threads = ThreadPoolExecutor(partitions)

    def commit(self, group: list[tuple[int, bytes]]) -> None:
        parts = [[each for each in group if each[0] == number] for number in range(len(self._producers))]
        found = [self._threads.submit(one.commit, part) for one, part in zip(self._producers, parts, strict=True)]
        for each in found:
            each.result()

    def close(self) -> None:
        self._threads.shutdown()


class Groups:
    """Numbered batches of many devices, a group of them at a time."""

    def __init__(self, size: int, batches: int) -> None:
        self._ids = [device_id(b"%d" % number) for number in range(DEVICES)]
        self._payload, self._batches = os.urandom(size), batches
        self._next = [0] * DEVICES
        self._turn = 0

    def take(self) -> list[Record]:
        found = []
        for _ in range(self._batches):
            number = self._turn % DEVICES
            self._turn += 1
            lo = self._next[number]
            self._next[number] = lo + 12
            data = Data(self._ids[number], 1, edge_id("walk"), lo, lo + 12, 12, 1, 0, 0, self._payload, lo)
            found.append(Record(lo, encode(data.frame())))
        return found


class Round:
    """Both commit the same groups, in turn."""

    def __init__(self, cluster: Cluster, size: int, batches: int, partitions: int, groups: int) -> None:
        name = f"{size}-{partitions}"
        self.ours = Ours(f"kafka://{cluster.address}/bench-{name}?partitions={partitions}")
        topic = f"bare-{name}"
        admin = AdminClient({"bootstrap.servers": cluster.address})
        admin.create_topics([NewTopic(topic, partitions, 3, config=LOG_SETTINGS)])[topic].result()
        self.bare = Bare(cluster.address, topic, topic)
        self.each = BareEach(cluster.address, topic, partitions) if partitions > 1 else None
        self.cpu_s = {"ours": 0.0, "bare": 0.0, "each": 0.0}
        self._source = Groups(size, batches)
        self._count, self._groups, self._partitions = batches * groups, groups, partitions
        self._given: list[list[Record]] = []

    def by_ours(self) -> float:
        self._given = [self._source.take() for _ in range(self._groups)]
        return self._timed("ours", self.ours.commit, self._given)

    def by_bare(self) -> float:
        return self._timed("bare", self.bare.commit, self._same())

    def by_each(self) -> float:
        assert self.each is not None
        return self._timed("each", self.each.commit, self._same())

    def _same(self) -> list[list[tuple[int, bytes]]]:
        return [[(self._partition(each), bytes(each.frame)) for each in group] for group in self._given]

    def _partition(self, record: Record) -> int:
        return int(partition_of(claimed_source(record.frame), self._partitions))

    def _timed(self, who: str, commit: Callable[[Any], None], groups: Sequence[Any]) -> float:
        cpu, begun = time.process_time(), time.perf_counter()
        for group in groups:
            commit(group)
        self.cpu_s[who] += time.process_time() - cpu
        return self._count / (time.perf_counter() - begun)


def checks_of_kafka(cluster: Cluster, *, quick: bool, rounds: int, figures: dict[str, Any]) -> list[dict[str, Any]]:
    checks = []
    groups = 4 if quick else 16
    for label, size, batches, partitions in (("1 KB", 1_000, 50, 1), ("1 KB", 1_000, 50, 4), ("54 KB", 54_000, 20, 4)):
        both = Round(cluster, size, batches, partitions, groups)
        contenders = {"ours": both.by_ours, "bare": both.by_bare}
        if both.each is not None:
            contenders["each"] = both.by_each
        rates = interleave(contenders, rounds)
        both.ours.log.close()
        words = f"{label} x {batches} in a group, {partitions} partition{'s' if partitions > 1 else ''}"
        count = batches * groups * (rounds + 1)
        figures[f"Kafka, {words}"] = {
            "per_s": {who: round(statistics.median(found)) for who, found in rates.items()},
            "cpu_us_per_batch": {who: round(1e6 * both.cpu_s[who] / count, 1) for who in rates},
        }
        check = at_least(f"Kafka, {words}: batches/s, times a bare producer", ratio(rates, "ours", "bare"), GOAL)
        if both.each is not None:
            both.each.close()
            most = round(ratio(rates, "each", "bare"), 2)
            check["context"] = f"a bare producer with a transaction for each partition: {most} times"
        checks.append(check)
    return checks
