"""A log in Kafka on real brokers: what is committed, what is read, who may write."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from cloud_backend.log.kafka.location import parse
from cloud_backend.log.kafka.log import KafkaLog
from cloud_backend.log.kafka.reader import messages
from cloud_backend.log.kafka.shard import Fenced
from cloud_backend.log.kafka.verify import verify
from cloud_backend.log.partitions import open_log, partition_of
from shared.errors import DamagedData
from shared.identity import EdgeKey, device_id, edge_id
from tests.brokers.cluster import Cluster
from tests.claims import Claim
from tests.cloud_backend.log.builders import data, declare, tombstone
from tests.patience import wait_until

pytestmark = pytest.mark.brokers

PHONES = [EdgeKey(device_id(b"phone %d" % number), 1, edge_id("gps")) for number in range(8)]


def commit(log: KafkaLog, *records) -> None:
    log.append(records)
    log.commit(log.take())


def settled(location: str, records: int) -> dict[str, int]:
    """Where the log ends once so many records count: brokers note the end of a transaction a little after its commit."""
    reader = open_log(location)

    def ends() -> dict[str, int]:
        starts, found = reader.starts(), reader.ends()
        read = sum(1 for each in found for _ in reader.read(each, starts[each], found[each]))
        return found if read == records else {}

    return wait_until(ends, f"{records} records count")


def everything(location: str, records: int) -> list[tuple[str, bytes]]:
    reader, ends = open_log(location), settled(location, records)
    starts = reader.starts()
    return [(each, bytes(record.frame)) for each in ends for _, record in reader.read(each, starts[each], ends[each])]


def test_what_is_committed_is_read_in_the_partition_of_its_device(location: Callable[..., str], claim: Claim) -> None:
    where = location()
    log = KafkaLog.open(where)
    sent = [data(key, 0, 10, b"first of all") for key in PHONES]
    commit(log, *(declare(key) for key in PHONES), *sent)
    commit(log, tombstone(PHONES[0], 10, 15))
    found = everything(where, len(PHONES) * 2 + 1)
    for key, record in zip(PHONES, sent, strict=True):
        assert (partition_of(key.device, 4), record.frame) in found
    assert len({each for each, _ in found}) > 1
    checked = verify(where)
    assert (checked.delivered, checked.ledgered, checked.duplicates, checked.gaps) == (80, 5, 0, 0)
    again = KafkaLog.open(where)
    assert [again.high_water(key) for key in PHONES] == [15, *[10] * 7]
    assert {key: state.declaration for key, state in again.edges()} == {key: declare(key).frame for key in PHONES}
    assert again.durable_end == log.durable_end
    claim(f"{len(found)} records in {checked.partitions} partitions")
    log.close()
    again.close()


def test_whoever_began_later_owns_a_partition_and_the_earlier_one_is_told(location: Callable[..., str]) -> None:
    where = location(2)
    first = KafkaLog.open(where)
    commit(first, data(PHONES[0], 0, 10))
    second = KafkaLog.open(where)
    assert second.high_water(PHONES[0]) == 10
    first.append([data(PHONES[0], 10, 20, b"of the earlier owner")])
    with pytest.raises(Fenced) as error:
        first.commit(first.take())
    assert error.value.code == "kafka-fenced"
    commit(second, data(PHONES[0], 10, 20, b"of the later owner"))
    assert [frame[-18:] for _, frame in everything(where, 2)][-1] == b"of the later owner"
    assert verify(where).delivered == 20
    first.close()
    second.close()


def test_a_slice_may_end_in_what_was_aborted_or_is_open(location: Callable[..., str], cluster: Cluster) -> None:
    where = location(1)
    log = KafkaLog.open(where)
    commit(log, data(PHONES[0], 0, 10))
    ends = settled(where, 1)
    topic = parse(where).log_topic
    other = Producer({"bootstrap.servers": cluster.address, "transactional.id": "another"})
    other.init_transactions(30)
    for _ in range(3):
        other.begin_transaction()
        for _ in range(50):
            other.produce(topic, b"never counts", partition=0)
        other.flush(30)
        other.abort_transaction(30)
    wait_until(lambda: open_log(where).ends()["0"] >= ends["0"] + 153, "what was aborted has ended")
    aborted = open_log(where).ends()
    reader = open_log(where)
    assert len(list(reader.read("0", 0, aborted["0"]))) == 1
    assert list(reader.read("0", ends["0"], aborted["0"])) == []
    assert list(reader.read("0", ends["0"] + 20, ends["0"] + 30)) == []  # an end amid what was aborted
    other.begin_transaction()
    other.produce(topic, b"is not decided", partition=0)
    other.flush(30)
    assert open_log(where).ends() == aborted
    assert len(list(reader.read("0", 0, aborted["0"]))) == 1
    other.abort_transaction(30)
    commit(log, data(PHONES[0], 10, 20))
    now = settled(where, 2)["0"]
    assert [at >= aborted["0"] for at, _ in reader.read("0", 0, now)] == [False, True]
    assert len(list(reader.read("0", 0, aborted["0"]))) == 1
    assert verify(where).delivered == 20
    log.close()


def test_the_index_outlives_what_was_trimmed(location: Callable[..., str]) -> None:
    where = location(1)
    log = KafkaLog.open(where)
    commit(log, declare(PHONES[0]), data(PHONES[0], 0, 10))
    before = settled(where, 2)
    commit(log, data(PHONES[0], 10, 20))
    settled(where, 3)
    log.trim(before)
    reader = open_log(where)
    assert reader.starts() == before
    with pytest.raises(DamagedData) as error:
        list(reader.read("0", 0, reader.ends()["0"]))
    assert error.value.code == "log-trimmed"
    log.close()
    again = KafkaLog.open(where)
    assert again.high_water(PHONES[0]) == 20
    checked = verify(where)
    assert (checked.delivered, checked.gaps) == (10, 0)
    again.trim({"0": 10**9})  # more than there is: all of it
    assert again.high_water(PHONES[0]) == 20
    commit(again, data(PHONES[0], 20, 30))
    settled(where, 1)
    assert verify(where).delivered == 10
    again.close()


def test_a_slice_is_bounded_in_every_partition(location: Callable[..., str]) -> None:
    where = location(4)
    log = KafkaLog.open(where)
    for number in range(4):
        commit(log, *(data(key, at, at + 1, bytes(2000)) for key in PHONES for at in range(5 * number, 5 * number + 5)))
    ends = settled(where, 160)
    reader = open_log(where)
    starts = reader.starts()
    size = reader.size(starts, ends)
    assert 0.8 * 20 * 8 * 2000 < size < 2 * 20 * 8 * 2000
    cut = reader.bounded(starts, ends, size // 4)
    assert all(starts[each] < cut[each] < ends[each] for each in ends if ends[each])
    assert reader.size(starts, cut) < size // 3
    assert reader.bounded(starts, ends, 10 * size) == ends
    log.close()


def test_somebody_else_s_record_breaks_the_chain(location: Callable[..., str], cluster: Cluster) -> None:
    where = location(1)
    log = KafkaLog.open(where)
    commit(log, data(PHONES[0], 0, 10), data(PHONES[0], 10, 20))
    (first, _) = messages(parse(where), parse(where).log_topic, 0, 0, settled(where, 2)["0"])
    forger = Producer({"bootstrap.servers": cluster.address})
    forger.produce(parse(where).log_topic, first.value(), partition=0)
    assert forger.flush(30) == 0
    with pytest.raises(DamagedData) as error:
        verify(where)
    assert error.value.code in ("log-chain", "log-cut")
    log.close()


def test_a_location_says_no_secrets(location: Callable[..., str]) -> None:
    assert "password" not in json.dumps(location())
