"""Results: which sinks there are, what each says, and how many rows of it somebody may take away."""

from __future__ import annotations

from typing import Any

from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.views.hidden import hidden_columns
from cloud_backend.dashboard.views.places import coarse, shown
from cloud_backend.results.rows import ResultRow
from shared.errors import UsageError


def sinks(sources: Sources) -> list[dict[str, Any]]:
    """Every sink that ever answered, with its rows and whose it is."""
    owners = {sink: query.name for query in sources.queries.all() for sink in query.sinks}
    return [{"sink": sink, "rows": rows, "query": owners.get(sink)} for sink, rows in sources.results.sinks().items()]


def rows(sources: Sources, sink: str, *, exact: bool, before_us: int | None = None, limit: int = 100) -> dict[str, Any]:
    """A sink's rows, newest windows first; `before_us` goes on where the last answer ended."""
    check_sink(sources, sink)
    hidden = frozenset() if exact else hidden_columns(sources, sink)
    found = sources.results.page(sink, before_us=before_us, limit=limit)
    more = len(found) >= limit
    return {
        "sink": sink,
        "rows": [row_shown(row, exact=exact, hidden=hidden) for row in found],
        "before_us": found[-1].window_end_us if more else None,
    }


def row_shown(row: ResultRow, *, exact: bool, hidden: frozenset[str] = frozenset()) -> dict[str, Any]:
    return {
        "key": [part if exact or not isinstance(part, float) else coarse(part) for part in row.key],
        "device": row.device,
        "window_start_us": row.window_start_us,
        "window_end_us": row.window_end_us,
        "complete": row.complete,
        "values": shown(row.values, exact=exact, hidden=hidden),
    }


def check_sink(sources: Sources, sink: str) -> None:
    if sink not in sources.results.sinks():
        raise UsageError("no results have come for a sink of this name yet", code="results-no-sink")
