"""The order in which a partition's transaction is given to the client of the brokers."""

from __future__ import annotations

from cloud_backend.log.kafka.location import parse
from cloud_backend.log.kafka.shard import Shard
from tests.cloud_backend.log.builders import PHONE, data, declare


class Client:
    def __init__(self) -> None:
        self.calls: list[tuple[str, bytes]] = []

    def begin_transaction(self) -> None:
        self.calls.append(("begin", b""))

    def produce(self, topic: str, value: bytes, *, partition: int, key: bytes = b"") -> None:
        self.calls.append((topic, value))

    def commit_transaction(self, timeout_s: float) -> None:
        self.calls.append(("commit", b""))


def test_both_topics_are_met_at_once_and_records_stay_in_their_order() -> None:
    shard, client = Shard(parse("kafka://127.0.0.1:1/walks"), 0, 1), Client()
    shard._producer = client  # type: ignore[assignment]
    shard.append([declare(PHONE), *(data(PHONE, each, each + 10) for each in range(0, 50, 10))])
    group = shard.take()
    assert group is not None
    shard.commit(group)
    assert [topic for topic, _ in client.calls[:3]] == ["begin", "walks.index", "walks.log"]
    assert client.calls[-1] == ("commit", b"")
    assert [value for topic, value in client.calls if topic == "walks.log"] == list(group.values)
    assert [value for topic, value in client.calls if topic == "walks.index"] == [value for _, value in group.entries]
    assert shard.head == group.head
