"""Queries: what was asked beside the program, what its job does, and what a question means as a plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cloud_backend.coordinator.queries import compile_plan, compile_sql, sinks_of
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.views.streams import schemas
from shared.errors import UsageError
from shared.plan.graph import Plan

SAID_S = 300.0  # a job that works says how it is with each round, of which the longest is a few minutes
STATE = ("state", "wanted", "since", "error")  # of what a job directory says


def queries(sources: Sources) -> list[dict[str, Any]]:
    """Every query, oldest first, and what its job does."""
    states = {} if sources.jobs is None else sources.jobs.status()
    rows, stores = sources.results.sinks(), sources.stores()
    return [
        {
            "name": query.name, "kind": query.kind, "text": query.text, "person": query.person,
            "submitted_us": query.submitted_us, "sinks": list(query.sinks),
            "rows": sum(rows.get(sink, 0) for sink in query.sinks),
            "state": "gone", "wanted": "stopped", "since": None, "error": "",
            "lag_s": 0.0 if query.name not in stores else lag_said(stores[query.name], sources.clock_us()),
        }
        | {key: value for key, value in states.get(query.name, {}).items() if key in STATE}
        for query in sources.queries.all()
    ]  # fmt: skip


def lag_said(store: Path, now_us: int) -> float:
    """How far behind a job last said it is, in seconds; 0 where it has said nothing for a while: it does not work."""
    try:
        status = json.loads((store / "status.json").read_bytes())
        lag_s, at_s = float(status["lag_s"]), float(status["at"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0.0
    return lag_s if now_us / 1_000_000 - at_s < SAID_S else 0.0


def compiled(sources: Sources, name: str, *, sql: str | None, plan: object) -> Plan:
    """The plan that a question means; raises in the words of whoever reads it."""
    if (sql is None) == (plan is None):
        raise UsageError("give either SQL or a plan", code="query-kind")
    if sql is not None:
        program = sources.program()
        missing = {} if program is None else {edge.name: dict(edge.missing) for edge in program.edges}
        return compile_sql(sql, name, schemas(sources), missing)
    return compile_plan(json.dumps(plan).encode())


def program_sinks(sources: Sources) -> tuple[str, ...]:
    program = sources.program()
    return () if program is None else sinks_of(program)
