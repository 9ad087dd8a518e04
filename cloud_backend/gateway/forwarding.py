"""Carries what devices sent from the gateway that got it to the one that owns their partition, and its answer back.

    gateway DEALER -- [number, kind, device's address, body] --> ROUTER owner
                   <-- [number, head, body] --

A body passes as it came: its seal is checked by the owner alone, and the device cannot tell that it went on. CURVE
hides it on the way. All gateways of a log have one key pair, made from the key that devices know them by, and let
nobody else in. What cannot be carried, or is not answered because its owner died, is refused with 503: the device sends
it again, and repeating an exchange changes nothing.
"""

from __future__ import annotations

import asyncio
import itertools
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import zmq
import zmq.asyncio
from zmq.auth.asyncio import AsyncioAuthenticator
from zmq.utils.monitor import recv_monitor_message
from zmq.utils.z85 import encode as z85

from cloud_backend.gateway.ingest import Answer
from cloud_backend.gateway.keys import Keys
from shared.errors import UsageError
from shared.wire.envelope import EXCHANGE_BYTES_MAX

EXCHANGE, WAIT = b"x", b"w"
ANSWER_S = {EXCHANGE: 25.0, WAIT: 60.0}  # longer than the owner takes at most
UNDER_WAY_MAX = 100_000  # requests that are not answered yet
UNSENT_MAX = 10_000  # messages that wait for one gateway to read them
CONNECT_MS = 3000
_HEAD = struct.Struct("<Hi?")  # status, seconds until a retry or -1, whether the connection ends
_NUMBER = struct.Struct("<Q")

OnAnswer = Callable[[Answer | None], None]  # None: it was not carried, or nobody answered


class _Asked(NamedTuple):
    owner: str
    until: float
    answered: OnAnswer


