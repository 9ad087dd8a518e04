"""The regions of a fleet: who is in them, which of them run, and what feeds each.

    FORMING --as many members as it needs--> STARTING --all vertices run--> RUNNING <-> CHECKPOINTING
    RUNNING --a node that runs a vertex fails--> RECOVERING --all vertices run--> RUNNING
    any --too few members--> BYPASSED --enough again--> STARTING

A region's task is a query without places. A region that runs has a query of its name among those of the fleet; one that
does not has none, and what it would have fed is fed by the region before it. Regions begin each for itself.

The members are stored with the fleet. All else follows from what the nodes say, so a controller that was restarted goes
on. A region that begins again after it was stopped begins from nothing, under a new incarnation: what its nodes had is
gone with them. So does every region behind it, whose input is another edge from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from shared.plan.cuts import region_vertices
from shared.plan.deployment import Feed, HostedQuery, Placement, Region
from shared.plan.wellformed import operator_references
from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.row import Home, Row
from shared.region.member import MEMBERS, Members, Place, Seen
from shared.wire.status import DeviceStatus

RUNNING_STATE = "running"


class State(Enum):
    FORMING = "forming"
    STARTING = "starting"
    RUNNING = "running"
    CHECKPOINTING = "checkpointing"
    RECOVERING = "recovering"
    BYPASSED = "bypassed"


class RegionChanged(NamedTuple):
    """A region is in another state."""

    region: str
    state: State
    members: int

    def __str__(self) -> str:
        return f"region {self.region} is {self.state.value}, {self.members} members"


class Departure(NamedTuple):
    """A vertex must leave a member that goes: to this one, while both are there."""

    query: str
    vertex: str
    leaving: str
    to: str


@dataclass(frozen=True, slots=True)
class Nodes:
    """What a coordinator knows of the nodes at a moment."""

    status: Callable[[str], DeviceStatus | None]
    alive: frozenset[str]
    positions: Mapping[str, tuple[float, float]]  # where nodes are that do not say it: as the fleet was told
    capacity: Mapping[str, int]
    operators: Mapping[str, frozenset[str]]
    unreached: frozenset[str]  # live nodes that others say they do not reach
    under_way: Callable[[str], int]  # the cut of a query that is under way
    version: int


class RegionController:
    def __init__(self, regions: Sequence[Region] = ()) -> None:
        self._members = {each.name: Members(each.area, each.dwell_s, each.members) for each in regions}
        self._places: dict[str, dict[str, Place]] = {each.name: {} for each in regions}
        self._states: dict[str, State] = {each.name: State.FORMING for each in regions}
        self._grounds = {each.name: (each.area, each.dwell_s) for each in regions}
        self._ran: set[str] = set()  # regions all of whose vertices have run once
        self._events: list[RegionChanged] = []

    def look(
        self, regions: Sequence[Region], queries: Sequence[HostedQuery], nodes: Nodes, now: float
    ) -> tuple[tuple[Region, ...], tuple[HostedQuery, ...]]:
        """The regions with their members, and the queries of those that run: to be stored before anybody is told."""
        for region in regions:
            self._members.setdefault(region.name, Members(region.area, region.dwell_s, region.members))
        running = {query.name: query for query in queries}
        found = tuple(self._with_members(region, running.get(region.name), nodes, now) for region in regions)
        names = {region.name for region in regions}
        taken: dict[str, int] = {}
        for each in queries:
            for placed in each.placements:
                for host in placed.hosts:
                    taken[host] = taken.get(host, 0) + 1
        made: dict[str, HostedQuery] = {}
        begun: set[str] = set()
        for region in found:  # what feeds a region stands before it
            query = running.get(region.name)
            # Who leaves counts as long as somebody stays to take over what it runs; where all leave, nobody does.
            wanted = len(region.members) >= region.threshold and self._staying(region) > 0
            feeds = _feeds(region, found, made)
            if query is not None and wanted:
                same = query.feeds == feeds and not any(feed.query in begun for feed in feeds)
                made[region.name] = query if same else self._placed(region, feeds, nodes, taken)
            elif wanted:
                made[region.name] = self._placed(region, feeds, nodes, taken)
            if region.name in made and made[region.name] is not query:
                begun.add(region.name)
            self._note(region, made.get(region.name), nodes, was=query is not None)
        others = [each for each in queries if each.name not in names]
        return found, (*others, *made.values())

    def departures(self, regions: Sequence[Region], queries: Sequence[HostedQuery], nodes: Nodes) -> list[Departure]:
        """What has to leave members that go, each to the member that runs least. A vertex of which another copy runs is
        not moved: `dropped` has those."""
        found: list[Departure] = []
        loads: dict[str, int] = {}
        for each in queries:
            for placed in each.placements:
                for host in (*placed.hosts, *((placed.to,) if placed.to else ())):
                    loads[host] = loads.get(host, 0) + 1
        for region in regions:
            query = next((one for one in queries if one.name == region.name), None)
            places = self._places.get(region.name, {})
            if query is None:
                continue
            # Where all go back together, only who has the cut can go back to it; else its state is all a host needs.
            takers = query.cuts.holders if STRATEGIES[query.row].row.of_region else region.members
            for placed in query.placements:
                if placed.to or len(placed.hosts) > 1 or places.get(placed.hosts[0]) is not Place.LEAVING:
                    continue
                able = [
                    node
                    for node in takers
                    if places.get(node) in (Place.IDLE, Place.HOSTING)
                    and loads.get(node, 0) < nodes.capacity.get(node, 0)
                ]
                if able:
                    to = min(able, key=lambda node: (loads.get(node, 0), node))
                    loads[to] = loads.get(to, 0) + 1
                    found.append(Departure(region.name, placed.vertex, placed.hosts[0], to))
        return found

    def dropped(self, query: HostedQuery) -> frozenset[str]:
        """Members that go, and are needed by no vertex of this query: a copy of each that they run stays."""
        places = self._places.get(query.name, {})
        leaving = {node for node, place in places.items() if place is Place.LEAVING}
        return frozenset(
            node
            for node in leaving
            if all({*placed.hosts} - leaving for placed in query.placements if node in placed.hosts)
        )

    def place(self, region: str, node: str) -> Place:
        return self._places.get(region, {}).get(node, Place.OUTSIDE)

    def follow(self, regions: Sequence[Region]) -> None:
        """Forget what was seen of regions that are no more, or elsewhere now."""
        same = {each.name for each in regions if self._grounds.get(each.name) == (each.area, each.dwell_s)}
        for remembered in (self._members, self._places, self._states, self._grounds):
            for name in [name for name in remembered if name not in same]:
                del remembered[name]
        self._ran &= same
        self._grounds |= {each.name: (each.area, each.dwell_s) for each in regions}

    def state(self, region: str) -> State:
        return self._states.get(region, State.FORMING)

    def events(self) -> list[RegionChanged]:
        events, self._events = self._events, []
        return events

    def next_wake(self) -> float | None:
        times = [each.next_wake() for each in self._members.values()]
        return min((time for time in times if time is not None), default=None)

    # Inside.

    def _with_members(self, region: Region, query: HostedQuery | None, nodes: Nodes, now: float) -> Region:
        members, places = self._members[region.name], {}
        hosting = {
            node for placed in (() if query is None else query.placements) for node in (*placed.hosts, placed.to)
        }
        for node in sorted(nodes.capacity):
            if node not in nodes.alive:
                members.lost(node)
                places[node] = Place.OUTSIDE
                continue
            status = nodes.status(node)
            position = nodes.positions.get(node) if status is None or status.position is None else status.position
            leaving = status is not None and bool(status.leaving)
            accuracy_m = 0.0 if status is None or status.position is None else status.accuracy_m or 0.0
            seen = Seen(position, leaving, node in hosting, node not in nodes.unreached, accuracy_m)
            places[node] = members.look(node, seen, now)
        self._places[region.name] = places
        listed = tuple(node for node, place in places.items() if place in MEMBERS)
        return region if listed == region.members else replace(region, members=listed)

    def _placed(self, region: Region, feeds: tuple[Feed, ...], nodes: Nodes, taken: dict[str, int]) -> HostedQuery:
        """The region's task, spread over its members; as many others keep what each runs as its row wants."""
        incarnation, row = nodes.version + 1, STRATEGIES[region.task.row].row
        placements = []
        for vertex in region_vertices(region.task.plan):
            needed = {reference for node in vertex.operators for reference in operator_references(node)}
            able = [
                node
                for node in region.members
                if needed <= nodes.operators.get(node, frozenset()) and taken.get(node, 0) < nodes.capacity.get(node, 0)
            ]
            free = sorted(able or region.members, key=lambda node: (taken.get(node, 0), node))
            hosts = tuple(free[: row.copies if row.home is Home.NOWHERE else 1])
            for host in hosts:
                taken[host] = taken.get(host, 0) + 1
            placements.append(Placement(vertex.name, hosts, _keepers(row, hosts[0], region.members), incarnation))
        return replace(region.task, incarnation=incarnation, placements=tuple(placements), feeds=feeds)

    def _note(self, region: Region, query: HostedQuery | None, nodes: Nodes, *, was: bool) -> None:
        before = self._states.get(region.name, State.FORMING)
        if query is None:
            self._ran.discard(region.name)
            state = State.BYPASSED if was or before is State.BYPASSED else State.FORMING
        elif not _all_run(query, nodes):
            state = State.RECOVERING if region.name in self._ran and was else State.STARTING
        else:
            self._ran.add(region.name)
            state = State.CHECKPOINTING if nodes.under_way(region.name) else State.RUNNING
        if state is not before:
            self._states[region.name] = state
            self._events.append(RegionChanged(region.name, state, self._staying(region)))

    def _staying(self, region: Region) -> int:
        """How many of its members do not leave."""
        return sum(self._places[region.name].get(node) is not Place.LEAVING for node in region.members)


