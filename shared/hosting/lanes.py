"""Urgent mode: the same exchanges over another lane, while the usual one to a node is broken.

    USUAL --an exchange is not answered--> URGENT --a knock on the usual lane is--> USUAL

A phone that walks out of its region loses its Wi-Fi before anybody could take over what it runs. Its neighbours and it
go on over cellular then, by way of the node or gateway that coordinates: it is the one that all of them reach, and
phones on cellular do not reach each other. Each says so in its STATUS, and the coordinator decides whether the phone
has left.
Meanwhile the usual lane is knocked on every KNOCK_S, with a body of no bytes that is answered with none.

Whoever passes an exchange on cannot change it or make one up: the session inside it is that of its two ends.
"""

from __future__ import annotations

from collections.abc import Collection

from shared.hosting.here import Here
from shared.hosting.messages import Ask
from shared.hosting.wiring import GATEWAY

KNOCK_S = 2.0  # between two tries of a lane that is broken
KNOCK = b""


class Lanes:
    def __init__(self, here: Here) -> None:
        self._here = here
        self._knock_at: dict[str, float] = {}  # by node that is called over the urgent lane

    def turn(self, node: str, now: float) -> bool:
        """A node does not answer on its usual lane. Whether there is another."""
        by = self._by()
        if node in self._knock_at or not by or by in (node, self._here.node) or node == self._here.node:
            return False
        self._knock_at[node] = now + KNOCK_S
        return True

    def answered(self, node: str, *, urgent: bool) -> bool:
        """A node has answered on a lane. Whether its usual one works again."""
        return not urgent and self._knock_at.pop(node, None) is not None

    def ask(self, node: str, body: bytes, *, follows: bool) -> Ask:
        return Ask(node, body, follows, self._by() if node in self._knock_at else "")

    def knocks(self, called: Collection[str], now: float) -> list[Ask]:
        """Tries of the usual lane that are due. Who is not called any more is forgotten."""
        self._knock_at = {node: at for node, at in self._knock_at.items() if node in called}
        due = [node for node, at in self._knock_at.items() if now >= at]
        self._knock_at.update((node, now + KNOCK_S) for node in due)
        return [Ask(node, KNOCK) for node in due]

    def next_wake(self) -> float | None:
        return min(self._knock_at.values(), default=None)

    def _by(self) -> str:
        """Whoever coordinates: a node, or the gateway once it said that it passes on. None where nobody walks."""
        here = self._here
        if here.deployed is None or not here.deployed.areas:
            return ""
        return next((node for node in here.peers if here.coordinates(node)), GATEWAY if here.gateway_passes else "")

    def urgent(self) -> Collection[str]:
        """The nodes that are called over the urgent lane."""
        return self._knock_at.keys()
