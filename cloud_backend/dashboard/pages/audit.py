"""The audit: who did what; what is watched, what holds now, who is told."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from cloud_backend.coordinator.people import Person
from cloud_backend.dashboard.acts import alerts as acts
from cloud_backend.dashboard.acts.act import Act
from cloud_backend.dashboard.pages.acting import ActPage, Visit
from cloud_backend.dashboard.pages.answers import Operator, answer, whole_number
from cloud_backend.dashboard.result_alerts import sinks
from cloud_backend.dashboard.sign_in.access import asks_for_part
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.threads import in_thread
from cloud_backend.dashboard.views import alerts
from cloud_backend.dashboard.views import audit as view

LINES_SHOWN = 60
ALERTS_SHOWN = 30
NUMBER_MAX = 1 << 60


def audit_router(sources: Sources) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/audit", response_class=HTMLResponse)
    async def audit_page(request: Request, person: Operator) -> HTMLResponse:
        before = whole_number(request.query_params.get("before"), highest=NUMBER_MAX) or None
        found = await in_thread(view.lines, sources, limit=LINES_SHOWN, before=before)
        fragment = asks_for_part(request)
        watched = {} if fragment else await in_thread(_watched, sources, person)
        return answer(
            request, "audit_table.html" if fragment else "audit.html", person, "Audit", **watched,
            lines=found["lines"], older=found["before"], before=before, now_us=sources.clock_us(),
            device_names=sources.device_names(),
        )  # fmt: skip

    @router.get("/audit/webhooks", response_class=HTMLResponse)
    async def webhooks_fragment(request: Request, person: Operator) -> HTMLResponse:
        found = await in_thread(alerts.webhooks, sources, exact=person.may("admin"))
        return answer(request, "webhooks.html", person, "Audit", **found, now_us=sources.clock_us())

    return router


def alert_manners() -> dict[Act[Any], ActPage]:
    return {acts.ADD_WEBHOOK: ActPage(done=_webhook_added)}


def _webhook_added(visit: Visit, hook: dict[str, Any]) -> Response:
    """A page, not a redirect: the secret is shown once and belongs into no address."""
    return answer(visit.request, "webhook.html", visit.person, "Audit", hook=hook)


def _watched(sources: Sources, person: Person) -> dict[str, Any]:
    found = alerts.alerts(sources, limit=ALERTS_SHOWN) | alerts.webhooks(sources, exact=person.may("admin"))
    return found | {"sinks": sinks(sources)}
