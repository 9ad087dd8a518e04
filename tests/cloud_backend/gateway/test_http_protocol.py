"""The protocol that takes exchanges out before ASGI, fed by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
import uvicorn
from uvicorn.server import ServerState

from cloud_backend.gateway import http_protocol as module
from cloud_backend.gateway.app import create_app
from cloud_backend.gateway.exchange_bodies import BODIES_PER_DEVICE_MAX, STRANGER_BYTES_MAX
from cloud_backend.gateway.http_protocol import HEAD_BYTES_MAX, HEADERS_MAX, ExchangeProtocol
from cloud_backend.gateway.ingest import MEDIA_TYPE
from shared.wire.frame import decode_one
from tests.cloud_backend.gateway.conftest import settings_for
from tests.cloud_backend.gateway.phone_client import PhoneClient

HEAD = b"POST /v1/exchange HTTP/1.1\r\nHost: x\r\nContent-Type: " + MEDIA_TYPE + b"\r\n"


class Transport:
    def __init__(self) -> None:
        self.written = b""
        self.closed = asyncio.Event()
        self.news = asyncio.Event()
        self.is_reading = True

    def get_extra_info(self, name: str) -> object:
        return ("127.0.0.1", 1) if name == "peername" else None

    def is_closing(self) -> bool:
        return self.closed.is_set()

    def write(self, data: bytes) -> None:
        self.written += data
        self.news.set()

    def close(self) -> None:
        self.closed.set()

    abort = close

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True


class Timers:
    """The connection's loop, but its timers run when the test says that time has passed."""

    def __init__(self, connection: ExchangeProtocol) -> None:
        self._loop = connection.loop
        self._now = connection.loop.time()
        self._due: list[tuple[float, asyncio.TimerHandle]] = []
        connection.loop = self

    def __getattr__(self, name: str) -> object:
        return getattr(self._loop, name)

    def call_later(self, delay: float, callback: Callable[..., object], *arguments: object) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(self._now + delay, callback, arguments, self._loop)
        self._due.append((self._now + delay, handle))
        return handle

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds
        for when, handle in self._due:
            if when <= self._now and not handle.cancelled():
                handle._run()
        self._due = [(when, handle) for when, handle in self._due if when > self._now]


def run(tmp_path: Path, story, **changes) -> None:
    """Tell a story to one connection of a gateway."""

    async def main() -> None:
        app = create_app(settings_for(tmp_path / "home", **changes))
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
        phone = PhoneClient(app.gateway.keys.public_key, lambda body: (0, b""))
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
        assert app.gateway.ingest.bodies.bytes == 0
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
        assert app.gateway.ingest.bodies.bytes == 4
        connection.connection_lost(None)
        assert app.gateway.ingest.bodies.bytes == 0

    run(tmp_path, story)


def request(body: bytes, head: bytes = HEAD) -> bytes:
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


async def answered(transport: Transport, count: int) -> None:
    while transport.written.count(b"HTTP/1.1 ") < count:
        transport.news.clear()
        await transport.news.wait()


@pytest.mark.parametrize("cut", [5, 60, 200])
def test_what_follows_an_exchange_in_the_same_bytes_is_answered_too(tmp_path: Path, cut):
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
        assert app.gateway.ingest.bodies.bytes == 0

    run(tmp_path, story)


