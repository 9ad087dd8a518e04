"""What a person may ask of a running coordinator: its queries, one more of them, one less, or one with other filters.

Whoever runs a coordinator hands its requests here, wherever it is: names and plain values go in, plain values come out.
All that can be wrong with a request is found before anything changes.

A query that is submitted twice under one name is two queries. So each has an incarnation that was never there before,
the number of the deployment that brings it. Its gathers are named after that, too: a device numbers its rows by the
name of the gather, and a new query has read nothing yet. One that begins as another does reads what that gathers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from shared.errors import UsageError
from shared.hosting.asked_query import FORWARDS, AskedQuery, absent_seconds, place_query
from shared.hosting.coordinate import Coordinator
from shared.hosting.given import gathering, named_after, node_id, plan_given, text_given, texts_given, whole
from shared.hosting.region_requests import add_region, drop_region, list_regions
from shared.hosting.shares import applied, loads
from shared.hosting.sharing import joining
from shared.plan.cuts import region_vertices
from shared.plan.deployment import DYNAMIC, HostedQuery
from shared.plan.encoding import encode_plan
from shared.plan.graph import Plan
from shared.plan.operators.operator import check_name
from shared.plan.placing import PUSH_DOWN, SPREAD, Placed
from shared.plan.topology import Topology

GIVEN = frozenset(
    {"name", "plan", "sources", "sink", "place", "on", "strategy", "every", "keepers", "dry_run", "absent", "forward"}
)  # of a submitted query


def answer(
    coordinator: Coordinator,
    call: str,
    arguments: Mapping[str, Any],
    now: float,
    *,
    checked: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Do what is asked. UsageError, and nothing changes, where it cannot be. `checked` is called when nothing will be
    refused any more, right before something changes."""
    if call not in CALLS:
        raise UsageError(f"a coordinator cannot {call!r}; it can {', '.join(CALLS)}", code="query-request")
    return CALLS[call](coordinator, arguments, now, checked)


def _queries(
    coordinator: Coordinator, _: Mapping[str, Any], now: float, _checked: Callable[[], None]
) -> dict[str, Any]:
    fleet = coordinator.fleet
    names = {peer.node: peer.name for peer in fleet.peers}
    return {
        "queries": [
            {
                "name": query.name, "submitted": query.submitted, "place": query.place or SPREAD,
                "strategy": query.row, "every": query.every, "incarnation": query.incarnation,
                "sources": [names[node] for node in query.sources], "sink": names[query.sink],
                "vertices": [
                    {"vertex": each.vertex, "hosts": [names[node] for node in each.hosts],
                     "keepers": [names[node] for node in each.keepers]}
                    for each in query.placements
                ],
                "plan": encode_plan(query.plan).decode(),
            }
            for query in fleet.queries
        ],
        "nodes": _nodes(coordinator.topology(now), fleet.queries),
    }  # fmt: skip


