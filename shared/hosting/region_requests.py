"""What a person may ask of a running coordinator about regions: which there are, one more of them, or one less.

A region that is added while the fleet runs is `submitted`, as a query is: the fleet's file says nothing of it, and it
stays over a restart. All that can be wrong with a request is found before anything changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from shared.errors import UsageError
from shared.hosting.asked_query import EVERY
from shared.hosting.coordinate import Coordinator
from shared.hosting.given import area_given, named_after, node_id, plan_given, text_given, texts_given, whole
from shared.plan.deployment import PEERS_MAX, Feed, HostedQuery, Region
from shared.plan.operators.operator import check_name
from shared.recovery.strategies import OF_REGION, STRATEGIES

CODE = "region-request"
GIVEN = frozenset(
    {
        "name", "plan", "sources", "sink", "center", "radius_m", "corners", "dwell_s", "threshold", "strategy", "every",
        "after",
    }
)  # fmt: skip
DWELL_S_MAX = 86_400.0


def list_regions(
    coordinator: Coordinator, _: Mapping[str, Any], _now: float, _checked: Callable[[], None]
) -> dict[str, Any]:
    fleet = coordinator.fleet
    names = {peer.node: peer.name for peer in fleet.peers}
    controller = coordinator.regions
    return {
        "regions": [
            {
                "name": region.name, "state": controller.state(region.name).value, "strategy": region.task.row,
                "submitted": region.task.submitted, "points": [list(point) for point in region.area.points],
                "radius_m": region.area.radius_m, "dwell_s": region.dwell_s, "threshold": region.threshold,
                "sources": [names[node] for node in region.task.sources], "sink": names[region.task.sink],
                "after": [feed.query for feed in region.task.feeds],
                "members": [
                    {"name": names[node], "place": controller.place(region.name, node).value} for node in region.members
                ],
            }
            for region in fleet.regions
        ]
    }  # fmt: skip


def add_region(
    coordinator: Coordinator, given: Mapping[str, Any], _now: float, checked: Callable[[], None]
) -> dict[str, Any]:
    """A place and a program that runs there while enough nodes are in it."""
    if extra := sorted(given.keys() - GIVEN):
        raise _wrong(f"a region says {extra[0]!r}; known are {', '.join(sorted(GIVEN))}")
    fleet = coordinator.fleet
    if not fleet.peers:
        raise UsageError("no node offers to host anything yet", code="deployment-peer")
    name = text_given(given, "name")
    check_name(name)
    if name in {*(each.name for each in fleet.regions), *(each.name for each in fleet.queries)}:
        raise UsageError(
            f"a region or query {name!r} is there already; choose another name, or drop it", code="region-taken"
        )
    row, incarnation = given.get("strategy") or OF_REGION, fleet.version + 1
    if row not in STRATEGIES or not STRATEGIES[row].row.between_nodes:
        known = ", ".join(each for each, strategy in STRATEGIES.items() if strategy.row.between_nodes)
        raise _wrong(f"strategy {row!r} of region {name!r} is none of {known}")
    every, threshold, dwell_s = given.get("every") or EVERY, given.get("threshold", 1), given.get("dwell_s", 0.0)
    if not whole(every, 1) or not whole(threshold, 1) or threshold > PEERS_MAX:
        raise _wrong(f"`every` is a whole number from 1 on, `threshold` from 1 to {PEERS_MAX}")
    if not isinstance(dwell_s, int | float) or not 0 <= dwell_s <= DWELL_S_MAX:
        raise _wrong(f"`dwell_s` of region {name!r} is a number of seconds up to a day")
    ids = {peer.name: peer.node for peer in fleet.peers}
    feeds = tuple(_feed(each, name, incarnation) for each in texts_given(given, "after"))
    sources = tuple(node_id(each, ids) for each in texts_given(given, "sources"))
    if not sources and not feeds:
        raise UsageError(f"region {name!r} takes rows from nowhere; name its sources", code="query-sources")
    task = HostedQuery(
        name, incarnation, named_after(plan_given(given.get("plan")), incarnation), row,
        0 if STRATEGIES[row].row.of_region else every, sources,
        node_id(given.get("sink"), ids), (), submitted=True, feeds=feeds,
    )  # fmt: skip
    added = Region(area_given(given, name, CODE), float(dwell_s), threshold, task)
    coordinator.check_regions((*fleet.regions, added))
    checked()
    coordinator.set_regions((*fleet.regions, added))
    return {"name": name, "threshold": threshold, "strategy": row, "added": True}


def drop_region(
    coordinator: Coordinator, given: Mapping[str, Any], _now: float, checked: Callable[[], None]
) -> dict[str, Any]:
    """Its task ends on all its members, which delete what they kept for it."""
    name, regions = text_given(given, "name"), coordinator.fleet.regions
    found = next((region for region in regions if region.name == name), None)
    if found is None:
        known = ", ".join(region.name for region in regions) or "none"
        raise UsageError(f"the fleet has no region of this name (it has: {known})", code="region-unknown")
    if not found.task.submitted:
        raise UsageError(
            f"region {name!r} is in the fleet's file, and would be back at the next start; take it out there",
            code="region-in-file",
        )
    fed = [region.name for region in regions if any(feed.query == name for feed in region.task.feeds)]
    if fed:
        raise UsageError(f"region {name!r} feeds {', '.join(fed)}; drop what it feeds first", code="region-feeds")
    checked()
    coordinator.set_regions([region for region in regions if region is not found])
    return {"name": name, "dropped": True}


def _feed(given: str, name: str, incarnation: int) -> Feed:
    gather, _, upstream = str(given).partition("=")
    region, _, sink = upstream.partition("/")
    if not gather or not region or not sink:
        raise _wrong(f"`after` of region {name!r} is GATHER=REGION/SINK, not {given!r}")
    return Feed(f"{gather}.{incarnation}", region, sink)


def _wrong(message: str) -> UsageError:
    return UsageError(message, code=CODE)
