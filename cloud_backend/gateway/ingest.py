"""`POST /v1/exchange`: the one route that must be fast.

It is a raw ASGI handler inside the FastAPI app but before its middleware: at 1 KB per exchange the framework's own work
would be most of the cost. Under `protocol.ExchangeProtocol` the same steps run without ASGI in between. Order matters:
the size is checked before the body is read, the rate before it is parsed, the seal before anything in it is believed;
only then does it reach the appender.

A body of our media type is answered in frames, a refusal too: sealed where there is a session, so that a relay
cannot invent one. Anybody else gets a problem in JSON.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple

from cloud_backend.gateway.appender import Appender, Decided, Unavailable
from cloud_backend.gateway.limits import Allowance, Buckets
from cloud_backend.gateway.metrics import Metrics
from cloud_backend.gateway.problems import MEDIA_TYPE as PROBLEM_TYPE
from cloud_backend.gateway.problems import Problem, status_of
from cloud_backend.gateway.settings import Settings
from shared.identity import DeviceId
from shared.sync.receiver import Reply
from shared.sync.session import GatewaySessions
from shared.wire.envelope import is_envelope
from shared.wire.messages import bare_refusal

PATH = "/v1/exchange"
MEDIA_TYPE = b"application/vnd.resurge.exchange"
BODY_SECONDS_MAX = 30.0  # a phone on a bad link sends 5 MB in less; a slower one should send smaller exchanges
RETRY_AFTER_S = 5
NOT_OURS = frozenset({"exchange-media-type", "method-not-allowed"})  # whoever this is does not read frames

# Failures that cost the sender's address something: guesses at identities, not mistakes of an honest device.
GUESSES = frozenset({"device-unknown", "envelope-seal", "enrolment-code", "enrolment-signature"})

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Answer(NamedTuple):
    status: int
    body: bytes
    retry_after_s: int | None = None
    close: bool = False  # what is left of a refused body is not read, so nothing can follow it
    media_type: bytes = MEDIA_TYPE


class Ingest:
    """What becomes of one exchange, whoever carries it: `admit` its size, `submit` its body, `answer` its outcome."""

    def __init__(self, appender: Appender, sessions: GatewaySessions, settings: Settings, metrics: Metrics) -> None:
        self._appender = appender
        self._sessions = sessions
        self._metrics = metrics
        self.bytes_max = settings.exchange_bytes_max
        self._in_flight_max = settings.in_flight_bytes_max
        self._in_flight = 0
        self._exchange_rate = settings.exchange_rate
        self._byte_rate = settings.byte_rate
        self._allowances: dict[DeviceId, Allowance] = {}  # of enrolled devices only, so it is bounded by the roster
        self.failures = Buckets(settings.failure_rate)  # by address; enrolment shares it

    def declared(self, headers: list[tuple[bytes, bytes]]) -> int:
        """The length a body declares, or the largest allowed if it declares none; Problem for a foreign body."""
        length, is_ours = self.bytes_max, False
        for name, value in headers:
            if name == b"content-length":
                length = int(value) if value.isdigit() and len(value) < 20 else self.bytes_max + 1
            elif name == b"content-type":
                is_ours = value == MEDIA_TYPE
        if not is_ours:
            raise Problem("exchange-media-type", f"expected Content-Type {MEDIA_TYPE.decode()}")
        return length

    def admit(self, length: int, address: str) -> None:
        """Before a body is read; `release` the same length once it is answered."""
        if length > self.bytes_max:
            raise self.too_large()
        if self._in_flight + length > self._in_flight_max:
            raise Problem("gateway-busy", "too many bytes are on their way already", retry_after_s=1)
        if wait_s := self.failures.wait_s(address, time.monotonic()):
            raise _too_fast(wait_s)
        self._in_flight += length

    def release(self, length: int) -> None:
        self._in_flight -= length

    def submit(self, body: bytes | memoryview, decided: Decided) -> None:
        """Hand in a whole body; `decided` hears its outcome once all it rests on is durable. Problem if its device is
        too fast."""
        if is_envelope(body):
            session = self._sessions.claimed(body)
            if session is not None:
                self._charge(session.device, len(body))
        self._appender.submit(body, decided)

    def answer(self, reply: Reply, address: str) -> Answer:
        code = reply.refused
        if code is None:
            return Answer(200, reply.body)
        self._metrics.refused(code)
        if code in GUESSES:
            self.failures.take(address, time.monotonic())
        return Answer(status_of(code), reply.body)

    def refusal(self, error: Problem | Unavailable) -> Answer:
        """In frames for whoever speaks them, else as a problem."""
        self._metrics.refused(error.code)
        if isinstance(error, Unavailable):
            text = "the log cannot take anything now; nothing of this exchange was kept, keep it and come back"
            return Answer(status_of(error.code), bare_refusal(error.code, text), RETRY_AFTER_S)
        if error.code in NOT_OURS:
            return Answer(error.status, error.body(), error.retry_after_s, close=True, media_type=PROBLEM_TYPE.encode())
        body = bare_refusal(error.code, error.detail, retry_after_s=error.retry_after_s)
        return Answer(error.status, body, error.retry_after_s, close=True)

    def too_large(self) -> Problem:
        return Problem("exchange-too-large", f"an exchange has at most {self.bytes_max} bytes; send smaller ones")

    def too_slow(self) -> Problem:
        text = f"the body took longer than {BODY_SECONDS_MAX:.0f} s; send smaller exchanges"
        return Problem("exchange-too-slow", text, status=408)

    def _charge(self, device: DeviceId, size: int) -> None:
        """The device whose session a body claims pays; a HELLO has none, its address pays if it fails."""
        now = time.monotonic()
        allowance = self._allowances.get(device)
        if allowance is None:
            allowance = self._allowances[device] = Allowance(self._exchange_rate, self._byte_rate, now)
        if wait_s := allowance.take(size, self._exchange_rate, self._byte_rate, now):
            raise _too_fast(wait_s)

    # -- as an ASGI app --------------------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            answer = await self._exchange(scope, receive)
        except (Problem, Unavailable) as error:
            answer = self.refusal(error)
        except ConnectionResetError:
            self._metrics.refused("exchange-cut")  # nobody is there to be answered
            return
        headers = [(b"content-type", answer.media_type), (b"content-length", b"%d" % len(answer.body))]
        if answer.retry_after_s is not None:
            headers.append((b"retry-after", b"%d" % answer.retry_after_s))
        if answer.close:
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    async def _exchange(self, scope: Scope, receive: Receive) -> Answer:
        if scope["method"] != "POST":
            raise Problem("method-not-allowed", "exchanges are posted", status=405)
        length = self.declared(scope["headers"])
        address = scope["client"][0] if scope["client"] else ""
        self.admit(length, address)
        try:
            body = await self._body(receive, length)
            return self.answer(await self._outcome(body), address)
        finally:
            self.release(length)

    async def _outcome(self, body: bytes) -> Reply:
        waiter: asyncio.Future[Reply | Unavailable] = asyncio.get_running_loop().create_future()
        # Its connection may have gone by then, and the task with it.
        self.submit(body, lambda outcome: None if waiter.done() else waiter.set_result(outcome))
        outcome = await waiter
        if isinstance(outcome, Unavailable):
            raise outcome
        return outcome

    async def _body(self, receive: Receive, length: int) -> bytes:
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(BODY_SECONDS_MAX):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ConnectionResetError
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > length:
                        raise self.too_large()
                    if not message.get("more_body"):
                        return b"".join(parts)
        except TimeoutError:
            raise self.too_slow() from None


def _too_fast(wait_s: float) -> Problem:
    return Problem("rate-limited", "too many requests; come back later", retry_after_s=max(1, int(wait_s + 0.999)))
