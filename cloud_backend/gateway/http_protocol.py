"""The HTTP protocol of the gateway's own server: uvicorn's, with the exchange taken out before ASGI.

For a 1 KB exchange ASGI itself (a scope, a task, an event and two messages per request) costs as much as checking,
deciding and logging it. So here the parser's callbacks hand a whole `POST /v1/exchange` straight to `Ingest`, and the
appender's answer is written straight to the transport: 1.5 times the exchanges per second. Everything else, and
everything unusual (another method, `Expect`, a pipelined request), goes uvicorn's way, where the same route answers
the same. The decision record `docs/decisions/0030-exchanges-bypass-asgi.md` has the measurements.

uvicorn itself would wait for ever for a first byte, for the rest of a request, and for somebody to read an answer, and
would keep headers and trailers of any length. Here each of these has a limit, for every route.
"""

from __future__ import annotations

import asyncio
import http
from functools import lru_cache, partial
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from cloud_backend.gateway import waits
from cloud_backend.gateway.appender import Unavailable
from cloud_backend.gateway.connections import Connections, address_group
from cloud_backend.gateway.exchange_bodies import Body
from cloud_backend.gateway.http_problems import Problem
from cloud_backend.gateway.ingest import BODY_SECONDS_MAX, MEDIA_TYPE, PATH, Answer, Ingest, Outcome
from shared.identity import DeviceId
from shared.wire.waiting import NO_NEWS

_PATH = PATH.encode()
_WAIT = waits.PATH.encode()
_OK = b"HTTP/1.1 200 OK\r\ncontent-type: " + MEDIA_TYPE + b"\r\ncontent-length: %d\r\n\r\n"
FIRST_REQUEST_SECONDS_MAX = 15.0  # until the first byte of a connection
REQUEST_SECONDS_MAX = BODY_SECONDS_MAX
UNREAD_SECONDS_MAX = 30.0  # that answers may wait to be read
HEAD_BYTES_MAX = 32 * 1024  # of the headers of a request, and of the trailers after a chunked body
HEADERS_MAX = 128
# Requests that wait for the answer to one before. Nobody honest sends any; a few hundred in one piece kept everybody
# else waiting while they were answered.
PIPELINED_MAX = 8
_HEAD_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class _Event:
    """uvicorn wakes a waiting ASGI task with it; nobody waits here."""

    def set(self) -> None:
        pass


class ExchangeCycle(Body):
    """The body of one exchange under way, with what uvicorn asks of its own request-response cycle."""

    message_event = _Event()
    keep_alive = True
    is_submitted = False
    response_complete = False
    disconnected = False


class WaitCycle(ExchangeCycle):
    """A request to wait: held by `Waits` once its body is here."""

    device: DeviceId | None = None
    decided: waits.OnAnswer | None = None


