"""Which way a device's rows go, when the way they went is gone.

A device that is back says which nodes it reaches now. Where the way of its rows still holds, nobody does anything: it
sends what it has spooled, and that is all. Else only the queries that it can no longer reach get another way, over
nodes that pass the rows on; what others run, and under which term, stays as it was. A way that fails again is replaced
again, and a link that failed is not tried again for a while.

While nobody coordinates, a device takes one of the alternates that its deployment lists (`alternates.py`), and says so
when it can. That way is adopted, or replaced like any other that does not hold.

`forward = "dynamic"` uses one way at a time. `"paths:K"` sends what the device brings back over K ways that share no
node, and goes on with one of them once the device has nothing left from before.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from shared.plan.cuts import region_vertices
from shared.plan.deployment import PATHS_MAX, Deployment, Hop, HostedQuery, Route
from shared.plan.graph import Plan
from shared.recovery.strategies import STRATEGIES
from shared.wire.status import TookStatus

LINK_S = 3.0  # that a link must fail to count: a lost message or two is no reason to go another way
RETRY_S = 30.0  # that a link which failed is not tried again, as long as there is another way
HOPS_MAX = 6
ALTERNATES = 2  # that are listed for each device: one more than can fail together with its way
GONE, MORE, ARRIVED = "its way is gone", "there is another way beside it", "what it brought back has arrived"
TAKEN = "it took this way by itself"

Link = tuple[str, str]


class Rerouted(NamedTuple):
    """The rows of a device go another way."""

    at: float
    query: str
    source: str
    paths: tuple[tuple[str, ...], ...]
    why: str


@dataclass(frozen=True, slots=True)
class Reach:
    """Who can pass rows to whom, as far as nodes have said."""

    carrying: frozenset[str]  # live nodes that may pass rows on
    alive: frozenset[str]
    apart: frozenset[Link]  # from one node to another, now
    failed: frozenset[Link]  # lately
    neighbours: Mapping[str, frozenset[str]]  # of a device that is back: whom it reaches
    returning: frozenset[str]  # devices with rows from before
    linked: frozenset[Link] | None = None  # who is connected at all, where the fleet's file says it

    def holds(self, one: str, other: str) -> bool:
        if one == other:
            return True
        if other not in self.alive:
            return False
        if one in self.neighbours:
            return other in self.neighbours[one]
        return (one, other) not in self.apart and (self.linked is None or (one, other) in self.linked)

    def goes_on(self, device: str, other: str) -> bool:
        """Whether a device still reaches whom it said that it reaches, also where no link is listed."""
        if device in self.neighbours:
            return self.holds(device, other)
        return device == other or (other in self.alive and (device, other) not in self.apart)

    def cautious(self) -> Reach:
        """As if what failed lately still did."""
        return replace(self, apart=self.apart | self.failed)


Share = Callable[[HostedQuery, Route, Sequence[str]], tuple[int, ...]]


def keep_share(_query: HostedQuery, route: Route, path: Sequence[str]) -> tuple[int, ...]:
    """How many of the operators behind a gather are applied by the device and by each node of a path: the device goes
    on with its own, the others only carry."""
    return (route.upto, *(0 for _ in path))


class Routing:
    """Remembers which links failed lately."""

    def __init__(self, share: Share = keep_share) -> None:
        self._share = share
        self._failed: dict[Link, float] = {}  # until when a link is not tried again
        self._forwarding: set[tuple[str, str, str]] = set()  # query, gather and device that got a way since it is back
        self._reading: dict[str, tuple[Plan, dict[str, list[str]]]] = {}  # by query, who reads which gather

    def failed(self, apart: Iterable[Link], now: float) -> frozenset[Link]:
        """The links that failed lately; these do now."""
        self._failed.update(dict.fromkeys(apart, now + RETRY_S))
        self._failed = {link: until for link, until in self._failed.items() if until > now}
        return frozenset(self._failed)

    def rerouted(self, query: HostedQuery, reach: Reach, now: float) -> tuple[HostedQuery, list[Rerouted]]:
        """The query with other ways for those of its devices that need one, and which these are."""
        if all(route.plain for route in query.routes) and not reach.returning & {*query.sources}:
            return query, []
        routes = {(route.gather, route.source): route for route in query.routes}
        events = []
        for gather, hosts in self._hosts(query).items():
            for source in query.sources:
                if source not in reach.alive:
                    continue
                before = query.route(gather, source)
                after = self._route(query, before, hosts, reach)
                if after is not None:
                    route, why = after
                    routes[gather, source] = route
                    paths = tuple(tuple(hop.node for hop in path) for path in route.paths)
                    events.append(Rerouted(now, query.name, source, paths, why))
        return (replace(query, routes=tuple(routes.values())), events) if events else (query, [])

    @staticmethod
    def adopted(
        query: HostedQuery, source: str, took: Sequence[TookStatus], now: float
    ) -> tuple[HostedQuery, list[Rerouted]]:
        """The query with the ways that a node took by itself, as far as they were listed: for its own device's rows, or
        for those that it passes on."""
        events = []
        for each in took:
            for route in query.routes if each.query == query.name else ():
                own = route.source == source
                nodes = [tuple(hop.node for hop in path) for path in (route.alternates if own else route.detours)]
                passes = own or any(hop.node == source for path in route.paths for hop in path)
                if route.gather == each.gather and passes and each.path in nodes:
                    place = nodes.index(each.path)
                    taken = route.taking(place) if own else route.detouring(place)
                    query = replace(query, routes=tuple(taken if one is route else one for one in query.routes))
                    events.append(Rerouted(now, query.name, route.source, (each.path,), TAKEN))
        return query, events

    def listed(self, fleet: Deployment) -> Deployment:
        """The fleet with the alternates of each device: ways that share no node with its own or with each other. They
        depend on nothing that changes while it runs, so that listing them is no reason to deploy."""
        peers = frozenset(peer.node for peer in fleet.peers)
        reach = Reach(
            frozenset(peer.node for peer in fleet.peers if peer.capacity and peer.addresses), peers, frozenset(),
            frozenset(), {}, frozenset(), connected(fleet),
        )  # fmt: skip
        return replace(fleet, queries=tuple(self._listed(query, reach) for query in fleet.queries))

    def _listed(self, query: HostedQuery, reach: Reach) -> HostedQuery:
        routes = {(route.gather, route.source): replace(route, alternates=(), detours=()) for route in query.routes}
        of_region = STRATEGIES[query.row].row.of_region if query.row in STRATEGIES else True
        for gather, hosts in self._hosts(query).items():
            for source in () if of_region or query.feed(gather) is not None else query.sources:
                route = replace(query.route(gather, source), alternates=(), detours=())
                found = _alternates(route, hosts, reach)
                if found or (gather, source) in routes:
                    route = replace(route, alternates=found)
                    routes[gather, source] = replace(route, detours=_detours(route, hosts, reach))
        return replace(query, routes=tuple(route for route in routes.values() if not _says_nothing(route)))

    def _hosts(self, query: HostedQuery) -> dict[str, frozenset[str]]:
        """By gather, the nodes that read it."""
        known = self._reading.get(query.name)
        if known is None or known[0] is not query.plan:  # every status is judged, and cutting a plan takes long
            vertices = region_vertices(query.plan)
            reading = {
                edge.name: [vertex.name for vertex in vertices if edge.name in vertex.inputs]
                for edge in query.plan.gathers
            }
            known = self._reading[query.name] = (query.plan, reading)
        placed = {each.vertex: each.hosts for each in query.placements}
        return {
            name: frozenset(host for vertex in names for host in placed.get(vertex, ()))
            for name, names in known[1].items()
        }

    def _route(
        self, query: HostedQuery, before: Route, hosts: frozenset[str], reach: Reach
    ) -> tuple[Route, str] | None:  # fmt: skip
        source = before.source
        holding = [path for path in before.paths if _holds(source, path, hosts, reach)]
        returning, name = source in reach.returning, (query.name, before.gather, source)
        if not returning:
            self._forwarding.discard(name)
        whole = len(holding) == len(before.paths)
        enough = query.paths if name in self._forwarding or len(before.paths) > 1 else 1
        if holding and whole and (len(holding) >= enough if returning else len(holding) == 1):
            return None
        if holding and not returning:
            return replace(before, paths=(holding[0],)), ARRIVED
        wanted = query.paths if returning else 1
        found = [[hop.node for hop in path] for path in holding[:wanted]]
        while len(found) < wanted:
            used = {node for path in found for node in path}
            path = shortest(source, hosts, reach.cautious(), used) or shortest(source, hosts, reach, used)
            if path is None or path in found:
                break
            found.append(path)
        if not found or [[hop.node for hop in path] for path in before.paths] == found:
            return None
        uptos = [self._share(query, before, path) for path in found]
        paths = tuple(
            tuple(Hop(node, upto) for node, upto in zip(path, each[1:], strict=True))
            for path, each in zip(found, uptos, strict=True)
        )
        self._forwarding.add(name)
        return Route(before.gather, source, uptos[0][0], paths), MORE if whole else GONE


def connected(fleet: Deployment) -> frozenset[Link] | None:
    """Who is connected, where the fleet's file says it."""
    links = [each.nodes for each in fleet.links]
    return frozenset(link for nodes in links for link in (nodes, nodes[::-1])) if links else None


