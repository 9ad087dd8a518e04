"""The HTTP protocol of the gateway's own server: uvicorn's, with the exchange taken out before ASGI.

For a 1 KB exchange ASGI itself (a scope, a task, an event and two messages per request) costs as much as checking,
deciding and logging it. So here the parser's callbacks hand a whole `POST /v1/exchange` straight to `Ingest`, and the
appender's answer is written straight to the transport. Everything else, and everything unusual (another method,
`Expect`, a pipelined request), goes uvicorn's way, where the same route answers the same. The decision record
`docs/decisions/0030-exchanges-bypass-asgi.md` has the measurements.

A device sends the same head with every exchange of a connection, but for the digits of its length. So once the parser
has accepted a head, one that equals it byte for byte but for these digits is accepted without asking the parser again:
at the start of a message equal bytes mean the same. Only a head with one Content-Length, plain line ends and no
Transfer-Encoding is remembered, and anything that is not exactly one such message goes to the parser.

A connection that starts a request and does not finish it in time is closed, whatever the route, and so is one whose
headers do not end: uvicorn itself would keep both for ever.
"""

from __future__ import annotations

import asyncio
import http
from functools import lru_cache, partial
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from cloud_backend.gateway.appender import Unavailable
from cloud_backend.gateway.ingest import BODY_SECONDS_MAX, MEDIA_TYPE, PATH, Answer, Ingest
from cloud_backend.gateway.problems import Problem
from shared.sync.receiver import Reply

_PATH = PATH.encode()
_OK = b"HTTP/1.1 200 OK\r\ncontent-type: " + MEDIA_TYPE + b"\r\ncontent-length: %d\r\n\r\n"
_HEAD_END = b"\r\n\r\n"
_DIGITS_MAX = 12  # of a length; a longer one is the parser's to judge
_UNUSUAL = frozenset({b"transfer-encoding", b"expect", b"upgrade"})
REQUEST_SECONDS_MAX = BODY_SECONDS_MAX
HEAD_BYTES_MAX = 64 * 1024
_NO_HEAD = b"\0"  # opens no message that the parser accepts
_HEAD_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class _Event:
    """uvicorn wakes a waiting ASGI task with it; nobody waits here."""

    def set(self) -> None:
        pass


class ExchangeCycle:
    """One exchange under way; has what uvicorn asks of its own request-response cycle."""

    __slots__ = ("disconnected", "keep_alive", "length", "parts", "response_complete", "size")

    message_event = _Event()

    def __init__(self, length: int, keep_alive: bool) -> None:
        self.length = length
        self.keep_alive = keep_alive
        self.parts: list[bytes | memoryview] = []
        self.size = 0
        self.response_complete = False
        self.disconnected = False


class RepeatedHead:
    """The head of a request that the parser accepted, without the digits of its Content-Length."""

    __slots__ = ("_after", "_before", "_found", "_last")

    def __init__(self, before: bytes, after: bytes) -> None:
        self._before = before
        self._after = after
        self._last = _NO_HEAD  # the last head that matched, whole: a device's batches are often of one length
        self._found = (0, 0)

    @staticmethod
    def of(data: bytes, headers: list[tuple[bytes, bytes]]) -> RepeatedHead | None:
        """Of a message that starts with `data` and has these headers (names in lower case); None if it is unusual."""
        lengths = [value for name, value in headers if name == b"content-length"]
        end = data.find(_HEAD_END) + len(_HEAD_END)
        head = data[:end]
        if (
            end < len(_HEAD_END)
            or len(lengths) != 1
            or not lengths[0].isdigit()
            or head.count(b"\n") != head.count(b"\r\n")
        ):
            return None
        if any(name in _UNUSUAL for name, _ in headers):
            return None
        at = head.lower().find(b"\r\ncontent-length:")
        line_end = head.find(b"\r\n", at + 2)
        start = line_end - len(lengths[0])
        if head[start:line_end] != lengths[0]:
            return None
        return RepeatedHead(head[:start], head[line_end:])

    def match(self, data: bytes) -> tuple[int, int] | None:
        """(length of the body, where it starts) if this head opens `data`."""
        if data.startswith(self._last):
            return self._found
        if not data.startswith(self._before):
            return None
        start = len(self._before)
        end = data.find(b"\r", start, start + _DIGITS_MAX + 1)
        digits = data[start:end]
        if end < 0 or not digits.isdigit() or not data.startswith(self._after, end):
            return None
        body = end + len(self._after)
        self._last, self._found = data[:body], (int(digits), body)
        return self._found


