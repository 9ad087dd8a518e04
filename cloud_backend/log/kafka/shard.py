"""One partition of a log in Kafka, as its owner writes it.

`transactional.id` is NAME/p: Kafka lets one producer write under it, the one that began last. Beginning fences whoever
was there before, ends what it had left open, and only then reads the index; so the new owner sees all that the old one
ever acknowledged, and nothing of the old one comes after that. A gateway that was paused finds out when it commits:
its transaction is refused and no receipt leaves.

After any commit that failed nobody here knows whether it counts: the client may have been told too late. So the
producer is given up; beginning again has Kafka finish or abort that transaction, and the index then says which it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cloud_backend.log.format import Record, encode_record
from cloud_backend.log.index import EdgeState, Index
from cloud_backend.log.kafka.entries import HEAD, Head, index_entries
from cloud_backend.log.kafka.location import Location
from cloud_backend.log.kafka.reader import read_index
from cloud_backend.log.kafka.topics import MESSAGE_BYTES_MAX, Unreachable, partitions_changed
from shared.errors import BrokenInvariant, ResurgeError
from shared.identity import DeviceId, EdgeId, EdgeKey

if TYPE_CHECKING:
    from confluent_kafka import KafkaException, Producer

BEGIN_S = 20.0
COMMIT_S = 15.0
TRANSACTION_MS = 20_000  # after which brokers abort what a dead gateway left open, so that readers go on


class Fenced(ResurgeError):
    """Another gateway owns the partition now; what this one was about to acknowledge does not count."""


@dataclass(frozen=True, slots=True)
class ShardGroup:
    """Records of one partition that become durable together."""

    partition: int
    values: tuple[bytes, ...]
    entries: tuple[tuple[bytes, bytes], ...]  # of the index, the head among them
    head: Head  # after them


class Shard:
    """`begin` before anything else. Not for two threads at once, except one in `commit` while another asks."""

    def __init__(self, location: Location, partition: int, partitions: int) -> None:
        self._location, self._partition, self._partitions = location, partition, partitions
        self._producer: Producer | None = None
        self._index = Index()
        self._decided = self.head = Head(partitions)  # with what is appended; what is committed
        self._values: list[bytes] = []

    @property
    def is_open(self) -> bool:
        return self._producer is not None

    def begin(self) -> None:
        """Become the owner: fence whoever was, and read how far the partition has come."""
        from confluent_kafka import KafkaException, Producer

        self.give_up()
        producer = Producer(
            {
                **self._location.client(),
                "transactional.id": f"{self._location.name}/{self._partition}",
                "transaction.timeout.ms": TRANSACTION_MS,
                "message.timeout.ms": TRANSACTION_MS,
                "message.max.bytes": MESSAGE_BYTES_MAX,
                "linger.ms": 0,  # a group is whole when it is produced
                "compression.type": "none",  # batches come compressed by column
            }
        )
        try:
            producer.init_transactions(BEGIN_S)
        except KafkaException as error:
            raise self._refused(error) from error
        head, states = read_index(self._location, self._partition)
        if head is not None and head.partitions != self._partitions:
            raise partitions_changed(
                f"partition {self._partition} was written as one of {head.partitions}, there are {self._partitions} now"
            )
        self._index = Index()
        for key in sorted(states):
            self._index.put(key, states[key])
        self._decided = self.head = head or Head(self._partitions)
        self._values = []
        self._producer = producer

    def give_up(self) -> None:
        """Let the producer go without waiting for it; what it had not committed does not count."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()

    def high_water(self, key: EdgeKey) -> int:
        return self._index.high_water(key)

    def edges_of(self, device: DeviceId, incarnation: int) -> dict[EdgeId, int]:
        return self._index.edges_of(device, incarnation)

    def edges(self) -> Iterator[tuple[EdgeKey, EdgeState]]:
        return self._index.edges()

    def append(self, records: Sequence[Record]) -> None:
        """Decide that these come next; none is durable before the commit of its group returned. A declaration that is
        replaced is said once more before: the index forgets it, and where it stood may have been trimmed while batches
        of its form were not read yet."""
        for record in records:
            if former := self._index.former_form(record.frame):
                self._put(Record(record.received_us, former))
            self._put(record)

    def _put(self, record: Record) -> None:
        self._index.apply(record.frame)
        head = self._decided
        header, chain = encode_record(record, head.records, head.chain, 0)
        value = header + bytes(record.frame)
        self._values.append(value)
        self._decided = Head(head.partitions, head.records + 1, head.size + len(value), chain)

    def take(self) -> ShardGroup | None:
        """Everything appended since the last group, None where that is nothing."""
        if not self._values:
            return None
        entries = (*index_entries(self._index), (HEAD, self._decided.encode()))
        group = ShardGroup(self._partition, tuple(self._values), entries, self._decided)
        self._index.start_changes()
        self._values = []
        return group

    def commit(self, group: ShardGroup) -> None:
        """Records and index in one transaction: durable on two brokers when this returns. On any failure the producer
        is given up, see the head of this file."""
        from confluent_kafka import KafkaException

        producer = self._producer
        if producer is None:
            raise BrokenInvariant("a partition that is not owned was written to", code="kafka-not-owned")
        try:
            producer.begin_transaction()
            # The client tells the brokers which partitions a transaction has as it meets them. One entry of the index
            # goes first, so that both are told at once: otherwise the second often takes a request of its own.
            for number, (key, value) in enumerate(group.entries):
                producer.produce(self._location.index_topic, value, key=key, partition=self._partition)
                if number == 0:
                    for record in group.values:
                        producer.produce(self._location.log_topic, record, partition=self._partition)
            producer.commit_transaction(COMMIT_S)
        except KafkaException as error:
            self.give_up()
            raise self._refused(error) from error
        except BufferError as error:
            self.give_up()
            raise Unreachable("the client's queue to the brokers is full", code="kafka-unreachable") from error
        except BaseException:
            self.give_up()
            raise
        self.head = group.head

    def close(self) -> None:
        """Own it no more, and forget what it held."""
        self.give_up()
        self._index = Index()
        self._decided = self.head = Head(self._partitions)
        self._values = []

    def _refused(self, error: KafkaException) -> ResurgeError:
        from confluent_kafka import KafkaError

        reason = error.args[0]
        where = f"partition {self._partition} of {self._location.name!r}"
        if reason.code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH):
            return Fenced(
                f"another gateway owns {where} now; this one acknowledges nothing more of it", code="kafka-fenced"
            )
        return Unreachable(
            f"{where} takes nothing: {reason.str()}; devices keep their data until enough brokers run",
            code="kafka-unreachable",
        )
