"""Datagrams to the other nodes of a region, beside the exchanges of `peers.py`: one thread listens, the loop sends.

A node's UDP port has the number of the TCP port where it takes exchanges. Three ways lead there, the cheapest first:
the subnet's broadcast address, a multicast group, and to each node by itself. Which of them a network lets through is
found out: a node that meets others probes all ways, and who hears a probe says so.

    "RP" | version u8 | probe 1, heard 2 | way u8 | 0 u8 | sender's node id 16 B | nonce 8 B

Nothing that comes here is believed: blocks count by their hash, and a false answer to a probe only makes its own node
hear less than it could. What does not fit the queue is dropped and counted, so a flood keeps no exchange waiting.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from enum import IntEnum

from shared.hosting.messages import Datagram
from shared.plan.deployment import Peer
from shared.region.broadcast import Broadcast
from shared.wire.broadcast import BLOCK_BYTES, DATAGRAM_BYTES

GROUP = "239.255.82.83"  # of those that stay within a site
EVERYBODY = "255.255.255.255"
WAITING_MAX = 4096
BUFFER_BYTES = 1 << 20
PROBES = 5
PROBE_S = 0.3
POLL_S = 0.1
REST_S = 1.0  # while nothing is to be found out: a phone that only listens should sleep
CLOSE_S = 2.0
_PROBE = struct.Struct("<2sBBBB16s8s")
_MAGIC, _VERSION, _ASKS, _HEARD = b"RP", 1, 1, 2


class Way(IntEnum):
    BROADCAST = 0
    MULTICAST = 1
    EACH = 2


class BroadcastLink:
    """Carries datagrams to and from the nodes of a region. `arrivals` holds what came."""

    def __init__(self, address: str, node: str, on_arrival: Callable[[], None]) -> None:
        """`address` is where this node takes exchanges, "tcp://host:port". OSError where that port is not free."""
        self._host, self._port = _place(address)
        self._node, self._on_arrival = bytes.fromhex(node), on_arrival
        self._nonce = os.urandom(8)
        self._ears = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._mouth = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._open()
        except OSError:
            self._close_sockets()
            raise
        self._peers: dict[str, tuple[str, int]] = {}
        self._heard: dict[str, set[Way]] = {}  # on which ways a node hears this one
        self._probes_left = 0
        self._probe_at = 0.0
        self.arrivals: deque[Datagram] = deque()
        self.dropped = 0  # what came faster than it was read
        self._ends = False
        self._thread = threading.Thread(target=self._listen, name="broadcast", daemon=True)
        self._thread.start()

    def _open(self) -> None:
        own = "" if self._host == "0.0.0.0" else self._host  # noqa: S104 - as its TCP port is
        self._ears.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        self._ears.bind(("", self._port))  # broadcasts do not come to a socket that has an address of its own
        with contextlib.suppress(OSError):  # no multicast here: a probe will tell
            member = socket.inet_aton(GROUP) + socket.inet_aton(own or "0.0.0.0")  # noqa: S104
            self._ears.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
        self._mouth.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        self._mouth.bind((own, 0))  # so that the system takes the interface with this address
        for each in (self._ears, self._mouth):
            each.setblocking(False)
        self._own = self._mouth.getsockname()

    def meet(self, peers: Iterable[Peer]) -> None:
        """These are the nodes of the region: find out how they are reached."""
        places = {peer.node: _place(peer.addresses[0]) for peer in peers if peer.addresses}
        places.pop(self._node.hex(), None)
        # Names are not asked for: that may take long. Such a node gets what it should in exchanges.
        found = {node: place for node, place in places.items() if _is_numeric(place[0])}
        if found != self._peers:
            self._peers = found
            self._heard = {node: ways for node, ways in self._heard.items() if node in found}
            self._probe_at, self._probes_left = 0.0, PROBES

    @property
    def is_open(self) -> bool:
        """Whether datagrams reach anybody."""
        return bool(self._heard)

    def way(self, nodes: Iterable[str]) -> Way:
        """The cheapest on which all of these hear."""
        heard = [self._heard.get(node, set()) for node in nodes]
        for way in (Way.BROADCAST, Way.MULTICAST):
            if len(heard) > 1 and all(way in each for each in heard):
                return way
        return Way.EACH

    def send(self, message: Broadcast) -> None:
        """Send a datagram to these nodes. One that the system has no room for is lost, as others are on the way."""
        self._send(message.body, message.nodes, self.way(message.nodes))

    def _send(self, body: bytes, nodes: Iterable[str], way: Way) -> None:
        places = {self._peers[node] for node in nodes if node in self._peers}
        if way is not Way.EACH:
            everybody = EVERYBODY if way is Way.BROADCAST else GROUP
            places = {(everybody, port) for _, port in places}
        for place in places:
            with contextlib.suppress(OSError):
                self._mouth.sendto(body, place)

    def close(self) -> None:
        self._ends = True
        self._thread.join(timeout=CLOSE_S)
        self._close_sockets()

    def _close_sockets(self) -> None:
        self._ears.close()
        self._mouth.close()

    # --- the thread ------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._ears, selectors.EVENT_READ)
            selector.register(self._mouth, selectors.EVENT_READ)
            while not self._ends:
                for key, _ in selector.select(POLL_S if self._probes_left else REST_S):
                    self._read(key.fileobj)  # type: ignore[arg-type]
                if self._probes_left and time.monotonic() >= self._probe_at:
                    self._probe()

    def _probe(self) -> None:
        self._probes_left -= 1
        self._probe_at = time.monotonic() + PROBE_S
        for way in Way:
            silent = [node for node in self._peers if way not in self._heard.get(node, ())]
            if silent:
                self._send(self._probe_body(_ASKS, way), silent, way)

    def _probe_body(self, kind: int, way: int, nonce: bytes = b"") -> bytes:
        return _PROBE.pack(_MAGIC, _VERSION, kind, way, 0, self._node, nonce or self._nonce)

    def _read(self, ready: socket.socket) -> None:
        """What is there of a socket now, no more of it than fits the queue."""
        for _ in range(WAITING_MAX):
            try:
                body, source = ready.recvfrom(DATAGRAM_BYTES + BLOCK_BYTES + 1)
            except OSError:  # nothing more, or an answer that a port is closed
                return
            if source[1] == self._own[1] and self._own[0] in (source[0], "0.0.0.0"):  # noqa: S104
                continue  # who broadcasts hears itself
            if len(body) == _PROBE.size and body.startswith(_MAGIC):
                self._probed(body, source)
            elif len(self.arrivals) >= WAITING_MAX:
                self.dropped += 1
            else:
                self.arrivals.append(Datagram(body))
                self._on_arrival()

    def _probed(self, body: bytes, source: tuple[str, int]) -> None:
        _, version, kind, way, _, node, nonce = _PROBE.unpack(body)
        known = node.hex()
        if version != _VERSION or known not in self._peers or way >= len(Way):
            return
        if kind == _ASKS:
            with contextlib.suppress(OSError):
                self._mouth.sendto(self._probe_body(_HEARD, way, nonce), source)
        elif kind == _HEARD and nonce == self._nonce:
            self._heard.setdefault(known, set()).add(Way(way))


def _is_numeric(host: str) -> bool:
    with contextlib.suppress(OSError):
        return bool(socket.inet_pton(socket.AF_INET, host))
    return False


def _place(address: str) -> tuple[str, int]:
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    return host.strip("[]"), int(port)
