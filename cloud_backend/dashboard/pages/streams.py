"""The streams: how fast, how far, how complete; what was given up; and the batches themselves."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from cloud_backend.dashboard.drawing.heat_map import heat_map, strip
from cloud_backend.dashboard.pages.answers import Viewer, answer, refusing, whole_number
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.threads import in_thread
from cloud_backend.dashboard.views import queries
from cloud_backend.dashboard.views import streams as view

ROWS_SHOWN = 50
LEDGER_ROWS = 20
OFFSET_MAX = 1 << 60


def streams_router(sources: Sources) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/streams", response_class=HTMLResponse)
    async def streams_page(request: Request, person: Viewer) -> HTMLResponse:
        found = await in_thread(_listing, sources)
        return answer(request, "streams.html", person, "Streams", part="streams_table.html", **found)

    @router.get("/streams/{stream}", response_class=HTMLResponse)
    async def stream_page(stream: str, request: Request, person: Viewer) -> HTMLResponse:
        with refusing(request):
            found = await in_thread(_one, sources, stream)
        return answer(request, "stream.html", person, "Streams", part="stream_now.html", **found)

    @router.get("/streams/{stream}/batches/{offset}", response_class=HTMLResponse)
    async def batch_fragment(stream: str, offset: str, request: Request, person: Viewer) -> HTMLResponse:
        place = whole_number(offset, highest=OFFSET_MAX)
        with refusing(request):
            found = await in_thread(view.batch, sources, stream, place, exact=person.sees_places)
        return answer(request, "batch.html", person, "Streams", name=stream, batch=found, rows_shown=ROWS_SHOWN)

    return router


def _listing(sources: Sources) -> dict[str, Any]:
    return {
        "now_us": sources.clock_us(), "streams": view.streams(sources), "strip": strip,
        "behind_bytes": sources.history.behind_bytes, "ledger": sources.history.ledger(limit=LEDGER_ROWS),
        "device_names": sources.device_names(), "edge_names": sources.edge_names(),
        "queries": queries.queries(sources),
    }  # fmt: skip


def _one(sources: Sources, name: str) -> dict[str, Any]:
    found = view.activity(sources, name)
    stream = found.stream
    return {
        "now_us": sources.clock_us(), "name": name, "devices": stream.devices, "rate": stream.rate,
        "schema": found.schema, "heat": heat_map(found.rows), "heat_hidden": stream.devices - len(found.rows),
        "batches": found.batches, "counts": found.counts,
        "ledger": sources.history.ledger(edge=stream.number, limit=LEDGER_ROWS),
        "device_names": sources.device_names(), "edge_names": sources.edge_names(),
    }  # fmt: skip
