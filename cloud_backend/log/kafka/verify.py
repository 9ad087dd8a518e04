"""A full check of a log in Kafka: every record of every partition against its chain, and the account against the index.

The index says where the chain stands; a partition whose records end before that has lost its tail, one whose records
lead to another chain was written anew. What was trimmed is not there to be checked: the chain is followed from the
first record that is kept, and each edge from where it then stood.
"""

from __future__ import annotations

import builtins
import time
from dataclasses import dataclass, field

from cloud_backend.log.account import Account, EdgeAccount, count
from cloud_backend.log.format import GENESIS, record_is_whole
from cloud_backend.log.index import KEY, NUMBERED, EdgeState
from cloud_backend.log.kafka.entries import Head, decode_record
from cloud_backend.log.kafka.location import parse
from cloud_backend.log.kafka.reader import KafkaReader, messages, read_index
from shared.errors import DamagedData
from shared.identity import EdgeKey
from shared.wire.frame import stored_header

SETTLE_S = 10.0


@dataclass(slots=True)
class KafkaVerification(Account):
    partitions: int = 0
    records: int = 0
    bytes: int = 0


def verify(location: str) -> KafkaVerification:
    """Walk the whole log. Raises DamagedData that names the first place where it is not sound. While gateways write it,
    what they had committed when it began is checked."""
    reader = KafkaReader(parse(location))
    result = KafkaVerification(partitions=reader.count)
    for partition in range(reader.count):
        head, states = read_index(reader.location, partition)  # before the records, which may be growing
        _verify_partition(reader, partition, head or Head(reader.count), states, result)
    return result


def _verify_partition(
    reader: KafkaReader, partition: int, head: Head, states: dict[bytes, EdgeState], result: KafkaVerification
) -> None:
    topic, name = reader.location.log_topic, str(partition)
    begin, end = reader.starts()[name], reader.ends()[name]
    walk, start, deadline = _Walk(head.records), begin, time.monotonic() + SETTLE_S
    while True:
        for message in messages(reader.location, topic, partition, start, end):
            where = f"partition {partition} of {topic!r} at offset {message.offset()}"
            walk.take(message.value() or b"", where, trimmed=begin > 0)
        if walk.is_done or (begin == end and begin > 0) or time.monotonic() > deadline:
            break
        # The brokers say of each topic by itself where its committed records end; the index may be ahead for a moment.
        start, end = end, reader.ends()[name]
    if walk.next >= 0 and (not walk.is_done or walk.chain_there not in (None, head.chain)):
        raise DamagedData(
            f"partition {partition} of {topic!r} has records up to {walk.next}, its index says {head.records}: its "
            "tail was cut off, or it was written anew",
            code="log-cut",
        )
    if walk.next < 0 and head.records and not begin:
        raise DamagedData(
            f"partition {partition} of {topic!r} is empty, its index says {head.records} records: it was made anew",
            code="log-cut",
        )
    _compare(walk.edges, states, partition, whole=not begin)
    result.edges |= walk.edges
    result.records += walk.records
    result.bytes += walk.bytes


@dataclass(slots=True)
class _Walk:
    """Along the records of a partition. The index had reached a number; those behind it were written since."""

    until: int
    next: int = -1  # the number that follows; none before the first
    chain: builtins.bytes = GENESIS
    chain_there: builtins.bytes | None = None  # after the record that the index had reached
    records: int = 0
    bytes: int = 0
    edges: dict[EdgeKey, EdgeAccount] = field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        return max(self.next, 0) >= self.until

    def take(self, value: builtins.bytes, where: str, *, trimmed: bool) -> None:
        number, header, record = decode_record(value, where)
        is_first = self.next < 0
        is_next = number == max(self.next, 0) and record_is_whole(value, 0, header, self.chain)
        if not is_next and not (is_first and trimmed):
            raise DamagedData(
                f"{where}: the record does not continue the one before it; one of them was changed, dropped or put in "
                "by somebody else",
                code="log-chain",
            )
        self.chain, self.next = header.chain, number + 1
        if self.next == self.until:
            self.chain_there = self.chain
        if self.next > self.until:
            return
        frame = stored_header(record.frame)
        key = EdgeKey(frame.source, frame.incarnation, frame.edge)
        if frame.kind in NUMBERED and key not in self.edges and trimmed:
            self.edges[key] = EdgeAccount(frame.seq, frame.seq)
        count(self.edges, record.frame)
        self.records += 1
        self.bytes += len(value)


def _compare(edges: dict[EdgeKey, EdgeAccount], states: dict[bytes, EdgeState], partition: int, *, whole: bool) -> None:
    for key, edge in edges.items():
        state = states.get(KEY.pack(key.incarnation, key.device, key.edge), EdgeState())
        if edge.through != state.high_water or (whole and edge.ledgered != state.ledgered):
            raise DamagedData(
                f"partition {partition}: records of edge {key.edge:016x} of device {key.device.hex()} reach "
                f"{edge.through} with {edge.ledgered} given up, the index says {state.high_water} and {state.ledgered}",
                code="log-index",
            )
