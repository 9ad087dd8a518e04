"""A log in Kafka as a gateway knows it: all partitions that it owns, behind the calls of a log on its disk.

Alone a gateway owns every partition (`open`). One of several owns those it was given (`take_over`, `release`), and
nothing is asked of it about a device that is in another.

A device is in one partition, so each partition has a chain, an index and a transaction of its own. A group is committed
in all its partitions at once. Where one of them fails, nothing of the group is answered: what the others committed is
then a duplicate when its device repeats it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from cloud_backend.log.format import Record
from cloud_backend.log.index import EdgeState
from cloud_backend.log.kafka.location import parse
from cloud_backend.log.kafka.reader import KafkaReader
from cloud_backend.log.kafka.shard import Fenced, Shard, ShardGroup
from cloud_backend.log.kafka.topics import partition_count
from cloud_backend.log.partitions import Place, partition_of
from shared.errors import PeerError
from shared.identity import DeviceId, EdgeId, EdgeKey
from shared.wire.frame import claimed_source

THREADS_MAX = 16


@dataclass(frozen=True, slots=True)
class KafkaGroup:
    parts: tuple[ShardGroup, ...]
    records: tuple[Record, ...]
    start: int  # in bytes, over all partitions
    end: int


class KafkaLog:
    """Use `KafkaLog.open`. For one thread that decides and one that commits, as a log on disk."""

    takes_marks = False
    commits_at_once = False  # a commit waits for brokers: never in the event loop
    cut_bytes = 0  # no write is torn: a transaction counts or does not

    def __init__(self, location: str) -> None:
        self.location = location
        parsed = parse(location)
        self.partitions = partition_count(parsed, make=True)
        self._shards = {str(each): Shard(parsed, each, self.partitions) for each in range(self.partitions)}
        self._threads = ThreadPoolExecutor(min(self.partitions, THREADS_MAX), thread_name_prefix="kafka")
        self._pending: list[Record] = []
        self._owned: frozenset[str] = frozenset()

    @staticmethod
    def open(location: str) -> KafkaLog:
        """The log at this location, every partition owned by this process from now on; its topics are made when there
        are none. UsageError or Unreachable in one line where that cannot be."""
        log = KafkaLog(location)
        log.take_over(frozenset(log._shards))
        return log

    def take_over(self, partitions: frozenset[str]) -> None:
        """Own these, too. Beside groups that are committed: they are of other partitions."""
        self._all([self._threads.submit(self._shards[each].begin) for each in partitions])
        self._owned |= partitions

    def release(self, partitions: frozenset[str]) -> None:
        """Own these no more. Not beside a group of them."""
        self._owned -= partitions
        for each in partitions:
            self._shards[each].close()

    def reopen(self) -> None:
        """Become the owner again of what was owned and is not open, and read what it really holds."""
        closed = [shard for each in self._owned if not (shard := self._shards[each]).is_open]
        self._all([self._threads.submit(shard.begin) for shard in closed])

    def _all(self, futures: Sequence[object]) -> None:
        """Wait for all of them; raise what is worst."""
        errors = [error for each in futures if (error := each.exception()) is not None]  # type: ignore[attr-defined]
        if errors:
            raise next((error for error in errors if isinstance(error, Fenced)), errors[0])

    @property
    def durable_end(self) -> int:
        """Bytes ever committed, over all partitions; to tell whether something came, not where it is."""
        return sum(shard.head.size for shard in self._shards.values())

    def producer_term(self, carrier: DeviceId, key: EdgeKey) -> int | None:  # noqa: ARG002 - as a vertex answers it
        return None

    def high_water(self, key: EdgeKey) -> int:
        return self._of(key.device).high_water(key)

    def edges_of(self, device: DeviceId, incarnation: int) -> dict[EdgeId, int]:
        return self._of(device).edges_of(device, incarnation)

    def edges(self) -> Iterator[tuple[EdgeKey, EdgeState]]:
        for each in sorted(self._owned, key=int):
            yield from self._shards[each].edges()

    def _of(self, device: DeviceId) -> Shard:
        partition = partition_of(device, self.partitions)
        if partition not in self._owned:
            raise PeerError("another gateway looks after what this is about; come back", code="gateway-moving")
        return self._shards[partition]

    def append(self, records: Sequence[Record]) -> None:
        for record in records:
            self._of(DeviceId(claimed_source(record.frame))).append((record,))
            self._pending.append(record)

    def take(self) -> KafkaGroup:
        parts = tuple(part for shard in self._shards.values() if (part := shard.take()) is not None)
        start = self.durable_end
        size = sum(len(value) for part in parts for value in part.values)
        group = KafkaGroup(parts, tuple(self._pending), start, start + size)
        self._pending = []
        return group

    def commit(self, group: KafkaGroup) -> None:
        """Durable in every partition when this returns. Where it raises, some partitions may have it: `reopen`."""
        if len(group.parts) == 1:
            self._shards[str(group.parts[0].partition)].commit(group.parts[0])
            return
        self._all([self._threads.submit(self._shards[str(part.partition)].commit, part) for part in group.parts])

    def unread(self, read: Place) -> int:
        """About how many bytes a job has not read that has come to this place."""
        reader = KafkaReader(parse(self.location))
        ends = reader.ends()
        return reader.size({each: min(read.get(each, end), end) for each, end in ends.items()}, ends)

    def trim(self, before: Place) -> None:
        """Let Kafka delete what lies before this place. The index keeps what must not be forgotten of it."""
        KafkaReader(parse(self.location)).trim(before)

    def unreserved(self, length: int) -> bool:  # noqa: ARG002 - as a log on disk is asked
        """False: brokers see to their disks."""
        return False

    def reserve(self, length: int) -> None:
        """Never asked for, see `unreserved`."""

    def close(self) -> None:
        for shard in self._shards.values():
            shard.close()
        self._threads.shutdown(wait=True)
