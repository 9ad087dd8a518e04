"""Exchanges that whoever coordinates passes on between two nodes whose usual lane is broken (`lanes.py`).

    one end -- [number, body, other end] --> here -- [own number, body, one end] --> other end
    one end <-- [number, body, nothing]  --  here <-- [own number, body, nothing] -- other end

Both ends have called, so they are answered on the connections that they made: a phone on cellular cannot be called. A
node that coordinates does this over ZeroMQ (`mobile_app/links/peers.py`), a gateway with the exchanges that its nodes
make anyway (`passed_by_gateway.py`).

No body is read here, and none kept. Only nodes of the roster are passed on to, and only they are let in; whoever drives
this says which of them speaks. What is not answered is forgotten when there is too much of it.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Generic, NamedTuple, TypeVar

OPEN_MAX = 1024  # questions that are not answered
NODE_BYTES_MAX = 64

Connection = TypeVar("Connection")


class Passed(NamedTuple, Generic[Connection]):
    """What to send next, and on which connection."""

    connection: Connection
    number: int | bytes  # a number of its own of a question; of an answer the one that it was asked with
    other: str  # end of a question; of an answer nothing


class _Open(NamedTuple, Generic[Connection]):
    asked_by: Connection
    number: int | bytes
    asked: str


class Passing(Generic[Connection]):
    def __init__(self) -> None:
        self.passed = 0  # exchanges
        self.refused = 0  # to or from nobody of the roster, or to one that has not called
        self._connections: dict[str, Connection] = {}  # by node, the newest
        self._open: dict[int, _Open[Connection]] = {}
        self._numbers = 0

    def called(self, node: str, connection: Connection) -> None:
        """This node speaks over this connection."""
        self._connections[node] = connection

    def question(
        self, node: str, connection: Connection, number: int | bytes, other: str, peers: Container[str]
    ) -> Passed[Connection] | None:
        """A node asks another one. None: nobody is to hear it."""
        if node not in peers or other not in peers or other not in self._connections:
            self.refused += 1
            return None
        self._numbers += 1
        if len(self._open) >= OPEN_MAX:
            del self._open[next(iter(self._open))]
        self._open[self._numbers] = _Open(connection, number, other)
        return Passed(self._connections[other], self._numbers, node)

    def answer(self, node: str, number: int) -> Passed[Connection] | None:
        """A node answers what it was asked under this number. None: nobody is to hear it."""
        asked = self._open.get(number)
        if asked is None or asked.asked != node:  # nobody answers for another
            self.refused += 1
            return None
        del self._open[number]
        self.passed += 1
        return Passed(asked.asked_by, asked.number, "")
