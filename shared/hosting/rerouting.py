"""Other ways for the rows of devices that are back elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from shared.hosting.edits import without_retired
from shared.hosting.kept_fleet import KeptFleet
from shared.hosting.presence import Presence
from shared.hosting.routing import LINK_S, Reach, connected
from shared.plan.deployment import HostedQuery
from shared.recovery.strategies import STRATEGIES


class Rerouting:
    def __init__(self, kept: KeptFleet, presence: Presence) -> None:
        self._kept, self._presence = kept, presence

    def rerouted(self, queries: Sequence[HostedQuery], now: float) -> list[HostedQuery]:
        """The queries with other ways for devices that are back elsewhere, and without what nobody needs any more."""
        fleet = self._kept.fleet
        alive = self._presence.alive(now)
        said = {node: status for node in alive if (status := self._presence.status(node)) is not None}
        # What a device reaches that is back, it says itself, and that changes as it walks.
        apart = frozenset(
            link for link, since in self._presence.apart.items() if now >= since + LINK_S and said[link[0]].back is None
        )
        reach = Reach(
            self._presence.called(frozenset(peer.node for peer in fleet.peers if peer.capacity and peer.node in alive)),
            alive, apart, self._kept.routing.failed(apart, now),
            {node: frozenset((*status.back.neighbours, node)) for node, status in said.items() if status.back},
            frozenset(node for node, status in said.items() if status.back),
            connected(fleet),
        )  # fmt: skip
        found = []
        for query in queries:
            if STRATEGIES[query.row].row.of_region:  # each member has to have its rows, and none passes them on
                found.append(query)
                continue
            adopted = query
            for node, status in said.items():
                # What it took under an older deployment is over when it hears of this one.
                if status.took and status.deployment is not None and status.deployment[1] == fleet.version:
                    adopted, events = self._kept.routing.adopted(adopted, node, status.took, now)
                    self._kept.events += events
            routed, events = self._kept.routing.rerouted(adopted, reach, now)
            self._kept.events += events
            found.append(without_retired(routed, fleet.version, said))
        return found