def _keepers(row: Row, host: str, members: Sequence[str]) -> tuple[str, ...]:
    """Who keeps what runs on this member: those behind it in the list, so that the work is spread."""
    first = members.index(host)
    others = (*members[first + 1 :], *members[:first])
    return others[: {Home.REGION: len(others), Home.PEERS: row.copies}.get(row.home, 0)]


def _feeds(region: Region, regions: Sequence[Region], made: Mapping[str, HostedQuery]) -> tuple[Feed, ...]:
    """What comes from other regions: of those on the way here, the nearest that runs. Where none does, devices feed it
    as they do the first."""
    known = {each.name: each for each in regions}
    found = []
    for feed in region.task.feeds:
        before: Feed | None = feed
        while before is not None and before.query not in made:
            behind = known.get(before.query)
            before = None if behind is None else next(iter(behind.task.feeds), None)
        if before is not None:
            found.append(Feed(feed.gather, before.query, before.sink))
    return tuple(found)


def _all_run(query: HostedQuery, nodes: Nodes) -> bool:
    for placed in query.placements:
        for host in placed.hosts:
            status = nodes.status(host)
            name = (query.name, placed.vertex, placed.term, RUNNING_STATE)
            said = () if status is None else status.instances
            if not any((one.query, one.vertex, one.term, one.state) == name for one in said):
                return False
    return True
