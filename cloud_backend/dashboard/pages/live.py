"""What has changed, as server-sent events: one small object a second while somebody looks.

Each part has a version that changes when it does; the page asks for the fragments that show it. So an event costs the
same however much a page shows, and a page that was away needs no history to catch up: the next object says it all.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import StreamingResponse

from cloud_backend.coordinator.people import Person
from cloud_backend.dashboard.sign_in.access import access_of, may_still_look, require
from cloud_backend.dashboard.sign_in.security_headers import SECURITY_HEADERS
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.threads import in_thread
from cloud_backend.dashboard.views import logs

EVERY_S = 1.0
DEVICES_EVERY_S = 2  # contact is a matter of time as well: a silence shows although nothing came


def live_router(sources: Sources) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/live", response_class=StreamingResponse)
    async def live(request: Request, person: Annotated[Person, Depends(require("viewer"))]) -> StreamingResponse:
        access_of(request).streams.check_room(person)
        found = events(sources, request, person)
        return StreamingResponse(found, media_type="text/event-stream", headers=SECURITY_HEADERS)

    return router


async def events(sources: Sources, request: Request, person: Person) -> AsyncIterator[str]:
    with access_of(request).streams.opened(person):
        yield "retry: 1500\n\n"
        while not await request.is_disconnected():
            if not await in_thread(may_still_look, request):
                yield "event: bye\ndata: {}\n\n"
                return
            data = json.dumps(await in_thread(versions, sources), separators=(",", ":"))
            yield f"event: state\ndata: {data}\n\n"
            await asyncio.sleep(EVERY_S)


def versions(sources: Sources) -> dict[str, Any]:
    """A value per part that differs after it changed."""
    return {
        "log": sources.log.durable_end,
        "devices": sources.clock_us() // (DEVICES_EVERY_S * 1_000_000),
        "results": sources.results.last_change(),
        "jobs": _jobs(sources),
        "alerts": sources.alerts.version(),
        "logs": logs.version(sources),
        "audit": [line.number for line in sources.access.audit_log.lines(limit=1)],
    }


def _jobs(sources: Sources) -> list[Any]:
    """When each job last reported: its status file is replaced at every change."""
    found = []
    for name, store in sorted(sources.stores().items()):
        try:
            found.append([name, (store / "status.json").stat().st_mtime_ns])
        except OSError:
            found.append([name, 0])
    return found