class ExchangeProtocol(HttpToolsProtocol):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._ingest: Ingest = self.config.app.gateway.ingest  # type: ignore[union-attr]
        self._address = ""
        self._connections_max = self.limit_concurrency or 1 << 30
        self._begun = 0  # messages that the parser has seen begin
        self._unfinished = False  # a request has begun and is not all here
        self._head_bytes = 0  # received while the headers are not all here; -1 once they are
        self._deadline: asyncio.TimerHandle | None = None
        self._repeated: RepeatedHead | None = None
        self._receiving: ExchangeCycle | None = None  # the parser knows nothing of it
        self._used = 0.0  # when the last exchange was answered

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""

    def data_received(self, data: bytes) -> None:
        if self._receiving is not None:
            self._receive_more(self._receiving, data)
            return
        cycle: object = self.cycle
        if self._unfinished or (cycle is not None and not self.cycle.response_complete):
            self._parse(data)
            return
        if self._repeated is not None and (found := self._repeated.match(data)) is not None:
            length, start = found
            if length > 0 and len(data) - start <= length and len(self.connections) < self._connections_max:
                self._begin(length, memoryview(data)[start:])
                return
        before, begun = cycle, self._begun
        self._parse(data)
        cycle = self.cycle
        if cycle is not before and isinstance(cycle, ExchangeCycle) and cycle.keep_alive and self._begun == begun + 1:
            self._repeated = RepeatedHead.of(data, self.headers)

    def _parse(self, data: bytes) -> None:
        super().data_received(data)
        if self._head_bytes >= 0 and self._unfinished:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                self.transport.write(_HEAD_TOO_LARGE)
                self.transport.close()
                return
        if self._unfinished and self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_SECONDS_MAX, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        self._finish_receiving()
        cycle: object = self.cycle
        if isinstance(cycle, ExchangeCycle) and not cycle.response_complete and cycle.size < cycle.length:
            self._ingest.release(cycle.length)  # its body never came; one that was submitted is released when decided
            cycle.response_complete = True
        super().connection_lost(exc)

    def timeout_keep_alive_handler(self) -> None:
        """One timer for many exchanges: look when the last one was, instead of a new timer with each."""
        left_s = self._used + self.timeout_keep_alive - self.loop.time()
        busy = self.cycle is not None and not self.cycle.response_complete
        if busy or left_s > 0:
            wait_s = self.timeout_keep_alive if busy else left_s
            self.timeout_keep_alive_task = self.loop.call_later(wait_s, self.timeout_keep_alive_handler)
            return
        super().timeout_keep_alive_handler()

    # -- without the parser ------------------------------------------------------------------------------------------

    def _begin(self, length: int, body: memoryview) -> None:
        """An exchange whose head is the one before; as much of its body as came with it."""
        cycle = ExchangeCycle(0, True)
        self.cycle = cycle  # type: ignore[assignment]
        try:
            self._ingest.admit(length, self._address)
            cycle.length = length
        except Problem as problem:
            self._write(cycle, self._ingest.refusal(problem))
            return
        cycle.size = len(body)
        if cycle.size == length:
            self._submit(cycle, body)
            return
        cycle.parts.append(body)
        self._receiving = cycle
        self._deadline = self.loop.call_later(REQUEST_SECONDS_MAX, self._give_up)

    def _receive_more(self, cycle: ExchangeCycle, data: bytes) -> None:
        missing = cycle.length - cycle.size
        cycle.parts.append(data if len(data) <= missing else data[:missing])
        cycle.size += len(cycle.parts[-1])
        if cycle.size < cycle.length:
            return
        self._finish_receiving()
        parts, cycle.parts = cycle.parts, []
        self._submit(cycle, b"".join(parts))
        if len(data) > missing:
            self._parse(data[missing:])  # a pipelined request

    # -- called by the parser ----------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._begun += 1
        self._unfinished = True
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._head_bytes = -1
        busy = self.cycle is not None and not self.cycle.response_complete
        if (
            self.url != _PATH
            or busy
            or self.expect_100_continue
            or self.parser.get_method() != b"POST"
            or len(self.connections) >= self._connections_max
        ):
            super().on_headers_complete()
            return
        keep_alive = self.parser.get_http_version() == "1.1" and self.parser.should_keep_alive()
        cycle = ExchangeCycle(0, keep_alive)
        self.cycle = cycle  # type: ignore[assignment]
        try:
            length = self._ingest.declared(self.headers)
            self._ingest.admit(length, self._address)
            cycle.length = length
        except Problem as problem:
            self._write(cycle, self._ingest.refusal(problem))

    def on_body(self, body: bytes) -> None:
        cycle: object = self.cycle
        if not isinstance(cycle, ExchangeCycle):
            super().on_body(body)
            return
        if cycle.response_complete:
            return
        cycle.parts.append(body)
        cycle.size += len(body)
        if cycle.size > cycle.length:
            self._refuse(cycle, self._ingest.too_large())

    def on_message_complete(self) -> None:
        self._finish_receiving()
        cycle: object = self.cycle
        if not isinstance(cycle, ExchangeCycle):
            super().on_message_complete()
            return
        if cycle.response_complete:
            return
        parts, cycle.parts = cycle.parts, []
        cycle.size = cycle.length  # nothing more is expected, also where no length was declared
        self._submit(cycle, parts[0] if len(parts) == 1 else b"".join(parts))

    # ------------------------------------------------------------------------------------------------------------

    def _submit(self, cycle: ExchangeCycle, body: bytes | memoryview) -> None:
        try:
            self._ingest.submit(body, partial(self._decided, cycle))
        except Problem as problem:
            self._refuse(cycle, problem)

    def _decided(self, cycle: ExchangeCycle, outcome: Reply | Unavailable) -> None:
        self._ingest.release(cycle.length)
        if isinstance(outcome, Unavailable):
            self._write(cycle, self._ingest.refusal(outcome))
        elif outcome.refused is None and cycle.keep_alive:
            cycle.response_complete = True
            if not self.transport.is_closing():
                self._respond(_ok(len(outcome.body)) + outcome.body, close=False)
        else:
            self._write(cycle, self._ingest.answer(outcome, self._address))

    def _refuse(self, cycle: ExchangeCycle, problem: Problem) -> None:
        self._ingest.release(cycle.length)
        self._write(cycle, self._ingest.refusal(problem))

    def _write(self, cycle: ExchangeCycle, answer: Answer) -> None:
        cycle.response_complete = True
        if self.transport.is_closing():
            return
        cycle.keep_alive = cycle.keep_alive and not answer.close
        self._respond(_head(answer, cycle.keep_alive) + answer.body, close=not cycle.keep_alive)

    def _respond(self, response: bytes, *, close: bool) -> None:
        self.transport.write(response)
        if close:
            self.transport.close()
        if self.pipeline or self.flow.read_paused or self.timeout_keep_alive_task is None:
            self.on_response_complete()
        else:
            self.server_state.total_requests += 1
        self._used = self.loop.time()

    def _finish_receiving(self) -> None:
        self._unfinished = False
        self._receiving = None
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        """The request did not come in time: say so to whoever was sending an exchange, and hang up on anybody."""
        self._deadline = None
        self._receiving = None
        cycle: object = self.cycle
        if isinstance(cycle, ExchangeCycle) and not cycle.response_complete:
            self._refuse(cycle, self._ingest.too_slow())
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