def _submit(
    coordinator: Coordinator, given: Mapping[str, Any], now: float, checked: Callable[[], None]
) -> dict[str, Any]:
    """Place a query and run it; only say where it would run with `dry_run`."""
    if extra := sorted(given.keys() - GIVEN):
        raise UsageError(f"a query says {extra[0]!r}; known are {', '.join(sorted(GIVEN))}", code="query-request")
    fleet = coordinator.fleet
    if not fleet.peers:
        raise UsageError("no node offers to host anything yet", code="deployment-peer")
    name, dry_run = text_given(given, "name"), bool(given.get("dry_run"))
    check_name(name)
    if any(query.name == name for query in fleet.queries) and not dry_run:
        raise UsageError(f"a query {name!r} runs already; choose another name, or drop it", code="query-name-taken")
    incarnation = fleet.version + 1
    topology = coordinator.topology(now)
    ids = {peer.name: peer.node for peer in fleet.peers}
    on, fixed = nodes_and_places(texts_given(given, "on"), ids)
    plan = plan_given(given.get("plan"))
    sink = node_id(given["sink"], ids) if given.get("sink") else _default_sink(plan, topology)
    if not sink:
        there = ", ".join(ids)
        raise UsageError(
            f"say on which node the results of {name!r} end, or run one beside the gateway (resurge node run --cloud); "
            f"whoever coordinates is none of them ({there})",
            code="query-sink",
        )
    asked = AskedQuery(
        name,
        named_after(plan, incarnation),
        tuple(node_id(each, ids) for each in texts_given(given, "sources")),
        sink,
        given.get("strategy") or "",
        given.get("every"),
        given.get("keepers", 1),
        given.get("place") or PUSH_DOWN,
        on,
        fixed,
        incarnation=incarnation,
        submitted=True,
        absent_s=_absent_s(given.get("absent")),
        forward=_forward(given.get("forward")),
    )
    if (asked.every is not None and not whole(asked.every, 1)) or not whole(asked.keepers, 0):
        raise UsageError("`every` is a whole number from 1 on, `keepers` from 0 on", code="query-request")
    if not asked.sources:
        raise UsageError(f"query {name!r} takes rows from nowhere; name its sources", code="query-sources")
    others = [query for query in fleet.queries if query.name != name]  # asked in vain, one would be in its own way
    hosted, placed = place_query(asked, topology, others)
    joined = joining(hosted, others)
    if joined.shared is not None:
        hosted, placed = place_query(replace(asked, plan=joined.plan), topology, others)
        hosted = replace(hosted, shared=joined.shared)
    coordinator.check((*others, hosted))
    if not dry_run:
        checked()
        coordinator.set_queries((*fleet.queries, hosted))
    return explained(hosted, placed, topology, others) | {"dry_run": dry_run}


def _edit(coordinator: Coordinator, given: Mapping[str, Any], _: float, checked: Callable[[], None]) -> dict[str, Any]:
    """Other filters and projections for a query that runs. Rows on their way finish what they have begun."""
    if extra := sorted(given.keys() - {"name", "plan"}):
        raise UsageError(f"an edit says {extra[0]!r}; known are name, plan", code="query-request")
    before = _submitted(coordinator, text_given(given, "name"), "edit its program, and start the coordinator again")
    plan, gathered = plan_given(given.get("plan")), [edge.name for edge in before.plan.gathers]
    shares = before.shared is not None and len(plan.gathers) == len(gathered)
    plan = gathering(plan, gathered) if shares else named_after(plan, before.incarnation)
    after = coordinator.as_edited(before.name, plan)
    checked()
    queries = coordinator.fleet.queries
    coordinator.set_queries([after if query is before else query for query in queries])
    names = {peer.node: peer.name for peer in coordinator.fleet.peers}
    return {
        "name": after.name, "incarnation": after.incarnation, "edited": after != before,
        "retired": len(after.retired),
        "applied": [
            {"source": names[each.source], "node": names[each.node], "operators": list(each.operators)}
            for each in applied(after)
        ],
    }  # fmt: skip


def _default_sink(plan: Plan, topology: Topology) -> str:
    """Where results end unless somebody says so: beside the coordinator. What ends on the cloud needs no such node;
    then any that can be reached gives the direction."""
    ends = [output for vertex in region_vertices(plan) for output in vertex.fragment.outputs]
    if topology.cloud or any(output.kind == "subscribe" for output in ends):
        return topology.cloud
    return next((node for node, peer in topology.peers.items() if peer.addresses and peer.capacity), "")


def _submitted(coordinator: Coordinator, name: str, instead: str) -> HostedQuery:
    """A query that runs and was submitted."""
    found = next((query for query in coordinator.fleet.queries if query.name == name), None)
    if found is None:
        known = ", ".join(query.name for query in coordinator.fleet.queries) or "none"
        raise UsageError(f"the fleet runs no query of this name (it runs: {known})", code="query-not-found")
    if not found.submitted:
        raise UsageError(f"query {name!r} is in the fleet's file; {instead}", code="query-in-file")
    return found


