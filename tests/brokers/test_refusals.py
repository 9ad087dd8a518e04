"""What a gateway says at its start, in one line with a code, when its log in Kafka is not as it must be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from cloud_backend.gateway.__main__ import main
from cloud_backend.log.kafka import topics
from cloud_backend.log.kafka.location import parse
from cloud_backend.log.kafka.log import KafkaLog
from cloud_backend.log.kafka.reader import KafkaReader
from cloud_backend.log.kafka.topics import INDEX_SETTINGS, LOG_SETTINGS
from resurge.up.free_ports import free_ports
from shared.errors import ResurgeError
from tests.brokers.cluster import PASSWORD, USER, Cluster
from tests.cloud_backend.log.builders import PHONE, data
from tests.patience import wait_until

pytestmark = pytest.mark.brokers

SOON_S = 2.0  # how long these look for brokers that will not answer


def refused(location: str) -> ResurgeError:
    with pytest.raises(ResurgeError) as error:
        KafkaLog.open(location)
    assert "\n" not in str(error.value)
    return error.value


def make(cluster: Cluster, name: str, partitions: int = 2, *, copies: int = 3, **settings: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.address})
    config = (LOG_SETTINGS if name.endswith(".log") else INDEX_SETTINGS) | {
        key.replace("_", "."): value for key, value in settings.items()
    }
    admin.create_topics([NewTopic(name, partitions, copies, config=config)])[name].result()
    wait_until(lambda: name in admin.list_topics(timeout=10).topics, "the topic is made")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"min_insync_replicas": "1"}, "min.insync.replicas of lossy-0.log is 1, not 2"),
        ({"retention_ms": "86400000"}, "retention.ms of lossy-1.log is 86400000, not -1"),
        (
            {"unclean_leader_election_enable": "true"},
            "unclean.leader.election.enable of lossy-2.log is true, not false",
        ),
        ({"max_message_bytes": "1048588"}, "max.message.bytes of lossy-3.log is 1048588"),
        ({"copies": 1}, "lossy-4.log has 1 copies of a partition, not 3"),
    ],
)
def test_topics_that_could_lose_data_are_refused(cluster: Cluster, settings: dict[str, str], said: str) -> None:
    name = said.partition("lossy-")[2][0]
    make(cluster, f"lossy-{name}.log", **settings)  # type: ignore[arg-type]
    make(cluster, f"lossy-{name}.index")
    error = refused(f"kafka://{cluster.address}/lossy-{name}")
    assert error.code == "kafka-settings"
    assert said in error.message


def test_brokers_that_do_not_answer_are_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "REACH_S", SOON_S)
    (port,) = free_ports(1)
    where = f"kafka://127.0.0.1:{port}/gone"
    assert main(["--home", str(tmp_path / "home"), "--port", "0", "--log", where]) == 1
    (line,) = [line for line in capfd.readouterr().err.splitlines() if "resurge.gateway" in line]
    assert f"no broker of 127.0.0.1:{port} answers" in line
    assert line.endswith("[kafka-unreachable]")


def test_a_changed_number_of_partitions_is_refused(cluster: Cluster, location: Callable[..., str]) -> None:
    where = location(2)
    log = KafkaLog.open(where)
    log.append([data(PHONE, 0, 10)])
    log.commit(log.take())
    log.close()
    assert refused(where.replace("partitions=2", "partitions=4")).code == "kafka-partitions"
    bare, named = where.partition("?")[0], parse(where)
    admin = AdminClient({"bootstrap.servers": cluster.address})
    admin.create_partitions([NewPartitions(named.log_topic, 4)])[named.log_topic].result()
    wait_until(lambda: len(admin.list_topics(timeout=10).topics[named.log_topic].partitions) == 4)
    assert refused(bare).code == "kafka-partitions"
    admin.create_partitions([NewPartitions(named.index_topic, 4)])[named.index_topic].result()
    wait_until(lambda: len(admin.list_topics(timeout=10).topics[named.index_topic].partitions) == 4)
    error = refused(bare)  # the two agree, and what was written says otherwise
    assert error.code == "kafka-partitions"
    assert "was written as one of 2, there are 4 now" in error.message


def test_half_a_log_is_finished_while_it_is_empty_and_refused_when_it_is_not(
    cluster: Cluster, location: Callable[..., str]
) -> None:
    where = location(2)
    make(cluster, parse(where).log_topic)  # as a creation that was cut short
    log = KafkaLog.open(where)
    log.append([data(PHONE, 0, 10)])
    log.commit(log.take())
    log.close()
    index = parse(where).index_topic
    admin = AdminClient({"bootstrap.servers": cluster.address})
    admin.delete_topics([index])[index].result()
    wait_until(lambda: index not in admin.list_topics(timeout=10).topics, "the topic is gone")
    error = refused(where)
    assert error.code == "kafka-topic-half"
    assert "devices would be taken for new ones" in error.message


def test_who_reads_a_log_does_not_make_it(location: Callable[..., str]) -> None:
    with pytest.raises(ResurgeError) as error:
        KafkaReader(location())
    assert error.value.code == "kafka-topic"


def test_user_and_password_come_from_the_environment(
    cluster: Cluster, location: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    where = location(1).replace(cluster.address, cluster.sasl_address) + "&security=sasl_plaintext&mechanism=PLAIN"
    for name in ("RESURGE_KAFKA_USER", "RESURGE_KAFKA_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    assert refused(where).code == "kafka-credentials"
    monkeypatch.setenv("RESURGE_KAFKA_USER", USER)
    monkeypatch.setenv("RESURGE_KAFKA_PASSWORD", "wrong")
    with monkeypatch.context() as patched:
        patched.setattr(topics, "REACH_S", SOON_S)
        error = refused(where)
    assert error.code == "kafka-credentials"
    assert "wrong" not in error.message
    monkeypatch.setenv("RESURGE_KAFKA_PASSWORD", PASSWORD)
    log = KafkaLog.open(where)
    log.append([data(PHONE, 0, 10)])
    log.commit(log.take())
    assert log.high_water(PHONE) == 10
    log.close()
