"""Queries: submit SQL or a plan, explain it, stop and drop it; each runs as a further Spark job."""

from __future__ import annotations

import json
from typing import Any

from cloud_backend.coordinator.queries import Query, check_sinks, compile_plan, compile_sql, sinks_of
from cloud_backend.dashboard.access import Person
from cloud_backend.dashboard.sources import Sources
from cloud_backend.spark.jobs import NAME
from shared.errors import UsageError
from shared.plan.drawing import svg
from shared.plan.encoding import decode_plan
from shared.plan.explain import explain as explained
from shared.plan.graph import Plan
from shared.stream.schema import Schema
from shared.wire.frame import decode_one
from shared.wire.messages import Declare

STATE = ("state", "wanted", "since", "error")  # of what a job directory says


def queries(sources: Sources) -> list[dict[str, Any]]:
    """Every query, oldest first, and what its job does."""
    states = {} if sources.jobs is None else sources.jobs.status()
    rows = sources.results.sinks()
    return [
        {
            "name": query.name, "kind": query.kind, "text": query.text, "person": query.person,
            "submitted_us": query.submitted_us, "sinks": list(query.sinks),
            "rows": sum(rows.get(sink, 0) for sink in query.sinks),
            "state": "gone", "wanted": "stopped", "since": None, "error": "",
        }
        | {key: value for key, value in states.get(query.name, {}).items() if key in STATE}
        for query in sources.queries.all()
    ]  # fmt: skip


def explain(sources: Sources, name: str = "", *, sql: str | None = None, plan: object = None) -> dict[str, Any]:
    """What a query means, before anything runs: the graph, the vertices, and why; nothing is kept.

    SQL without a name yet is explained as `query`."""
    compiled = _compiled(sources, _checked(name or "query"), sql, plan)
    return {"explanation": explained(compiled), "svg": svg(compiled), "sinks": list(sinks_of(compiled))}


def submit(
    sources: Sources, person: Person, name: str, *, sql: str | None = None, plan: object = None
) -> dict[str, Any]:
    """Compile a query and want it running; its rows appear under results within an epoch or two."""
    jobs = _jobs(sources)
    compiled = _compiled(sources, _checked(name), sql, plan)
    sinks = check_sinks(compiled, {*_program_sinks(sources), *sources.results.sinks()})
    if name in sources.stores():
        raise UsageError("a job of this name is there already; choose another name", code="query-name-taken")
    text = sql if sql is not None else json.dumps(plan)
    sources.queries.put(Query(name, "plan" if sql is None else "sql", text, person.name, sources.clock_us(), sinks))
    try:
        jobs.start(name, compiled)
    except UsageError:
        sources.queries.remove(name)
        raise
    return next(each for each in queries(sources) if each["name"] == name)


def stop(sources: Sources, name: str) -> None:
    """Pause it: its job keeps its store and its place in the log."""
    _known(sources, name)
    _jobs(sources).stop(name)


def resume(sources: Sources, name: str) -> None:
    _known(sources, name)
    jobs = _jobs(sources)
    jobs.start(name, jobs.plan(name))


def drop(sources: Sources, name: str) -> None:
    """Forget it, its job and its results."""
    query = _known(sources, name)
    jobs = _jobs(sources)
    if name in jobs.names():
        jobs.drop(name)
    sources.queries.remove(name)
    for sink in query.sinks:
        sources.results.forget_sink(sink)


def _checked(name: str) -> str:
    if not NAME.fullmatch(name):
        raise UsageError(
            "a query's name has up to 40 small letters, digits, '-' and '_', and starts with neither of the last",
            code="query-name",
        )
    return name


def _known(sources: Sources, name: str) -> Query:
    query = sources.queries.named(name)
    if query is None:
        raise UsageError("no query has this name; resurge query list shows those that are", code="query-not-found")
    return query


def _jobs(sources: Sources) -> Any:
    if sources.jobs is None:
        raise UsageError(
            "this gateway was started without --jobs, so nothing would run a query; resurge up gives it one",
            code="query-no-runner",
        )
    return sources.jobs


def _compiled(sources: Sources, name: str, sql: str | None, plan: object) -> Plan:
    if (sql is None) == (plan is None):
        raise UsageError("give either SQL or a plan", code="query-kind")
    if sql is not None:
        return compile_sql(sql, name, _edges(sources))
    return compile_plan(json.dumps(plan).encode())


def _edges(sources: Sources) -> dict[str, Schema]:
    """The streams a query may read: what devices have declared, the newest schema of each."""
    found: dict[str, Schema] = {}
    for _, state in sources.log.edges():
        if state.declaration:
            declared = Declare.of(decode_one(state.declaration)[0])
            found[declared.name] = declared.schema
    return found


def _program_sinks(sources: Sources) -> tuple[str, ...]:
    if sources.plan is None or not sources.plan.exists():
        return ()
    return sinks_of(decode_plan(sources.plan.read_bytes()))
