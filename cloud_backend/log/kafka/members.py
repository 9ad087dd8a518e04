"""The gateways of one log in Kafka: a consumer group says which of them should own which partition.

It is Kafka's own: brokers notice a member that has died, and deal its partitions to the others; a member that leaves
gives its up at once, and what does not have to move stays where it is. Nothing is ever read through it. Whether a
gateway *may* write a partition is decided by its transactional id alone (`shard.py`), so a member that was paused and
believes what is no longer true does no harm.

A member says in its client id who it is (`Member`): where the others reach it, which database it shares with them and
the key that devices know it by. So the group itself is the list of who owns what, and where.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cloud_backend.log.kafka.location import Location
from cloud_backend.log.kafka.topics import LOOK_S, REACH_S, admin_of, passes, unreachable
from shared.errors import UsageError

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition

ALONE = "alone"  # in the place of a database: this gateway shares none, and so no log
SESSION_MS = 6000  # after which a silent member is taken for dead; the least that brokers allow unless told otherwise
HEARTBEAT_MS = 1000
POLL_S = 0.2
COORDINATOR_S = 30.0  # that brokers may take to make the first group of all
_PREFIX = "resurge"


@dataclass(frozen=True, slots=True)
class Member:
    """Who a gateway is among those of its log."""

    database: str  # which one it shares, a few letters; ALONE: none
    key: str  # that devices know it by
    address: str  # host:port, where other gateways reach it
    partitions: frozenset[str] = field(default=frozenset(), compare=False)

    def announced(self) -> str:
        return f"{_PREFIX}.{self.database}.{self.key}.{self.address}"

    @staticmethod
    def of(text: str, partitions: frozenset[str]) -> Member | None:
        """None for somebody else in the group."""
        parts = text.split(".", 3)
        if len(parts) != 4 or parts[0] != _PREFIX:
            return None
        return Member(parts[1], parts[2], parts[3], partitions)


def group_of(location: Location) -> str:
    return f"{location.name}-gateways"


class Group:
    """Asks who the members are. For one thread at a time."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._admin, self._errors = admin_of(location)

    def members(self) -> list[Member]:
        """Those that the brokers take for alive, with what they should own. Unreachable where nobody says."""
        from confluent_kafka import KafkaError, KafkaException

        waits = {
            KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR,
            KafkaError._TIMED_OUT, KafkaError._WAIT_COORD,
        }  # fmt: skip
        deadline = time.monotonic() + COORDINATOR_S
        while True:
            asked = self._admin.describe_consumer_groups([group_of(self._location)], request_timeout=REACH_S)
            try:
                found = asked[group_of(self._location)].result()
            except KafkaException as error:
                code = error.args[0].code()
                if code == KafkaError.GROUP_ID_NOT_FOUND:
                    return []
                if not (code in waits or passes(error)) or time.monotonic() > deadline:
                    raise unreachable(self._location, self._errors, error.args[0].str()) from error
                time.sleep(LOOK_S)
                continue
            return [member for each in found.members if (member := self._member(each)) is not None]

    def _member(self, described: Any) -> Member | None:
        parts = () if described.assignment is None else described.assignment.topic_partitions
        owned = frozenset(str(each.partition) for each in parts if each.topic == self._location.log_topic)
        return Member.of(described.client_id, owned)


def check_together(mine: Member, others: list[Member]) -> None:
    """UsageError where a gateway would write a log together with those that do not know the same devices."""
    for other in others:
        where = f"the gateway at {other.address}" if other.address else "another gateway"
        if other.database != mine.database:
            if mine.database == ALONE:
                text = f"{where} writes this log and shares its database; start this one with the same --database"
            elif other.database == ALONE:
                text = (
                    f"{where} writes this log alone, with a roster in its own home; stop it, and wait "
                    f"{SESSION_MS // 1000} s, or make another log"
                )
            else:
                text = (
                    f"{where} writes this log and keeps its roster in another database; give both the same --database"
                )
            raise UsageError(text, code="kafka-gateways")
        if other.key != mine.key:
            raise UsageError(
                f"{where} writes this log and devices know it by another key; copy gateway.key, and with --tls the "
                "certificate, from its home into this one's",
                code="gateway-key",
            )


class Membership:
    """One gateway's place in the group. `on_assigned` and `on_revoked` are called in a thread of its own, with numbers
    of partitions; those that are revoked go to somebody else as soon as `on_revoked` returns."""

    def __init__(
        self, location: Location, member: Member, on_assigned: Callable[[frozenset[str]], None],
        on_revoked: Callable[[frozenset[str]], None],
    ) -> None:  # fmt: skip
        self._location, self._member = location, member
        self._on_assigned, self._on_revoked = on_assigned, on_revoked
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafka-group", daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """Give everything up at once; returns when the brokers were told."""
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        from confluent_kafka import Consumer

        consumer = Consumer(
            {
                **self._location.client(),
                "client.id": self._member.announced(),
                "group.id": group_of(self._location),
                "partition.assignment.strategy": "cooperative-sticky",
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": HEARTBEAT_MS,
                "enable.auto.commit": False,
                "auto.offset.reset": "latest",
            }
        )
        consumer.subscribe(
            [self._location.log_topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )
        while not self._ends.is_set():
            consumer.poll(POLL_S)  # never a record: what is assigned is paused
        consumer.close()

    def _assigned(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        consumer.incremental_assign(partitions)
        consumer.pause(partitions)
        self._on_assigned(_numbers(partitions))

    def _revoked(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        self._on_revoked(_numbers(partitions))
        consumer.incremental_unassign(partitions)


def _numbers(partitions: list[TopicPartition]) -> frozenset[str]:
    return frozenset(str(each.partition) for each in partitions)
