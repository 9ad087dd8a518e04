"""A sensor whose readings come from an MQTT broker: `--sensor level=mqtt://HOST[:PORT]/TOPIC/FILTER`.

Every message under the topic filter is a reading at the moment it arrived. Its payload is a JSON object with the
program's columns by name, or one value, where the program has one column beside `topic`; a column `topic` gets the
message's topic. What cannot be read as the program's columns is counted and said, and never becomes a reading.

From here on a message is like any reading: numbered, spooled, accounted for. The broker is told that a message was
taken when it is in memory, so a kill takes those of the published loss window. With `?client=NAME` the broker keeps
what comes while the node is away (QoS 1, a lasting session); it may bring a message twice when the node was killed.

Needs the package `paho-mqtt`: pip install 'resurge[mqtt]'.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np

from mobile_app.sensors.arrival_queue import Arrivals, EventTime
from mobile_app.sensors.source import Samples, SensorMissing
from shared.errors import UsageError
from shared.language.schema import Schema, dtype

KINDS = ("mqtt", "mqtts")
PASSWORD_VARIABLE = "RESURGE_MQTT_PASSWORD"  # noqa: S105 - its name
TOPIC = "topic"
PAYLOAD_BYTES_MAX = 64 * 1024
TEXT_CHARACTERS_MAX = 4096
RETRY_S, RETRY_S_MAX = 1, 60
_SURROGATE = re.compile("[\ud800-\udfff]")  # JSON may say half a character, which no text can hold
_FLOAT_MAX = 1e308  # JSON has no bound for whole numbers


@dataclass(frozen=True, slots=True)
class Subscription:
    """Where the messages are."""

    host: str
    port: int
    topic: str
    user: str = ""
    client: str = ""
    tls: bool = False

    @classmethod
    def parse(cls, text: str) -> Subscription:
        """From `mqtt://[USER@]HOST[:PORT]/TOPIC/FILTER[?client=NAME]`."""
        try:
            parts = urlsplit(text.replace("#", "%23"))  # of a filter, not of an address
            port, query = parts.port, parse_qs(parts.query, strict_parsing=bool(parts.query))
        except ValueError:
            raise _unusable(text) from None
        topic, client = unquote(parts.path[1:]), query.pop("client", [""])[-1]
        if parts.scheme not in KINDS or not parts.hostname or not topic or query or parts.password is not None:
            raise _unusable(text)
        tls = parts.scheme == "mqtts"
        user = unquote(parts.username or "")
        return cls(parts.hostname, port or (8883 if tls else 1883), topic, user, client, tls)


def _unusable(text: str) -> UsageError:
    return UsageError(
        f"{text!r} is not mqtt://[USER@]HOST[:PORT]/TOPIC[?client=NAME]; a password is read from {PASSWORD_VARIABLE}",
        code="sensor-mqtt",
    )


class Unreadable(Exception):
    """A message is not what the program's columns want."""


def row_of(topic: str, payload: bytes, schema: Schema) -> tuple[Any, ...]:
    """A message as the values of the schema's columns, in their order. Raises Unreadable: the column, and why."""
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise Unreadable(f"a message of {len(payload)} bytes; at most {PAYLOAD_BYTES_MAX} are read")
    try:
        value = json.loads(payload)
    except (ValueError, RecursionError):
        value = payload.decode("utf-8", "replace")
    others = [name for name in schema.names if name != TOPIC]
    if not isinstance(value, dict):
        if len(others) != 1:
            raise Unreadable(f"one value, and the program has the columns {', '.join(others)}")
        value = {others[0]: value}
    values: Mapping[str, Any] = {**value, TOPIC: value.get(TOPIC, topic)}
    return tuple(_value(field.name, field.kind, values) for field in schema)


def _value(name: str, kind: str, values: Mapping[str, Any]) -> Any:
    value = values.get(name)
    if kind.startswith("float"):
        if value is None:
            return math.nan
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _FLOAT_MAX:
            return float(value)
    elif kind == "str":
        if isinstance(value, str) and len(value) <= TEXT_CHARACTERS_MAX and not _SURROGATE.search(value):
            return value
    elif kind == "bool":
        if isinstance(value, bool):
            return value
    elif isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1:
        limits = np.iinfo(dtype(kind))
        if limits.min <= value <= limits.max:
            return int(value)
    raise Unreadable(f"column {name!r} takes {kind}" + ("" if name in values else ", and is not in it"))


class MqttSource:
    """One subscription. Its client reads in a thread of its own and connects again by itself."""

    def __init__(
        self,
        where: Subscription,
        schema: Schema,
        *,
        from_us: int,
        event_time: EventTime,
        boot_us: Callable[[], int],
    ) -> None:
        try:
            from paho.mqtt import client as mqtt
            from paho.mqtt.enums import CallbackAPIVersion
        except ImportError:
            raise SensorMissing(
                "reading from an MQTT broker needs a package: pip install 'resurge[mqtt]'", code="sensor-mqtt-library"
            ) from None
        self._where, self._schema, self._boot_us = where, schema, boot_us
        self._arrivals = Arrivals(schema.names, every_us=None, from_us=from_us, event_time=event_time)
        self._connection = f"not connected to {where.host}:{where.port} yet"
        self._unread = ""  # why the last message was none
        self.unreadable = 0
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=where.client, clean_session=not where.client)
        if where.user:
            self._client.username_pw_set(where.user, os.environ.get(PASSWORD_VARIABLE))
        if where.tls:
            self._client.tls_set()
        self._client.on_connect = self._connected
        self._client.on_subscribe = self._subscribed
        self._client.on_connect_fail = self._failed
        self._client.on_disconnect = self._disconnected
        self._client.on_message = self._message
        self._client.reconnect_delay_set(RETRY_S, RETRY_S_MAX)
        self._client.connect_async(where.host, where.port, keepalive=30)
        self._client.loop_start()

    @property
    def trouble(self) -> str:
        return self._connection or self._unread

    def _connected(self, client: Any, _data: object, _flags: object, reason: Any, _properties: object) -> None:
        if reason.is_failure:
            self._connection = f"the broker at {self._where.host}:{self._where.port} refuses: {reason}"
            return
        client.subscribe(self._where.topic, qos=1)

    def _subscribed(self, _client: object, _data: object, _number: int, reasons: Any, _properties: object) -> None:
        refused = [f"refuses to say {self._where.topic}: {each}" for each in reasons if each.is_failure]
        self._connection = f"the broker at {self._where.host}:{self._where.port} {refused[0]}" if refused else ""

    def _failed(self, *_: object) -> None:
        self._connection = f"no broker answers at {self._where.host}:{self._where.port}"

    def _disconnected(self, *_: object) -> None:
        self._connection = f"lost the broker at {self._where.host}:{self._where.port}; it is tried again"

    def _message(self, _client: object, _data: object, message: Any) -> None:
        try:
            row = row_of(message.topic, bytes(message.payload), self._schema)
        except Unreadable as error:
            self.unreadable += 1
            self._unread = f"{self.unreadable} messages are not the program's columns; the last: {error}"
        else:
            self._unread = ""
            self._arrivals.append(self._boot_us(), row)

    def read(self, until_us: int) -> Samples:
        return self._arrivals.read(until_us)

    def at(self, time_us: np.ndarray) -> Samples:
        return self._arrivals.at(time_us)

    def sample_every(self, period_us: int) -> None:
        """Nobody can ask a broker for less; a program that wants less drops rows itself."""

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()
