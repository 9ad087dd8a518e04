"""Exchanges that the node which coordinates passes on between two nodes whose usual lane is broken (`lanes.py`).

    one end -- [number, body, other end] --> ROUTER here -- [own number, body, one end] --> other end
    one end <-- [number, body, nothing]  --  ROUTER here <-- [own number, body, nothing] -- other end

Both ends have called this node, so it answers them on the connections that they made: a phone on cellular cannot be
called. It reads no body and keeps none. Only nodes of the roster are passed on to, and only they are let in; CURVE says
which of them speaks. What is not answered is forgotten when there is too much of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from shared.plan.deployment import Peer

OPEN_MAX = 1024  # questions that are not answered
NODE_BYTES_MAX = 64


class Passed(NamedTuple):
    """What to send next, and on which connection."""

    connection: bytes
    number: bytes
    other: bytes  # end of a question; of an answer nothing


class _Open(NamedTuple):
    asked_by: bytes
    number: bytes
    asked: str  # the CURVE key of who was asked


class Passing:
    def __init__(self) -> None:
        self.passed = 0  # exchanges
        self.refused = 0  # to or from nobody of the roster, or to one that has not called
        self._connections: dict[str, bytes] = {}  # by CURVE key, the newest
        self._open: dict[bytes, _Open] = {}
        self._numbers = 0

    def called(self, key: str, connection: bytes) -> None:
        """Who has this key speaks over this connection."""
        self._connections[key] = connection

    def take(
        self, key: str, connection: bytes, number: bytes, other: bytes, peers: Mapping[str, Peer]
    ) -> Passed | None:
        """A question to pass on to another end, or with none the answer to one. None: nobody is to hear it."""
        found = self._question(key, connection, number, other, peers) if other else self._answer(key, number)
        if found is None:
            self.refused += 1
        return found

    def _question(
        self, key: str, connection: bytes, number: bytes, other: bytes, peers: Mapping[str, Peer]
    ) -> Passed | None:
        asks = next((peer.node for peer in peers.values() if peer.curve_key == key), None)
        to = peers.get(other.decode("ascii", "replace")) if len(other) <= NODE_BYTES_MAX else None
        if asks is None or to is None or to.curve_key not in self._connections:
            return None
        self._numbers += 1
        own = b"%d" % self._numbers
        if len(self._open) >= OPEN_MAX:
            del self._open[next(iter(self._open))]
        self._open[own] = _Open(connection, number, to.curve_key)
        return Passed(self._connections[to.curve_key], own, asks.encode())

    def _answer(self, key: str, number: bytes) -> Passed | None:
        asked = self._open.get(number)
        if asked is None or asked.asked != key:  # nobody answers for another
            return None
        del self._open[number]
        self.passed += 1
        return Passed(asked.asked_by, asked.number, b"")
