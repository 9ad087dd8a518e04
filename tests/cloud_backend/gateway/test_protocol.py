"""The protocol that takes exchanges out before ASGI, fed by hand."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import uvicorn
from uvicorn.server import ServerState

from cloud_backend.gateway import protocol as module
from cloud_backend.gateway.app import create_app
from cloud_backend.gateway.ingest import MEDIA_TYPE
from cloud_backend.gateway.protocol import HEAD_BYTES_MAX, ExchangeProtocol
from tests.cloud_backend.gateway.conftest import settings_for
from tests.cloud_backend.gateway.phone import Phone

HEAD = b"POST /v1/exchange HTTP/1.1\r\nHost: x\r\nContent-Type: " + MEDIA_TYPE + b"\r\n"


class Transport:
    def __init__(self) -> None:
        self.written = b""
        self.closed = asyncio.Event()
        self.news = asyncio.Event()

    def get_extra_info(self, name: str) -> object:
        return ("127.0.0.1", 1) if name == "peername" else None

    def is_closing(self) -> bool:
        return self.closed.is_set()

    def write(self, data: bytes) -> None:
        self.written += data
        self.news.set()

    def close(self) -> None:
        self.closed.set()

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


def run(tmp_path: Path, story) -> None:
    """Tell a story to one connection of a gateway."""

    async def main() -> None:
        app = create_app(settings_for(tmp_path / "home"))
        config = uvicorn.Config(app, http=ExchangeProtocol, proxy_headers=False)
        config.load()
        connection = ExchangeProtocol(
            config=config, server_state=ServerState(), app_state={}, _loop=asyncio.get_running_loop()
        )
        transport = Transport()
        connection.connection_made(transport)
        try:
            await story(app, connection, transport)
        finally:
            connection.connection_lost(None)
            await app.gateway.close()

    asyncio.run(main())


def test_a_body_may_come_in_any_pieces_and_the_connection_is_used_again(tmp_path: Path):
    async def story(app, connection, transport):
        phone = Phone(app.gateway.keys.public_key, lambda body: (0, b""))
        body = phone.session.hello()  # refused, not enrolled: an answer all the same
        request = HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
        for turn in range(1, 4):
            for start in range(0, len(request), 7 * turn):
                connection.data_received(request[start : start + 7 * turn])
            while transport.written.count(b"HTTP/1.1 401") < turn:
                transport.news.clear()
                await transport.news.wait()
        assert not transport.is_closing()

    run(tmp_path, story)


@pytest.mark.parametrize(
    "sent", [b"POST /v1/exch", HEAD, HEAD + b"Content-Length: 900\r\n\r\nsome", b"GET / HTTP/1.1\r\nA: b"]
)
def test_a_request_that_never_ends_is_hung_up_on(tmp_path: Path, monkeypatch, sent):
    monkeypatch.setattr(module, "REQUEST_SECONDS_MAX", 0.01)

    async def story(app, connection, transport):
        connection.data_received(sent)
        await transport.closed.wait()
        assert app.gateway.ingest._in_flight == 0
        assert transport.written.startswith(b"HTTP/1.1 408") or not transport.written

    run(tmp_path, story)


def test_headers_that_never_end_are_hung_up_on(tmp_path: Path):
    async def story(_app, connection, transport):
        connection.data_received(b"POST /v1/exchange HTTP/1.1\r\nX: ")
        for _ in range(HEAD_BYTES_MAX // 1000 + 1):
            if transport.is_closing():
                break
            connection.data_received(b"x" * 1000)
        assert transport.written.startswith(b"HTTP/1.1 431")
        assert transport.is_closing()

    run(tmp_path, story)


def test_a_phone_that_hangs_up_in_the_middle_leaves_nothing_behind(tmp_path: Path):
    async def story(app, connection, transport):
        connection.data_received(HEAD + b"Content-Length: 900\r\n\r\nsome")
        assert app.gateway.ingest._in_flight == 900
        connection.connection_lost(None)
        assert app.gateway.ingest._in_flight == 0

    run(tmp_path, story)
