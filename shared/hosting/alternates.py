"""A device, or a node that passes its rows on, finds another way for them by itself, while nobody coordinates.

Its deployment lists alternates: ways that share no node with the one its rows go. The nodes on them know that they may
be asked to pass the rows on, and those who read the rows know on which edges they would come. So it takes nobody else's
word to use one. The device turns to the next alternate that it reaches when its rows have waited too long and its
coordinator does not answer either. What it took it says as soon as somebody listens; the next deployment is the
coordinator's answer.

It lists detours, too: ways that leave the one that rows go behind one of its nodes. That node takes them, when the
device has had its time to turn elsewhere. Vertices have neither: what one sends to another goes by way of another node
as whole exchanges when their link fails (`lanes.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from shared.identity import EdgeId
from shared.plan.deployment import Deployment, Route
from shared.wire.status import TookStatus

ALTERNATE_S = 2.0  # that rows wait, and that nobody who coordinates answers, before a device turns elsewhere
DETOUR_S = 2 * ALTERNATE_S  # and before a node does that passes them on


class Alternates:
    """The ways that this node has taken since its last deployment."""

    def __init__(self) -> None:
        self._taken: dict[tuple[str, str, str], Route] = {}  # by query, gather and device
        # By query and edge: how far it had come, since when, how long.
        self._waiting: dict[tuple[str, EdgeId], tuple[int, float, float]] = {}
        self._looked_at = 0.0

    def forget(self) -> None:
        """A new deployment says what counts."""
        self._taken.clear()
        self._waiting.clear()

    def look(self, query: str, edge: EdgeId, extent: tuple[int, int], now: float, wait_s: float = ALTERNATE_S) -> bool:
        """Whether rows of an edge have waited too long: how far it has come for a query, of how much."""
        self._looked_at = now
        taken, head = extent
        if taken >= head:
            self._waiting.pop((query, edge), None)
            return False
        before, since, _ = self._waiting.get((query, edge), (-1, now, wait_s))
        if taken != before:
            since = now
        self._waiting[query, edge] = (taken, since, wait_s)
        return now >= since + wait_s

    def calm(self) -> None:
        """Somebody coordinates: nothing is waited for here."""
        self._waiting.clear()

    def next_wake(self) -> float | None:
        """None also where nothing but an answer can change anything."""
        times = [since + wait_s for _, since, wait_s in self._waiting.values()]
        return min((at for at in times if at > self._looked_at), default=None)

    def turn(
        self, query: str, edge: EdgeId, route: Route, reached: Callable[[tuple[str, ...]], bool], now: float
    ) -> bool:
        """Take the next alternate of a route, as it is now, that can be reached; False where there is none."""
        for place, path in enumerate(route.alternates):
            if reached(tuple(hop.node for hop in path)):
                self._taken[query, route.gather, route.source] = route.taking(place)
                self._waiting[query, edge] = (-1, now, ALTERNATE_S)
                return True
        return False

    def detour(
        self, query: str, edge: EdgeId, route: Route, reached: Callable[[tuple[str, ...]], bool], now: float, *,
        node: str,
    ) -> bool:  # fmt: skip
        """Take the next detour behind this node, which passes rows of that route on."""
        for place, onward in onwards(route, node):
            if reached(onward):
                self._taken[query, route.gather, route.source] = route.detouring(place)
                self._waiting[query, edge] = (-1, now, DETOUR_S)
                return True
        return False

    def applied(self, deployment: Deployment) -> Deployment:
        """The deployment with the ways that were taken."""
        if not self._taken:
            return deployment
        return replace(
            deployment,
            queries=tuple(
                replace(
                    query,
                    routes=tuple(
                        self._taken.get((query.name, route.gather, route.source), route) for route in query.routes
                    ),
                )
                for query in deployment.queries
            ),
        )

    def status(self) -> tuple[TookStatus, ...]:
        return tuple(
            TookStatus(query, gather, tuple(hop.node for hop in route.paths[0]))
            for (query, gather, _), route in sorted(self._taken.items(), key=lambda item: item[0])
        )


def onwards(route: Route, node: str) -> list[tuple[int, tuple[str, ...]]]:
    """The detours of a route behind this node: the place of each among all of them, and the nodes that follow."""
    way = [hop.node for hop in route.paths[0]]
    if node not in way:
        return []
    behind = way.index(node) + 1
    found = []
    for place, detour in enumerate(route.detours):
        nodes = [hop.node for hop in detour]
        if nodes[:behind] == way[:behind] and nodes[behind : behind + 1] != way[behind : behind + 1]:
            found.append((place, tuple(nodes[behind:])))
    return found
