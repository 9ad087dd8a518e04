"""Reading a log in Kafka, from any process: only what was committed, and never past what was asked for.

An offset is Kafka's. Between two records lie offsets that belong to none: each transaction ends in a control record,
and what was aborted stays where it was written. So a slice may end in offsets of which nothing is ever delivered; how
far the client has come is then said by its end-of-partition event, or by a record behind the slice.

A consumer is kept for the next read: connecting costs more than most slices. Spark forks its Python workers, and a
client does not survive a fork, so those kept are of one process id.
"""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from cloud_backend.log.format import Record
from cloud_backend.log.index import EdgeState, frame_type
from cloud_backend.log.kafka.entries import HEAD, Head, decode_record, take_entry
from cloud_backend.log.kafka.location import Location, parse
from cloud_backend.log.kafka.topics import (
    MESSAGE_BYTES_MAX,
    Unreachable,
    admin_of,
    partition_count,
    unreachable,
)
from cloud_backend.log.partitions import Place
from shared.errors import DamagedData
from shared.wire.frame import FrameType

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message
    from confluent_kafka.admin import AdminClient

READ_S = 60.0  # without a record: a leader is elected in seconds
ELECTION_S = 60.0  # that a partition may be without a leader: seconds, and half a minute on a busy machine
ELECTION_ASK_S = 5.0  # for one answer
ELECTION_LOOK_S = 0.2
MESSAGES_AT_ONCE = 512
MEAN_BYTES = 1024.0  # of a record, where the first offsets belong to none
SAMPLE = 32  # records, whose mean size stands for their partition's
_kept: dict[tuple[int, Location], list[Consumer]] = defaultdict(list)
_counts: dict[tuple[int, Location], int] = {}  # partitions of logs whose topics were checked
_admins: dict[tuple[int, Location], tuple[AdminClient, list[Any]]] = {}
_lock = threading.Lock()


class KafkaReader:
    """The partitions of a log whose topics were checked when it was first opened in this process."""

    def __init__(self, location: str | Location) -> None:
        self.location = parse(location) if isinstance(location, str) else location
        key = os.getpid(), self.location
        if key not in _counts:
            _counts[key] = partition_count(self.location)
        self.count = _counts[key]
        self._means: dict[str, float] = {}

    def starts(self) -> dict[str, int]:
        return self._offsets(earliest=True)

    def ends(self) -> dict[str, int]:
        """Where what was committed ends: nothing before it is still being decided."""
        return self._offsets(earliest=False)

    def read(self, partition: str, start: int, end: int) -> Iterator[tuple[int, Record]]:
        topic = self.location.log_topic
        for message in messages(self.location, topic, int(partition), start, end):
            offset = message.offset() or 0
            where = f"partition {partition} of {topic} at offset {offset}"
            yield offset, decode_record(message.value() or b"", where)[2]

    def bounded(self, starts: Place, ends: Place, bytes_max: int) -> dict[str, int]:
        size = self.size(starts, ends)
        if size <= bytes_max:
            return dict(ends)
        share = bytes_max / size  # the same of each: a partition far behind catches up with the others
        return {
            each: starts[each] + max(1, round((end - starts[each]) * share)) if end > starts[each] else end
            for each, end in ends.items()
        }

    def size(self, starts: Place, ends: Place) -> int:
        return round(sum((end - starts[each]) * self._mean(each, starts[each], end) for each, end in ends.items()))

    def pieces(self, partition: str, start: int, end: int) -> list[tuple[int, int]]:  # noqa: ARG002 - as any
        return [(start, end)] if start < end else []

    def declared_now(self, partition: str, before: int) -> Iterator[bytes]:  # noqa: ARG002 - the index has the newest
        _, states = read_index(self.location, int(partition))
        return (states[key].declaration for key in sorted(states) if states[key].declaration)

    def declared_before(self, partition: str, before: int) -> Iterator[bytes]:
        yield from self.declared_now(partition, before)
        start, end = self.starts()[partition], self.ends()[partition]
        for _, record in self.read(partition, start, max(before, end)):  # what was trimmed is said again when replaced
            if frame_type(record.frame) == FrameType.DECLARE:
                yield bytes(record.frame)

    def trim(self, before: Place) -> None:
        """Have Kafka delete what lies before this place, never more than was committed."""
        from confluent_kafka import KafkaException, TopicPartition

        starts, ends = self.starts(), self.ends()
        wanted = {each: min(offset, ends[each]) for each, offset in before.items() if each in ends}
        asked = [
            TopicPartition(self.location.log_topic, int(each), offset)
            for each, offset in wanted.items()
            if offset > starts[each]
        ]
        if not asked:
            return
        admin, errors = _admin(self.location)
        try:
            for future in admin.delete_records(asked, request_timeout=ELECTION_S).values():
                future.result()
        except KafkaException as error:
            raise unreachable(self.location, errors, error.args[0].str()) from error

    def _mean(self, partition: str, start: int, end: int) -> float:
        """Bytes of a record, as the first of them are; asked again only where there is much to read."""
        if end <= start:
            return 0.0
        if partition not in self._means or end - start > 100 * SAMPLE:
            sizes = [len(record.frame) for _, record in self.read(partition, start, min(end, start + 2 * SAMPLE))]
            self._means[partition] = sum(sizes) / len(sizes) if sizes else MEAN_BYTES
        return self._means[partition]

    def _offsets(self, *, earliest: bool) -> dict[str, int]:
        found = _offsets(self.location, self.location.log_topic, range(self.count), earliest=earliest)
        return {str(each): found[each] for each in range(self.count)}


