"""`POST /v1/exchange` as a raw ASGI handler: the one route that must be fast.

It sits inside the FastAPI app but before its middleware: at 1 KB per exchange the framework's own work would be most
of the cost. Order matters here. The size is checked before the body is read, the rate before it is parsed, the seal
before anything in it is believed; only then does it reach the appender.

A body of our media type is answered in frames, a refusal too: sealed where there is a session, so that a relay
cannot invent one. Anybody else gets a problem in JSON.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from cloud_backend.gateway.appender import Appender, Unavailable
from cloud_backend.gateway.limits import Allowance, Buckets
from cloud_backend.gateway.metrics import Metrics
from cloud_backend.gateway.problems import MEDIA_TYPE as PROBLEM_TYPE
from cloud_backend.gateway.problems import Problem, status_of
from cloud_backend.gateway.settings import Settings
from shared.identity import DeviceId
from shared.sync.session import GatewaySessions
from shared.wire.envelope import is_envelope
from shared.wire.messages import bare_refusal

PATH = "/v1/exchange"
MEDIA_TYPE = b"application/vnd.resurge.exchange"
BODY_SECONDS_MAX = 30.0  # a phone on a bad link sends 5 MB in less; a slower one should send smaller exchanges
RETRY_AFTER_S = 5
_CLOSE = (b"connection", b"close")  # what is left of a refused body is not read, so nothing can follow it

# Failures that cost the sender's address something: guesses at identities, not mistakes of an honest device.
GUESSES = frozenset({"device-unknown", "envelope-seal", "enrolment-code", "enrolment-signature"})

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Ingest:
    def __init__(self, appender: Appender, sessions: GatewaySessions, settings: Settings, metrics: Metrics) -> None:
        self._appender = appender
        self._sessions = sessions
        self._metrics = metrics
        self._bytes_max = settings.exchange_bytes_max
        self._in_flight_max = settings.in_flight_bytes_max
        self._in_flight = 0
        self._exchange_rate = settings.exchange_rate
        self._byte_rate = settings.byte_rate
        self._allowances: dict[DeviceId, Allowance] = {}  # of enrolled devices only, so it is bounded by the roster
        self.failures = Buckets(settings.failure_rate)  # by address; enrolment shares it

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_ours = False
        try:
            if scope["method"] != "POST":
                raise Problem("method-not-allowed", "exchanges are posted", status=405)
            length, is_ours = self._headers(scope["headers"])
            if not is_ours:
                raise Problem("exchange-media-type", f"expected Content-Type {MEDIA_TYPE.decode()}")
            address = scope["client"][0] if scope["client"] else ""
            self._admit(length, address)
            self._in_flight += length
            try:
                body = await self._body(receive, length)
                self._check_rate(body)
                reply = await self._appender.submit(body)
            finally:
                self._in_flight -= length
        except Problem as problem:
            self._metrics.refused(problem.code)
            if is_ours:
                refusal = bare_refusal(problem.code, problem.detail, retry_after_s=problem.retry_after_s)
                await _respond(send, problem.status, refusal, retry_after_s=problem.retry_after_s, close=True)
            else:
                await _respond_problem(send, problem)
        except Unavailable as error:
            self._metrics.refused(error.code)
            text = "the log cannot take anything now; nothing of this exchange was kept, keep it and come back"
            await _respond(send, status_of(error.code), bare_refusal(error.code, text), retry_after_s=RETRY_AFTER_S)
        except ConnectionResetError:
            self._metrics.refused("exchange-cut")  # nobody is there to be answered
        else:
            if reply.refused is None:
                await _respond(send, 200, reply.body)
                return
            self._metrics.refused(reply.refused)
            if reply.refused in GUESSES:
                self.failures.take(address, time.monotonic())
            await _respond(send, status_of(reply.refused), reply.body)

    def _headers(self, headers: list[tuple[bytes, bytes]]) -> tuple[int, bool]:
        """(declared length, or the largest allowed when it is not declared; whether the media type is ours)."""
        length, is_ours = self._bytes_max, False
        for name, value in headers:
            if name == b"content-length":
                length = int(value) if value.isdigit() and len(value) < 20 else self._bytes_max + 1
            elif name == b"content-type":
                is_ours = value == MEDIA_TYPE
        return length, is_ours

    def _admit(self, length: int, address: str) -> None:
        if length > self._bytes_max:
            raise Problem("exchange-too-large", f"an exchange has at most {self._bytes_max} bytes; send smaller ones")
        if self._in_flight + length > self._in_flight_max:
            raise Problem("gateway-busy", "too many bytes are on their way already", retry_after_s=1)
        if wait_s := self.failures.wait_s(address, time.monotonic()):
            raise _too_fast(wait_s)

    async def _body(self, receive: Receive, length: int) -> bytes:
        message = await receive()
        body: bytes = message.get("body", b"")
        if not message.get("more_body"):
            if message["type"] == "http.disconnect":
                raise ConnectionResetError
            if len(body) > length:
                raise Problem("exchange-too-large", f"an exchange has at most {self._bytes_max} bytes")
            return body
        parts, size = [body], len(body)
        try:
            async with asyncio.timeout(BODY_SECONDS_MAX):
                while message.get("more_body"):
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ConnectionResetError
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > length:
                        raise Problem("exchange-too-large", f"an exchange has at most {self._bytes_max} bytes")
        except TimeoutError:
            raise Problem(
                "exchange-too-slow", f"the body took longer than {BODY_SECONDS_MAX:.0f} s; send smaller exchanges",
                status=408,
            ) from None  # fmt: skip
        return b"".join(parts)

    def _check_rate(self, body: bytes) -> None:
        """Charge the device whose session this claims; a HELLO has none and is charged only if it fails."""
        if not is_envelope(body):
            return
        device = self._sessions.device_of(body)
        if device is None:
            return
        now = time.monotonic()
        allowance = self._allowances.get(device)
        if allowance is None:
            allowance = self._allowances[device] = Allowance(self._exchange_rate, self._byte_rate, now)
        if wait_s := allowance.take(len(body), self._exchange_rate, self._byte_rate, now):
            raise _too_fast(wait_s)


def _too_fast(wait_s: float) -> Problem:
    return Problem("rate-limited", "too many requests; come back later", retry_after_s=max(1, int(wait_s + 0.999)))


async def _respond(
    send: Send, status: int, body: bytes, *, retry_after_s: int | None = None, close: bool = False
) -> None:
    headers = [(b"content-type", MEDIA_TYPE), (b"content-length", b"%d" % len(body))]
    if retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % retry_after_s))
    if close:
        headers.append(_CLOSE)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _respond_problem(send: Send, problem: Problem) -> None:
    body = problem.body()
    headers = [(b"content-type", PROBLEM_TYPE.encode()), (b"content-length", b"%d" % len(body)), _CLOSE]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
