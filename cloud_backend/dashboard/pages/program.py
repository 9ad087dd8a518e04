"""The program: what runs, who has it, and deploying a changed one: a dry run first, then do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from cloud_backend.dashboard.acts import program as acts
from cloud_backend.dashboard.acts.act import Act
from cloud_backend.dashboard.pages.acting import ActPage, Form, Visit
from cloud_backend.dashboard.pages.answers import Viewer, answer, back, refusing
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.threads import in_thread
from cloud_backend.dashboard.views import program as view
from cloud_backend.gateway.http_problems import Problem
from shared.errors import UsageError

TEXT_CHARACTERS_MAX = 1_000_000


def program_router(sources: Sources) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/program", response_class=HTMLResponse)
    async def program_page(request: Request, person: Viewer) -> HTMLResponse:
        with refusing(request):
            found = await in_thread(view.program, sources)
        return answer(request, "program.html", person, "Jobs", program=found)

    return router


def program_manners() -> dict[Act[Any], ActPage]:
    return {acts.DEPLOY: ActPage(_asked, done=_deployed, refused=_refused)}


def _asked(form: Form) -> Mapping[str, Any]:
    text = form.get("text", "")
    dry = {"dry_run": "yes"} if form.get("dry_run") else {}
    try:
        plan = json.loads(text) if len(text) <= TEXT_CHARACTERS_MAX else None
    except (ValueError, RecursionError):
        plan = None
    if not isinstance(plan, dict):
        raise UsageError("a plan is a JSON object, as `resurge plan FILE --json` prints it", code="query-plan")
    return dry | {"plan": plan, "group": form.get("group", "")}


def _deployed(visit: Visit, found: dict[str, Any]) -> Response:
    if not found["dry_run"]:
        return back("/program", acts.DEPLOY.word)
    return answer(
        visit.request, "deployment.html", visit.person, "Jobs", deployment=found, text=visit.form["text"], problem=""
    )


def _refused(visit: Visit, problem: Problem) -> Response:
    return answer(
        visit.request, "deployment.html", visit.person, "Jobs", deployment=None, text="", problem=problem.detail,
        status=problem.status,
    )  # fmt: skip
