"""`POST /v1/wait`: devices that wait to hear that something came for them.

A device that is connected and awake would otherwise learn of a result at its next exchange, which may be half a minute
away. A request to wait is kept open without a thread, a task or a timer: it is an entry in a table, and one look at the
results' last change, a few times a second, answers those it concerns. Whoever has something for another node that is
passed on here has that one answered at once. So what fifty thousand idle phones cost is their
connections. One wait per device counts: a second one ends the first. Beyond `waits_max` a device is told to come back
later, and hears with its next exchange, as it would without all this.

Order of the table is order of asking, and all may wait equally long: who waited long enough is at its front.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from starlette.types import Receive, Scope, Send

from cloud_backend.gateway.http_problems import Problem, status_of
from cloud_backend.gateway.ingest import Answer, Ingest
from shared.errors import PeerError
from shared.identity import DeviceId
from shared.sync.session import GatewaySessions
from shared.wire.messages import bare_refusal
from shared.wire.waiting import NEWS, NO_NEWS, claimed_session

PATH = "/v1/wait"
HOLD_S = 50.0  # proxies on the way give up after a minute
BUSY_RETRY_S = 60

OnAnswer = Callable[[Answer], None]


class Downlink(Protocol):
    def has_results(self, device: DeviceId, after: int) -> bool: ...
    def has_passed(self, device: DeviceId) -> bool: ...


class Elsewhere(Protocol):
    """Where there are several gateways: those that know what is not this one's to know."""

    def wait_elsewhere(self, body: bytes, decided: OnAnswer) -> bool: ...


class Waits:
    """Used in the event loop only."""

    def __init__(
        self, sessions: GatewaySessions, downlink: Downlink, ingest: Ingest, *, waits_max: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._sessions = sessions
        self._downlink = downlink
        self._ingest = ingest
        self._clock = clock
        self.waits_max = waits_max
        self._held: dict[DeviceId, tuple[float, OnAnswer]] = {}
        self.answered = 0  # with news
        self._elsewhere: Elsewhere | None = None

    def __len__(self) -> int:
        return len(self._held)

    def share(self, elsewhere: Elsewhere) -> None:
        """This gateway is one of several."""
        self._elsewhere = elsewhere

    def hold(self, body: bytes, decided: OnAnswer) -> DeviceId | None:
        """Answer this request now, or keep it until there is something to say; the device while it is kept here."""
        if self._elsewhere is not None and self._elsewhere.wait_elsewhere(body, decided):
            return None
        return self.hold_here(body, decided)

    def hold_here(self, body: bytes, decided: OnAnswer) -> DeviceId | None:
        """As `hold`, where it is known that no other gateway must answer."""
        now = self._clock()
        try:
            self._ingest.charge_claimed(claimed_session(body), len(body))
            session, through = self._sessions.waiter(body, now)
        except PeerError as error:
            decided(Answer(status_of(error.code), bare_refusal(error.code, error.message)))
            return None
        except Problem as problem:
            decided(self._ingest.refusal(problem))
            return None
        device = session.device
        self._answer(device, NO_NEWS)
        if self._downlink.has_results(device, through) or self._downlink.has_passed(device):
            decided(Answer(200, NEWS))
        elif len(self._held) >= self.waits_max:
            decided(self._ingest.refusal(Problem("gateway-busy", "too many wait already", retry_after_s=BUSY_RETRY_S)))
        else:
            self._held[device] = (now + HOLD_S, decided)
            return device
        return None

    def gone(self, device: DeviceId, decided: OnAnswer) -> None:
        """Its connection broke."""
        held = self._held.get(device)
        if held is not None and held[1] is decided:
            del self._held[device]

    def news(self, devices: Iterable[DeviceId]) -> None:
        """Something is there for these."""
        for device in devices:
            self.answered += self._answer(device, NEWS)

    def expire(self) -> None:
        """Let those go who waited long enough; they ask again."""
        now = self._clock()
        while self._held:
            device, (until, _) = next(iter(self._held.items()))
            if until > now:
                return
            self._answer(device, NO_NEWS)

    def release(self) -> None:
        """Let everybody go: the gateway ends."""
        for device in list(self._held):
            self._answer(device, NO_NEWS)

    def _answer(self, device: DeviceId, said: bytes) -> bool:
        held = self._held.pop(device, None)
        if held is None:
            return False
        held[1](Answer(200, said))
        return True

    # -- as an ASGI app, for servers other than the gateway's own -----------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        waiter: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def decided(answer: Answer) -> None:
            if not waiter.done():
                waiter.set_result(answer)

        try:
            body = await self._ingest.body_of(scope, receive)
        except Problem as problem:
            answer = self._ingest.refusal(problem)
        except ConnectionResetError:
            return
        else:
            device = self.hold(body, decided)
            gone = asyncio.ensure_future(_disconnected(receive))
            either: tuple[asyncio.Future[Any], ...] = (waiter, gone)
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            gone.cancel()
            if not waiter.done():
                if device is not None:
                    self.gone(device, decided)
                return
            answer = waiter.result()
        headers = [(b"content-type", answer.media_type), (b"content-length", b"%d" % len(answer.body))]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
