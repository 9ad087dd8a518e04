"""A node that is out of the fleet for good: its gateway has revoked it.

Its vertices and what it kept for others go elsewhere, as if it had failed, but at once. What it fed goes on without
it: what had arrived of it still counts, and nobody waits for more. A query whose results end on it, or that nobody
else feeds, ends; so does a region, and what only that region fed. As soon as nothing is on it any more it is no peer,
and whoever has its keys is a stranger to all others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import NamedTuple

from shared.hosting.edits import known_routes
from shared.plan.deployment import Deployment, HostedQuery, Region


class Left(NamedTuple):
    """Nodes are out of the fleet, and these queries have ended with them."""

    nodes: tuple[str, ...]  # names
    ended: tuple[str, ...]


def without(fleet: Deployment, gone: Collection[str]) -> Deployment:
    """The fleet without these nodes, but for those that still have a vertex or its snapshots. One that nobody else is
    in stays as it is, without queries."""
    regions = _regions_left(fleet.regions, gone)
    left = {region.name: region for region in regions}
    ended = {region.name for region in fleet.regions} - left.keys()
    queries = [
        _fed_by_others(query, gone)
        for query in fleet.queries
        if query.name in left or (query.name not in ended and _goes_on(query, gone))
    ]
    names = {query.name for query in queries}
    queries = [replace(each, feeds=tuple(feed for feed in each.feeds if feed.query in names)) for each in queries]
    needed = needed_by(queries)
    peers = [peer for peer in fleet.peers if peer.node not in gone or peer.node in needed] or list(fleet.peers)
    nodes = {peer.node for peer in peers}
    carrying = nodes.difference(gone)
    return replace(
        fleet,
        node=fleet.node if fleet.node in nodes else peers[0].node,
        peers=tuple(peers),
        queries=tuple(replace(query, routes=known_routes(query.routes, query, carrying)) for query in queries),
        links=tuple(link for link in fleet.links if {*link.nodes} <= nodes),
        regions=regions,
    )


def needed_by(queries: Iterable[HostedQuery]) -> set[str]:
    """Nodes that have a vertex of these, or its snapshots."""
    return {
        node
        for query in queries
        for placed in query.placements
        for node in (*placed.hosts, *placed.keepers, *placed.next_hosts)
    }


def _regions_left(regions: Iterable[Region], gone: Collection[str]) -> tuple[Region, ...]:
    found: dict[str, Region] = {}
    for region in regions:  # what feeds a region stands before it
        task = _fed_by_others(region.task, gone)
        task = replace(task, feeds=tuple(feed for feed in task.feeds if feed.query in found))
        if task.sink not in gone and (task.sources or task.feeds):
            found[region.name] = replace(region, task=task)  # whoever judges its members finds that some are gone
    return tuple(found.values())


def _goes_on(query: HostedQuery, gone: Collection[str]) -> bool:
    return query.sink not in gone and not set(query.sources) <= set(gone)


def _fed_by_others(query: HostedQuery, gone: Collection[str]) -> HostedQuery:
    return replace(query, sources=tuple(node for node in query.sources if node not in gone))
