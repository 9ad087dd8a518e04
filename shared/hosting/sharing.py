"""Queries that begin alike: what their devices gather is spooled once, and each query reads it.

Two queries begin alike where their programs do the same on the device, up to `.gather()`, and where whoever reads the
rows may be treated alike: one strategy, so that the marks between the rows serve both. Then the second one joins the
first one's *spooling*. Its vertices are more readers of the same edges, as a gather that several vertices of one query
read: a row is kept until the slowest of them needs it no more, and what is promised of losses is the strictest promise.
When the query that an edge was first made for ends, the others go on with it.

Operators that nodes apply on the way are applied to a device's edge only as far as all who read it have them in common.
A query that comes later finds rows that have met more; so it joins only where it would do the same to them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace

from shared.errors import UsageError
from shared.hosting.given import gathering
from shared.hosting.stamps import Run, gather_run
from shared.plan.alike import device_side
from shared.plan.cuts import region_vertices
from shared.plan.deployment import DYNAMIC, HostedQuery
from shared.plan.encoding import operator_identity
from shared.plan.graph import Plan
from shared.plan.placing import ON_THE_WAY
from shared.recovery.strategies import STRATEGIES
from shared.sync.sharers import QUERIES_MAX


def joining(query: HostedQuery, running: Sequence[HostedQuery]) -> HostedQuery:
    """A new query with the spooling of those that run and begin as it does; as it is where there are none. One that was
    submitted takes the names of their gathers: nobody else reads its own."""
    sources = {*query.sources}
    for spooling in dict.fromkeys(other.spooling for other in running if sources & {*other.sources}):
        others = [other for other in running if other.spooling == spooling]
        if len(others) >= QUERIES_MAX:
            continue
        names = [edge.name for edge in others[0].plan.gathers]
        if query.submitted and len(names) != len(query.plan.gathers):
            continue
        named = replace(query, plan=gathering(query.plan, names)) if query.submitted else query
        # One that ended may have applied on the way whatever those that joined it have as well.
        ended = all((other.name, other.incarnation) != (spooling.query, spooling.incarnation) for other in others)
        if not why_apart(named, others[0]) and _same_forms(named.plan, others, applied=ended):
            return replace(named, shared=spooling)
    return query


def joined(queries: Sequence[HostedQuery], running: Sequence[HostedQuery]) -> tuple[HostedQuery, ...]:
    """Those that run go on with what is spooled for them, whoever began it and wherever they stand in the file; the
    others join them, or each other."""
    before = {(query.name, query.incarnation): query for query in running}
    settled: dict[str, HostedQuery] = {}
    for query in queries:
        known = before.get((query.name, query.incarnation))
        if known is not None and known.plan.gathers == query.plan.gathers:
            settled[query.name] = replace(query, shared=known.shared)
    for query in queries:
        if query.name not in settled:
            settled[query.name] = joining(query, [*settled.values()])
    return tuple(settled[query.name] for query in queries)


def why_apart(query: HostedQuery, other: HostedQuery) -> str:
    """What keeps two queries from reading the same edges, whoever came first; empty where nothing does."""
    one, two = STRATEGIES.get(query.row), STRATEGIES.get(other.row)
    if one is None or two is None or one.row.of_region or two.row.of_region or query.feeds or other.feeds:
        return "one of them goes back with its region"
    if (query.row, query.every) != (other.row, other.every):
        return f"they recover by {query.row!r} every {query.every} and {other.row!r} every {other.every} elements"
    if not query.forward == other.forward == DYNAMIC:
        return "one of them forwards over several paths"
    if device_side(query.plan) != device_side(other.plan):
        return "their programs differ up to .gather()"
    if _sent(query.plan) != _sent(other.plan):
        return "their gathers send in other batches"
    return ""


def check_shared(queries: Sequence[HostedQuery], gather: str) -> None:
    """UsageError where queries that gather under one name from the same device cannot read the same edge."""
    first, *others = queries
    for other in others:
        apart = other.spooling != first.spooling
        if why := why_apart(first, other) or ("the one that ran before has applied other filters" if apart else ""):
            raise UsageError(
                f"queries {first.name!r} and {other.name!r} gather {gather!r} from the same device, and cannot share "
                f"it: {why}; give one of the gathers another name",
                code="deployment-gather",
            )


def in_common(runs: Sequence[Run]) -> int:
    """How many operators all these runs begin with."""
    columns = itertools.zip_longest(*(run.stages for run in runs))
    alike = itertools.takewhile(lambda stages: len({stage and stage.stamp for stage in stages}) == 1, columns)
    return sum(1 for _ in alike) - 1


def _sent(plan: Plan) -> list[tuple[int, int]]:
    return [(edge.batch_rows, edge.within_us) for edge in plan.gathers]


def _same_forms(plan: Plan, others: Iterable[HostedQuery], *, applied: bool) -> bool:
    """Whether all that devices may have spooled for these is readable by this plan. `applied`: also where none of these
    is applied on the way."""
    mine = _runs(plan)
    for other in others:
        theirs = _runs(other.plan)
        if other.retired or any(
            mine[gather][: len(run)] != run for gather, run in theirs.items() if applied or other.place in ON_THE_WAY
        ):
            return False
    return True


def _runs(plan: Plan) -> dict[str, list[str]]:
    vertices = region_vertices(plan)
    found = {edge.name: gather_run(vertices, edge.name) for edge in plan.gathers}
    return {
        gather: [] if run is None else [operator_identity(node.operator) for node in run.nodes]
        for gather, run in found.items()
    }
