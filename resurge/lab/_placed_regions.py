"""Regions as in `_virtual_regions`, with any strategy, or on a server: every vertex is placed beforehand, by one rule.

The camera's phone is the source and runs nothing; vertices go in order to the seven others, and begin again with the
first. Copies of a vertex, and those who keep its snapshots, are the phones behind its own. Nobody fails here.
"""

from __future__ import annotations

from dataclasses import replace

from resurge.lab._phones import Model
from resurge.lab._virtual_fleet import SINK
from resurge.lab._virtual_regions import PROGRAMS, VirtualRegions, plan_of
from shared.hosting.wiring import state_edge, wire
from shared.plan.cuts import region_vertices
from shared.plan.deployment import Feed, HostedQuery, Placement, Region
from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.row import Home, Include

PHONES = 8
EVERY = 16  # elements; more pictures than these would not fit into what a phone retains for its readers
BEGINS_S = 5.0


class PlacedRegions(VirtualRegions):
    def __init__(
        self, program: str, row: str, *, model: Model, regions: int = 1, every: int = EVERY, cut_s: float,
        on_server: bool = False, loss: float = 0.0,
    ) -> None:  # fmt: skip
        self._row_name, self._every, self._on_server = row, every, on_server
        super().__init__(program, regions, PHONES, PHONES, cut_s, model=model, loss=loss)
        if on_server:
            self.spends = {}  # a server's processors are no matter beside its uplink

    def _begin(self, regions: list[Region]) -> None:
        coordinator = self.nodes[SINK].machine.coordinator
        if coordinator is None:
            raise RuntimeError("the sink's node coordinates")
        queries = [self._placed(number) for number in range(len(regions))]
        # No region is formed here. Who has no address keeps nothing for others: the sink's node is in no region.
        peers = [
            node.peer if node.name == SINK else replace(node.peer, addresses=(f"tcp://{node.name}:7301",))
            for node in self.nodes.values()
        ]
        coordinator.set_fleet(peers, queries)
        for node in self.nodes.values():
            if node.name != SINK:
                node.host.deploy(*coordinator.deployment(node.id), 0.0)
                node.drive()
        self.nodes[SINK].drive()
        self._state_edges = {state_edge(query, placed).key.edge for query in queries for placed in query.placements}
        self._sink_edges = {edge.key.edge for _, _, edge in wire(coordinator.deployment(self.nodes[SINK].id)[0]).sinks}

    def _placed(self, region: int) -> HostedQuery:
        row = STRATEGIES[self._row_name].row
        phones = [self.nodes[self.phone(region, each)].id for each in range(PHONES)]
        placements = []
        for number, vertex in enumerate(region_vertices(plan_of(self._program))):
            first = number % (PHONES - 1)
            behind = [phones[1:][(first + each) % (PHONES - 1)] for each in range(PHONES - 1)]
            hosts = behind[: row.copies] if row.home is Home.NOWHERE else behind[:1]
            others = [*behind[1:], phones[0]]
            keepers = {
                Home.LOCAL: hosts, Home.PEERS: others[: row.copies], Home.REGION: others,
            }.get(row.home, [])  # fmt: skip
            if self._on_server:
                hosts, keepers = [self.nodes[SINK].id], []
            placements.append(Placement(vertex.name, tuple(hosts), tuple(keepers), 1))
        every = 0 if row.include is Include.NOTHING or row.of_region else self._every
        feeds = (Feed("previous", f"place{region - 1}", PROGRAMS[self._program]),) if region else ()
        return HostedQuery(
            f"place{region}", 1, plan_of(self._program), self._row_name, every, (phones[0],), self.nodes[SINK].id,
            tuple(placements), feeds=feeds,
        )  # fmt: skip
