"""Exchanges between nodes over ZeroMQ: one thread owns all sockets, the node's loop owns everything else.

    node DEALER -- [number, body] --> ROUTER node       an exchange, by CURVE to that node's key
    node DEALER <-- [number, body] -- ROUTER node       its answer

With a third part it is passed on between two nodes whose own lane is broken (`shared/hosting/passing.py`): the other
end of a question, nothing in an answer. To an end that has not called this node of late it goes as any exchange does,
if that can be called.

CURVE hides what passes and lets in only the keys of the roster; who speaks, and what it may say, is decided by the
session inside the body. `number` tells an answer to a question that still counts from a late one. Queues are bounded:
what does not fit is dropped, and is sent again like everything that was not answered. Bodies pass without a copy.
"""

from __future__ import annotations

import contextlib
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from shared.errors import UsageError
from shared.hosting.messages import Answer, Ask, Unreachable
from shared.hosting.passing import NODE_BYTES_MAX, OPEN_MAX, Passing
from shared.plan.deployment import Peer
from shared.sync.receiver import Arrival, Reply
from shared.wire.envelope import EXCHANGE_BYTES_MAX

try:
    import zmq
    from zmq.auth.thread import ThreadAuthenticator
except ImportError:  # only nodes of a fleet need ZeroMQ
    zmq = None  # type: ignore[assignment]

WAITING_MAX = 1024
UNREAD_MAX = 16
NUMBER_BYTES_MAX = 20
POLL_MS = 500
UNANSWERED_MAX = 3
# Waiting for the network's own patience would take many seconds after a link is back: a packet that was lost is sent
# again at growing distances.
CONNECT_MS = 1_000
UNACKNOWLEDGED_MS = 3_000
CLOSE_S = 2.0
CALLED_S = 10.0  # a node that coordinates is called every few seconds by all others


@dataclass(frozen=True, slots=True)
class CurveKeys:
    """This node's CURVE key pair, as z85 text."""

    public: str
    secret: str

    @staticmethod
    def generate() -> CurveKeys:
        _zmq_or_refuse()
        public, secret = zmq.curve_keypair()
        return CurveKeys(public.decode(), secret.decode())


def _zmq_or_refuse() -> None:
    if zmq is None or not zmq.has("curve"):
        raise UsageError(
            "nodes of a fleet speak ZeroMQ with CURVE, which is not installed here; `pip install pyzmq`",
            code="peers-zmq",
        )


class Way(NamedTuple):
    """Of a question that a node passed on: its answer goes back by way of that."""

    by: str
    number: bytes


class Renew(NamedTuple):
    """Connect anew to this node: its connection stands and carries nothing."""

    node: str


