"""What a message of a broker is to a program, without a broker: tests/processes/test_mqtt.py has one."""

from __future__ import annotations

import json
import math

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

from mobile_app.sensors.choose import parse_choices
from mobile_app.sensors.mqtt import PAYLOAD_BYTES_MAX, MqttSource, Subscription, Unreadable, row_of
from shared.errors import UsageError
from shared.language.schema import Schema

LEVEL = Schema.of({"topic": "str", "level": "float64"})
MANY = Schema.of({"n": "int32", "on": "bool", "word": "str", "x": "float32"})


@pytest.mark.parametrize(
    ("payload", "row"),
    [
        (b"71.5", ("hall/1", 71.5)),
        (b"72", ("hall/1", 72.0)),
        (b'{"level": 70, "unit": "dB"}', ("hall/1", 70.0)),
        (b'{"level": 70, "topic": "its own"}', ("its own", 70.0)),
    ],
)
def test_a_number_or_an_object_is_a_row(payload, row):
    assert row_of("hall/1", payload, LEVEL) == row


def test_a_float_that_is_not_there_is_nan_and_every_kind_is_read():
    assert math.isnan(row_of("t", b"{}", LEVEL)[1])
    assert math.isnan(row_of("t", b'{"level": null}', LEVEL)[1])
    assert row_of("t", b'{"n": 7.0, "on": true, "word": "a", "x": 1}', MANY) == (7, True, "a", 1.0)
    assert row_of("t", "grün".encode(), Schema.of({"word": "str"})) == ("grün",)


@pytest.mark.parametrize(
    ("payload", "schema", "why"),
    [
        (b"loud", LEVEL, "column 'level' takes float64"),
        (b"true", LEVEL, "column 'level' takes float64"),
        (b"1" + b"0" * 400, LEVEL, "column 'level' takes float64"),
        (b'{"n": 1.5, "on": true, "word": "a"}', MANY, "column 'n' takes int32"),
        (b'{"n": 4294967296, "on": true, "word": "a"}', MANY, "column 'n' takes int32"),
        (b'{"n": Infinity, "on": true, "word": "a"}', MANY, "column 'n' takes int32"),
        (b'{"n": 1, "on": 1, "word": "a"}', MANY, "column 'on' takes bool"),
        (b'{"n": 1, "on": true}', MANY, "column 'word' takes str, and is not in it"),
        (b"5", MANY, "one value, and the program has the columns n, on, word, x"),
        (b"[" * 100_000, LEVEL, f"at most {PAYLOAD_BYTES_MAX}"),
        (b"[" * 60_000, LEVEL, "column 'level'"),
        (b'"\\ud800"', Schema.of({"word": "str"}), "column 'word' takes str"),  # half a character
        (json.dumps("a" * 5000).encode(), Schema.of({"word": "str"}), "column 'word' takes str"),
    ],
)
def test_what_is_not_the_programs_columns_is_never_a_reading(payload, schema, why):
    with pytest.raises(Unreadable) as error:
        row_of("t", payload, schema)
    assert why in str(error.value)


def test_an_address_is_parsed_and_a_filter_keeps_its_signs():
    assert Subscription.parse("mqtt://broker/a/+/b") == Subscription("broker", 1883, "a/+/b")
    assert Subscription.parse("mqtts://ann@broker:99/%23?client=hall") == Subscription(
        "broker", 99, "#", "ann", "hall", tls=True
    )
    assert Subscription.parse("mqtt://broker/sensors/#").topic == "sensors/#"
    choice = parse_choices(["level=mqtt://broker/noise/+"])["level"]
    assert (choice.kind, str(choice)) == ("mqtt", "mqtt://broker/noise/+")


@pytest.mark.parametrize(
    "text", ["mqtt://broker", "mqtt:///a", "mqtt://a:b@broker/t", "mqtt://broker:x/t", "mqtt://broker/t?qos=2"]
)
def test_a_wrong_address_is_refused_in_one_line(text):
    with pytest.raises(UsageError, match=r"\[sensor-mqtt\]"):
        parse_choices([f"level={text}"])


def test_while_no_broker_answers_it_says_so_and_gives_nothing():
    where = Subscription("127.0.0.1", 9, "t")
    source = MqttSource(where, LEVEL, from_us=0, event_time=lambda us: us, boot_us=lambda: 5)
    try:
        assert "127.0.0.1:9" in source.trouble
        assert len(source.read(10)) == 0
    finally:
        source.close()


def test_a_topic_that_the_broker_refuses_is_said():
    source = MqttSource(
        Subscription("127.0.0.1", 9, "t"), LEVEL, from_us=0, event_time=lambda us: us, boot_us=lambda: 5
    )
    try:
        for number, trouble in ((0x80, "the broker at 127.0.0.1:9 refuses to say t: Unspecified error"), (1, "")):
            reasons = [ReasonCode(PacketTypes.SUBACK, identifier=number)]
            source._client.on_subscribe(source._client, None, 1, reasons, None)
            assert source.trouble == trouble
    finally:
        source.close()


class Message:
    def __init__(self, payload: bytes) -> None:
        self.topic, self.payload = "hall/1", payload


def test_messages_that_come_together_are_all_readings_and_unreadable_ones_are_counted():
    where = Subscription("127.0.0.1", 9, "t")
    source = MqttSource(where, LEVEL, from_us=0, event_time=lambda us: us, boot_us=lambda: 5)
    try:
        source._connection = ""
        for payload in (b"1", b"2", b"loud", b"3"):
            source._message(None, None, Message(payload))
        assert source.trouble == ""
        source._message(None, None, Message(b"loud"))
        assert source.trouble.startswith("2 messages are not the program's columns; the last: column 'level'")
        assert source.read(10).columns["level"].tolist() == [1.0, 2.0, 3.0]
    finally:
        source.close()
