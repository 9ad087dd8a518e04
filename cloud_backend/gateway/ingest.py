"""`POST /v1/exchange`: the one route that must be fast.

It is a raw ASGI handler inside the FastAPI app but before its middleware: at 1 KB per exchange the framework's own work
would be most of the cost. Under `http_protocol.ExchangeProtocol` the same steps run without ASGI in between. Order
matters: the size is checked before the body is read, the rate before it is parsed, the seal before anything in it is
believed; only then does it reach the appender.

A body of our media type is answered in frames, a refusal too: sealed where there is a session, so that a relay
cannot invent one. Anybody else gets a problem in JSON.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from starlette.types import Receive, Scope, Send

from cloud_backend.gateway.appender import Appender, Unavailable
from cloud_backend.gateway.exchange_bodies import Bodies, Body
from cloud_backend.gateway.faults import Faults
from cloud_backend.gateway.http_problems import MEDIA_TYPE as PROBLEM_TYPE
from cloud_backend.gateway.http_problems import Problem, status_of
from cloud_backend.gateway.metrics import Metrics
from cloud_backend.gateway.rate_limits import Allowance, Introductions
from cloud_backend.gateway.settings import Settings
from shared.identity import DeviceId
from shared.sync.receiver import Reply
from shared.sync.session import GatewaySessions
from shared.wire.envelope import is_envelope
from shared.wire.frame import claimed_source
from shared.wire.messages import bare_refusal

PATH = "/v1/exchange"
MEDIA_TYPE = b"application/vnd.resurge.exchange"
BODY_SECONDS_MAX = 30.0  # a phone on a bad link sends 5 MB in less; a slower one should send smaller exchanges
RETRY_AFTER_S = 5
MOVING = "gateway-moving"  # a partition has no owner yet, or its owner just went
MOVING_RETRY_S = 1
NOT_OURS = frozenset({"exchange-media-type", "method-not-allowed"})  # whoever this is does not read frames

GUESS = "device-unknown"  # the refusal of an introduction that failed


class Answer(NamedTuple):
    status: int
    body: bytes
    retry_after_s: int | None = None
    close: bool = False  # what is left of a refused body is not read, so nothing can follow it
    media_type: bytes = MEDIA_TYPE


Outcome = Reply | Unavailable | Answer  # an Answer: another gateway decided
OnOutcome = Callable[[Outcome], None]


class Elsewhere(Protocol):
    """Where there are several gateways: those that decide what is not this one's to decide."""

    def exchange_elsewhere(self, body: bytes, address: str, decided: OnOutcome) -> bool: ...
    def is_issued(self, body: bytes) -> bool: ...


