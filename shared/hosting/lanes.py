"""Urgent mode: the same exchanges over another lane, while the usual one to a node is broken.

    USUAL --an exchange is not answered--> URGENT --a knock on the usual lane is--> USUAL

A phone that walks out of its region loses its Wi-Fi before anybody could take over what it runs. Its neighbours and it
go on over cellular then, by way of the node or gateway that coordinates: it is the one that all of them reach, and
phones on cellular do not reach each other. Each says so in its STATUS, and the coordinator decides whether the phone
has left.
Meanwhile the usual lane is knocked on every KNOCK_S, with a body of no bytes that is answered with none.

Where nobody coordinates just now, a node that runs vertices takes a *detour*: the same, by way of another node of the
fleet that it reaches and that reaches the other end. It takes the next one when nothing comes of that, and it still
says that it does not reach the other end: where its vertices should be is not for it to decide.

Whoever passes an exchange on cannot change it or make one up: the session inside it is that of its two ends.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass

from shared.hosting.here import Here
from shared.hosting.messages import Ask
from shared.hosting.wiring import GATEWAY

KNOCK_S = 2.0  # between two tries of a lane that is broken
KNOCK = b""
DETOUR_S = 4.0  # that a detour has to show that it leads somewhere


@dataclass(slots=True)
class _Lane:
    by: str  # way of whom; empty: of whoever coordinates
    knock_at: float
    since: float


class Lanes:
    def __init__(self, here: Here) -> None:
        self._here = here
        self._lanes: dict[str, _Lane] = {}  # by node that is not called on its usual one

    def turn(self, node: str, now: float) -> bool:
        """A node does not answer on its usual lane, or on a detour. Whether there is another."""
        by, lane = self._by(), self._lanes.get(node)
        if (lane is not None and not lane.by) or not by or by in (node, self._here.node) or node == self._here.node:
            return False
        self._lanes[node] = _Lane("", now + KNOCK_S if lane is None else lane.knock_at, now)
        return True

    def detour(self, node: str, reached: Sequence[str], now: float) -> bool:
        """A node does not answer, and nobody coordinates. Whether there is another lane to try, over one of those that
        are reached: the next one after the last."""
        lane = self._lanes.get(node)
        if lane is not None and now < lane.since + DETOUR_S:
            return False
        before = "" if lane is None else lane.by
        others = sorted(each for each in reached if each not in (node, before, self._here.node))
        by = next((each for each in others if each > before), others[0] if others else "")
        if not by:
            return False
        self._lanes[node] = _Lane(by, now + KNOCK_S if lane is None else lane.knock_at, now)
        return True

    def answered(self, node: str, *, urgent: bool) -> bool:
        """A node has answered on a lane. Whether its usual one works again."""
        return not urgent and self._lanes.pop(node, None) is not None

    def ask(self, node: str, body: bytes, *, follows: bool) -> Ask:
        lane = self._lanes.get(node)
        return Ask(node, body, follows, "" if lane is None else lane.by or self._by())

    def knocks(self, called: Collection[str], now: float) -> list[Ask]:
        """Tries of the usual lane that are due. Who is not called any more is forgotten."""
        if not self._lanes:
            return []
        self._lanes = {node: lane for node, lane in self._lanes.items() if node in called}
        due = [node for node, lane in self._lanes.items() if now >= lane.knock_at]
        for node in due:
            self._lanes[node].knock_at = now + KNOCK_S
        return [Ask(node, KNOCK) for node in due]

    def next_wake(self) -> float | None:
        return min((lane.knock_at for lane in self._lanes.values()), default=None)

    def _by(self) -> str:
        """Whoever coordinates: a node, or the gateway once it said that it passes on. None where nobody walks."""
        here = self._here
        if here.deployed is None or not here.deployed.areas:
            return ""
        return next((node for node in here.peers if here.coordinates(node)), GATEWAY if here.gateway_passes else "")

    def broken(self) -> Set[str]:
        """The nodes that are not called on their usual lane."""
        return self._lanes.keys()

    def urgent(self) -> Collection[str]:
        """The nodes that are called by way of whoever coordinates."""
        return [node for node, lane in self._lanes.items() if not lane.by]

    def detours(self) -> Collection[str]:
        """The nodes that are called by way of another one."""
        return [node for node, lane in self._lanes.items() if lane.by]
