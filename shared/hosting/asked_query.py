"""A query that somebody asks a fleet for, and what it becomes: a strategy, a place for every vertex, and its keepers.

The fleet's file asks for queries, and so does a person while the fleet runs. Both come here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from shared.contracts.costs import Host
from shared.contracts.promises import of_fleet
from shared.errors import UsageError
from shared.hosting.shares import first_routes, loads
from shared.language.durations import microseconds
from shared.plan.deployment import ABSENT_S_MAX, DYNAMIC, PATHS_MAX, HostedQuery, Placement
from shared.plan.graph import Plan
from shared.plan.placing import SPREAD, Placed, Refused, place, tasks_of
from shared.plan.topology import Topology
from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.row import Home

EVERY = 500
FORWARDS = (DYNAMIC, *(f"paths:{count}" for count in range(2, PATHS_MAX + 1)))


@dataclass(frozen=True, slots=True)
class AskedQuery:
    """Nodes are ids."""

    name: str
    plan: Plan
    sources: tuple[str, ...]
    sink: str
    strategy: str = ""  # of recovery; empty: what the plan's gathers promise picks it
    every: int | None = None  # elements between two snapshots; None: what the strategy's choice says
    keepers: int = 1
    place: str = SPREAD
    on: tuple[str, ...] = ()  # the nodes that may run it; none named: all
    fixed: Mapping[str, str] = field(default_factory=dict)  # vertex -> the node that must run it
    incarnation: int = 1
    submitted: bool = False
    absent_s: int = 0  # that a node may be silent before anything moves; 0: as what is promised allows
    forward: str = DYNAMIC  # how rows go that cannot go directly


def absent_seconds(text: str) -> int | None:
    """How long a node may be silent, as somebody wrote it; None where that is too short or too long."""
    seconds = microseconds(text) / 1e6
    return round(seconds) if 1 <= seconds <= ABSENT_S_MAX else None


def place_query(
    asked: AskedQuery, topology: Topology, running: Sequence[HostedQuery] = ()
) -> tuple[HostedQuery, Placed]:
    """The query as it would be deployed, and why so. UsageError where there is no place for it."""
    name = asked.name
    tasks = tasks_of(asked.plan, asked.sources)
    if not tasks:
        raise UsageError(
            f"query {name!r} has nothing to run in a region; its program needs .gather(...)", code="query-region"
        )
    if unknown := sorted(asked.fixed.keys() - {task.name for task in tasks}):
        names = ", ".join(task.name for task in tasks)
        raise UsageError(f"query {name!r} places {unknown[0]!r}; its vertices are {names}", code="query-vertex")
    found = place(
        tasks,
        topology,
        asked.sources,
        asked.sink,
        asked.place,
        used=loads(running),
        only=asked.on or None,
        fixed=asked.fixed,
    )
    if isinstance(found, Refused):  # without a place no strategy promises anything
        raise found.error(name)
    able = [node for node, peer in topology.peers.items() if peer.capacity and peer.addresses]
    strategy, every = _strategy(asked, able)
    if not 0 <= asked.keepers < max(1, len(able)):
        raise UsageError(
            f"query {name!r} wants {asked.keepers} keepers; there are {max(0, len(able) - 1)} nodes for it",
            code="query-keepers",
        )
    row = STRATEGIES[strategy].row if strategy in STRATEGIES else None  # which strategies there are is said later
    live = row.copies if row is not None and row.home is Home.NOWHERE else 1
    kept = 0 if row is not None and row.home in (Home.NOWHERE, Home.LOCAL) else asked.keepers
    placed = []
    for vertex, host in found.hosts.items():
        near_it = [host, *_nearest(topology, host, able)]
        # From the incarnation on: no status of an earlier query of this name can be taken for one of this.
        term = asked.incarnation if asked.submitted else 1
        placed.append(Placement(vertex, tuple(near_it[:live]), tuple(near_it[live : live + kept]), term))
    hosted = HostedQuery(
        name, asked.incarnation, asked.plan, strategy, every, asked.sources, asked.sink, tuple(placed),
        "" if asked.place == SPREAD else asked.place, asked.submitted, (), asked.absent_s, asked.forward,
    )  # fmt: skip
    return replace(hosted, routes=first_routes(hosted, topology, running)), found


def _nearest(topology: Topology, host: str, able: Sequence[str]) -> list[str]:
    """The other nodes: those that it reaches at the least cost first, among equals the next in the list."""
    first = able.index(host) if host in able else 0
    others = [able[(first + 1 + step) % len(able)] for step in range(len(able))]
    return sorted((node for node in others if node != host), key=lambda node: topology.cost(node, host))


def _strategy(asked: AskedQuery, able: Sequence[str]) -> tuple[str, int]:
    """Of recovery, and the elements between two snapshots. Where it is not given, what was promised picks it."""
    if asked.strategy:
        return asked.strategy, EVERY if asked.every is None else asked.every
    choice = of_fleet(asked.plan, [Host(node, region="fleet") for node in able])
    if choice.row is None:
        raise UsageError(
            f"query {asked.name!r} promises what cannot be kept: {choice.refused}", code="contract-refused"
        )
    bounded = any(edge.contract.delay_us_max is not None for edge in asked.plan.gathers)
    chosen = choice.every if bounded and choice.every else EVERY
    return choice.row.name, chosen if asked.every is None else asked.every
