"""The fleet as its coordinator has it: one deployment for all nodes, what is to be stored of it and what is told.

The parts of a coordinator share it (`coordinate.py` names them). All it decides is one new fleet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from shared.errors import DamagedData, PeerError, UsageError
from shared.hosting.fleet_events import StoreFleet
from shared.hosting.routing import Routing
from shared.hosting.shares import share
from shared.plan.deployment import Deployment, HostedQuery, Route, decode_deployment, encode_deployment
from shared.wire.fleet_status import RegionEvent
from shared.wire.status import clean_text

HISTORY_MAX = 200  # events of regions that it remembers


class KeptFleet:
    def __init__(self, node: str, fleet: Deployment, now: float, clock_us: Callable[[], int] | None) -> None:
        self.node = node  # that the coordinator runs on; empty where that is none of the fleet
        self.fleet = fleet
        self.judged_at = now
        self.stored = 0  # how often there was another fleet
        self.routing = Routing(self.share)
        self._clock_us = clock_us
        self.persist: list[StoreFleet] = []
        self.events: list[object] = []
        self.history: deque[RegionEvent] = deque(maxlen=HISTORY_MAX)

    def store(self) -> None:
        """The fleet is another one: store it, and tell it to everybody anew."""
        self.fleet = self.routing.listed(self.fleet)
        self.stored += 1
        self.persist.append(StoreFleet(encode_deployment(self.fleet)))

    def note(self) -> None:
        """Something changed that no node needs a deployment for."""
        self.persist.append(StoreFleet(encode_deployment(self.fleet)))

    def at_us(self, now: float) -> int:
        """The time that people read."""
        return round(now * 1e6) if self._clock_us is None else self._clock_us()

    def remember(self, region: str, kind: str, text: str, now: float) -> None:
        if any(each.name == region for each in self.fleet.regions):
            self.history.append(RegionEvent(self.at_us(now), region, kind, clean_text(text)))

    def name(self, node: str) -> str:
        return next((peer.name for peer in self.fleet.peers if peer.node == node), node[:8])

    def names(self, nodes: Sequence[str]) -> tuple[str, ...]:
        return tuple(map(self.name, nodes))

    def share(self, query: HostedQuery, route: Route, path: Sequence[str]) -> tuple[int, ...]:
        """Who applies what on a new way of a device's rows."""
        return share(query, route, path, self.fleet.peers, self.fleet.queries)


def decoded(stored: bytes) -> Deployment:
    """DamagedData where it cannot be read."""
    try:
        return decode_deployment(stored)
    except (PeerError, UsageError) as error:
        raise DamagedData(f"what the coordinator remembers cannot be read: {error}", code="fleet-stored") from None