class PeerLinks:
    """Carries exchanges to and from the nodes of a fleet. `arrivals` holds what came."""

    def __init__(
        self, bind: str, keys: CurveKeys, peers: Iterable[Peer], on_arrival: Callable[[], None],
    ) -> None:  # fmt: skip
        _zmq_or_refuse()
        self.passing: Passing[bytes] = Passing()  # what this node passes on between others
        self._passed_on: dict[bytes, tuple[bytes, bytes]] = {}  # by number, of that what it calls the other end for
        self._called_at: dict[str, float] = {}  # by node
        self._urgent: dict[bytes, str] = {}  # by number, who was asked by way of another
        self._keys = keys
        self._on_arrival = on_arrival
        self._context = zmq.Context()
        self.strangers = 0  # connections that were refused
        self.meet(peers)  # before anybody can connect: who is refused once does not try again
        self._authenticator = ThreadAuthenticator(self._context)
        self._authenticator.start()
        self._authenticator.configure_curve_callback(domain="*", credentials_provider=self)
        self._router = self._socket(zmq.ROUTER)
        self._router.curve_server = True
        try:
            self._router.bind(bind)
        except zmq.ZMQError as error:
            self._router.close()
            self._authenticator.stop()
            self._context.term()
            raise UsageError(
                f"cannot listen on {bind!r} ({error}); write another address in the fleet's file", code="peers-bind"
            ) from error
        self.address = str(self._router.get_string(zmq.LAST_ENDPOINT))
        self._orders: deque[Ask | Reply | Renew | None] = deque()  # from the loop; None: end
        self._is_nudged = False  # the thread will look at the orders
        self._nudged = self._context.socket(zmq.PAIR)
        self._nudged.bind("inproc://orders")
        self._nudge = self._context.socket(zmq.PAIR)
        self._nudge.connect("inproc://orders")
        self._dealers: dict[str, zmq.Socket[bytes]] = {}
        self._asked: dict[str, list[bytes]] = {}  # numbers of the questions that a node may still answer
        self._unanswered: dict[str, int] = {}  # questions to a node since it last answered, but for those that follow
        self._numbers = 0
        self.arrivals: queue.Queue[Arrival | Answer | Unreachable] = queue.Queue(WAITING_MAX)
        self.dropped = 0
        self._thread = threading.Thread(target=self._carry, name="peers", daemon=True)
        self._thread.start()

    def _socket(self, kind: int) -> zmq.Socket[bytes]:
        socket = self._context.socket(kind)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.MAXMSGSIZE, EXCHANGE_BYTES_MAX)
        socket.setsockopt(zmq.RCVHWM, UNREAD_MAX)
        socket.setsockopt(zmq.SNDHWM, UNREAD_MAX)
        socket.setsockopt(zmq.CONNECT_TIMEOUT, CONNECT_MS)
        socket.setsockopt(zmq.TCP_MAXRT, UNACKNOWLEDGED_MS)
        socket.curve_publickey = self._keys.public.encode()
        socket.curve_secretkey = self._keys.secret.encode()
        return socket

    def callback(self, domain: str, key: bytes) -> bool:  # noqa: ARG002 - what ZeroMQ's authenticator asks
        """Whether who has this key may connect."""
        known = key.decode("ascii", "replace") in self._allowed
        self.strangers += not known
        return known

    def meet(self, peers: Iterable[Peer]) -> None:
        """These are the nodes of the fleet; others are not let in from now on."""
        found = {peer.node: peer for peer in peers}
        self._allowed = frozenset(peer.curve_key for peer in found.values())
        self._peers = found

    def send(self, message: Ask | Reply) -> None:
        """Hand a message to the thread that owns the sockets. For the node's loop alone."""
        self._hand_over(message)

    def renew(self, nodes: Iterable[str]) -> None:
        """Connect anew to these nodes, with their next exchange. For the node's loop alone."""
        for node in nodes:
            self._hand_over(Renew(node))

    def _hand_over(self, order: Ask | Reply | Renew | None) -> None:
        """A body passes as it is; only the nudge behind it goes through a socket, as the thread waits for those."""
        self._orders.append(order)
        if not self._is_nudged:  # else it looks after this, as it says so first
            self._is_nudged = True
            with contextlib.suppress(zmq.Again):  # as many nudges as fit are unread: it will look
                self._nudge.send(b"", flags=zmq.NOBLOCK)

    def close(self) -> None:
        self._hand_over(None)
        self._thread.join(timeout=CLOSE_S)
        self._nudge.close()
        self._authenticator.stop()
        self._context.destroy(linger=0)

    # --- the thread ------------------------------------------------------------------------------------------

    def _carry(self) -> None:
        poller = zmq.Poller()
        poller.register(self._nudged, zmq.POLLIN)
        poller.register(self._router, zmq.POLLIN)
        ends = False
        while not ends:
            ready = dict(poller.poll(POLL_MS))
            if self._nudged in ready:
                for _ in self._waiting(self._nudged):
                    pass
            self._is_nudged = False
            while self._orders:
                order = self._orders.popleft()
                if order is None:
                    ends = True
                    break
                self._carry_out(order, poller)
            if self._router in ready:
                for parts in self._waiting(self._router):
                    self._asked_here(parts, poller)
            for node, dealer in list(self._dealers.items()):
                if dealer in ready:
                    for parts in self._waiting(dealer):
                        self._answered(node, parts)
        for socket in (*self._dealers.values(), self._router, self._nudged):
            socket.close()

    def _asked_here(self, parts: list[zmq.Frame], poller: zmq.Poller) -> None:
        if len(parts) not in (3, 4) or len(parts[1]) > NUMBER_BYTES_MAX:
            return
        connection, number = parts[0].bytes, parts[1].bytes
        key = str(parts[1].get("User-Id"))  # as CURVE found it
        node = next((peer.node for peer in self._peers.values() if peer.curve_key == key), "")
        self.passing.called(node, connection)
        self._called_at[node] = time.monotonic()
        if len(parts) == 3:
            self._arrived(Arrival((connection, number), parts[2].buffer))
        elif not parts[3]:
            passed = self.passing.answer(node, int(number) if number.isdigit() else 0)
            if passed is not None and isinstance(passed.number, bytes):
                self._answer([passed.connection, passed.number, parts[2], b""])
        else:
            self._pass_on(node, connection, number, parts, poller)

    def _pass_on(self, node: str, connection: bytes, number: bytes, parts: list[zmq.Frame], poller: zmq.Poller) -> None:
        other = parts[3].bytes.decode("ascii", "replace") if len(parts[3]) <= NODE_BYTES_MAX else ""
        if node in self._peers and other in self._peers and not self._calls(other):
            dealer = self._dealer(other, poller)
            if dealer is not None:
                own = self._number()
                while len(self._passed_on) >= OPEN_MAX:
                    del self._passed_on[next(iter(self._passed_on))]
                self._passed_on[own] = connection, number
                with contextlib.suppress(zmq.Again):
                    dealer.send_multipart([own, parts[2]], flags=zmq.NOBLOCK, copy=False)
                return
        passed = self.passing.question(node, connection, number, other, self._peers)
        if passed is not None:
            self._answer([passed.connection, b"%d" % int(passed.number), parts[2], passed.other.encode()])

    def _calls(self, node: str) -> bool:
        """Whether a node has called this one a moment ago: the connection that it made still stands."""
        return time.monotonic() < self._called_at.get(node, -math.inf) + CALLED_S

    def _answer(self, parts: list[bytes | zmq.Frame]) -> None:
        with contextlib.suppress(zmq.ZMQError):  # who asked is gone
            self._router.send_multipart(parts, flags=zmq.NOBLOCK, copy=False)

    @staticmethod
    def _waiting(socket: zmq.Socket[bytes]) -> Iterator[list[zmq.Frame]]:
        """What is there of a socket now, where it lies; no more than fits its queue, as the others want their turn."""
        with contextlib.suppress(zmq.Again):
            for _ in range(UNREAD_MAX):
                yield socket.recv_multipart(flags=zmq.NOBLOCK, copy=False)

    def _carry_out(self, order: Ask | Reply | Renew, poller: zmq.Poller) -> None:
        if isinstance(order, Renew):
            self._drop(order.node, poller)
            return
        if isinstance(order, Reply):
            if isinstance(order.handle, Way):
                if (dealer := self._dealers.get(order.handle.by)) is not None:
                    with contextlib.suppress(zmq.Again):
                        dealer.send_multipart([order.handle.number, order.body, b""], flags=zmq.NOBLOCK, copy=False)
            elif isinstance(order.handle, tuple):
                self._answer([*order.handle, order.body])
            return
        node = order.by or order.node
        if self._unanswered.get(node, 0) >= UNANSWERED_MAX and node in self._dealers:
            # It may have refused us before it knew us, and ZeroMQ does not ask again: connect anew.
            self._drop(node, poller)
        dealer = self._dealer(node, poller)
        if dealer is None:
            self._fail(order)
            return
        number = self._number()
        parts = [number, order.body]
        if order.by:
            if not order.follows:
                self._urgent = {asked: of for asked, of in self._urgent.items() if of != order.node}
            self._urgent[number] = order.node
            parts.append(order.node.encode())
        elif order.follows:
            self._asked[node].append(number)
        else:
            self._asked[node] = [number]
            self._unanswered[node] = self._unanswered.get(node, 0) + 1
        try:
            dealer.send_multipart(parts, flags=zmq.NOBLOCK, copy=False)
        except zmq.Again:
            self._fail(order)

    def _dealer(self, node: str, poller: zmq.Poller) -> zmq.Socket[bytes] | None:
        """The connection to a node; None where nobody can call it."""
        dealer, peer = self._dealers.get(node), self._peers.get(node)
        if dealer is None and peer is not None and peer.addresses:
            dealer = self._dealers[node] = self._socket(zmq.DEALER)
            dealer.curve_serverkey = peer.curve_key.encode()
            for address in peer.addresses:
                dealer.connect(address)
            poller.register(dealer, zmq.POLLIN)
        return dealer

    def _number(self) -> bytes:
        self._numbers += 1
        return b"%d" % self._numbers

    def _fail(self, order: Ask) -> None:
        if order.body:  # a knock that nobody hears says nothing of the lane that is in use
            self._arrived(Unreachable(order.node))

    def _drop(self, node: str, poller: zmq.Poller) -> None:
        dealer = self._dealers.pop(node, None)
        if dealer is not None:
            poller.unregister(dealer)
            dealer.close()
        self._unanswered[node] = 0

    def _answered(self, node: str, parts: list[zmq.Frame]) -> None:
        if len(parts) == 3 and len(parts[0]) <= NUMBER_BYTES_MAX:
            if len(parts[2]):
                self._arrived(Arrival(Way(node, parts[0].bytes), parts[1].buffer))
            elif (asked_node := self._urgent.pop(parts[0].bytes, None)) is not None:
                self._arrived(Answer(asked_node, parts[1].buffer, urgent=True))
            return
        if len(parts) == 2 and (asker := self._passed_on.pop(parts[0].bytes, None)) is not None:
            self.passing.passed += 1
            self._answer([*asker, parts[1], b""])
            return
        asked = self._asked.get(node, [])
        if len(parts) == 2 and (number := parts[0].bytes) in asked:
            asked.remove(number)
            self._unanswered[node] = 0
            self._arrived(Answer(node, parts[1].buffer))

    def _arrived(self, message: Arrival | Answer | Unreachable) -> None:
        try:
            self.arrivals.put_nowait(message)
        except queue.Full:
            self.dropped += 1
            return
        self._on_arrival()
