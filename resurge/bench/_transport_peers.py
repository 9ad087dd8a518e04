"""The servers our gateway is measured against, each the plainest program a good engineer would write.

    python -m resurge.bench._transport_peers KIND PORT DIRECTORY

Every one appends each batch to a log and answers after its kind of durability: `each` one fdatasync per batch,
`group` one for all that wait, `sqlite` a row in WAL mode with synchronous FULL. Log files are zero-filled beforehand
and overwritten in a circle, the best case for fdatasync. `gateway` is ours as it is run, `gateway_asgi` its ASGI
route inside FastAPI under plain uvicorn, `gateway_bare` the same route without FastAPI.
"""

from __future__ import annotations

import asyncio
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request

LOG_BYTES = 64 << 20
UNLIMITED_PER_S = 1e9


class PlainLog:
    def __init__(self, directory: Path, mode: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._mode = mode
        self._offset = 0
        self._waiting: list[asyncio.Future[None]] = []
        self._busy = False
        if mode == "sqlite":
            import sqlite3

            self._database = sqlite3.connect(directory / "q.db", isolation_level=None, check_same_thread=False)
            self._database.execute("pragma journal_mode=WAL")
            self._database.execute("pragma synchronous=FULL")
            self._database.execute("create table q (id integer primary key, b blob)")
            self._rows = 0
            return
        self._file = os.open(directory / "log", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        for start in range(0, LOG_BYTES, 1 << 20):
            os.pwrite(self._file, bytes(1 << 20), start)
        os.fsync(self._file)

    async def append(self, data: bytes | bytearray) -> None:
        if self._mode == "sqlite":
            kept = max(1, LOG_BYTES // 2 // len(data))
            self._database.execute("insert or replace into q values (?, ?)", (self._rows % kept, bytes(data)))
            self._rows += 1
            return
        if self._offset + len(data) + 8 > LOG_BYTES:
            self._offset = 0
        self._offset += os.pwritev(self._file, [struct.pack("<Q", len(data)), data], self._offset)
        if self._mode == "each":
            os.fdatasync(self._file)
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        if not self._busy:
            self._busy = True
            self._task = asyncio.ensure_future(self._commit())
        await waiter

    async def _commit(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            await loop.run_in_executor(None, os.fdatasync, self._file)
            for waiter in waiting:
                if not waiter.done():
                    waiter.set_result(None)
        self._busy = False


def serve_fastapi(log: PlainLog, port: int) -> None:
    app = FastAPI()
    seen: dict[str, int] = {}

    @app.post("/b")
    async def post(request: Request) -> dict[str, int]:
        device, seq = request.headers["x-device"], int(request.headers["x-seq"])
        body = await request.body()
        if seen.get(device, -1) < seq:
            await log.append(body)
            seen[device] = seq
        return {"ok": seq}

    _uvicorn(app, port)


def serve_raw(log: PlainLog, port: int) -> None:
    """Length-prefixed frames received straight into their buffer: no HTTP, no checksum, no identity. The limit."""
    import uvloop

    class Connection(asyncio.BufferedProtocol):
        def connection_made(self, transport: Any) -> None:
            self._transport = transport
            self._expect(4, header=True)

        def _expect(self, length: int, *, header: bool) -> None:
            self._buffer, self._got, self._header = bytearray(length), 0, header

        def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
            return memoryview(self._buffer)[self._got :]

        def buffer_updated(self, count: int) -> None:
            self._got += count
            if self._got < len(self._buffer):
                return
            data = self._buffer
            if self._header:
                self._expect(struct.unpack("<I", data)[0], header=False)
            else:
                self._expect(4, header=True)
                self._task = asyncio.ensure_future(self._answer(data))

        async def _answer(self, data: bytearray) -> None:
            await log.append(data)
            self._transport.write(b"k")

    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", port)
        await server.serve_forever()

    uvloop.run(main())


def serve_mqtt_log(log: Callable[[bytes], None], port: int) -> None:
    """The consumer an MQTT design needs: subscribes with QoS 1 and writes each message to a log, without a sync."""
    import uvloop

    class Subscriber(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            self._transport, self._buffer = transport, bytearray()
            transport.write(b"\x10\x0f\0\4MQTT\4\2\0\0\0\3sb1")
            transport.write(b"\x82\x09\0\1\0\4t1/#\x01")

        def data_received(self, data: bytes) -> None:
            self._buffer += data
            buffer, offset = self._buffer, 0
            while (packet := _mqtt_packet(buffer, offset)) is not None:
                start, end = packet
                if buffer[offset] >> 4 == 3:
                    topic = struct.unpack_from(">H", buffer, start)[0]
                    number = start + 2 + topic
                    log(bytes(memoryview(buffer)[number + 2 : end]))
                    self._transport.write(b"\x40\2" + bytes(buffer[number : number + 2]))
                offset = end
            del buffer[:offset]

    async def main() -> None:
        await asyncio.get_running_loop().create_connection(Subscriber, "127.0.0.1", port)
        await asyncio.Future()

    uvloop.run(main())


def _mqtt_packet(buffer: bytearray, offset: int) -> tuple[int, int] | None:
    """(start, end) of the body of the packet at offset, None while it is not all there."""
    length = shift = 0
    for position in range(offset + 1, min(offset + 5, len(buffer))):
        length |= (buffer[position] & 127) << shift
        shift += 7
        if buffer[position] < 128:
            end = position + 1 + length
            return (position + 1, end) if end <= len(buffer) else None
    return None


def serve_gateway(kind: str, directory: Path, port: int) -> None:
    from cloud_backend.gateway.__main__ import calm_collector
    from cloud_backend.gateway.address_file import write_address
    from cloud_backend.gateway.app import create_app
    from cloud_backend.gateway.gateway import Gateway
    from cloud_backend.gateway.http_protocol import ExchangeProtocol
    from cloud_backend.gateway.rate_limits import Rate
    from cloud_backend.gateway.settings import Settings

    unlimited = Rate(UNLIMITED_PER_S, UNLIMITED_PER_S)
    settings = Settings(
        home=directory, port=port, exchange_rate=unlimited, byte_rate=unlimited, stable=directory / "stable.json"
    )
    gateway = Gateway(settings)
    write_address(directory, host="127.0.0.1", port=port, pin=b"", key=gateway.keys.public_key, pid=os.getpid())
    app = create_app(settings, gateway=gateway)

    async def without_fastapi(scope: Any, receive: Any, send: Any) -> None:
        # Enrolment still needs the app; exchanges meet nothing but the handler.
        await (gateway.ingest if scope.get("path") == "/v1/exchange" else app)(scope, receive, send)

    calm_collector()
    if kind == "gateway":
        _uvicorn(app, port, http=ExchangeProtocol)
    else:
        _uvicorn(without_fastapi if kind == "gateway_bare" else app, port)


def _uvicorn(app: Any, port: int, http: Any = "httptools") -> None:
    import uvicorn

    uvicorn.run(
        app, host="127.0.0.1", port=port, log_level="error", access_log=False, loop="uvloop", http=http,
        backlog=2048, proxy_headers=False, server_header=False, date_header=False,
    )  # fmt: skip


def main(kind: str, port: int, directory: Path) -> None:
    if kind.startswith("gateway"):
        serve_gateway(kind, directory, port)
    elif kind == "mqtt_log":
        directory.mkdir(parents=True, exist_ok=True)
        handle = os.open(directory / "log", os.O_RDWR | os.O_CREAT)
        place = [0]

        def write(data: bytes) -> None:
            place[0] = 0 if place[0] + len(data) > LOG_BYTES else place[0] + os.pwrite(handle, data, place[0])

        serve_mqtt_log(write, port)
    else:
        server, mode = kind.split("_")
        {"fastapi": serve_fastapi, "raw": serve_raw}[server](PlainLog(directory, mode), port)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
