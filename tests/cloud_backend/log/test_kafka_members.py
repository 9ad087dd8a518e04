"""Who may write a log in Kafka together. The group itself is tested with brokers, `tests/brokers`."""

from __future__ import annotations

import pytest

from cloud_backend.log.kafka.members import ALONE, Member, check_together
from shared.errors import UsageError

MINE = Member("0123", "abcd", "10.0.0.1:8751")


def test_a_member_is_read_back_from_what_it_announces() -> None:
    found = Member.of(MINE.announced(), frozenset({"3"}))
    assert found == MINE
    assert found.partitions == {"3"}
    alone = Member(ALONE, "abcd", "")
    assert Member.of(alone.announced(), frozenset()) == alone
    for text in ("", "rdkafka", "resurge", "resurge.a.b", "other.a.b.c"):
        assert Member.of(text, frozenset()) is None


@pytest.mark.parametrize(
    ("mine", "other", "code", "said"),
    [
        (MINE, Member("4567", "abcd", "10.0.0.2:8751"), "kafka-gateways", "another database"),
        (MINE, Member(ALONE, "abcd", ""), "kafka-gateways", "writes this log alone"),
        (Member(ALONE, "abcd", ""), MINE, "kafka-gateways", "start this one with the same --database"),
        (MINE, Member("0123", "ef01", "10.0.0.2:8751"), "gateway-key", "copy gateway.key"),
    ],
)
def test_gateways_that_do_not_know_the_same_devices_are_refused(
    mine: Member, other: Member, code: str, said: str
) -> None:
    with pytest.raises(UsageError, match=said) as error:
        check_together(mine, [MINE, other] if mine == MINE else [other])
    assert error.value.code == code
    assert "\n" not in str(error.value)


def test_those_that_share_everything_may_write_together() -> None:
    check_together(MINE, [])
    check_together(MINE, [Member("0123", "abcd", "10.0.0.2:8751"), MINE])
    check_together(Member(ALONE, "abcd", ""), [Member(ALONE, "abcd", "")])  # the one before it, on the same home