class ExchangeProtocol(HttpToolsProtocol):
    # Beside uvicorn's 28 attributes: beyond 30 Python keeps a dictionary for each connection, which is slower to use.
    __slots__ = (
        "_address", "_address_group", "_deadline", "_earlier", "_head_bytes", "_idle", "_idle_until", "_in_head",
        "_ingest", "_open", "_peer", "_proxies", "_unfinished", "_unread", "_waits",
    )  # fmt: skip

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        gateway = self.config.app.gateway  # type: ignore[union-attr]
        self._ingest: Ingest = gateway.ingest
        self._waits: waits.Waits = gateway.waits
        self._open: Connections = gateway.connections
        self._proxies: frozenset[str] = gateway.settings.proxies
        self._peer = ""
        self._address = ""  # the peer's, or the one that a proxy of ours names
        self._address_group = ""
        self._unfinished = False  # a request has begun and is not all here
        self._in_head = False  # what comes now are headers or trailers
        self._head_bytes = 0  # of pieces that were nothing but head; what came with the start or the end is bounded
        self._deadline: asyncio.TimerHandle | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._idle_until = 0.0  # when it is closed, unless a request is under way
        self._unread: asyncio.TimerHandle | None = None
        self._earlier: list[RequestResponseCycle] = []  # requests under way when the next one came, for ASGI

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._peer = self._address = self.client[0] if self.client else ""
        self._address_group = address_group(self._address)
        self._wait_idle(FIRST_REQUEST_SECONDS_MAX)
        if self._peer in self._proxies:
            self._open.trusted(self)
        else:
            self._open.opened(self, self._address_group)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.closed(self, self._address_group)
        if self._idle is not None:
            self._idle.cancel()
        self._finish_receiving()
        self._end_cycles()
        self.resume_writing()
        cycle: object = self.cycle
        if isinstance(cycle, ExchangeCycle) and not cycle.is_submitted:
            cycle.release()  # one that was submitted is released when it is decided
            cycle.response_complete = True
        elif isinstance(cycle, WaitCycle) and cycle.device is not None and cycle.decided is not None:
            self._waits.gone(cycle.device, cycle.decided)
            cycle.response_complete = True
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """The server ends, which must not take as long as somebody waits."""
        cycle: object = self.cycle
        if isinstance(cycle, WaitCycle) and cycle.decided is not None and not cycle.response_complete:
            cycle.keep_alive = False
            cycle.decided(Answer(200, NO_NEWS))
            return
        super().shutdown()

    def is_busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def drop(self) -> None:
        """Hang up at once."""
        self._end_cycles()
        self.transport.abort()

    def _end_cycles(self) -> None:
        """Whoever still works on an answer must not write it: the transport is gone before that is told, and uvicorn
        tells only the newest request of a connection."""
        for cycle in (*self._earlier, self.cycle):
            if cycle is not None:
                cycle.disconnected = True
        self._earlier.clear()

    def data_received(self, data: bytes) -> None:
        was_in_head = self._in_head
        super().data_received(data)
        if not self._unfinished:
            return
        if self._in_head:
            self._head_bytes += len(data) if was_in_head else 0
            if self._head_bytes > HEAD_BYTES_MAX or len(self.headers) > HEADERS_MAX:
                self._refuse_head()
                return
        if self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_SECONDS_MAX, self._give_up)

    def pause_writing(self) -> None:
        """Answers wait to be read: take no more requests until they are, and not for ever."""
        super().pause_writing()
        self.transport.pause_reading()
        self._unread = self.loop.call_later(UNREAD_SECONDS_MAX, self.drop)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
            if not self.flow.read_paused and not self.transport.is_closing():
                self.transport.resume_reading()

    def on_response_complete(self) -> None:
        self._idle_until = self.loop.time() + self.timeout_keep_alive
        if not self.pipeline and not self.flow.read_paused:  # uvicorn would set a timer and nothing else
            self.server_state.total_requests += 1
            return
        super().on_response_complete()
        if self.flow.write_paused and not self.transport.is_closing():
            self.transport.pause_reading()  # which uvicorn may just have resumed

    # -- called by the parser ----------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._unfinished = self._in_head = True
        self._head_bytes = 0
        self.url = b""
        self.headers = []
        self.expect_100_continue = False

    def on_headers_complete(self) -> None:
        self._in_head = False
        if len(self.pipeline) >= PIPELINED_MAX:
            self.drop()
        elif len(self.headers) > HEADERS_MAX:
            self._refuse_head()
        if self.transport.is_closing():
            over = ExchangeCycle(self._ingest.bodies)
            over.response_complete = True  # whatever follows is dropped
            self.cycle = over  # type: ignore[assignment]
            return
        if self._proxies and self._peer in self._proxies:
            self._believe_proxy()
        parser = self.parser
        waits_only = self.url == _WAIT
        foreign = self.url != _PATH and not waits_only
        if foreign or self.is_busy() or self.expect_100_continue or parser.get_method() != b"POST":
            self._to_asgi()
            return
        cycle = (WaitCycle if waits_only else ExchangeCycle)(self._ingest.bodies)
        self.cycle = cycle  # type: ignore[assignment]
        if not parser.should_keep_alive() or parser.get_http_version() != "1.1":
            cycle.keep_alive = False
        try:
            self._ingest.check_head(self.headers)
        except Problem as problem:
            self._refuse(cycle, problem)

    def on_chunk_header(self) -> None:
        self._in_head = True  # of trailers, if this is the last chunk; else a body follows at once
        self._head_bytes = 0

    def on_body(self, body: bytes) -> None:
        self._in_head = False
        cycle: object = self.cycle
        if not isinstance(cycle, ExchangeCycle):
            super().on_body(body)
            return
        if cycle.response_complete:
            return
        try:
            cycle.add(body)
        except Problem as problem:
            self._refuse(cycle, problem)

    def on_message_complete(self) -> None:
        self._in_head = self._unfinished = False
        if self._deadline is not None:
            self._finish_receiving()
        cycle: object = self.cycle
        if not isinstance(cycle, ExchangeCycle):
            super().on_message_complete()
            return
        if cycle.response_complete or cycle.is_submitted:
            return
        cycle.is_submitted = True
        if isinstance(cycle, WaitCycle):
            self._hold(cycle)
            return
        try:
            self._ingest.submit(cycle.whole(), self._address, partial(self._decided, cycle))
        except Problem as problem:
            self._refuse(cycle, problem)

    # ------------------------------------------------------------------------------------------------------------

    def _to_asgi(self) -> None:
        """This request goes uvicorn's way, with the scope that uvicorn makes of every request."""
        if self.is_busy() and isinstance(self.cycle, RequestResponseCycle):
            self._earlier = [each for each in (*self._earlier, self.cycle) if not each.response_complete]
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers.extend(headers)  # the scope has the same list
        if self._address != self._peer:
            self.scope["client"] = (self._address, 0)
        super().on_headers_complete()

    def _hold(self, cycle: WaitCycle) -> None:
        cycle.decided = partial(self._write, cycle)
        body = cycle.whole()
        cycle.release()
        cycle.device = self._waits.hold(body, cycle.decided)
        if cycle.device is not None:
            self._open.used(self, self._address_group)  # whoever waits has a session

    def _decided(self, cycle: ExchangeCycle, outcome: Outcome) -> None:
        cycle.release()
        if isinstance(outcome, Unavailable):
            self._write(cycle, self._ingest.refusal(outcome))
        elif isinstance(outcome, Answer):
            if outcome.status == http.HTTPStatus.OK:
                self._open.used(self, self._address_group)
            self._write(cycle, outcome)
        elif outcome.refused is not None or not cycle.keep_alive or outcome.introduced:
            self._write(cycle, self._ingest.answer(outcome, self._address))
        else:
            self._open.used(self, self._address_group)
            cycle.response_complete = True
            if not self.transport.is_closing():
                self.transport.write(_ok(len(outcome.body)) + outcome.body)
                self.on_response_complete()

    def _refuse(self, cycle: ExchangeCycle, problem: Problem) -> None:
        cycle.release()
        self._write(cycle, self._ingest.refusal(problem))

    def _write(self, cycle: ExchangeCycle, answer: Answer) -> None:
        if cycle.response_complete:
            return
        cycle.response_complete = True
        if self.transport.is_closing():
            return
        cycle.keep_alive = cycle.keep_alive and not answer.close
        self.transport.write(_head(answer, cycle.keep_alive) + answer.body)
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def _refuse_head(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(_HEAD_TOO_LARGE)
            self._end_cycles()
            self.transport.close()

    def _believe_proxy(self) -> None:
        """The address that the proxy of ours saw: the last one it added, whatever stood there before."""
        named = [value for name, value in self.headers if name == b"x-forwarded-for"]
        if named:
            self._address = named[-1].rpartition(b",")[2].strip().decode("ascii", "replace")[:64]

    def _wait_idle(self, seconds: float) -> None:
        """One timer for many requests: it looks when the last one was, instead of a new one with each."""
        self._idle_until = self.loop.time() + seconds
        self._idle = self.loop.call_later(min(seconds, self.timeout_keep_alive), self._close_idle)

    def _close_idle(self) -> None:
        left_s = self._idle_until - self.loop.time()
        if self._unfinished or self.is_busy():
            left_s = self.timeout_keep_alive
        if left_s > 0:
            self._idle = self.loop.call_later(left_s, self._close_idle)
        elif not self.transport.is_closing():
            self.transport.close()

    def _finish_receiving(self) -> None:
        self._unfinished = False
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        """The request did not come in time: say so to whoever was sending an exchange, and hang up on anybody."""
        self._deadline = None
        cycle: object = self.cycle
        if isinstance(cycle, ExchangeCycle) and not cycle.response_complete and not cycle.is_submitted:
            self._refuse(cycle, self._ingest.too_slow())
        self._end_cycles()
        self.transport.close()


@lru_cache(maxsize=64)
def _ok(length: int) -> bytes:
    return _OK % length


def _head(answer: Answer, keep_alive: bool) -> bytes:
    lines = [
        b"HTTP/1.1 %d %s" % (answer.status, http.HTTPStatus(answer.status).phrase.encode()),
        b"content-type: " + answer.media_type,
        b"content-length: %d" % len(answer.body),
    ]
    if answer.retry_after_s is not None:
        lines.append(b"retry-after: %d" % answer.retry_after_s)
    if not keep_alive:
        lines.append(b"connection: close")
    return b"\r\n".join(lines) + b"\r\n\r\n"
