"""Queries: written, explained and submitted here; each becomes a further job and its sinks show under results."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from cloud_backend.coordinator.people import Person
from cloud_backend.dashboard.acts import queries as acts
from cloud_backend.dashboard.acts.act import Act
from cloud_backend.dashboard.pages.acting import ActPage, Form, Visit
from cloud_backend.dashboard.pages.answers import Operator, Viewer, answer, back
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.threads import in_thread
from cloud_backend.dashboard.views import queries as view
from cloud_backend.dashboard.views.streams import schemas
from cloud_backend.gateway.http_problems import Problem
from shared.errors import UsageError

_LINE = re.compile(r", at [^ ]+\.py:\d+.*", re.DOTALL)


def queries_router(sources: Sources) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/queries", response_class=HTMLResponse)
    async def queries_fragment(request: Request, person: Viewer) -> HTMLResponse:
        found = await in_thread(view.queries, sources)
        return answer(request, "queries.html", person, "Streams", queries=found, now_us=sources.clock_us())

    @router.get("/queries/new", response_class=HTMLResponse)
    async def new_query(request: Request, person: Operator) -> HTMLResponse:
        return await in_thread(_form, request, person, sources, {})

    return router


def query_manners() -> dict[Act[Any], ActPage]:
    return {
        acts.EXPLAIN: ActPage(_question, done=_explained, refused=_not_explained),
        acts.SUBMIT: ActPage(_question, done=_submitted, refused=_not_submitted),
    }


def _question(form: Form) -> Mapping[str, Any]:
    """The page has one text for both languages, and a name that may still be empty."""
    text, name = form.get("text", ""), form.get("name", "").strip()
    named = {"name": name} if name else {}
    if form.get("kind") != "plan":
        return named | {"sql": text or None}
    if len(text) > acts.SQL_CHARACTERS_MAX:
        raise UsageError(f"a query has up to {acts.SQL_CHARACTERS_MAX} characters", code="query-length")
    try:
        return named | {"plan": json.loads(text)}
    except (ValueError, RecursionError):
        raise UsageError(
            "a plan is a JSON object, as `resurge plan FILE --json` prints it", code="query-plan"
        ) from None


def _explained(visit: Visit, found: dict[str, Any]) -> Response:
    return answer(visit.request, "explained.html", visit.person, "Streams", problem="", explained=found)


def _not_explained(visit: Visit, problem: Problem) -> Response:
    return answer(
        visit.request, "explained.html", visit.person, "Streams", problem=_plain(problem), explained=None,
        status=problem.status,
    )  # fmt: skip


def _submitted(_: Visit, query: dict[str, Any]) -> Response:
    return back(f"/jobs/{query['name']}", acts.SUBMIT.word)


def _not_submitted(visit: Visit, problem: Problem) -> Response:
    return _form(visit.request, visit.person, visit.sources, visit.form, problem)


def _plain(problem: Problem) -> str:
    """Without the line of a program: there is none here, and ours says nothing to whoever wrote the query."""
    return _LINE.sub("", problem.detail)


def _form(
    request: Request, person: Person, sources: Sources, form: Form, problem: Problem | None = None
) -> HTMLResponse:
    kind = "plan" if form.get("kind") == "plan" else "sql"
    return answer(
        request, "query_new.html", person, "Streams", streams=dict(sorted(schemas(sources).items())),
        problem="" if problem is None else _plain(problem), kind=kind, name=form.get("name", "")[:40],
        text=form.get("text", "")[: acts.SQL_CHARACTERS_MAX], status=200 if problem is None else problem.status,
    )  # fmt: skip