class Forwarding:
    """Used in the event loop only. `on_request` gets what other gateways send here: its kind, the device's address, the
    body, and whom to tell the answer."""

    def __init__(self, keys: Keys, bind: str, on_request: Callable[[bytes, str, bytes, OnAnswer], None]) -> None:
        self._on_request = on_request
        self._secret = z85(keys.secret_for(b"between gateways"))
        self._public = zmq.curve_public(self._secret)
        self._context = zmq.asyncio.Context()
        self._context.setsockopt(zmq.LINGER, 0)
        self._router = self._socket(zmq.ROUTER)
        self._router.curve_server = True
        self._authenticator: AsyncioAuthenticator | None = None
        try:
            self._router.bind(f"tcp://{bind}")
        except zmq.ZMQError as error:
            self._context.destroy()
            raise UsageError(
                f"cannot listen for other gateways on {bind!r} ({error}); give a free --gateways HOST:PORT of this "
                "machine",
                code="gateways-bind",
            ) from error
        self.address = self._router.get_string(zmq.LAST_ENDPOINT).removeprefix("tcp://")
        self._dealers: dict[str, zmq.asyncio.Socket] = {}
        self._numbers = itertools.count(1)
        self._asked: dict[int, _Asked] = {}
        self._tasks: dict[str, list[asyncio.Task[None]]] = {}  # by owner; "" are this gateway's own

    def start(self) -> None:
        self._authenticator = AsyncioAuthenticator(self._context)
        self._authenticator.start()
        self._authenticator.configure_curve_callback(domain="*", credentials_provider=self)
        self._tasks[""] = [asyncio.create_task(self._serve()), asyncio.create_task(self._expire())]

    def callback(self, domain: str, key: bytes) -> bool:  # noqa: ARG002 - what ZeroMQ's authenticator asks
        """Whether who has this key may connect."""
        return key == self._public

    def meet(self, owners: set[str]) -> None:
        """These are the others now: connect to who is new, answer for who is gone."""
        for owner in self._dealers.keys() - owners:
            for task in self._tasks.pop(owner):
                task.cancel()
            self._dealers.pop(owner).close()
            self._fail(owner)
        for owner in owners - self._dealers.keys():
            dealer = self._socket(zmq.DEALER)
            dealer.setsockopt(zmq.IMMEDIATE, 1)  # never kept for somebody who may not come
            dealer.curve_serverkey = self._public
            monitor = dealer.get_monitor_socket(zmq.EVENT_DISCONNECTED)
            dealer.connect(f"tcp://{owner}")
            self._dealers[owner] = dealer
            self._tasks[owner] = [
                asyncio.create_task(self._hear(dealer)),
                asyncio.create_task(self._watch(owner, monitor)),
            ]

    def forward(self, owner: str, kind: bytes, address: str, body: bytes, answered: OnAnswer) -> None:
        """Ask the owner; `answered` hears what it said, or None."""
        dealer = self._dealers.get(owner)
        if dealer is None or len(self._asked) >= UNDER_WAY_MAX:
            answered(None)
            return
        number = next(self._numbers)
        parts = [_NUMBER.pack(number), kind, address.encode(), body]
        sent: asyncio.Future[Any] = dealer.send_multipart(parts, flags=zmq.DONTWAIT)  # type: ignore[assignment]
        if sent.done() and sent.exception() is not None:
            answered(None)
            return
        self._asked[number] = _Asked(owner, time.monotonic() + ANSWER_S[kind], answered)

    async def close(self) -> None:
        tasks = [task for of_owner in self._tasks.values() for task in of_owner]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for owner in list(self._dealers):
            self._dealers.pop(owner).close()
            self._fail(owner)
        self._router.close()
        if self._authenticator is not None:
            self._authenticator.stop()
        self._context.destroy()

    def _socket(self, kind: int) -> zmq.asyncio.Socket:
        socket = self._context.socket(kind)
        socket.setsockopt(zmq.MAXMSGSIZE, 2 * EXCHANGE_BYTES_MAX)
        socket.setsockopt(zmq.SNDHWM, UNSENT_MAX)
        socket.setsockopt(zmq.RCVHWM, UNSENT_MAX)
        socket.setsockopt(zmq.CONNECT_TIMEOUT, CONNECT_MS)
        socket.curve_publickey = self._public
        socket.curve_secretkey = self._secret
        return socket

    async def _serve(self) -> None:
        while True:
            parts = await self._router.recv_multipart()
            if len(parts) == 5 and parts[2] in ANSWER_S:
                asker, number, kind, address, body = parts
                self._on_request(kind, address.decode("ascii", "replace"), body, self._teller(asker, number))

    def _teller(self, asker: bytes, number: bytes) -> OnAnswer:
        def tell(answer: Answer | None) -> None:
            if answer is None or self._router.closed:
                return
            again = -1 if answer.retry_after_s is None else answer.retry_after_s
            head = _HEAD.pack(answer.status, again, answer.close)
            parts = [asker, number, head, answer.media_type, answer.body]
            sent: asyncio.Future[Any] = self._router.send_multipart(parts, flags=zmq.DONTWAIT)  # type: ignore[assignment]
            if sent.done():
                sent.exception()  # who asked is gone, or reads nothing: it answers for itself

        return tell

    async def _hear(self, dealer: zmq.asyncio.Socket) -> None:
        while True:
            number, head, media_type, body = await dealer.recv_multipart()
            asked = self._asked.pop(_NUMBER.unpack(number)[0], None)
            if asked is not None:
                status, again, close = _HEAD.unpack(head)
                asked.answered(Answer(status, body, None if again < 0 else again, close, media_type))

    async def _watch(self, owner: str, monitor: zmq.asyncio.Socket) -> None:
        """Whoever asked one that is no longer connected is told at once."""
        while True:
            await recv_monitor_message(monitor)
            self._fail(owner)

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            now = time.monotonic()
            for number in [number for number, asked in self._asked.items() if asked.until < now]:
                self._asked.pop(number).answered(None)

    def _fail(self, owner: str) -> None:
        for number in [number for number, asked in self._asked.items() if asked.owner == owner]:
            with suppress(KeyError):
                self._asked.pop(number).answered(None)