def _drop(coordinator: Coordinator, given: Mapping[str, Any], _: float, checked: Callable[[], None]) -> dict[str, Any]:
    name = text_given(given, "name")
    found = _submitted(coordinator, name, "it would be back at the next start, so take it out there")
    if any(region.name == name for region in coordinator.fleet.regions):
        raise UsageError(f"{name!r} runs in a region; drop that", code="query-of-region")
    checked()
    coordinator.set_queries([query for query in coordinator.fleet.queries if query is not found])
    return {"name": name, "dropped": True}


CALLS: Mapping[str, Callable[[Coordinator, Mapping[str, Any], float, Callable[[], None]], dict[str, Any]]] = {
    "queries": _queries, "submit": _submit, "edit": _edit, "drop": _drop,
    "regions": list_regions, "add_region": add_region, "drop_region": drop_region,
}  # fmt: skip


def explained(
    hosted: HostedQuery, placed: Placed, topology: Topology, running: Sequence[HostedQuery]
) -> dict[str, Any]:
    """Where a query runs and why, as plain values with nodes' names."""
    name = topology.name
    on: dict[str, list[str]] = {}
    for vertex, host in placed.hosts.items():
        on.setdefault(host, []).append(vertex)
    ways = []
    for origin, path in placed.paths.items():
        hops = [{"node": name(origin), "lane": "", "cost": 0, "runs": on.get(origin, [])}]
        for before, node in zip(path.nodes, path.nodes[1:], strict=False):
            hop = topology.neighbours(before)[node]
            hops.append({"node": name(node), "lane": hop.lane, "cost": hop.cost, "runs": on.get(node, [])})
        ways.append({"from": name(origin), "cost": path.cost, "hops": hops})
    return {
        "name": hosted.name, "incarnation": hosted.incarnation, "place": placed.strategy, "strategy": hosted.row,
        "every": hosted.every, "sources": [name(node) for node in hosted.sources], "sink": name(hosted.sink),
        "shares": "" if hosted.shared is None else hosted.shared.query,
        "vertices": [
            {"vertex": each.vertex, "hosts": [name(node) for node in each.hosts],
             "keepers": [name(node) for node in each.keepers], "why": placed.why[each.vertex]}
            for each in hosted.placements
        ],
        "ways": ways,
        "applied": [
            {"source": name(each.source), "node": name(each.node), "operators": list(each.operators)}
            for each in applied(hosted)
        ],
        "nodes": _nodes(topology, [*running, hosted]),
    }  # fmt: skip


def _nodes(topology: Topology, queries: Sequence[HostedQuery]) -> list[dict[str, Any]]:
    runs = loads(queries)
    return [
        {
            "name": peer.name, "capacity": peer.capacity, "runs": runs[peer.node], "lane": peer.lane,
            "position": None if peer.position is None else list(peer.position),
            "neighbours": {topology.name(other): hop.lane for other, hop in topology.neighbours(peer.node).items()},
        }
        for peer in topology.peers.values()
    ]  # fmt: skip


def nodes_and_places(on: Sequence[str], ids: Mapping[str, str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Who may run a query, and which vertex must run where: each is a node's name, or VERTEX=NODE."""
    nodes: list[str] = []
    fixed: dict[str, str] = {}
    for each in on:
        vertex, equals, node = each.partition("=")
        if equals and each not in ids:
            fixed[vertex] = node_id(node, ids)
        else:
            nodes.append(node_id(each, ids))
    return tuple(nodes), fixed


def _absent_s(value: object) -> int:
    if not value:
        return 0
    seconds = absent_seconds(value) if isinstance(value, str) else None
    if seconds is None:
        raise UsageError("`absent` is a duration from 1 s to 30 days, like '5m'", code="query-request")
    return seconds


def _forward(value: object) -> str:
    if value and value not in FORWARDS:
        raise UsageError(f"`forward` is {FORWARDS[0]}, or {FORWARDS[1]} to {FORWARDS[-1]}", code="query-request")
    return str(value) if value else DYNAMIC