def _offsets(location: Location, topic: str, partitions: Iterable[int], *, earliest: bool) -> dict[int, int]:
    """Where partitions begin, or where what was committed ends. Waits while a leader is elected.

    A consumer is asked, which sees only what was committed. The admin client answers the same, but keeps to leaders
    that are gone for longer than an election takes, and threads that share it have been seen to abort the process.
    While brokers come and go the client fails in many words; of all but a refusal it recovers by itself."""
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaException, TopicPartition

    which = OFFSET_BEGINNING if earliest else OFFSET_END  # in the place of a time
    wanted = [TopicPartition(topic, each, which) for each in partitions]
    consumer = _take(location)
    deadline = time.monotonic() + ELECTION_S
    try:
        while True:
            reason = "a partition has no leader"
            try:
                answers = consumer.offsets_for_times(wanted, timeout=ELECTION_ASK_S)
                if all(each.error is None and each.offset >= 0 for each in answers):
                    return {each.partition: each.offset for each in answers}
            except KafkaException as error:
                said = error.args[0]
                if said.code() in _final():
                    raise unreachable(location, [said], said.str()) from error
                reason = said.str()
            if time.monotonic() > deadline:
                raise unreachable(location, (), reason)
            time.sleep(ELECTION_LOOK_S)
    finally:
        _give_back(location, consumer)


def read_index(location: Location, partition: int) -> tuple[Head | None, dict[bytes, EdgeState]]:
    """What the index topic says of a partition: its head, None before the first record, and its edges by packed key."""
    topic = location.index_topic
    bounds = [_offsets(location, topic, [partition], earliest=earliest)[partition] for earliest in (True, False)]
    head: Head | None = None
    states: dict[bytes, EdgeState] = {}
    for message in messages(location, topic, partition, *bounds):
        key, value = message.key() or b"", message.value() or b""
        if key == HEAD:
            head = Head.decode(value)
        else:
            take_entry(states, key, value)
    return head, states


def messages(location: Location, topic: str, partition: int, start: int, end: int) -> Iterator[Message]:
    """Committed messages of a partition in [start, end). DamagedData where they were deleted, Unreachable where nobody
    who has them answers."""
    from confluent_kafka import KafkaError, TopicPartition

    if start >= end:
        return
    consumer = _take(location)
    whole, deadline = False, time.monotonic() + READ_S
    try:
        consumer.assign([TopicPartition(topic, partition, start)])
        while not whole:
            first = consumer.poll(max(0.0, deadline - time.monotonic()))
            if first is None:
                raise Unreachable(
                    f"partition {partition} of {topic!r} was not delivered for {READ_S:.0f} s; too few brokers run",
                    code="kafka-unreachable",
                )
            for message in (first, *consumer.consume(MESSAGES_AT_ONCE, timeout=0)):
                error = message.error()
                at = message.offset() or 0
                if error is None and at < end:
                    deadline = time.monotonic() + READ_S
                    yield message
                elif error is None or (error.code() == KafkaError._PARTITION_EOF and at >= end):
                    whole = True
                    break
                elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                    raise DamagedData(
                        f"offset {start} of partition {partition} of {topic!r} was deleted from Kafka or never was "
                        "there; whoever needs it cannot go on from there",
                        code="log-trimmed",
                    )
                elif error.code() in _final():  # of any other the client recovers by itself
                    raise unreachable(location, [error], error.str())
    finally:
        consumer.unassign()
        _give_back(location, consumer)


def _final() -> set[int]:
    """What brokers say whatever is tried again."""
    from confluent_kafka import KafkaError

    return {
        KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
    }  # fmt: skip


def _take(location: Location) -> Consumer:
    from confluent_kafka import Consumer

    with _lock:
        kept = _kept[os.getpid(), location]
        if kept:
            return kept.pop()
    return Consumer(
        {
            **location.client(),
            "group.id": f"{location.name}-readers",  # required, and never joined
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
            "fetch.message.max.bytes": MESSAGE_BYTES_MAX,
            "queued.max.messages.kbytes": 32 * 1024,
        }
    )


def _give_back(location: Location, consumer: Consumer) -> None:
    with _lock:
        _kept[os.getpid(), location].append(consumer)


def _admin(location: Location) -> tuple[AdminClient, list[Any]]:
    key = os.getpid(), location
    with _lock:
        if key not in _admins:
            _admins[key] = admin_of(location)
        return _admins[key]
