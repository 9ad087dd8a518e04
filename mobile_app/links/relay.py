"""Exchanges over ZeroMQ through a relay: the phone's side, and the relay itself.

Theory of operation. A phone without a way to the gateway sends the very body it would have posted to a relay
(another node that has one), and gets back the very answer. Bodies are authenticated end to end, not encrypted:
a relay keeps nothing and cannot alter, forge or reuse a byte unnoticed, but whoever runs it **can read** the
readings that pass through. It can also drop or delay them, so it may as well be killed at any moment; phones only
see an exchange without an answer, and repeat it.

    phone DEALER  -- [id, route, body] -->  ROUTER relay  -- HTTP POST body --> gateway
    phone DEALER  <-- [id, status, answer] --  ROUTER relay <-- answer ----------

`id` numbers the phone's question, so a late answer to an earlier one is not taken for this one's. `status` is in
decimal: the HTTP status of an enrolment, 200 for any answer to an exchange, 0 when the gateway gave none. One thread
owns the ROUTER socket; a few workers do the blocking HTTP. Every queue is bounded, in messages and in bytes: one
question of a phone waits at a time, `WAITING_BYTES_MAX` of all of them together; beyond it the phone is told at
once that its exchange was not carried. Answers that a phone does not read are dropped.
"""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Callable

from mobile_app.links.link import REPLY_BYTES_MAX, Link, LinkDown
from shared.errors import UsageError
from shared.wire.envelope import EXCHANGE_BYTES_MAX

try:
    import zmq
except ImportError:  # HTTP alone is enough for a device; only relays and those behind one need ZeroMQ
    zmq = None  # type: ignore[assignment]

ROUTES = (b"exchange", b"enrol")
BODY_BYTES_MAX = EXCHANGE_BYTES_MAX  # no larger one is read by the gateway
ANSWER_TIMEOUT_MS = 20_000  # more than the relay needs to give up on the gateway
WAITING_MAX = 256
WAITING_BYTES_MAX = 32 * 1024 * 1024
UNREAD_MAX = 2  # messages of one phone inside ZeroMQ, each way: it has one question outstanding
WORKERS = 4
UNREACHABLE = 0
POLL_MS = 200
CLOSE_S = 0.5


def _zmq_or_refuse() -> None:
    if zmq is None:
        raise UsageError(
            "ZeroMQ is not installed here, so there are no relays; `pip install pyzmq`, or use the gateway directly",
            code="relay-zmq",
        )


