"""The two topics of a log, made when there are none, and refused when they would lose what was acknowledged.

A receipt says that a batch cannot be lost by one machine. With these settings that is so: three copies of each
partition, a write counts when two have it, a copy that lags is never made the leader, nothing is deleted by age. What
they do not cover is the loss of power of all brokers at once, because brokers acknowledge from memory.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cloud_backend.log.format import FRAME_BYTES_MAX, RECORD_HEADER_BYTES
from cloud_backend.log.kafka.location import PARTITIONS, Location, is_fit
from shared.errors import ResurgeError, UsageError

if TYPE_CHECKING:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

REACH_S = 10.0
LOOK_S = 0.1
COPIES, COPIES_MIN = 3, 2
RECORD_BYTES_MAX = FRAME_BYTES_MAX + RECORD_HEADER_BYTES
MESSAGE_BYTES_MAX = RECORD_BYTES_MAX + 64 * 1024  # with what Kafka adds to a batch of records
_BOTH = {
    "min.insync.replicas": str(COPIES_MIN),
    "unclean.leader.election.enable": "false",
    "max.message.bytes": str(MESSAGE_BYTES_MAX),
}
LOG_SETTINGS = {**_BOTH, "cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
INDEX_SETTINGS = {**_BOTH, "cleanup.policy": "compact"}
_AT_LEAST = frozenset({"min.insync.replicas", "max.message.bytes"})
_OF_TRANSACTIONS = {
    "transaction.state.log.replication.factor": COPIES,
    "transaction.state.log.min.isr": COPIES_MIN,
}


class Unreachable(ResurgeError):
    """No broker, or too few, answered in time; nothing was acknowledged that is not kept."""


def admin_of(location: Location) -> tuple[AdminClient, list[Any]]:
    """A client that asks about topics, and the errors that it met by itself."""
    from confluent_kafka.admin import AdminClient

    errors: list[Any] = []
    return AdminClient({**location.client(), "error_cb": errors.append}), errors


def unreachable(location: Location, errors: Sequence[Any] = (), reason: object = "") -> ResurgeError:
    from confluent_kafka import KafkaError

    refused = {KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._SSL}
    if any(each.code() in refused for each in errors):
        return UsageError(
            f"the brokers of {location.name!r} refuse this user or certificate; check RESURGE_KAFKA_USER, "
            "RESURGE_KAFKA_PASSWORD, RESURGE_KAFKA_CA and security= in the location",
            code="kafka-credentials",
        )
    return Unreachable(
        f"no broker of {location.brokers} answers{f' ({reason})' if reason else ''}; check that they run, that this "
        "machine reaches them, and whether they want security= in the location",
        code="kafka-unreachable",
    )


def partition_count(location: Location, *, make: bool = False) -> int:
    """How many partitions the log has, after its topics were checked; `make`: they are made where there are none.
    UsageError in one line for anything that would lose data or mix devices up."""
    from confluent_kafka import KafkaException

    admin, errors = admin_of(location)
    deadline = time.monotonic() + REACH_S
    while True:
        try:
            return _checked_count(admin, location, make=make)
        except KafkaException as error:
            admin.poll(0)  # hands out the errors that the client met
            if not passes(error) or time.monotonic() > deadline:
                raise unreachable(location, errors, error.args[0].str()) from error
            time.sleep(LOOK_S)


def passes(error: KafkaException) -> bool:
    """Whether brokers say so only until all of them have heard who leads a partition, or that a topic was made."""
    from confluent_kafka import KafkaError

    return error.args[0].code() in {
        KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REPLICA_NOT_AVAILABLE, KafkaError.BROKER_NOT_AVAILABLE, KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.OFFSET_NOT_AVAILABLE, KafkaError.NETWORK_EXCEPTION,
        KafkaError.REQUEST_TIMED_OUT, KafkaError._TRANSPORT,
    }  # fmt: skip


def _checked_count(admin: AdminClient, location: Location, *, make: bool) -> int:
    topics = _described(admin, location)
    if make and len(topics) < 2:
        topics = _make(admin, location, topics)
    if len(topics) < 2:
        raise _missing(location, topics)
    count = _agreed_count(location, topics)
    _check_settings(admin, location, topics)
    return count


def _described(admin: AdminClient, location: Location) -> dict[str, list[int]]:
    """Those of the two topics that there are: the number of copies of each partition."""
    found = admin.list_topics(timeout=REACH_S).topics
    return {
        name: [len(part.replicas) for _, part in sorted(found[name].partitions.items())]
        for name in (location.log_topic, location.index_topic)
        if name in found and found[name].error is None
    }


def _make(admin: AdminClient, location: Location, topics: Mapping[str, list[int]]) -> dict[str, list[int]]:
    """Make those that are not there; both, as the first broker describes them that has heard of them."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import NewTopic

    if topics and not _is_empty(admin, location, *topics):
        raise _missing(location, topics)
    count = len(next(iter(topics.values()))) if topics else location.partitions or PARTITIONS
    wanted = {location.log_topic: LOG_SETTINGS, location.index_topic: INDEX_SETTINGS}
    made = [NewTopic(name, count, COPIES, config=wanted[name]) for name in wanted if name not in topics]
    for name, future in admin.create_topics(made, operation_timeout=REACH_S).items():
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                continue  # the broker that was asked before had not heard of it
            raise UsageError(
                f"topic {name!r} cannot be made with {COPIES} copies: {_words(error)}; start {COPIES} brokers, and let "
                "this user make topics",
                code="kafka-topic",
            ) from error
    deadline = time.monotonic() + REACH_S
    while len(described := _described(admin, location)) < 2 and time.monotonic() < deadline:
        time.sleep(LOOK_S)  # a topic is made before every broker has heard of it
    return described  # asked again, another broker might not have heard of it yet


