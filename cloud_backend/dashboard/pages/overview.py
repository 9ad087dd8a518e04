"""The dashboard's pages and their data: server-rendered, then kept in step by server-sent events.

Everything needs at least a viewer (access.py), except the assets, which the sign-in page needs too.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from functools import cache
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import FileResponse, HTMLResponse, StreamingResponse

from cloud_backend.dashboard.drawing.templating import STATIC, page
from cloud_backend.dashboard.fleet.attention import Issue
from cloud_backend.dashboard.fleet.overview import FleetOverview
from cloud_backend.dashboard.sign_in.access import Person, access_of, anybody, may_still_look, require
from cloud_backend.dashboard.sign_in.security_headers import SECURITY_HEADERS
from cloud_backend.dashboard.threads import in_thread
from cloud_backend.gateway.http_problems import Problem, declare

MEDIA_TYPES = {
    ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".txt": "text/plain",
    ".json": "application/json",
}  # fmt: skip
STREAM_INTERVAL_S = 1.0
POSITION_MAX = (1 << 53) - 1  # beyond it a browser's numbers, and later SQLite's, have no such integer

Position = Annotated[int, Query(ge=0, le=POSITION_MAX)]
Viewer = Annotated[Person, Depends(require("viewer"))]


def dashboard_router(feed: FleetOverview, *, issues: Callable[[], Sequence[Issue]] | None = None) -> APIRouter:
    """The overview, its data and stream, and the assets. Without `issues` the page has no list of them."""
    router = APIRouter()

    @router.get("/", response_class=HTMLResponse, include_in_schema=False)
    async def overview_page(request: Request, person: Viewer) -> HTMLResponse:
        # Charts and results come with the stream; the page itself has the words and the account.
        view = await in_thread(feed.overview, after_second=POSITION_MAX, after_change=POSITION_MAX)
        found = await in_thread(issues) if issues else None
        return page(request, "overview.html", person=person, view=view, issues=found)

    @router.get("/attention", response_class=HTMLResponse, include_in_schema=False)
    async def issues_fragment(request: Request, person: Viewer) -> HTMLResponse:
        found = await in_thread(issues) if issues else []
        return page(request, "issues.html", person=person, issues=found)

    @router.get(
        "/v1/overview", summary="What the overview page shows", tags=["dashboard"], responses=declare(401, 403, 422),
    )  # fmt: skip
    async def overview(person: Viewer, after_second: Position = 0, after_change: Position = 0) -> dict[str, Any]:
        """Phones, the account, arrivals after a second and results after a change number."""
        return await in_thread(
            feed.overview, after_second=after_second, after_change=after_change, exact=person.sees_places
        )

    @router.get(
        "/v1/overview/stream", response_class=StreamingResponse, include_in_schema=False,
    )  # fmt: skip
    async def overview_stream(request: Request, person: Viewer) -> StreamingResponse:
        after_second, after_change = _resume_point(request.headers.get("last-event-id", ""))
        if not after_change:
            after_change = await in_thread(feed.recent_change)
        access_of(request).streams.check_room(person)
        events = _events(feed, request, person, (after_second, after_change))
        return StreamingResponse(events, media_type="text/event-stream", headers=SECURITY_HEADERS)

    @router.get("/static/{name:path}", include_in_schema=False, dependencies=[Depends(anybody)])
    async def static_file(name: str, request: Request) -> Response:
        if name not in _static_names():
            raise Problem("dashboard-static", "the dashboard has no such file", status=404)
        path = STATIC / name
        # An address with a hash of the content may be kept for good; a module imported by bare name is asked for again.
        lasting = "public, max-age=31536000, immutable" if request.url.query else "no-cache"
        headers = SECURITY_HEADERS | {"Cache-Control": lasting}
        return FileResponse(path, media_type=MEDIA_TYPES[path.suffix], headers=headers)

    return router


async def _events(feed: FleetOverview, request: Request, person: Person, after: tuple[int, int]) -> AsyncIterator[str]:
    after_second, after_change = after
    with access_of(request).streams.opened(person):
        yield "retry: 1500\n\n"
        while not await request.is_disconnected() and await in_thread(may_still_look, request):
            view = await in_thread(
                feed.overview, after_second=after_second, after_change=after_change, exact=person.sees_places
            )
            after_second, after_change = view["arrivals"]["until"], view["change"]
            data = json.dumps(view, separators=(",", ":"), allow_nan=False)
            yield f"event: overview\nid: {after_second}:{after_change}\ndata: {data}\n\n"
            await asyncio.sleep(STREAM_INTERVAL_S)


def _resume_point(last_event_id: str) -> tuple[int, int]:
    """Where a browser that was cut off goes on; anything it could not have got from us means: from the start."""
    second, _, change = last_event_id.partition(":")
    if second.isascii() and second.isdigit() and change.isascii() and change.isdigit() and len(last_event_id) < 40:
        return min(int(second), POSITION_MAX), min(int(change), POSITION_MAX)
    return 0, 0


@cache
def _static_names() -> frozenset[str]:
    return frozenset(str(path.relative_to(STATIC)) for path in STATIC.rglob("*") if path.suffix in MEDIA_TYPES)
