"""Which nodes reach which others, over what, and the cheapest way to one of them.

Where no link is listed, every node reaches all that have an address, at the cost of the worse lane of the two, or at
what nodes have measured if that is more. A node without an address only calls: it feeds queries and passes nothing on.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from shared.plan.deployment import Link, Peer

LANES = {"wired": 1, "wifi": 2, "bluetooth": 5, "cellular": 10}  # what a link costs unless it says so
WIRED = "wired"
# An answer that takes at most so long comes over something like that lane. The steps are wide: what is measured goes to
# the coordinator when it changes, and a busy node answers late, too.
MEASURED_S = {"wired": 0.05, "wifi": 0.15, "bluetooth": 0.5}
EARTH_RADIUS_M = 6_371_000
NO_WAY = 1 << 60  # more than any way costs


class Hop(NamedTuple):
    """One link, as its caller sees it."""

    cost: int
    metres: float  # 0 where a position is not known
    lane: str


class Path(NamedTuple):
    """Nodes in order, both ends included."""

    nodes: tuple[str, ...]
    cost: int


class Topology:
    """The nodes of a fleet that are there, and their links. `cloud` is the node that everything can fall back to."""

    def __init__(
        self,
        peers: Sequence[Peer],
        links: Sequence[Link] = (),
        *,
        cloud: str = "",
        absent: Collection[str] = (),
        apart: Collection[tuple[str, str]] = (),
        measured: Mapping[tuple[str, str], int] | None = None,
    ) -> None:
        """Without those that are `absent`, and without links between nodes that are `apart`. `measured` is what a
        node's exchanges with another one cost; of both ways the dearer counts."""
        self.peers = {peer.node: peer for peer in peers if peer.node not in absent}
        self.cloud = cloud
        self.listed = bool(links)
        self._hops: dict[str, dict[str, Hop]] = {node: {} for node in self.peers}
        self._paths: dict[str, dict[str, Path]] = {}
        cut = {frozenset(pair) for pair in apart}
        if links:
            for link in links:
                self._connect(*link.nodes, link.lane, link.cost, cut)
        else:
            nodes = list(self.peers)
            for place, one in enumerate(nodes):
                for other in nodes[place + 1 :]:
                    lane = max(
                        (self.peers[node].lane or WIRED for node in (one, other)), key=lambda each: LANES.get(each, 1)
                    )
                    found = [(measured or {}).get(pair, 0) for pair in ((one, other), (other, one))]
                    self._connect(one, other, lane, max(LANES.get(lane, 1), *found), cut)

    def _connect(self, one: str, other: str, lane: str, cost: int, cut: Collection[frozenset[str]]) -> None:
        if one not in self.peers or other not in self.peers or frozenset((one, other)) in cut:
            return
        hop = Hop(cost, _metres(self.peers[one].position, self.peers[other].position), lane)
        for caller, called in ((one, other), (other, one)):
            known = self._hops[caller].get(called)
            if self.peers[called].addresses and (known is None or hop < known):
                self._hops[caller][called] = hop

    def name(self, node: str) -> str:
        return self.peers[node].name if node in self.peers else node[:8]

    def neighbours(self, node: str) -> Mapping[str, Hop]:
        """Whom a node reaches directly."""
        return self._hops.get(node, {})

    def paths_to(self, end: str) -> dict[str, Path]:
        """The cheapest way of every node that has one. Ways that meet stay together: they are a tree."""
        if end not in self._paths:
            self._paths[end] = self._paths_to(end)
        return self._paths[end]

    def cost(self, start: str, end: str) -> int:
        """Of the cheapest way; NO_WAY where there is none."""
        path = self.paths_to(end).get(start)
        return NO_WAY if path is None else path.cost

    def _paths_to(self, end: str) -> dict[str, Path]:
        if end not in self.peers:
            return {}
        callers: dict[str, list[tuple[str, Hop]]] = {node: [] for node in self.peers}
        for caller, hops in self._hops.items():
            for called, hop in hops.items():
                callers[called].append((caller, hop))
        order = {node: place for place, node in enumerate(self.peers)}
        found: dict[str, Path] = {}
        # By cost, then hops, then metres, then as they are listed: the same for everybody who asks.
        waiting: list[tuple[int, int, float, int, tuple[str, ...]]] = [(0, 0, 0.0, order[end], (end,))]
        while waiting:
            cost, hops_so_far, metres, _, nodes = heapq.heappop(waiting)
            if nodes[0] in found:
                continue
            found[nodes[0]] = Path(nodes, cost)
            for caller, hop in callers[nodes[0]]:
                if caller not in found:
                    step = (cost + hop.cost, hops_so_far + 1, metres + hop.metres, order[caller], (caller, *nodes))
                    heapq.heappush(waiting, step)
        return found


def measured_cost(answer_s: float) -> int:
    """What a link costs whose answers take so long: as much as the lane that is like it."""
    return next((LANES[lane] for lane, most_s in MEASURED_S.items() if answer_s <= most_s), max(LANES.values()))


def _metres(one: tuple[float, float] | None, other: tuple[float, float] | None) -> float:
    """Between two positions, near enough to compare."""
    if one is None or other is None:
        return 0.0
    latitude = math.radians((one[0] + other[0]) / 2)
    east = math.radians((other[1] - one[1] + 540) % 360 - 180) * math.cos(latitude)
    return EARTH_RADIUS_M * math.hypot(math.radians(other[0] - one[0]), east)
