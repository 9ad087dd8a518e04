"""Simulated devices for the transport benches: thin asyncio clients, so that the client's own cost is comparable.

Ours are real: enrolled keys, signed sessions, sealed and numbered exchanges. What they send is sealed before the
clock starts, because a phone's CPU is not the server's and peers' clients have nothing to seal.
"""

from __future__ import annotations

import asyncio
import json
import os
import struct
import time
import urllib.request
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from mobile_app.home.keys import Keys
from shared.identity import device_id, edge_id
from shared.language.schema import Schema
from shared.sync.session import DeviceSession
from shared.wire.enrolment import EnrolmentRequest
from shared.wire.envelope import MAC_BYTES
from shared.wire.frame import decode_one, encode, encode_parts
from shared.wire.messages import Data, Declare

Send = Callable[[], Awaitable[None]]
SCHEMA = Schema.of({"x": "float64"})
EDGE = edge_id("bench")


class Connection(asyncio.Protocol):
    """One request at a time; `complete` says when the answer is all there."""

    def __init__(self, complete: Callable[[bytes], bool]) -> None:
        self._complete = complete
        self._buffer = b""
        self._waiter: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._waiter is not None and self._complete(self._buffer):
            waiter, self._waiter = self._waiter, None
            answer, self._buffer = self._buffer, b""
            waiter.set_result(answer)

    def connection_lost(self, error: Exception | None) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(ConnectionError(str(error)))

    async def ask(self, *parts: bytes) -> bytes:
        self._waiter = asyncio.get_running_loop().create_future()
        self.transport.writelines(parts)
        return await self._waiter

    @staticmethod
    async def open(port: int, complete: Callable[[bytes], bool]) -> Connection:
        _, protocol = await asyncio.get_running_loop().create_connection(
            lambda: Connection(complete), "127.0.0.1", port
        )
        return protocol


def http_complete(data: bytes) -> bool:
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return False
    if not data.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"a peer answered {data[:60]!r}")
    head = data[:end].lower()
    start = head.find(b"content-length:") + 15
    stop = head.find(b"\r\n", start)
    return len(data) >= end + 4 + int(head[start : stop if stop > 0 else None])


class NamedFleet:
    """Devices with names that no earlier run of the same peer has used."""

    def __init__(self, port: int, payload: bytes) -> None:
        self._port, self._payload = port, payload
        self._run = 0

    async def connect(self, devices: int, exchanges: int) -> list[tuple[Send, Callable[[], None]]]:  # noqa: ARG002
        self._run += 1
        return [await self._device(b"%d-%d" % (self._run, number)) for number in range(devices)]

    async def _device(self, name: bytes) -> tuple[Send, Callable[[], None]]:
        raise NotImplementedError


class HttpFleet(NamedFleet):
    """Devices of the FastAPI peers: identity and number in headers."""

    async def _device(self, name: bytes) -> tuple[Send, Callable[[], None]]:
        connection = await Connection.open(self._port, http_complete)
        seq = 0
        head = b"POST /b HTTP/1.1\r\nHost: x\r\nX-Device: %s\r\nX-Seq: %d\r\nContent-Length: %d\r\n\r\n"

        async def send() -> None:
            nonlocal seq
            seq += 1
            await connection.ask(head % (name, seq, len(self._payload)), self._payload)

        return send, connection.transport.close


class RawFleet:
    def __init__(self, port: int, payload: bytes) -> None:
        self._port = port
        self._message = struct.pack("<I", len(payload)), payload

    async def connect(self, devices: int, exchanges: int) -> list[tuple[Send, Callable[[], None]]]:  # noqa: ARG002
        return [await self._device() for _ in range(devices)]

    async def _device(self) -> tuple[Send, Callable[[], None]]:
        connection = await Connection.open(self._port, lambda data: len(data) >= 1)

        async def send() -> None:
            await connection.ask(*self._message)

        return send, connection.transport.close


class MqttFleet(NamedFleet):
    """QoS 1 publishers, as mosquitto's own clients behave."""

    async def _device(self, name: bytes) -> tuple[Send, Callable[[], None]]:
        connection = await Connection.open(self._port, lambda data: len(data) >= 4)
        client = b"d" + name
        body = b"\0\4MQTT\4\2\0\0" + struct.pack(">H", len(client)) + client
        await connection.ask(b"\x10" + _remaining(len(body)), body)
        topic = b"t1/" + name
        number = 0

        async def send() -> None:
            nonlocal number
            number = number % 60000 + 1
            head = struct.pack(">H", len(topic)) + topic + struct.pack(">H", number)
            await connection.ask(b"\x32" + _remaining(len(head) + len(self._payload)) + head, self._payload)

        return send, connection.transport.close


def _remaining(length: int) -> bytes:
    out = bytearray()
    while True:
        length, digit = length >> 7, length & 127
        out.append(digit | (128 if length else 0))
        if not length:
            return bytes(out)


