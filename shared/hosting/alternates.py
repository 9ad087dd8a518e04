"""A device finds another way for its rows by itself, while nobody coordinates.

Its deployment lists alternates: ways that share no node with the one its rows go. The nodes on them know that they may
be asked to pass the rows on, and those who read the rows know on which edges they would come. So it takes nobody else's
word to use one. The device turns to the next alternate that it reaches when its rows have waited too long and its
coordinator does not answer either. What it took it says as soon as somebody listens; the next deployment is the
coordinator's answer.

Vertices have no alternates: an edge between two of them goes over one link, and waits for the coordinator when that
fails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from shared.identity import EdgeId
from shared.plan.deployment import Deployment, Route
from shared.wire.status import TookStatus

ALTERNATE_S = 2.0  # that rows wait, and that nobody who coordinates answers, before a device turns elsewhere


class Alternates:
    """The ways that this node's own device has taken since its last deployment."""

    def __init__(self) -> None:
        self._taken: dict[tuple[str, str], Route] = {}  # by query and gather
        self._waiting: dict[EdgeId, tuple[int, float]] = {}  # how far an edge had come, and since when
        self._looked_at = 0.0

    def forget(self) -> None:
        """A new deployment says what counts."""
        self._taken.clear()
        self._waiting.clear()

    def look(self, edge: EdgeId, taken: int, head: int, now: float) -> bool:
        """Whether rows of an edge, that has come so far, have waited too long."""
        self._looked_at = now
        if taken >= head:
            self._waiting.pop(edge, None)
            return False
        before, since = self._waiting.get(edge, (-1, now))
        if taken != before:
            since = now
        self._waiting[edge] = (taken, since)
        return now >= since + ALTERNATE_S

    def calm(self) -> None:
        """Somebody coordinates: nothing is waited for here."""
        self._waiting.clear()

    def next_wake(self) -> float | None:
        """None also where nothing but an answer can change anything."""
        times = [since + ALTERNATE_S for _, since in self._waiting.values()]
        return min((at for at in times if at > self._looked_at), default=None)

    def turn(
        self, query: str, edge: EdgeId, route: Route, reached: Callable[[tuple[str, ...]], bool], now: float
    ) -> bool:
        """Take the next alternate of a route, as it is now, that can be reached; False where there is none."""
        for place, path in enumerate(route.alternates):
            if reached(tuple(hop.node for hop in path)):
                self._taken[query, route.gather] = route.taking(place)
                self._waiting[edge] = (-1, now)
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
                        self._taken.get((query.name, route.gather), route) if route.source == deployment.node else route
                        for route in query.routes
                    ),
                )
                for query in deployment.queries
            ),
        )

    def status(self) -> tuple[TookStatus, ...]:
        return tuple(
            TookStatus(query, gather, tuple(hop.node for hop in route.paths[0]))
            for (query, gather), route in sorted(self._taken.items())
        )
