"""Contracts: what each sink promised, and what was kept."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from cloud_backend.dashboard.pages.answers import Viewer, answer, refusing, whole_number
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.threads import in_thread
from cloud_backend.dashboard.views import contracts as view

NUMBER_MAX = 1 << 60
REPORTS_SHOWN = 48


def contracts_router(sources: Sources) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/contracts", response_class=HTMLResponse)
    async def contracts_page(request: Request, person: Viewer) -> HTMLResponse:
        found = await in_thread(_listing, sources)
        return answer(request, "contracts.html", person, "Streams", part="contracts_table.html", **found)

    @router.get("/contracts/{sink}", response_class=HTMLResponse)
    async def contract_page(sink: str, request: Request, person: Viewer) -> HTMLResponse:
        before = whole_number(request.query_params.get("before"), highest=NUMBER_MAX) or None
        with refusing(request):
            found = await in_thread(view.contract, sources, sink, limit=REPORTS_SHOWN, before=before)
        names = await in_thread(sources.device_names)
        return answer(
            request, "contract.html", person, "Streams", **found, older=found["before"], shown_before=before,
            device_names=names, lights=view.LIGHTS,
        )  # fmt: skip

    return router


def _listing(sources: Sources) -> dict[str, Any]:
    return view.contracts(sources) | {"lights": view.LIGHTS, "latest": view.reports(sources, limit=12)["reports"]}