@pytest.mark.parametrize("one", [b"", b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"], ids=["exchanges", "others"])
def test_who_asks_on_without_waiting_for_answers_is_hung_up_on(tmp_path: Path, one):
    async def story(app, connection, transport):
        taken = []
        submit = app.gateway.ingest.submit
        app.gateway.ingest.submit = lambda *given: (taken.append(given), submit(*given))
        connection.data_received((one or request(b"no frame")) * 400)
        assert transport.is_closing()
        assert len(taken) + len(connection.pipeline) <= 1 + module.PIPELINED_MAX
        connection.connection_lost(None)
        await app.gateway.appender.idle()
        assert app.gateway.ingest.bodies.bytes == 0

    run(tmp_path, story)


def test_nothing_is_written_to_a_connection_that_was_hung_up_on(tmp_path: Path):
    """uvicorn tells only the newest of several requests; the others would fail, and fill the log with it."""

    async def story(app, connection, transport):
        connection.data_received(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 3)
        connection.drop()
        tasks = list(connection.tasks)
        await asyncio.gather(*tasks)
        assert tasks
        assert transport.written == b""

    run(tmp_path, story)


@pytest.mark.parametrize("route", ["exchange", "healthz"])
def test_an_idle_connection_is_closed_and_one_in_use_is_not(tmp_path: Path, route):
    sent = request(b"no frame") if route == "exchange" else b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"

    async def story(_app, first, _transport):
        timers = Timers(first)
        connection, transport = other_connection(first)
        for count in range(1, 6):
            connection.data_received(sent)
            await answered(transport, count)
            timers.advance(0.6 * connection.timeout_keep_alive)  # five times: longer than it in all
            assert not transport.is_closing()
        timers.advance(0.6 * connection.timeout_keep_alive)
        assert transport.is_closing()

    run(tmp_path, story)


def test_an_idle_connection_is_not_closed_while_its_request_is_under_way(tmp_path: Path):
    async def story(_app, first, _transport):
        timers = Timers(first)
        connection, transport = other_connection(first)
        connection.data_received(request(b"no frame")[:-1])
        timers.advance(module.REQUEST_SECONDS_MAX - 1)
        assert not transport.is_closing()
        connection.data_received(b"e")
        await answered(transport, 1)
        timers.advance(2 * connection.timeout_keep_alive)
        assert transport.is_closing()

    run(tmp_path, story)


def test_a_body_comes_whole_however_it_is_cut(tmp_path: Path):
    async def story(app, connection, transport):
        connection.data_received(request(b"no frame"))
        await answered(transport, 1)
        body = bytes(range(256)) * (STRANGER_BYTES_MAX // 256)
        seen: list[bytes] = []
        submit = app.gateway.ingest.submit
        app.gateway.ingest.submit = lambda body, address, decided: (seen.append(body), submit(body, address, decided))
        for count, piece in enumerate((1, 700, 5000, 1 << 20), 2):
            sent = request(body)
            for start in range(0, len(sent), piece):
                connection.data_received(sent[start : start + piece])
            await answered(transport, count)
        assert seen == [body] * 4
        assert app.gateway.ingest.bodies.bytes == 0

    run(tmp_path, story)


def test_what_a_request_announces_takes_nothing_of_the_budget(tmp_path: Path):
    """Sockets that announce the largest body and send nothing once held all of the budget."""

    async def story(app, connection, transport):
        bodies = app.gateway.ingest.bodies
        connection.data_received(HEAD + b"Content-Length: %d\r\n\r\n" % bodies.body_bytes_max)
        assert bodies.bytes == 0
        connection.data_received(b"x" * 100)
        assert bodies.bytes == 100

    run(tmp_path, story)


def test_of_a_large_body_that_claims_no_session_only_the_start_is_kept_and_it_is_refused_by_it(tmp_path: Path):
    async def story(app, connection, transport):
        bodies = app.gateway.ingest.bodies
        body = bytes([0xE1]) * (1 << 20)  # sealed, by its looks; nobody knows the session
        sent = request(body)
        for start in range(0, len(sent), 10_000):
            connection.data_received(sent[start : start + 10_000])
            assert bodies.bytes <= STRANGER_BYTES_MAX + 10_000
        await answered(transport, 1)
        assert transport.written.startswith(b"HTTP/1.1 401")
        assert b"session-unknown" in transport.written
        assert bodies.bytes == 0

    run(tmp_path, story)


def test_bodies_of_one_device_that_never_end_do_not_use_up_the_budget_of_all(tmp_path: Path):
    async def story(app, connection, transport):
        gateway = app.gateway
        phone = PhoneClient(gateway.keys.public_key, lambda body: (0, b""))
        gateway.roster.enrol(gateway.roster.new_code(0, 1), phone.keys.public_key, "phone", 0)
        phone.enrolled(1)
        phone.session.welcome(decode_one(gateway.sessions.greet(phone.session.hello(), 0.0))[0], 0.0)
        start = phone.session.seal([phone.batch(0, 10, bytes(100_000))])[:50_000]
        others = [other_connection(connection) for _ in range(BODIES_PER_DEVICE_MAX)]
        for other, _ in others:
            other.data_received(HEAD + b"Content-Length: 100000\r\n\r\n" + start)
        assert gateway.ingest.bodies.bytes == BODIES_PER_DEVICE_MAX * len(start)
        connection.data_received(HEAD + b"Content-Length: 100000\r\n\r\n" + start)
        assert transport.written.startswith(b"HTTP/1.1 503")
        for other, _ in others:
            other.connection_lost(None)
        assert gateway.ingest.bodies.bytes == 0
        assert not gateway.ingest.bodies.of_devices

    run(tmp_path, story)


def other_connection(like: ExchangeProtocol) -> tuple[ExchangeProtocol, Transport]:
    connection = ExchangeProtocol(config=like.config, server_state=like.server_state, app_state={}, _loop=like.loop)
    transport = Transport()
    connection.connection_made(transport)
    return connection, transport


@pytest.mark.parametrize(
    "trailer", [b"X-%d: " + b"y" * 1000 + b"\r\n", b"y" * 1000, b"a: b\r\n" * 20], ids=["lines", "one line", "many"]
)
@pytest.mark.parametrize("path", [b"/v1/exchange", b"/healthz"])
def test_trailers_of_a_chunked_body_have_the_limit_of_a_head(tmp_path: Path, trailer, path):
    async def story(app, connection, transport):
        head = HEAD.replace(b"/v1/exchange", path) + b"Transfer-Encoding: chunked\r\n\r\n"
        connection.data_received(head + b"4\r\nsome\r\n0\r\n")
        if not trailer.endswith(b"\r\n"):
            connection.data_received(b"X: ")
        sent = 0
        while not transport.is_closing():
            connection.data_received(trailer % 1 if b"%d" in trailer else trailer)
            sent += len(trailer)
            assert sent <= 2 * HEAD_BYTES_MAX
        assert b"HTTP/1.1 431" in transport.written
        assert len(connection.headers) <= HEADERS_MAX + 25  # what one piece brought
        connection.connection_lost(None)
        assert app.gateway.ingest.bodies.bytes == 0

    run(tmp_path, story)


def test_a_chunked_body_of_many_small_pieces_is_no_head(tmp_path: Path):
    async def story(app, connection, transport):
        connection.data_received(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        for _ in range(HEAD_BYTES_MAX // 4):
            connection.data_received(b"4\r\nsome\r\n")
        connection.data_received(b"0\r\nX: y\r\n\r\n")
        await answered(transport, 1)
        assert b"HTTP/1.1 400" in transport.written

    run(tmp_path, story)


def test_who_does_not_read_answers_is_not_read_either_and_is_hung_up_on_in_the_end(tmp_path: Path):
    async def story(app, connection, transport):
        timers = Timers(connection)
        connection.timeout_keep_alive = 10 * module.UNREAD_SECONDS_MAX
        connection.pause_writing()  # the transport says so when its buffer is full
        connection.data_received(request(b"no frame"))  # was under way
        await answered(transport, 1)
        assert not transport.is_reading
        connection.resume_writing()
        assert transport.is_reading
        timers.advance(0.99 * module.UNREAD_SECONDS_MAX)
        connection.pause_writing()
        timers.advance(0.99 * module.UNREAD_SECONDS_MAX)
        assert not transport.is_closing()
        timers.advance(0.02 * module.UNREAD_SECONDS_MAX)
        assert transport.is_closing()

    run(tmp_path, story)


def test_a_connection_that_says_nothing_is_closed(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(module, "FIRST_REQUEST_SECONDS_MAX", 0.01)

    async def story(app, connection, transport):
        _, silent = other_connection(connection)
        await silent.closed.wait()

    run(tmp_path, story)


def test_an_exchange_that_finds_a_mistake_of_ours_is_refused_and_everything_it_held_is_given_back(
    tmp_path: Path, monkeypatch, caplog
):
    async def story(app, connection, transport):
        def fail(*_):
            raise RuntimeError("a mistake")

        monkeypatch.setattr(app.gateway.sessions, "greet", fail)
        for count in range(1, 4):
            other, heard = other_connection(connection)
            other.data_received(request(b"x" * 3000))
            await answered(heard, 1)
            assert heard.written.startswith(b"HTTP/1.1 503")
            assert b"gateway-fault" in heard.written
            assert app.gateway.ingest.bodies.bytes == 0
            assert app.gateway.metrics.faults._value.get() == count
        assert app.gateway.faults.is_recent
        assert len([record for record in caplog.records if record.name == "resurge.gateway"]) == 1

    run(tmp_path, story)


@pytest.mark.parametrize(("peer", "seen"), [("10.0.0.5", "203.0.113.9"), ("10.0.0.6", "10.0.0.6")])
def test_a_forwarded_address_is_believed_of_a_named_proxy_only(tmp_path: Path, peer, seen):
    async def story(app, connection, transport):
        addresses = []
        submit = app.gateway.ingest.submit
        app.gateway.ingest.submit = lambda body, address, decided: (
            addresses.append(address),
            submit(body, address, decided),
        )
        other = ExchangeProtocol(
            config=connection.config, server_state=connection.server_state, app_state={}, _loop=connection.loop
        )
        heard = Transport()
        heard.get_extra_info = lambda name: (peer, 1) if name == "peername" else None
        other.connection_made(heard)
        other.data_received(request(b"no frame", HEAD + b"X-Forwarded-For: 192.0.2.1, 203.0.113.9\r\n"))
        await answered(heard, 1)
        assert addresses == [seen]
        other.connection_lost(None)

    run(tmp_path, story, proxies=frozenset({"10.0.0.5"}))


def test_a_head_of_too_many_fields_is_refused_also_in_one_piece(tmp_path: Path):
    async def story(app, connection, transport):
        connection.data_received(HEAD + b"a: b\r\n" * (HEADERS_MAX + 1) + b"Content-Length: 4\r\n\r\nsome")
        assert transport.written.startswith(b"HTTP/1.1 431")
        assert transport.is_closing()

    run(tmp_path, story)