class Ingest:
    """What becomes of one exchange, whoever carries it: look at its `check_head`, `submit` its body, `answer` it."""

    def __init__(
        self, appender: Appender, sessions: GatewaySessions, settings: Settings, metrics: Metrics, faults: Faults
    ) -> None:
        self._appender = appender
        self._sessions = sessions
        self._metrics = metrics
        self._faults = faults
        self.bodies = Bodies(
            sessions, body_bytes_max=settings.exchange_bytes_max, bytes_max=settings.in_flight_bytes_max
        )
        self._elsewhere: Elsewhere | None = None
        self._exchange_rate = settings.exchange_rate
        self._byte_rate = settings.byte_rate
        self._allowances: dict[DeviceId, Allowance] = {}  # of enrolled devices only, so it is bounded by the roster
        self._introductions = Introductions(settings.bad_hello_rate, settings.failure_rate)

    def check_head(self, headers: list[tuple[bytes, bytes]]) -> None:
        """Before a body is read: Problem for a foreign one, or one that announces more than is taken."""
        is_ours = False
        for name, value in headers:
            if name == b"content-length":
                if not value.isdigit() or len(value) > 19 or int(value) > self.bodies.body_bytes_max:
                    raise self.bodies.too_large()
            elif name == b"content-type":
                is_ours = value == MEDIA_TYPE
        if not is_ours:
            raise Problem("exchange-media-type", f"expected Content-Type {MEDIA_TYPE.decode()}")

    def share(self, elsewhere: Elsewhere) -> None:
        """This gateway is one of several."""
        self._elsewhere = elsewhere
        self.bodies.is_issued = elsewhere.is_issued

    def submit(self, body: bytes, address: str, decided: OnOutcome) -> None:
        """Hand in a whole body; `decided` hears its outcome once all it rests on is durable. Problem if its sender is
        too fast."""
        if self._elsewhere is None or not self._elsewhere.exchange_elsewhere(body, address, decided):
            self._take(body, address, decided)

    def decide(self, body: bytes, address: str, tell: Callable[[Answer], None]) -> None:
        """As `submit`, for a body that another gateway got and this one must decide."""

        def decided(outcome: Reply | Unavailable) -> None:
            tell(self.refusal(outcome) if isinstance(outcome, Unavailable) else self.answer(outcome, address))

        try:
            self._take(body, address, decided)
        except Problem as problem:
            tell(self.refusal(problem))

    def _take(self, body: bytes, address: str, decided: Callable[[Reply | Unavailable], None]) -> None:
        device: DeviceId | None = None
        try:
            if is_envelope(body):
                session = self._sessions.claimed(body)
                if session is not None:
                    device = session.device
                    self._charge(device, len(body))
            elif wait_s := self._introductions.wait_s(address, claimed_source(body), time.monotonic()):
                raise _too_fast(wait_s)
            self._appender.submit(body, decided)
        except Problem:
            raise
        except Exception as error:  # the door: whatever it was, it is this exchange's end and nobody else's
            self._faults.note(error, device, "an exchange")
            text = "this gateway failed at this exchange and kept nothing of it; keep it, its operator was told"
            raise Problem("gateway-fault", text, retry_after_s=RETRY_AFTER_S) from None

    def answer(self, reply: Reply, address: str) -> Answer:
        code = reply.refused
        if code is None:
            if reply.introduced:
                self._introductions.succeeded(reply.introduced, time.monotonic())
            return Answer(200, reply.body)
        self._metrics.refused(code)
        if code == GUESS:
            self._introductions.failed(address, reply.introduced, time.monotonic())
        return Answer(status_of(code), reply.body)

    def refusal(self, error: Problem | Unavailable) -> Answer:
        """In frames for whoever speaks them, else as a problem."""
        self._metrics.refused(error.code)
        if isinstance(error, Unavailable):
            text = "the log cannot take anything now; nothing of this exchange was kept, keep it and come back"
            if error.code == MOVING:
                text = "another gateway is about to look after this device; nothing was kept, keep it and come back"
                return Answer(status_of(error.code), bare_refusal(error.code, text), MOVING_RETRY_S)
            return Answer(status_of(error.code), bare_refusal(error.code, text), RETRY_AFTER_S)
        if error.code in NOT_OURS:
            return Answer(error.status, error.body(), error.retry_after_s, close=True, media_type=PROBLEM_TYPE.encode())
        body = bare_refusal(error.code, error.detail, retry_after_s=error.retry_after_s)
        return Answer(error.status, body, error.retry_after_s, close=True)

    def too_slow(self) -> Problem:
        text = f"the body took longer than {BODY_SECONDS_MAX:.0f} s; send smaller exchanges"
        return Problem("exchange-too-slow", text, status=408)

    def _charge(self, device: DeviceId, size: int) -> None:
        """The device whose session a body claims pays."""
        now = time.monotonic()
        allowance = self._allowances.get(device)
        if allowance is None:
            allowance = self._allowances[device] = Allowance(self._exchange_rate, self._byte_rate, now)
        if wait_s := allowance.take(size, self._exchange_rate, self._byte_rate, now):
            raise _too_fast(wait_s)

    def charge_claimed(self, session_id: bytes, size: int) -> None:
        """The device of an open session pays for a request; Problem if it is too fast."""
        session = self._sessions.claimed(session_id)
        if session is not None:
            self._charge(session.device, size)

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

    async def body_of(self, scope: Scope, receive: Receive) -> bytes:
        """The whole body of a small request that is posted; Problem when it is none."""
        self._check_scope(scope)
        body = Body(self.bodies)
        try:
            await self._read(body, receive)
            return body.whole()
        finally:
            body.release()

    def _check_scope(self, scope: Scope) -> None:
        if scope["method"] != "POST":
            raise Problem("method-not-allowed", "exchanges are posted", status=405)
        self.check_head(scope["headers"])

    async def _exchange(self, scope: Scope, receive: Receive) -> Answer:
        self._check_scope(scope)
        address: str = scope["client"][0] if scope["client"] else ""
        body = Body(self.bodies)
        try:
            await self._read(body, receive)
            waiter: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
            # Its connection may have gone by then, and the task with it.
            self.submit(body.whole(), address, lambda outcome: None if waiter.done() else waiter.set_result(outcome))
            outcome = await waiter
            if isinstance(outcome, Unavailable):
                raise outcome
            return outcome if isinstance(outcome, Answer) else self.answer(outcome, address)
        finally:
            body.release()

    async def _read(self, body: Body, receive: Receive) -> None:
        try:
            async with asyncio.timeout(BODY_SECONDS_MAX):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ConnectionResetError
                    body.add(message.get("body", b""))
                    if not message.get("more_body"):
                        return
        except TimeoutError:
            raise self.too_slow() from None


def _too_fast(wait_s: float) -> Problem:
    return Problem("rate-limited", "too many requests; come back later", retry_after_s=max(1, int(wait_s + 0.999)))
