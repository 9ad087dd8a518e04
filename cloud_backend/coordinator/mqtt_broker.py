"""Publishing to an MQTT broker: a few messages at QoS 1, each acknowledged before this returns.

A connection lasts for one call. The address is checked like a webhook's: every address of its name must be a public
one, unless the admin said that the broker is on a private network. Needs the package `paho-mqtt`.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from cloud_backend.coordinator.webhooks import URL_CHARACTERS_MAX, resolve
from shared.errors import PeerError, UsageError

SCHEMES = ("mqtt://", "mqtts://")
DEADLINE_S = 10.0
TOPIC_BYTES_MAX = 1024
_IN_TOPICS = str.maketrans({"/": "_", "+": "_", "#": "_", "\0": "_"})


def check_address(url: str) -> SplitResult:
    """The parts of `mqtt://[USER@]HOST[:PORT]/TOPIC`."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    topic = unquote(parts.path[1:])
    if (
        len(url) > URL_CHARACTERS_MAX
        or not url.isprintable()
        or f"{parts.scheme}://" not in SCHEMES
        or not parts.hostname
        or parts.password is not None
        or parts.query
        or "#" in url
        or port == 0
        or not topic
        or set("+#\0") & set(topic)
    ):
        raise UsageError(
            "a broker is mqtt:// or mqtts://[USER@]HOST[:PORT]/TOPIC, without wildcards; its password is given apart",
            code="follower-mqtt",
        )
    return parts


def topic_of(url: str, key: Sequence[object]) -> str:
    """The topic of the address, and a level for each part of a row's key."""
    base = unquote(check_address(url).path[1:]).rstrip("/")
    levels = [str(part).translate(_IN_TOPICS)[:100] or "_" for part in key]
    return "/".join([base, *levels])[:TOPIC_BYTES_MAX]


class _Named(ssl.SSLContext):
    """Holds whoever answers at an address against the name that it was found under."""

    def __new__(cls, _name: str) -> _Named:
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, name: str) -> None:
        self._name = name
        self.load_default_certs()

    def wrap_socket(self, *given: Any, **named: Any) -> ssl.SSLSocket:
        return super().wrap_socket(*given, **{**named, "server_hostname": self._name})


def publish(url: str, messages: Sequence[tuple[str, bytes]], *, password: str, retained: bool, private: bool) -> None:
    """Hand (topic, payload) messages over in order; PeerError says in our words why not all of them arrived."""
    try:
        from paho.mqtt import client as mqtt
        from paho.mqtt.enums import CallbackAPIVersion
    except ImportError:
        why = "sending to a broker needs a package: pip install 'resurge[mqtt]'"
        raise PeerError(why, code="follower-mqtt") from None
    parts = check_address(url)
    tls = parts.scheme == "mqtts"
    host, port = parts.hostname or "", parts.port or (8883 if tls else 1883)
    address = resolve(host, port, private=private)
    until = time.monotonic() + DEADLINE_S
    client = mqtt.Client(CallbackAPIVersion.VERSION2)
    client.connect_timeout = DEADLINE_S
    client.max_inflight_messages_set(0)
    if parts.username:
        client.username_pw_set(unquote(parts.username), password or None)
    if tls:
        client.tls_set_context(_Named(host))
    refused: list[str] = []
    client.on_connect = lambda _client, _data, _flags, reason, _properties: (
        refused.append(str(reason)) if reason.is_failure else None
    )
    try:
        client.connect(str(address), port, keepalive=30)  # what was checked, also when it connects again
        client.loop_start()
        sent = [client.publish(topic, payload, qos=1, retain=retained) for topic, payload in messages]
        for each in sent:
            while not each.is_published():
                if refused:
                    raise PeerError(f"the broker refuses: {refused[0]}", code="follower-refused")
                if time.monotonic() > until:
                    raise PeerError("the broker did not acknowledge in time", code="follower-unreachable")
                each.wait_for_publish(0.05)
    except (OSError, ValueError, RuntimeError) as error:
        raise PeerError(
            f"the broker could not be reached: {type(error).__name__}", code="follower-unreachable"
        ) from None
    finally:
        client.disconnect()
        client.loop_stop()
