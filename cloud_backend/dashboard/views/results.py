"""Results: which sinks there are, what each says, and how many rows of it somebody may take away."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from cloud_backend.dashboard.privacy.hidden import hidden_columns
from cloud_backend.dashboard.privacy.places import coarse, shown
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.views.time_range import ANY_TIME, TimeRange
from cloud_backend.results.rows import ResultRow
from shared.errors import UsageError
from shared.plan import operators as op


def sinks(sources: Sources) -> list[dict[str, Any]]:
    """Every sink that ever answered: its rows, whose it is, and when its newest window ended."""
    owners = {sink: query.name for query in sources.queries.all() for sink in query.sinks}
    return [
        {"sink": sink, "rows": rows, "query": owners.get(sink), "last_us": last_us(sources, sink)}
        for sink, rows in sources.results.sinks().items()
    ]


def rows(
    sources: Sources,
    sink: str,
    *,
    exact: bool,
    within: TimeRange = ANY_TIME,
    before_us: int | None = None,
    limit: int = 100,
) -> dict[str, Any]:
    """A sink's rows of a time, newest windows first; `before_us` goes on where the last answer ended."""
    check_sink(sources, sink)
    hidden: Container[str] = () if exact else hidden_columns(sources, sink)
    found = sources.results.page(sink, from_us=within.from_us, to_us=within.to_us, before_us=before_us, limit=limit)
    more = len(found) >= limit
    names = sources.device_names()
    return {
        "sink": sink,
        "key_names": list(key_names(sources, sink)),
        "rows": [row_shown(row, exact=exact, hidden=hidden) for row in found],
        "device_names": {
            part: names[part] for row in found for part in row.key if isinstance(part, str) and part in names
        },
        "before_us": found[-1].window_end_us if more else None,
    }


def key_names(sources: Sources, sink: str) -> tuple[str, ...]:
    """What the parts of a key are called in the plan that writes this sink; empty where no plan does any more."""
    for plan in sources.plans():
        for node in plan.nodes:
            if isinstance(node.operator, op.Subscribe | op.SyncBack) and node.operator.name == sink:
                return node.type.key
    return ()


def last_us(sources: Sources, sink: str) -> int | None:
    newest = sources.results.latest(sink, limit=1)
    return newest[0].window_end_us if newest else None


def row_shown(row: ResultRow, *, exact: bool, hidden: Container[str] = ()) -> dict[str, Any]:
    return {
        "key": [part if exact or not isinstance(part, float) else coarse(part) for part in row.key],
        "device": row.device,
        "window_start_us": row.window_start_us,
        "window_end_us": row.window_end_us,
        "complete": row.complete,
        "values": shown(row.values, exact=exact, hidden=hidden),
    }


def check_sink(sources: Sources, sink: str) -> None:
    if not sources.results.has(sink):
        raise UsageError("no results have come for a sink of this name yet", code="results-no-sink")