def _is_empty(admin: AdminClient, location: Location, name: str) -> bool:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import OffsetSpec

    count = len(_described(admin, location)[name])
    asked = {TopicPartition(name, each): OffsetSpec.latest() for each in range(count)}
    return not any(each.result().offset for each in admin.list_offsets(asked, request_timeout=REACH_S).values())


def _missing(location: Location, topics: Mapping[str, list[int]]) -> UsageError:
    if not topics:
        return UsageError(
            f"there is no log {location.name!r} on {location.brokers}; the gateway that writes it makes it, start "
            "that first",
            code="kafka-topic",
        )
    (there,) = topics
    gone = location.index_topic if there == location.log_topic else location.log_topic
    return UsageError(
        f"topic {there!r} holds records and {gone!r} is missing: it was deleted, or only one of the two was restored. "
        f"Restore {gone!r}; made anew, devices would be taken for new ones",
        code="kafka-topic-half",
    )


def _agreed_count(location: Location, topics: Mapping[str, list[int]]) -> int:
    counts = {name: len(parts) for name, parts in topics.items()}
    count = counts[location.log_topic]
    if len({*counts.values()}) > 1 or not is_fit(count) or location.partitions not in (None, count):
        wanted = "" if location.partitions is None else f", the location says {location.partitions}"
        raise partitions_changed(", ".join(f"{name!r} has {number}" for name, number in counts.items()) + wanted)
    return count


def partitions_changed(what: str) -> UsageError:
    return UsageError(
        f"the partitions of a log are fixed, as a device's follows from its id: {what}. Make another log with a new "
        "name, or restore the topics as they were",
        code="kafka-partitions",
    )


def _check_settings(admin: AdminClient, location: Location, topics: Mapping[str, list[int]]) -> None:
    from confluent_kafka.admin import ConfigResource, ResourceType

    wanted = {location.log_topic: LOG_SETTINGS, location.index_topic: INDEX_SETTINGS}
    broker = next(iter(admin.list_topics(timeout=REACH_S).brokers))
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in wanted]
    resources.append(ConfigResource(ResourceType.BROKER, str(broker)))
    answers = admin.describe_configs(resources, request_timeout=REACH_S)
    found = {resource.name: future.result() for resource, future in answers.items()}
    wrong: list[str] = []
    for name, settings in wanted.items():
        if min(topics[name]) < COPIES:
            wrong.append(f"{name} has {min(topics[name])} copies of a partition, not {COPIES}")
        for key, value in settings.items():
            actual = found[name][key].value or ""
            fits = int(actual) >= int(value) if key in _AT_LEAST and actual.isdigit() else actual == value
            wrong += [] if fits else [f"{key} of {name} is {actual}, not {value}"]
    for key, least in _OF_TRANSACTIONS.items():
        held = found[str(broker)].get(key)
        if held is not None and int(held.value or 0) < least:
            wrong.append(f"{key} of the brokers is {held.value}, not {least}")
    if wrong:
        raise UsageError(
            f"the topics of {location.name!r} could lose what was acknowledged: {'; '.join(wrong)}. Set them so, and "
            "start again; nothing was written",
            code="kafka-settings",
        )


def _words(error: BaseException) -> str:
    given = error.args[0] if error.args else error
    return str(given.str()) if hasattr(given, "str") else str(error)
