"""Where a log in Kafka is: what a location may say, and what it may not."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme

from cloud_backend.log.kafka.location import Location, parse
from shared.errors import UsageError


def test_a_location_names_brokers_and_a_log() -> None:
    found = parse("kafka://one:9092,two:9093/walks?partitions=64&security=sasl_ssl&mechanism=SCRAM-SHA-256")
    assert found == Location("one:9092,two:9093", "walks", 64, "sasl_ssl", "SCRAM-SHA-256")
    assert (found.log_topic, found.index_topic) == ("walks.log", "walks.index")
    assert parse("kafka://[::1]:9092/a-log").brokers == "[::1]:9092"


@pytest.mark.parametrize(
    "text",
    [
        "kafka://one/walks",
        "kafka://one:9092/",
        "kafka://one:9092",
        "kafka://one:9092/walks/more",
        "kafka://user:secret@one:9092/walks",
        "kafka://one:9092/walks?partitions=12",
        "kafka://one:9092/walks?partitions=2048",
        "kafka://one:9092/walks?partitions=-1",
        "kafka://one:9092/walks?security=none",
        "kafka://one:9092/walks?retention=1",
        "kafka://one:9092/walks#part",
        "http://one:9092/walks",
    ],
)
def test_what_could_be_misread_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as error:
        parse(text)
    assert error.value.code == "kafka-location"


def test_user_and_password_are_those_of_the_process() -> None:
    location = parse("kafka://one:9092/walks?security=sasl_ssl")
    given = {"RESURGE_KAFKA_USER": "gateway", "RESURGE_KAFKA_PASSWORD": "secret"}
    client = location.client(given)
    assert client["sasl.username"] == "gateway"
    for missing in ("RESURGE_KAFKA_USER", "RESURGE_KAFKA_PASSWORD"):
        with pytest.raises(UsageError) as error:
            location.client({**given, missing: ""})
        assert error.value.code == "kafka-credentials"
        assert "secret" not in error.value.message
    assert "sasl.username" not in parse("kafka://one:9092/walks").client({})


def test_the_authority_of_brokers_is_a_file_of_certificates(tmp_path: Path) -> None:
    location = parse("kafka://one:9092/walks?security=ssl")
    authority = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(authority)
    assert location.client({"RESURGE_KAFKA_CA": str(authority)})["ssl.ca.location"] == str(authority)
    (tmp_path / "rubbish.pem").write_text("rubbish")
    for wrong in (tmp_path / "rubbish.pem", tmp_path / "none.pem", tmp_path):
        with pytest.raises(UsageError, match="no certificates that can be read") as error:
            location.client({"RESURGE_KAFKA_CA": str(wrong)})
        assert error.value.code == "kafka-credentials"
