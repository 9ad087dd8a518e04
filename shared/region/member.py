"""What a node is to a region, step by step.

    OUTSIDE --inside--> DWELLING --long enough--> IDLE --given a vertex--> HOSTING
    HOSTING --its neighbours do not reach it--> URGENT --they do again--> HOSTING
    URGENT --inside, and still not reached after a while--> LEAVING
    IDLE, HOSTING, URGENT --outside, or it says that it leaves--> LEAVING --it runs nothing any more--> OUTSIDE

Only IDLE and what follows are members: they keep the region's cuts and what comes in. Who is outside again has its
copies deleted, by the deployment in which it is no member.

A coordinator watches all nodes with it. A phone watches itself: where the operator gave it an area of its own, or its
fleet has regions. A link that is lost inside is most likely the network's fault: whoever sends tries it again, and only
after REBUILD_S the node counts as gone. A fix whose uncertainty crosses the border changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from shared.plan.area import Area, Point


class Place(Enum):
    OUTSIDE = "outside"
    DWELLING = "dwelling"
    IDLE = "idle"
    HOSTING = "hosting"
    URGENT = "urgent"
    LEAVING = "leaving"


REBUILD_S = 15.0  # that a link is tried again while positions say that the node is still here
MEMBERS = frozenset({Place.IDLE, Place.HOSTING, Place.URGENT, Place.LEAVING})


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of a node at a moment."""

    position: Point | None  # None: it does not say
    leaving: bool = False  # it says so itself
    hosts: bool = False  # a vertex of the region runs there, or is on its way to it
    reached: bool = True  # by those who send to it
    accuracy_m: float = 0.0  # of the position


class Members:
    """The nodes of one region, as a coordinator sees them."""

    def __init__(
        self, area: Area, dwell_s: float, registered: Collection[str] = (), *, rebuild_s: float = REBUILD_S
    ) -> None:
        """`registered` are members from before the coordinator was restarted: they need not dwell again."""
        self._area, self._dwell_s, self._rebuild_s = area, dwell_s, rebuild_s
        self._since: dict[str, float] = {}  # when a node was first seen inside
        self._unreached: dict[str, float] = {}  # since when a member is not reached
        self._registered = {*registered}

    def look(self, node: str, seen: Seen, now: float) -> Place:
        """Where a node stands now. One that does not say where it is stays what it was."""
        inside = node in self._since or node in self._registered
        if seen.position is not None:
            side = self._area.side(seen.position, seen.accuracy_m)
            inside = inside if side is None else side
        if seen.reached:
            self._unreached.pop(node, None)
        elif node in self._registered:
            self._unreached.setdefault(node, now)
        gone = node in self._unreached and now - self._unreached[node] >= self._rebuild_s
        if not inside or seen.leaving or gone:
            self._since.pop(node, None)
            if node in self._registered and seen.hosts:
                return Place.LEAVING
            self._registered.discard(node)
            return Place.OUTSIDE
        since = self._since.setdefault(node, now)
        if node not in self._registered and now - since < self._dwell_s:
            return Place.DWELLING
        self._registered.add(node)
        if not seen.hosts:
            return Place.IDLE
        return Place.HOSTING if seen.reached else Place.URGENT

    def lost(self, node: str) -> None:
        """It is silent for too long: no member any more. When it is back it dwells again."""
        self._since.pop(node, None)
        self._unreached.pop(node, None)
        self._registered.discard(node)

    def next_wake(self) -> float | None:
        """When the next node has dwelt long enough, or was not reached for too long."""
        waiting = [since + self._dwell_s for node, since in self._since.items() if node not in self._registered]
        waiting += [since + self._rebuild_s for since in self._unreached.values()]
        return min(waiting, default=None)
