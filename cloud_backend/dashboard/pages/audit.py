"""The audit: who did what."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from cloud_backend.dashboard.access import asks_for_part
from cloud_backend.dashboard.pages.alerts import alerts_view
from cloud_backend.dashboard.pages.site import Operator, Site, answer, whole_number
from cloud_backend.dashboard.views import audit as view

LINES_SHOWN = 60
NUMBER_MAX = 1 << 60


def audit_router(site: Site) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/audit", response_class=HTMLResponse)
    async def audit_page(request: Request, person: Operator) -> HTMLResponse:
        before = whole_number(request.query_params.get("before"), highest=NUMBER_MAX) or None
        found = await asyncio.to_thread(view.lines, site.sources, limit=LINES_SHOWN, before=before)
        fragment = asks_for_part(request)
        alerts = {} if fragment else await asyncio.to_thread(alerts_view, site)
        return answer(
            request, "audit_table.html" if fragment else "audit.html", person, "Audit", **alerts,
            lines=found["lines"], older=found["before"], before=before, now_us=site.now_us(),
            device_names=site.device_names(),
        )  # fmt: skip

    return router
