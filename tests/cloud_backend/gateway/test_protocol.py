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
from cloud_backend.gateway.protocol import HEAD_BYTES_MAX, ExchangeProtocol, RepeatedHead
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


def request(body: bytes, head: bytes = HEAD) -> bytes:
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


async def answered(transport: Transport, count: int) -> None:
    while transport.written.count(b"HTTP/1.1 ") < count:
        transport.news.clear()
        await transport.news.wait()


def test_a_head_that_was_accepted_once_is_not_parsed_again_whatever_its_length(tmp_path: Path, monkeypatch):
    parsed: list[bytes] = []
    parse = ExchangeProtocol._parse
    monkeypatch.setattr(ExchangeProtocol, "_parse", lambda self, data: (parsed.append(data), parse(self, data))[1])

    async def story(app, connection, transport):
        phone = Phone(app.gateway.keys.public_key, lambda body: (0, b""))
        bodies = [phone.session.hello(), b"no frame", b"x" * 90_000, phone.session.hello()]
        for count, body in enumerate(bodies, 1):
            whole = request(body)
            for start in range(0, len(whole), 40_000):  # the third one comes in pieces
                connection.data_received(whole[start : start + 40_000])
            await answered(transport, count)
        assert parsed == [request(bodies[0])]
        assert [line[9:12] for line in transport.written.split(b"HTTP/1.1 ")[1:] for line in [b"HTTP/1.1 " + line]] == [
            b"401", b"400", b"400", b"401",
        ]  # fmt: skip
        assert app.gateway.ingest._in_flight == 0
        assert connection._deadline is None

    run(tmp_path, story)


@pytest.mark.parametrize("cut", [5, 60, 200])
def test_what_follows_a_repeated_exchange_in_the_same_bytes_is_answered_too(tmp_path: Path, cut):
    """Pipelining: unusual, so the parser and uvicorn see to the second request, in order."""

    async def story(app, connection, transport):
        first, second = request(b"no frame"), request(b"no frame either")
        connection.data_received(first)
        await answered(transport, 1)
        both = first + second
        connection.data_received(both[:cut])
        connection.data_received(both[cut:])
        await answered(transport, 3)
        assert transport.written.count(b"HTTP/1.1 400") == 3
        assert app.gateway.ingest._in_flight == 0

    run(tmp_path, story)


def test_the_caps_hold_for_a_repeated_head(tmp_path: Path):
    async def story(app, connection, transport):
        connection.data_received(request(b"no frame"))
        await answered(transport, 1)
        connection.data_received(HEAD + b"Content-Length: %d\r\n\r\nsome" % (app.gateway.ingest.bytes_max + 1))
        await answered(transport, 2)
        assert b"HTTP/1.1 413" in transport.written
        assert transport.is_closing()
        assert app.gateway.ingest._in_flight == 0

    run(tmp_path, story)


@pytest.mark.parametrize("end", ["deadline", "hang up"])
def test_a_repeated_exchange_that_does_not_end_leaves_nothing_behind(tmp_path: Path, monkeypatch, end):
    monkeypatch.setattr(module, "REQUEST_SECONDS_MAX", 0.01)

    async def story(app, connection, transport):
        connection.data_received(request(b"no frame"))
        await answered(transport, 1)
        connection.data_received(HEAD + b"Content-Length: 900\r\n\r\nsome")
        assert app.gateway.ingest._in_flight == 900
        if end == "deadline":
            await transport.closed.wait()
            assert b"HTTP/1.1 408" in transport.written
        else:
            connection.connection_lost(None)
        assert app.gateway.ingest._in_flight == 0

    run(tmp_path, story)


def test_an_idle_connection_is_closed_although_its_timer_is_older_than_its_last_exchange(tmp_path: Path):
    async def story(_app, connection, transport):
        connection.timeout_keep_alive = 0.05
        for count in range(1, 6):
            connection.data_received(request(b"no frame"))
            await answered(transport, count)
            await asyncio.sleep(0.02)  # less than the timeout, five times: longer than it in all
            assert not transport.is_closing()
        await transport.closed.wait()

    run(tmp_path, story)


def test_only_a_plain_head_is_remembered():
    plain = [(b"host", b"x"), (b"content-length", b"12")]
    head = b"POST /v1/exchange HTTP/1.1\r\nHost: x\r\nContent-Length: 12\r\nA: b\r\n\r\n"
    known = RepeatedHead.of(head + b"body", plain)
    for length in (b"12", b"12345", b"12345", b"9"):
        assert known.match(head.replace(b"12", length) + b"b") == (int(length), len(head) - 2 + len(length))
    for other in (
        head.replace(b"12", b"9\t"),
        head.replace(b"12", b"9").replace(b"A: b", b"A: c"),
        head.replace(b"12", b"1_2"),
        head.replace(b"12", b"+12"),
        head.replace(b"12", b""),
        head.replace(b"12", b"1" * 13),
        head.replace(b"A: b", b"A: c"),
        head.replace(b"Host", b"host"),
        head[:-1],
        b"\r\n" + head,
    ):
        assert known.match(other) is None
    assert RepeatedHead.of(head, [*plain, (b"transfer-encoding", b"chunked")]) is None
    assert RepeatedHead.of(head, [*plain, (b"content-length", b"12")]) is None
    assert RepeatedHead.of(head.replace(b"x\r\n", b"x\n"), plain) is None
    assert RepeatedHead.of(head[:-2], plain) is None
    assert RepeatedHead.of(head.replace(b"12\r", b"12 \r"), plain) is None


def test_a_large_body_comes_whole_however_it_is_cut(tmp_path: Path):
    async def story(app, connection, transport):
        connection.data_received(request(b"no frame"))
        await answered(transport, 1)
        body = bytes(range(256)) * 100
        seen: list[bytes] = []
        submit = app.gateway.ingest.submit
        app.gateway.ingest.submit = lambda body, decided: (seen.append(bytes(body)), submit(body, decided))
        for count, piece in enumerate((1, 700, 5000, 1 << 20), 2):
            sent = request(body)
            for start in range(0, len(sent), piece):
                connection.data_received(sent[start : start + piece])
            await answered(transport, count)
        assert seen == [body] * 4
        assert app.gateway.ingest._in_flight == 0

    run(tmp_path, story)
