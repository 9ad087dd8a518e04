"""Acts on queries: explain, submit, stop, resume, drop; each query runs as a further Spark job."""

from __future__ import annotations

import json
from typing import Any

from pydantic import Field

from cloud_backend.coordinator.queries import Query, check_sinks, sinks_of
from cloud_backend.dashboard.acts.act import Act, Attempt, Fields, NameInPath, NoFields
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.views.queries import compiled, lag_said, program_sinks, queries
from cloud_backend.spark.control.jobs import JobDirectory
from shared.errors import UsageError
from shared.plan.drawing import svg
from shared.plan.explain import explain as explained

SQL_CHARACTERS_MAX = 20_000
BEHIND_S_MAX = 120.0  # of a job, above which nothing more is begun beside it
NAME_PATTERN = r"^[a-z0-9][a-z0-9_-]{0,39}$"
NAME_WORDS = "up to 40 small letters, digits, '-' and '_', and starts with neither of the last"


class Question(Fields):
    sql: str | None = Field(
        None, max_length=SQL_CHARACTERS_MAX, description="SELECT ... FROM edge ..., up to 20,000 characters"
    )
    plan: dict[str, Any] | None = Field(None, description="a plan as `resurge plan FILE --json` prints it")


class Explain(Question):
    name: str = Field("query", pattern=NAME_PATTERN, description=f"its sink's if it is SQL; {NAME_WORDS}")


class Submit(Question):
    name: str = Field(pattern=NAME_PATTERN, description=f"its own, and its sink's if it is SQL; {NAME_WORDS}")


def explain(attempt: Attempt[Explain]) -> dict[str, Any]:
    """What a query means, before anything runs: the graph, the vertices, and why; nothing is kept."""
    question = attempt.fields
    plan = compiled(attempt.sources, question.name, sql=question.sql, plan=question.plan)
    return {"explanation": explained(plan), "svg": svg(plan), "sinks": list(sinks_of(plan))}


def submit(attempt: Attempt[Submit]) -> dict[str, Any]:
    """Compile a query and want it running; its rows appear under results within an epoch or two."""
    sources, question = attempt.sources, attempt.fields
    jobs = _jobs(sources)
    plan = compiled(sources, question.name, sql=question.sql, plan=question.plan)
    sinks = check_sinks(plan, {*program_sinks(sources), *sources.results.sinks()})
    _check_room(sources)
    on_fleet = sources.governed is not None and sources.governed.runs(question.name)
    if on_fleet or question.name in sources.stores():
        raise UsageError(
            "a job or a fleet's query of this name is there already; choose another name", code="query-name-taken"
        )
    kind, text = ("plan", json.dumps(question.plan)) if question.sql is None else ("sql", question.sql)
    query = Query(question.name, kind, text, attempt.person.name, sources.clock_us(), sinks)
    sources.queries.check(query)
    attempt.note(subject=question.name)
    sources.queries.put(query)
    try:
        jobs.start(question.name, plan)
    except UsageError:
        sources.queries.remove(question.name)
        raise
    return next(each for each in queries(sources) if each["name"] == question.name)


def stop(attempt: Attempt[NoFields]) -> None:
    """Pause it: its job keeps its store and its place in the log."""
    _known(attempt)
    jobs = _jobs(attempt.sources)
    attempt.note()
    jobs.stop(attempt.subject)


def resume(attempt: Attempt[NoFields]) -> None:
    _known(attempt)
    jobs = _jobs(attempt.sources)
    plan = jobs.plan(attempt.subject)
    _check_room(attempt.sources)
    attempt.note()
    jobs.start(attempt.subject, plan)


def drop(attempt: Attempt[NoFields]) -> None:
    """Forget it, its job and its results."""
    query = _known(attempt)
    sources = attempt.sources
    jobs = _jobs(sources)
    attempt.note()
    if query.name in jobs.names():
        jobs.drop(query.name)
    sources.queries.remove(query.name)
    for sink in query.sinks:
        sources.results.forget_sink(sink)


def _known(attempt: Attempt[NoFields]) -> Query:
    query = attempt.sources.queries.find(attempt.subject)
    if query is None:
        raise UsageError("no query has this name; resurge query list shows those that are", code="query-not-found")
    return query


def _check_room(sources: Sources) -> None:
    """Refuse one more query while a job that works does not keep up: they share what Spark has."""
    jobs = {} if sources.jobs is None else sources.jobs.status()
    stopped = {name for name, said in jobs.items() if said["wanted"] == "stopped"}  # whatever they said a moment ago
    for name, store in sorted(sources.stores().items()):
        if name in stopped:
            continue
        behind_s = lag_said(store, sources.clock_us())
        if behind_s > BEHIND_S_MAX:
            raise UsageError(
                f"job {name} is {behind_s:.0f} s behind: there is no room for one more query; stop one, give Spark "
                "more cores, or ask again when it has caught up",
                code="query-room",
            )


def _jobs(sources: Sources) -> JobDirectory:
    if sources.jobs is None:
        raise UsageError(
            "this gateway was started without --jobs, so nothing would run a query; resurge up gives it one",
            code="query-no-runner",
        )
    return sources.jobs


EXPLAIN = Act(
    explain, Explain, "viewer", "", "POST /v1/api/queries/explain", "POST /queries/explain",
    "What a query means, before anything runs", is_question=True,
)  # fmt: skip
SUBMIT = Act(
    submit, Submit, "operator", "query-submitted", "POST /v1/api/queries", "POST /queries",
    "Run a query as a further Spark job", success="The query was submitted; its job starts within seconds.",
    is_question=True,
)  # fmt: skip
STOP = Act(
    stop, NoFields, "operator", "query-stopped", "POST /v1/api/queries/{name}/stop", "POST /queries/{name}/stop",
    "Pause it; its job keeps its place", NameInPath, "The query stops; what it published stays.", "/streams",
)  # fmt: skip
RESUME = Act(
    resume, NoFields, "operator", "query-resumed", "POST /v1/api/queries/{name}/resume",
    "POST /queries/{name}/resume", "Go on where it stopped", NameInPath, "The query goes on where it stopped.",
    "/streams",
)  # fmt: skip
DROP = Act(
    drop, NoFields, "operator", "query-dropped", "DELETE /v1/api/queries/{name}", "POST /queries/{name}/drop",
    "Forget it, its job and its results", NameInPath, "The query is forgotten, with its job and its results.",
    "/streams",
)  # fmt: skip
ACTS = (EXPLAIN, SUBMIT, STOP, RESUME, DROP)
