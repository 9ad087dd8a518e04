"""The dashboard's pages and their data: server-rendered, then kept in step by server-sent events.

Until people can sign in, the dashboard answers this machine only: the gateway's port is open to phones on any
network, and what it shows (who is where, and when) is nobody else's. The Host header is checked too, so that a
name somebody points at 127.0.0.1 does not make a browser here read it out to them.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from collections.abc import AsyncIterator
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import FileResponse, HTMLResponse, StreamingResponse
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from cloud_backend.dashboard.feed import Feed
from cloud_backend.gateway.problems import Problem, declare

STATIC = Path(__file__).parent / "static"
SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".txt": "text/plain"}
STREAM_INTERVAL_S = 1.0
POSITION_MAX = (1 << 53) - 1  # beyond it a browser's numbers, and later SQLite's, have no such integer

Position = Annotated[int, Query(ge=0, le=POSITION_MAX)]


def dashboard_router(feed: Feed, *, version: str) -> APIRouter:
    """Everything a browser needs; include it in the gateway's app."""
    router = APIRouter(dependencies=[Depends(_this_machine_only)])
    pages = _pages()

    @router.get("/", response_class=HTMLResponse, include_in_schema=False)
    async def overview_page() -> HTMLResponse:
        view = await asyncio.to_thread(feed.overview)
        page = pages.get_template("overview.html").render(view=view, version=version)
        return HTMLResponse(page, headers=SECURITY_HEADERS | {"Cache-Control": "no-store"})

    @router.get("/v1/overview", summary="What the overview page shows", tags=["dashboard"], responses=declare(403, 422))
    async def overview(after_second: Position = 0, after_change: Position = 0) -> dict[str, Any]:
        """Phones, the account, arrivals after a second and results after a change number."""
        return await asyncio.to_thread(feed.overview, after_second=after_second, after_change=after_change)

    @router.get("/v1/overview/stream", response_class=StreamingResponse, include_in_schema=False)
    async def overview_stream(request: Request) -> StreamingResponse:
        after_second, after_change = _resume_point(request.headers.get("last-event-id", ""))
        events = _events(feed, request, after_second, after_change)
        return StreamingResponse(
            events, media_type="text/event-stream", headers=SECURITY_HEADERS | {"Cache-Control": "no-store"}
        )

    @router.get("/static/{name:path}", include_in_schema=False)
    async def static_file(name: str, request: Request) -> Response:
        if name not in _static_names():
            raise Problem("dashboard-static", "the dashboard has no such file", status=404)
        path = STATIC / name
        # An address with a hash of the content may be kept for good; a module imported by bare name is asked for again.
        lasting = "public, max-age=31536000, immutable" if request.url.query else "no-cache"
        headers = SECURITY_HEADERS | {"Cache-Control": lasting}
        return FileResponse(path, media_type=MEDIA_TYPES[path.suffix], headers=headers)

    return router


async def _events(feed: Feed, request: Request, after_second: int, after_change: int) -> AsyncIterator[str]:
    yield "retry: 1500\n\n"
    while not await request.is_disconnected():
        view = await asyncio.to_thread(feed.overview, after_second=after_second, after_change=after_change)
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


def _this_machine_only(request: Request) -> None:
    host = request.headers.get("host", "").rsplit(":", 1)[0].strip("[]")
    peer = request.client.host if request.client else ""
    if not (_is_loopback(peer) and (host == "localhost" or _is_loopback(host))):
        raise Problem(
            "dashboard-elsewhere", "the dashboard answers only on the gateway's own machine; open it there", status=403
        )


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


@cache
def _static_names() -> frozenset[str]:
    return frozenset(str(path.relative_to(STATIC)) for path in STATIC.rglob("*") if path.suffix in MEDIA_TYPES)


@cache
def _static_address(name: str) -> str:
    return f"/static/{name}?{hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]}"


def _pages() -> Environment:
    pages = Environment(
        loader=PackageLoader("cloud_backend.dashboard"), autoescape=select_autoescape(), undefined=StrictUndefined
    )
    pages.globals["static"] = _static_address
    pages.globals["number"] = lambda value: f"{math.floor(value):,}"
    return pages
