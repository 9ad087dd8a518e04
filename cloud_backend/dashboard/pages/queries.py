"""Queries: written, explained and submitted here; each becomes a further job and its sinks show under results."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from cloud_backend.coordinator.accounts import Person
from cloud_backend.dashboard.access import audit
from cloud_backend.dashboard.pages.site import Fields, Operator, Site, Viewer, answer, back, refusing
from cloud_backend.dashboard.views import queries as view
from shared.errors import ResurgeError, UsageError

TEXT_CHARACTERS_MAX = 20_000
_LINE = re.compile(r", at [^ ]+\.py:\d+.*", re.DOTALL)


def queries_router(site: Site) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/queries", response_class=HTMLResponse)
    async def queries_fragment(request: Request, person: Viewer) -> HTMLResponse:
        found = await asyncio.to_thread(view.queries, site.sources)
        return answer(request, "queries.html", person, "Streams", queries=found, now_us=site.now_us())

    @router.get("/queries/new", response_class=HTMLResponse)
    async def new_query(request: Request, person: Operator) -> HTMLResponse:
        return _form(request, person, site, {"kind": "sql"})

    @router.post("/queries/explain", response_class=HTMLResponse)
    async def explain(request: Request, person: Operator, fields: Fields) -> HTMLResponse:
        try:
            name, asked = fields.get("name", "").strip(), _asked(fields)
            found = await asyncio.to_thread(lambda: view.explain(site.sources, name, **asked))
        except ResurgeError as error:
            return answer(request, "explained.html", person, "Streams", problem=_plain(error), explained=None)
        return answer(request, "explained.html", person, "Streams", problem="", explained=found)

    @router.post("/queries")
    async def submit(request: Request, person: Operator, fields: Fields) -> Response:
        name = fields.get("name", "").strip()
        try:
            asked = _asked(fields)
            await asyncio.to_thread(lambda: view.submit(site.sources, person, name, **asked))
        except ResurgeError as error:
            return _form(request, person, site, fields, _plain(error))
        await audit(request, person, "query-submitted", name)
        return back(f"/jobs/{name}", "submitted")

    async def act(request: Request, person: Person, name: str, action: str, does: Callable[[], object]) -> Response:
        with refusing(request):
            await asyncio.to_thread(does)
        await audit(request, person, f"query-{action}", name)
        return back("/streams", action)

    @router.post("/queries/{query}/stop")
    async def stop(query: str, request: Request, person: Operator) -> Response:
        return await act(request, person, query, "stopped", lambda: view.stop(site.sources, query))

    @router.post("/queries/{query}/resume")
    async def resume(query: str, request: Request, person: Operator) -> Response:
        return await act(request, person, query, "resumed", lambda: view.resume(site.sources, query))

    @router.post("/queries/{query}/drop")
    async def drop(query: str, request: Request, person: Operator) -> Response:
        return await act(request, person, query, "dropped", lambda: view.drop(site.sources, query))

    return router


def _asked(fields: dict[str, str]) -> dict[str, Any]:
    """SQL or a plan, as the form says; a plan is JSON."""
    text = fields.get("text", "")
    if len(text) > TEXT_CHARACTERS_MAX:
        raise UsageError(f"a query has up to {TEXT_CHARACTERS_MAX} characters", code="query-length")
    if fields.get("kind") != "plan":
        return {"sql": text}
    try:
        return {"plan": json.loads(text)}
    except (ValueError, RecursionError):
        raise UsageError(
            "a plan is a JSON object, as `resurge plan FILE --json` prints it", code="query-plan"
        ) from None


def _plain(error: ResurgeError) -> str:
    """Without the line of a program: there is none here, and ours says nothing to whoever wrote the query."""
    return _LINE.sub("", error.message)


def _form(request: Request, person: Person, site: Site, fields: dict[str, str], problem: str = "") -> HTMLResponse:
    with site.history.lock:
        streams = {site.history.names[edge]: schema for edge, schema in site.history.declared.items()}
    kind = "plan" if fields.get("kind") == "plan" else "sql"
    return answer(
        request, "query_new.html", person, "Streams", streams=dict(sorted(streams.items())), problem=problem, kind=kind,
        name=fields.get("name", "")[:40], text=fields.get("text", "")[:TEXT_CHARACTERS_MAX],
        status=422 if problem else 200,
    )  # fmt: skip
