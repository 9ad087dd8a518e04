"""What a node knows of its fleet, for people: where each vertex runs, how it is there, and from what it would begin.

The coordinator knows it of every vertex; another node knows where they are, and how those are that it runs itself. A
status carries no times of its own, so a snapshot is dated by when it was first heard of. What was there before
anybody listened has no date, which is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shared.hosting.coordinate import Coordinator
from shared.hosting.host import Host
from shared.hosting.shares import Applied, applied
from shared.plan.cuts import region_vertices
from shared.plan.deployment import HostedQuery, Placement
from shared.region.member import Place
from shared.wire.fleet_status import (
    FAILED,
    NODES_OF_ONE_MAX,
    RUNNING,
    SILENT,
    STARTING,
    UNKNOWN,
    WAITING,
    WHY_CHARACTERS,
    AppliedStatus,
    FleetNodeStatus,
    FleetQueryStatus,
    FleetStatus,
    PlacementStatus,
    RegionStatus,
    told,
)
from shared.wire.status import DeviceStatus, InstanceStatus


@dataclass(slots=True)
class _Dated:
    term: int
    number: int | None
    at_us: int | None


class FleetWatch:
    """Look often: dates are as exact as that."""

    def __init__(self, host: Host | None, coordinator: Coordinator | None, now_us: int) -> None:
        """Of a coordinator that runs on no node, or of a node."""
        self._host, self._coordinator = host, coordinator
        self._begun_us = now_us
        self._snapshots: dict[tuple[str, str], _Dated] = {}
        self._silent_us: dict[str, int] = {}  # node -> since when
        self._cuts: dict[str, tuple[int, int | None]] = {}  # by region, the newest complete cut and when it became that
        self._ways: dict[tuple[str, int, str], tuple[tuple[str, ...], bool, bool]] = {}
        self._shares: dict[str, tuple[HostedQuery, list[Applied]]] = {}  # by query, who applies what on the way

    def look(self, now: float, now_us: int) -> None:
        """Note what has changed since the last look."""
        for status in self._statuses().values():
            for one in status.instances:
                self._date(one, now_us)
        coordinator = self._coordinator
        if coordinator is None:
            return
        for query in coordinator.fleet.queries:
            known = self._cuts.get(query.name)
            if known is None or known[0] != query.cuts.complete:
                self._cuts[query.name] = query.cuts.complete, None if known is None else now_us
        alive = coordinator.alive(now)
        for peer in coordinator.fleet.peers:
            if peer.node in alive:
                self._silent_us.pop(peer.node, None)
            elif peer.node not in self._silent_us:
                heard = coordinator.heard_at(peer.node)
                self._silent_us[peer.node] = (
                    self._begun_us if heard is None else now_us - max(0, round((now - heard) * 1e6))
                )

    def _date(self, one: InstanceStatus, now_us: int) -> None:
        name = (one.query, one.vertex)
        known = self._snapshots.get(name)
        if known is None:
            self._snapshots[name] = _Dated(one.term, one.snapshot, None)
        elif one.snapshot != known.number:  # under a new term it may be an older one, with which the vertex began
            newer = one.snapshot is not None and (one.term == known.term or one.snapshot > (known.number or 0))
            self._snapshots[name] = _Dated(one.term, one.snapshot, now_us if newer else None)
        else:
            known.term = one.term

    def snapshot_us(self, query: str, vertex: str) -> int | None:
        """When a vertex's last permanent snapshot became that; None where nobody here saw it."""
        dated = self._snapshots.get((query, vertex))
        return None if dated is None else dated.at_us

    def status(self, now: float, now_us: int) -> FleetStatus:
        """All of it, as of now."""
        self.look(now, now_us)
        coordinator, host = self._coordinator, self._host
        deployed = coordinator.fleet if coordinator is not None else None if host is None else host.deployed
        if deployed is None:
            return FleetStatus(0)
        names = {peer.node: told(peer.name) for peer in deployed.peers}
        statuses = self._statuses()
        return FleetStatus(
            deployed.version,
            tuple(
                FleetNodeStatus(
                    names[peer.node], peer.node, self._silent_us.get(peer.node), peer.capacity,
                    self._apart(statuses.get(peer.node), names),
                )
                for peer in deployed.peers
            ),
            tuple(
                FleetQueryStatus(
                    told(query.name), told(query.row), query.every, _named(query.sources, names), names[query.sink]
                )
                for query in deployed.queries
            ),
            tuple(
                self._placed(query, placed, names, statuses)
                for query in deployed.queries
                for placed in query.placements
            ),
            deployed.moves,
            asked=() if self._coordinator is None else self._coordinator.answers(),
            links=tuple((names[link.nodes[0]], names[link.nodes[1]], told(link.lane)) for link in deployed.links),
            ways=tuple(
                (told(query.name), names[route.source], tuple(names[hop.node] for hop in path))
                for query in deployed.queries for route in query.routes for path in route.paths if any(route.paths)
            ),
            applied=tuple(
                AppliedStatus(
                    told(query.name), names[each.source], names[each.node],
                    tuple(told(words) for words in each.operators[:NODES_OF_ONE_MAX]),
                )
                for query in deployed.queries for each in self._applied(query)
            ),
            regions=() if coordinator is None else _regions(coordinator, names, self._cuts),
            events=() if coordinator is None else coordinator.region_events(),
        )  # fmt: skip

    def _applied(self, query: HostedQuery) -> list[Applied]:
        """Cutting a plan takes long, and this is asked every second."""
        known = self._shares.get(query.name)
        if known is None or known[0] is not query:
            known = self._shares[query.name] = (query, applied(query))
        return known[1]

    @staticmethod
    def _apart(status: DeviceStatus | None, names: dict[str, str]) -> tuple[str, ...]:
        return () if status is None else tuple(names[node] for node in status.unreachable if node in names)

    def _statuses(self) -> dict[str, DeviceStatus]:
        """What is known of nodes, by id."""
        coordinator = self._coordinator
        if coordinator is None:
            return {} if self._host is None else {self._host.node: self._host.status()}
        found = {peer.node: coordinator.status(peer.node) for peer in coordinator.fleet.peers}
        return {node: status for node, status in found.items() if status is not None}

    def _placed(
        self, query: HostedQuery, placed: Placement, names: dict[str, str], statuses: dict[str, DeviceStatus]
    ) -> PlacementStatus:
        running = {host: _instance(query.name, placed, statuses.get(host)) for host in placed.hosts}
        state, why = self._state(query, placed, names, running)
        having = [one for one in running.values() if one is not None and one.snapshot is not None]
        newest = max(having, key=lambda one: one.snapshot or 0, default=None)
        return PlacementStatus(
            told(query.name), told(placed.vertex), placed.term, _named(placed.hosts, names),
            _named(placed.keepers, names), state, told(why, WHY_CHARACTERS),
            max((one.lost for one in running.values() if one is not None), default=0),
            None if newest is None else newest.snapshot, None if newest is None else newest.snapshot_bytes,
            None if newest is None else self.snapshot_us(query.name, placed.vertex),
            *self._way(query, placed.vertex), names.get(placed.to, ""),
        )  # fmt: skip

    def _way(self, query: HostedQuery, vertex: str) -> tuple[tuple[str, ...], bool, bool]:
        """Plans do not change under one incarnation; this is asked every second."""
        name = (query.name, query.incarnation, vertex)
        if name not in self._ways:
            self._ways[name] = way_of(query, vertex)
        return self._ways[name]

    def _state(
        self, query: HostedQuery, placed: Placement, names: dict[str, str], running: dict[str, InstanceStatus | None]
    ) -> tuple[str, str]:
        """How a vertex is, over all its copies: it runs as long as one of them does."""
        each = [self._on(host, names[host], one) for host, one in running.items()]
        if any(state == RUNNING for state, _ in each):
            return RUNNING, "; ".join(why for _, why in each if why)
        if self._coordinator is not None and self._coordinator.lacks_snapshot(query.name, placed.vertex):
            return WAITING, "for a silent node that alone has its newest snapshot"
        return each[0]

    def _on(self, host: str, name: str, one: InstanceStatus | None) -> tuple[str, str]:
        if self._coordinator is None and (self._host is None or host != self._host.node):
            return UNKNOWN, "only the coordinator knows"
        if host in self._silent_us:
            return SILENT, f"{name} is not heard"
        if one is None:
            return STARTING, f"{name} has not said that it runs"
        if one.state == STARTING:
            return STARTING, "it hears how far its readers are"
        return (RUNNING, one.why) if one.state == RUNNING else (FAILED, one.why or one.state)