class RelayLink:
    """The phone's side: the same two calls as the gateway link, carried by a relay at an address like tcp://HOST:PORT."""

    def __init__(self, address: str, *, timeout_ms: int = ANSWER_TIMEOUT_MS) -> None:
        _zmq_or_refuse()
        self._address = address
        self._timeout_ms = timeout_ms
        self._context = zmq.Context()
        self._numbers = itertools.count(1)
        self._socket = self._connect()

    def _connect(self) -> zmq.Socket[bytes]:
        socket = self._context.socket(zmq.DEALER)
        socket.setsockopt(zmq.LINGER, 0)  # an unsent body is in the spool; nothing is lost by dropping it here
        socket.setsockopt(zmq.MAXMSGSIZE, REPLY_BYTES_MAX)
        socket.setsockopt(zmq.IMMEDIATE, 1)  # no peer: say so, do not queue
        try:
            socket.connect(self._address)
        except zmq.ZMQError as error:
            socket.close()
            self._context.term()
            raise UsageError(
                f"relay address {self._address!r} is not usable; write tcp://HOST:PORT", code="relay-address"
            ) from error
        return socket

    def exchange(self, body: bytes) -> bytes:
        _, answer = self._ask(b"exchange", body)
        return answer

    def enrol(self, request: bytes) -> tuple[int, bytes]:
        return self._ask(b"enrol", request)

    def _ask(self, route: bytes, body: bytes) -> tuple[int, bytes]:
        number = b"%d" % next(self._numbers)
        if not self._socket.poll(self._timeout_ms // 6, zmq.POLLOUT):
            raise LinkDown("the relay cannot be reached")
        try:
            self._socket.send_multipart([number, route, body], flags=zmq.NOBLOCK)
        except zmq.Again:
            raise LinkDown("the relay cannot be reached") from None
        while self._socket.poll(self._timeout_ms, zmq.POLLIN):
            parts = self._socket.recv_multipart()
            if len(parts) == 3 and parts[0] == number and parts[1].isdigit():
                if int(parts[1]) == UNREACHABLE:
                    raise LinkDown("the relay cannot reach the gateway")
                return int(parts[1]), parts[2]
        self.reset()  # an answer that comes later must not be met by the next question
        raise LinkDown("the relay did not answer in time")

    def reset(self) -> None:
        self._socket.close()
        self._socket = self._connect()

    def close(self) -> None:
        self._socket.close()
        self._context.term()


class Relay:
    """Carries exchanges of many phones to one gateway."""

    def __init__(self, bind: str, open_link: Callable[[], Link], *, workers: int = WORKERS) -> None:
        _zmq_or_refuse()
        self._context = zmq.Context()
        self._router = self._context.socket(zmq.ROUTER)
        self._router.setsockopt(zmq.LINGER, 0)
        self._router.setsockopt(zmq.MAXMSGSIZE, BODY_BYTES_MAX)
        self._router.setsockopt(zmq.RCVHWM, UNREAD_MAX)
        self._router.setsockopt(zmq.SNDHWM, UNREAD_MAX)
        try:
            self._router.bind(bind)
        except zmq.ZMQError as error:
            self._router.close()
            self._context.term()
            raise UsageError(
                f"cannot listen on {bind!r} ({error}); choose another --bind tcp://HOST:PORT", code="relay-bind"
            ) from error
        self.address = str(
            self._router.get_string(zmq.LAST_ENDPOINT)
        )  # with the port chosen when --bind named port 0 or *
        self._wake_in = self._context.socket(zmq.PULL)
        self._wake_in.setsockopt(zmq.RCVHWM, UNREAD_MAX)
        self._wake_in.bind("inproc://answers")
        self._open_link = open_link
        self._questions: queue.Queue[list[bytes] | None] = queue.Queue(WAITING_MAX)
        self._workers = [threading.Thread(target=self._work, daemon=True) for _ in range(workers)]
        self._waiting: dict[bytes, int] = {}  # bytes of the question of each phone that waits for its answer
        self.waiting_bytes = 0
        self.carried = 0
        self.failed = 0

    def run(self, stop: Callable[[], bool]) -> None:
        """Carry until stop() says so; it is asked several times a second."""
        for worker in self._workers:
            worker.start()
        poller = zmq.Poller()
        poller.register(self._router, zmq.POLLIN)
        poller.register(self._wake_in, zmq.POLLIN)
        while not stop():
            ready = dict(poller.poll(POLL_MS))
            if self._wake_in in ready:
                phone, number, status, answer = self._wake_in.recv_multipart()
                self.waiting_bytes -= self._waiting.pop(phone, 0)
                self.carried += int(status != b"0")
                self.failed += int(status == b"0")
                self._router.send_multipart([phone, number, status, answer])
            if self._router in ready:
                self._take(self._router.recv_multipart())
        self._close()

    def _take(self, parts: list[bytes]) -> None:
        if len(parts) != 4 or parts[2] not in ROUTES or len(parts[1]) > 20:
            return  # not one of ours; answering would only help whoever probes
        phone, number, _, body = parts
        if phone in self._waiting or self.waiting_bytes + len(body) > WAITING_BYTES_MAX or self._questions.full():
            self._router.send_multipart([phone, number, b"%d" % UNREACHABLE, b""])
            return
        self._waiting[phone] = len(body)
        self.waiting_bytes += len(body)
        self._questions.put_nowait(parts)

    def _work(self) -> None:
        link = self._open_link()
        answers = self._context.socket(zmq.PUSH)
        answers.setsockopt(zmq.LINGER, 0)
        answers.setsockopt(zmq.SNDHWM, UNREAD_MAX)
        answers.connect("inproc://answers")
        while (parts := self._questions.get()) is not None:
            phone, number, route, body = parts
            try:
                if route == b"enrol":
                    status, answer = link.enrol(body)
                else:
                    status, answer = 200, link.exchange(body)
            except Exception:  # LinkDown mostly; whatever it was, the phone must hear that nothing was carried
                link.reset()
                status, answer = UNREACHABLE, b""
            answers.send_multipart([phone, number, b"%d" % status, answer])
        answers.close()
        link.close()

    def _close(self) -> None:
        """Stop the workers. One in the middle of a slow HTTP call is a daemon and ends with the process."""
        while not self._questions.empty():
            self._questions.get_nowait()
        for _ in self._workers:
            self._questions.put_nowait(None)
        end = time.monotonic() + CLOSE_S
        for worker in self._workers:
            worker.join(timeout=max(0.0, end - time.monotonic()))
        self._wake_in.close()
        self._router.close()
        if not any(worker.is_alive() for worker in self._workers):
            self._context.term()
