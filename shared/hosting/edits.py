"""A query that is edited while devices have rows of it.

Where only filters and projections right behind a gather were edited, the vertices go on as they are: what they read is
the same. Rows on their way finish the run that they have begun (`stamps.py`), so the query remembers what it was until
no device has such rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from shared.errors import UsageError
from shared.hosting.routing import Share, keep_share
from shared.hosting.shares import with_shares
from shared.hosting.stamps import Run, gather_run, without_run
from shared.plan.alike import device_side, graph
from shared.plan.cuts import region_vertices
from shared.plan.deployment import RETIRED_MAX, HostedQuery, Route
from shared.plan.encoding import encode_plan, operator_identity
from shared.plan.graph import Plan
from shared.recovery.strategies import STRATEGIES
from shared.wire.status import DeviceStatus


def edited(before: HostedQuery, after: HostedQuery, nodes: Collection[str], share: Share = keep_share) -> HostedQuery:
    """A query as it is from now on, placed as it was, with rows on the ways that they go. `nodes` are those that the
    fleet has; `share` says who applies what of another run."""
    known = known_routes(before.routes, after, nodes)
    there = {(route.gather, route.source) for route in known}
    new = [route for route in after.routes if (route.gather, route.source) not in there]
    merged = replace(
        after,
        placements=before.placements,
        routes=(*known, *new),
        retired=after.retired or before.retired,
        # What its devices have spooled for it stays its own, whoever else began with it.
        shared=before.shared if before.plan.gathers == after.plan.gathers else after.shared,
    )
    runs, runs_before = _runs(after.plan), _runs(before.plan)
    if runs == runs_before:
        return merged
    shared = [_shared_out(merged, route, len(runs.get(route.gather, ())), share) for route in known]
    merged = replace(merged, routes=(*shared, *new))
    if _behind(before.plan) != _behind(after.plan):
        return merged
    plans = [encode_plan(plan) for plan in merged.retired]
    retired = merged.retired if encode_plan(before.plan) in plans else (before.plan, *merged.retired)
    return replace(merged, retired=retired[:RETIRED_MAX])


def check_edit(before: HostedQuery, plan: Plan) -> None:
    """UsageError where a query cannot go on as this plan: only what stands right behind its gathers may differ."""
    name = before.name
    if STRATEGIES[before.row].row.of_region:
        raise UsageError(
            f"query {name!r} goes back as a whole ({before.row}) and cannot be edited; drop it, and submit it again",
            code="query-edit",
        )
    for differs, what in (
        (device_side(before.plan) != device_side(plan), "on the device, up to .gather()"),
        (before.plan.gathers != plan.gathers, "at .gather()"),
        (_behind(before.plan) != _behind(plan), "behind the filters and projections that follow .gather()"),
    ):
        if differs:
            raise UsageError(
                f"the edited query {name!r} differs {what}; only filters and projections right behind .gather() are "
                "edited while it runs. Submit it under another name, or drop it first",
                code="query-edit",
            )
    known = [encode_plan(each) for each in before.retired]
    if len(known) >= RETIRED_MAX and encode_plan(before.plan) not in known and _runs(before.plan) != _runs(plan):
        raise UsageError(
            f"devices may have rows of {RETIRED_MAX} earlier versions of query {name!r}; edit it when some are heard",
            code="query-edit",
        )


def known_routes(routes: Sequence[Route], query: HostedQuery, nodes: Collection[str]) -> tuple[Route, ...]:
    """Routes without the ways over nodes that are no more; a device whose ways all did sends directly."""
    gathers = {edge.name for edge in query.plan.gathers}
    found = []
    for route in routes:
        if route.gather in gathers and route.source in query.sources:
            paths, alternates = (
                tuple(path for path in ways if all(hop.node in nodes for hop in path))
                for ways in (route.paths, route.alternates)
            )
            if not paths:
                paths, alternates = ((),), tuple(path for path in alternates if path)
            found.append(replace(route, paths=paths, alternates=alternates, detours=()))  # listed anew
    return tuple(found)


def _shared_out(query: HostedQuery, route: Route, run: int, share: Share) -> Route:
    """The same ways; each node applies no more than there is."""
    paths = [[hop.node for hop in path] for path in route.paths]
    uptos = [[min(run, upto) for upto in share(query, route, path)] for path in paths]
    return with_shares(route, paths, uptos)


def without_retired(query: HostedQuery, version: int, said: Mapping[str, DeviceStatus]) -> HostedQuery:
    """Without what it was before, once all its devices know what it is now and have nothing from then."""
    if not query.retired:
        return query
    for source in query.sources:
        status = said.get(source)
        if status is None or status.plan < version or status.stamps:
            return query
    return replace(query, retired=())


def _gathers(plan: Plan) -> list[Run]:
    found = [gather_run(region_vertices(plan), edge.name) for edge in plan.gathers]
    return [run for run in found if run is not None]


def _runs(plan: Plan) -> dict[str, list[str]]:
    return {run.gather: [operator_identity(node.operator) for node in run.nodes] for run in _gathers(plan)}


def _behind(plan: Plan) -> list[object]:
    runs = _gathers(plan)
    return [(vertex.name, graph(without_run(vertex, runs).fragment)) for vertex in region_vertices(plan)]