def _instance(query: str, placed: Placement, status: DeviceStatus | None) -> InstanceStatus | None:
    for one in () if status is None else status.instances:
        if (one.query, one.vertex, one.term) == (query, placed.vertex, placed.term):
            return one
    return None


def _regions(
    coordinator: Coordinator, names: dict[str, str], cuts: Mapping[str, tuple[int, int | None]]
) -> tuple[RegionStatus, ...]:
    """The regions with everybody who is in them, also those who only dwell there yet."""
    controller, found = coordinator.regions, []
    for region in coordinator.fleet.regions:
        places = {node: controller.place(region.name, node) for node in names}
        here = tuple((names[node], place.value) for node, place in places.items() if place is not Place.OUTSIDE)
        found.append(
            RegionStatus(
                told(region.name), controller.state(region.name).value, region.threshold, region.area.points,
                region.area.radius_m, here, *cuts.get(region.name, (0, None)),
                tuple(told(feed.query) for feed in region.task.feeds),
            )
        )  # fmt: skip
    return tuple(found)


def way_of(query: HostedQuery, vertex: str) -> tuple[tuple[str, ...], bool, bool]:
    """The vertices that a vertex reads, whether it reads sources, and whether it makes results."""
    vertices = region_vertices(query.plan)
    maker = {output.name: each.name for each in vertices for output in each.fragment.outputs}
    own = next(each for each in vertices if each.name == vertex)
    reads = dict.fromkeys(told(maker[name]) for name in own.inputs if name in maker)
    ends = any(output.kind == "subscribe" for output in own.fragment.outputs)
    return tuple(reads), any(name not in maker for name in own.inputs), ends


def _named(nodes: Sequence[str], names: dict[str, str]) -> tuple[str, ...]:
    return tuple(names[node] for node in nodes)
