"""Who applies what on the way of a device's rows: the filters and projections right behind a gather, by room.

They keep the numbers of rows, so any node may apply them, and stamps say who did (`stamps.py`). `placing.shares` gives
the device and each node that passes its rows on a part of them. One operator takes as much room as one vertex, however
many devices' rows it is applied to. It takes only what vertices leave: a vertex that fails begins again also where
that room is taken, and the next way is shared out without it.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from shared.hosting.routing import Reach, keep_share, shortest
from shared.hosting.stamps import gather_run
from shared.plan.cuts import region_vertices
from shared.plan.deployment import Hop, HostedQuery, Peer, Route
from shared.plan.placing import ON_THE_WAY, shares
from shared.plan.topology import Topology
from shared.recovery.strategies import STRATEGIES


class Applied(NamedTuple):
    """Operators of a run that a node applies to the rows of a device."""

    gather: str
    source: str
    node: str
    operators: tuple[str, ...]  # in words


def loads(queries: Sequence[HostedQuery], without: tuple[str, str] = ("", "")) -> Counter[str]:
    """What each node runs: vertices, and operators on the way but for those behind one gather of one query."""
    found = Counter(host for query in queries for placed in query.placements for host in placed.hosts)
    for query in queries:
        most: dict[tuple[str, str], int] = {}
        for route in query.routes:
            for node, first, last in _parts(route):
                most[route.gather, node] = max(most.get((route.gather, node), 0), last - first)
        for (gather, node), count in most.items():
            if (query.name, gather) != without:
                found[node] += count
    return found


def first_routes(query: HostedQuery, topology: Topology, running: Sequence[HostedQuery]) -> tuple[Route, ...]:
    """The ways of its devices' rows on which something is applied; the others go directly, as they are."""
    strategy = STRATEGIES.get(query.row)
    if query.place not in ON_THE_WAY or strategy is None or strategy.row.of_region:
        return ()
    found: list[Route] = []
    for edge in query.plan.gathers:
        hosts = readers(query, edge.name)
        for source in query.sources:
            if hosts == {source}:  # it reads them itself
                continue
            route = Route(edge.name, source)
            path = _first_path(source, hosts, topology)
            uptos = share(query, route, path, [*topology.peers.values()], [*running, query])
            if any(uptos):
                found.append(with_shares(route, [path], [uptos]))
    return tuple(found)


def share(
    query: HostedQuery, route: Route, path: Sequence[str], peers: Sequence[Peer], queries: Sequence[HostedQuery]
) -> tuple[int, ...]:
    """How many of the operators behind a gather rows have met when they leave the device and each node of a path."""
    if query.place not in ON_THE_WAY:
        return keep_share(query, route, path)
    run = gather_run(region_vertices(query.plan), route.gather)
    taken = loads(queries, without=(query.name, route.gather))
    room = {peer.node: peer.capacity - taken[peer.node] for peer in peers}
    stages = () if run is None else run.stages
    widens = [len(after.wire.names) > len(before.wire.names) for before, after in itertools.pairwise(stages)]
    return shares(query.place, widens, (route.source, *path), room)


def with_shares(route: Route, paths: Sequence[Sequence[str]], uptos: Sequence[Sequence[int]]) -> Route:
    """A route over these paths; `uptos` are, for each, the device's part and that of each node."""
    hops = tuple(
        tuple(Hop(node, upto) for node, upto in zip(path, each[1:], strict=True))
        for path, each in zip(paths, uptos, strict=True)
    )
    return replace(route, upto=uptos[0][0], paths=hops)


def applied(query: HostedQuery) -> list[Applied]:
    """Who applies what on the way, and then what is left to those who read the rows; nothing where all of a run is."""
    vertices = region_vertices(query.plan) if query.routes else ()
    found: list[Applied] = []
    for route in query.routes:
        run = gather_run(vertices, route.gather)
        words = [] if run is None else [node.operator.describe() for node in run.nodes]
        parts = [*dict.fromkeys(_parts(route))]
        met = max((last for _, _, last in parts), default=len(words))
        parts += [(host, met, len(words)) for host in sorted(readers(query, route.gather)) if met < len(words)]
        found += [
            Applied(route.gather, route.source, node, tuple(words[first:last])) for node, first, last in parts
        ]  # fmt: skip
    return found


def readers(query: HostedQuery, gather: str) -> frozenset[str]:
    """The nodes that read a gather."""
    placed = {each.vertex: each.hosts for each in query.placements}
    reading = [vertex for vertex in region_vertices(query.plan) if gather in vertex.inputs]
    return frozenset(host for vertex in reading for host in placed[vertex.name])


def _parts(route: Route) -> Iterator[tuple[str, int, int]]:
    """Each node that applies something, with the places of its first operator and behind its last."""
    if route.upto:
        yield route.source, 0, route.upto
    for path in route.paths:
        met = route.upto
        for hop in path:
            if hop.upto > met:
                yield hop.node, met, hop.upto
                met = hop.upto


def _first_path(source: str, hosts: frozenset[str], topology: Topology) -> list[str]:
    """The nodes between a device and those who read it, where links are listed and none leads there."""
    peers: Mapping[str, Peer] = topology.peers
    linked = frozenset((one, other) for one in peers for other in topology.neighbours(one))
    carrying = frozenset(node for node, peer in peers.items() if peer.capacity and peer.addresses)
    alive = frozenset(peers)
    return (
        shortest(source, hosts, Reach(carrying, alive, frozenset(), frozenset(), {}, frozenset(), linked), set()) or []
    )