def _alternates(route: Route, hosts: frozenset[str], reach: Reach) -> tuple[tuple[Hop, ...], ...]:
    if hosts <= {route.source}:
        return ()
    used = {hop.node for path in route.paths for hop in path}
    found: list[list[str]] = []
    # Who reads rows directly cannot pass them on as well: a receipt would speak for both.
    if () not in route.paths and not used & hosts and all(reach.holds(route.source, host) for host in hosts):
        found.append([])
    while len(found) < ALTERNATES:
        path = shortest(route.source, hosts, reach, used | hosts)
        if path is None:
            break
        found.append(path)
        used |= {*path}
    return tuple(tuple(map(Hop, path)) for path in found)


def _detours(route: Route, hosts: frozenset[str], reach: Reach) -> tuple[tuple[Hop, ...], ...]:
    """Ways that leave the path of a device's rows behind one of its nodes, at most one for each. They share no node
    with each other, or with anything else that is listed."""
    if len(route.paths) > 1:
        return ()
    (path,) = route.paths
    used = {hop.node for each in (path, *route.alternates) for hop in each} | {route.source}
    found: list[tuple[Hop, ...]] = []
    for at, hop in enumerate(path):
        onward = shortest(hop.node, hosts, reach, used | hosts)
        if onward and at + 1 + len(onward) <= HOPS_MAX and not hosts & {each.node for each in path}:
            found.append((*path[: at + 1], *map(Hop, onward)))
            used |= {*onward}
    return tuple(found[:PATHS_MAX])


def _says_nothing(route: Route) -> bool:
    return route.plain and not route.alternates


def _holds(source: str, path: Sequence[Hop], hosts: frozenset[str], reach: Reach) -> bool:
    if not path:
        return all(reach.holds(source, host) for host in hosts)
    nodes = [hop.node for hop in path]
    between = all(reach.holds(one, other) for one, other in itertools.pairwise(nodes))
    return reach.goes_on(source, nodes[0]) and between and all(reach.holds(nodes[-1], host) for host in hosts)


def shortest(source: str, hosts: frozenset[str], reach: Reach, without: set[str]) -> list[str] | None:
    """The nodes between a device and those who read it, as few as possible; None when there is no way."""
    paths: list[list[str]] = [[]]
    seen = {source, *without}
    for _ in range(HOPS_MAX):
        longer: list[list[str]] = []
        for path in paths:
            last = path[-1] if path else source
            if all(reach.holds(last, host) for host in hosts) and not (not path and without):
                return path
            for node in sorted(reach.carrying - seen):
                if reach.holds(last, node):
                    seen.add(node)
                    longer.append([*path, node])
        paths = longer
    return None
