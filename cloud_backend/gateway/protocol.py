"""The HTTP protocol of the gateway's own server: uvicorn's, with the exchange taken out before ASGI.

For a 1 KB exchange ASGI itself (a scope, a task, an event and two messages per request) costs as much as checking,
deciding and logging it. So here the parser's callbacks hand a whole `POST /v1/exchange` straight to `Ingest`, and the
appender's answer is written straight to the transport. Everything else, and everything unusual (another method,
`Expect`, a pipelined request), goes uvicorn's way, where the same route answers the same. The decision record
`docs/decisions/0030-exchanges-bypass-asgi.md` has the measurements.

A connection that starts a request and does not finish it in time is closed, whatever the route, and so is one whose
headers do not end: uvicorn itself would keep both for ever.
"""

from __future__ import annotations

import asyncio
import http
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from cloud_backend.gateway.appender import Unavailable
from cloud_backend.gateway.ingest import BODY_SECONDS_MAX, MEDIA_TYPE, PATH, Answer, Ingest
from cloud_backend.gateway.problems import Problem
from shared.sync.receiver import Reply

_PATH = PATH.encode()
_OK = b"HTTP/1.1 200 OK\r\ncontent-type: " + MEDIA_TYPE + b"\r\ncontent-length: %d\r\n\r\n"
REQUEST_SECONDS_MAX = BODY_SECONDS_MAX
HEAD_BYTES_MAX = 64 * 1024
_HEAD_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class _Event:
    """uvicorn wakes a waiting ASGI task with it; nobody waits here."""

    def set(self) -> None:
        pass


class ExchangeCycle:
    """One exchange under way; has what uvicorn asks of its own request-response cycle."""

    __slots__ = (
        "address",
        "disconnected",
        "keep_alive",
        "length",
        "message_event",
        "parts",
        "response_complete",
        "size",
    )

    def __init__(self, address: str, length: int, keep_alive: bool) -> None:
        self.address = address
        self.length = length
        self.keep_alive = keep_alive
        self.parts: list[bytes] = []
        self.size = 0
        self.response_complete = False
        self.disconnected = False
        self.message_event = _NOBODY_WAITS


_NOBODY_WAITS = _Event()


class ExchangeProtocol(HttpToolsProtocol):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._ingest: Ingest = self.config.app.gateway.ingest  # type: ignore[union-attr]
        self._unfinished = False  # a request has begun and is not all here
        self._head_bytes = 0  # received while the headers are not all here; -1 once they are
        self._deadline: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
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

    # -- called by the parser ----------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
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
            or len(self.connections) >= (self.limit_concurrency or 1 << 30)
        ):
            super().on_headers_complete()
            return
        keep_alive = self.parser.get_http_version() == "1.1" and self.parser.should_keep_alive()
        address = self.client[0] if self.client else ""
        cycle = ExchangeCycle(address, 0, keep_alive)
        self.cycle = cycle  # type: ignore[assignment]
        try:
            length = self._ingest.declared(self.headers)
            self._ingest.admit(length, address)
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
        try:
            body = parts[0] if len(parts) == 1 else b"".join(parts)
            self._ingest.submit(body, lambda outcome: self._decided(cycle, outcome))
        except Problem as problem:
            self._refuse(cycle, problem)

    # ------------------------------------------------------------------------------------------------------------

    def _decided(self, cycle: ExchangeCycle, outcome: Reply | Unavailable) -> None:
        self._ingest.release(cycle.length)
        if isinstance(outcome, Unavailable):
            self._write(cycle, self._ingest.refusal(outcome))
        else:
            self._write(cycle, self._ingest.answer(outcome, cycle.address))

    def _refuse(self, cycle: ExchangeCycle, problem: Problem) -> None:
        self._ingest.release(cycle.length)
        self._write(cycle, self._ingest.refusal(problem))

    def _write(self, cycle: ExchangeCycle, answer: Answer) -> None:
        cycle.response_complete = True
        if self.transport.is_closing():
            return
        if answer.close:
            cycle.keep_alive = False
        if answer.status == 200 and cycle.keep_alive:
            self.transport.write(_OK % len(answer.body) + answer.body)
        else:
            self.transport.write(_head(answer, cycle.keep_alive) + answer.body)
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def _finish_receiving(self) -> None:
        self._unfinished = False
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        """The request did not come in time: say so to whoever was sending an exchange, and hang up on anybody."""
        self._deadline = None
        cycle: object = self.cycle
        if isinstance(cycle, ExchangeCycle) and not cycle.response_complete:
            self._refuse(cycle, self._ingest.too_slow())
        self.transport.close()


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
