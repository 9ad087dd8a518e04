"""Fleets: which node runs which vertex of queries that several nodes share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from cloud_backend.dashboard.acts import moves as acts
from cloud_backend.dashboard.acts.act import Act
from cloud_backend.dashboard.drawing.region_map import region_map, region_timeline
from cloud_backend.dashboard.drawing.topology import topology
from cloud_backend.dashboard.pages.acting import ActPage, Visit
from cloud_backend.dashboard.pages.answers import Viewer, answer
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.threads import in_thread
from cloud_backend.dashboard.views import fleets as view
from shared.moves import THIS_GATEWAY

AskedId = Annotated[str, Query(max_length=40, pattern="^[0-9a-f]*$")]
EVENTS_SHOWN = 12
# By state of a vertex: as `parts.state` draws it.
LIGHTS = {"running": "on", "starting": "work", "failed": "wrong", "waiting": "off", "silent": "off"}


def fleet_manners() -> dict[Act[Any], ActPage]:
    return {acts.MOVE: ActPage(done=_asked)}


def _asked(_visit: Visit, answer: Mapping[str, Any]) -> Response:
    """The page waits for what the coordinator says."""
    return RedirectResponse(f"/fleets?asked={answer['id']}", status_code=303)


def fleets_router(sources: Sources) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/fleets", response_class=HTMLResponse)
    async def fleets_page(request: Request, person: Viewer, asked: AskedId = "") -> HTMLResponse:
        found = await in_thread(_listing, sources, asked, movable=person.may("operator"), exact=person.sees_places)
        return answer(request, "fleets.html", person, "Devices", part="fleets_now.html", **found)

    return router


def _listing(sources: Sources, asked: str, *, movable: bool, exact: bool) -> dict[str, Any]:
    found = view.fleets(sources, exact=exact)
    for fleet in found:
        if fleet["regions"]:
            at_us = sources.clock_us() if fleet["current"] else fleet["heard_us"] or sources.clock_us()
            fleet["map"] = region_map(fleet["regions"], exact=exact)
            fleet["timeline"] = region_timeline(fleet["regions"], fleet["events"], at_us)
        fleet["drawing"] = topology(fleet, movable=movable and fleet["current"])
    return {
        "fleets": found, "now_us": sources.clock_us(), "lights": LIGHTS, "asked_id": asked,
        "this_gateway": THIS_GATEWAY, "events_shown": EVENTS_SHOWN,
        "asked": view.asked_for(sources, asked) if asked else None,
    }  # fmt: skip