class NatsFleet:
    """nats-py publishing into JetStream, the library a user would pick."""

    def __init__(self, port: int, payload: bytes) -> None:
        self._port, self._payload = port, payload
        self._made = False

    async def connect(self, devices: int, exchanges: int) -> list[tuple[Send, Callable[[], None]]]:  # noqa: ARG002
        import nats

        if not self._made:
            client = await nats.connect(f"nats://127.0.0.1:{self._port}")
            await client.jetstream().add_stream(
                name="T", subjects=["t.>"], storage="file", max_bytes=512 << 20, discard="old"
            )
            await client.close()
            self._made = True
        return [await self._device(number) for number in range(devices)]

    async def _device(self, number: int) -> tuple[Send, Callable[[], None]]:
        import nats

        client = await nats.connect(f"nats://127.0.0.1:{self._port}", max_reconnect_attempts=0)
        stream = client.jetstream()

        async def send() -> None:
            await stream.publish(f"t.{number}", self._payload, timeout=30)

        return send, lambda: asyncio.ensure_future(client.close())


class Device:
    """One enrolled device of ours, with its session kept over rounds."""

    def __init__(self, port: int, key: bytes, code: bytes) -> None:
        keys = Keys(os.urandom(32), key)
        self._port = port
        self.device = device_id(keys.public_key)
        request = EnrolmentRequest(code, keys.public_key, "bench")
        request = replace(request, signature=keys.sign(request.signed(key)))
        answer = json.loads(_post(port, "/v1/enrol", request.encode(), "application/json"))
        self._session = DeviceSession(keys, self.device, answer["incarnation"])
        self._incarnation = answer["incarnation"]
        welcome = _post(port, "/v1/exchange", self._session.hello(), "application/vnd.resurge.exchange")
        self._session.welcome(decode_one(welcome)[0], 0.0)
        self._seq = 0
        self._sealed: list[tuple[bytes, bytes]] = []  # what of an exchange is before and after its payload
        self._payload = b""
        declare = Declare(self.device, self._incarnation, EDGE, "bench", SCHEMA)
        _post(port, "/v1/exchange", self._session.seal([encode(declare.frame())]), "application/vnd.resurge.exchange")

    def wait(self) -> bytes:
        """A whole request to wait for results."""
        body = self._session.wait(0, 0.0) or b""
        head = b"POST /v1/wait HTTP/1.1\r\nHost: x\r\nContent-Type: application/vnd.resurge.exchange\r\n"
        return head + b"Content-Length: %d\r\n\r\n" % len(body) + body

    def prepare(self, exchanges: int, payload: bytes) -> None:
        for _ in range(exchanges):
            batch = Data(self.device, self._incarnation, EDGE, self._seq, self._seq + 50, 50, SCHEMA.id, 0, 0, payload)
            self._seq += 50
            sealed = self._session.seal([encode_parts(batch.frame())])
            self._sealed.append((sealed[: -MAC_BYTES - len(payload)], sealed[-MAC_BYTES:]))
        self._sealed.reverse()
        self._payload = payload

    async def connect(self) -> tuple[Send, Callable[[], None]]:
        connection = await Connection.open(self._port, http_complete)
        head = (
            b"POST /v1/exchange HTTP/1.1\r\nHost: x\r\nContent-Type: application/vnd.resurge.exchange\r\n"
            b"Content-Length: %d\r\n\r\n"
        )

        async def send() -> None:
            # The payload itself is the same object every time, as it is for the peers: it stays in the cache.
            before, after = self._sealed.pop()
            length = len(before) + len(self._payload) + len(after)
            await connection.ask(head % length + before, self._payload, after)

        return send, connection.transport.close


class OurFleet:
    """Enrolled once; `payload` may be changed between two rounds. Of several gateways each gets every n-th device."""

    def __init__(self, port: int, home: Path, *others: int) -> None:
        self._ports, self._home = (port, *others), home
        self._devices: list[Device] = []
        self.payload = b""

    async def connect(self, devices: int, exchanges: int) -> list[tuple[Send, Callable[[], None]]]:
        if not self._devices:
            self._devices = self.enrol(devices)
        for device in self._devices:
            device.prepare(exchanges, self.payload)
        return [await device.connect() for device in self._devices]

    def enrol(self, devices: int) -> list[Device]:
        from cloud_backend.coordinator.roster import Roster
        from cloud_backend.database import in_home

        key = bytes.fromhex(json.loads((self._home / "gateway.json").read_text())["key"])
        roster = Roster(in_home(self._home, "roster.sqlite"))
        try:
            codes = [roster.new_code(time.time_ns() // 1000) for _ in range(devices)]
        finally:
            roster.close()
        return [Device(self._ports[number % len(self._ports)], key, code) for number, code in enumerate(codes)]


def _post(port: int, path: str, body: bytes, content_type: str) -> bytes:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, {"Content-Type": content_type})
    with urllib.request.urlopen(request, timeout=30) as answer:
        data: bytes = answer.read()
        return data


def drive(fleet: Any, devices: int, exchanges: int) -> tuple[float, float]:
    """(exchanges per second, 99th percentile of the latency in ms) of so many devices with one exchange in flight."""
    import gc

    import uvloop

    async def main() -> tuple[float, float]:
        connected = await fleet.connect(devices, exchanges)
        latencies: list[float] = []

        async def device(send: Send) -> None:
            for _ in range(exchanges):
                before = time.perf_counter()
                await send()
                latencies.append(time.perf_counter() - before)

        gc.collect()
        started = time.perf_counter()
        await asyncio.gather(*(device(send) for send, _ in connected))
        seconds = time.perf_counter() - started
        for _, close in connected:
            close()
        await asyncio.sleep(0.02)
        latencies.sort()
        return len(latencies) / seconds, latencies[int(len(latencies) * 0.99)] * 1e3

    return uvloop.run(main())
