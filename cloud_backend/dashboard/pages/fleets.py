"""Fleets: which node runs which vertex of queries that several nodes share."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from cloud_backend.dashboard.pages.answers import Viewer, answer
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.threads import in_thread
from cloud_backend.dashboard.views import fleets as view

# By state of a vertex: as `parts.state` draws it.
LIGHTS = {"running": "on", "starting": "work", "failed": "wrong", "waiting": "off", "silent": "off"}


def fleets_router(sources: Sources) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/fleets", response_class=HTMLResponse)
    async def fleets_page(request: Request, person: Viewer) -> HTMLResponse:
        found = await in_thread(_listing, sources)
        return answer(request, "fleets.html", person, "Devices", part="fleets_now.html", **found)

    return router


def _listing(sources: Sources) -> dict[str, Any]:
    return {"fleets": view.fleets(sources), "now_us": sources.clock_us(), "lights": LIGHTS}
