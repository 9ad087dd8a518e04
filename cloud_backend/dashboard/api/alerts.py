"""`/v1/api/alerts` and `/v1/api/webhooks`: what needs attention, and who is told."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Request
from pydantic import Field

from cloud_backend.coordinator.webhooks import URL_CHARACTERS_MAX
from cloud_backend.dashboard.access import audit
from cloud_backend.dashboard.api.asked import REFUSALS, Admin, Body, Done, Limit, NumberInPath, Viewer, aside
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.views import alerts

Kind = Annotated[Literal["gap", "lag", "ledger", "job", "disk"], Path(description="what is watched")]


class SetRule(Body):
    threshold: float = Field(ge=0, le=1e12, strict=False)
    enabled: bool = True


class AddWebhook(Body):
    url: str = Field(max_length=URL_CHARACTERS_MAX, description="http:// or https://HOST/PATH")
    private: bool = Field(False, description="the receiver is on a private network, and that is meant")


def alerts_router(sources: Sources) -> APIRouter:
    router = APIRouter(prefix="/v1/api", tags=["alerts"], responses=REFUSALS)

    @router.get("/alerts", summary="Open alerts first, then those that ended; and the rules")
    async def list_alerts(_: Viewer, limit: Limit = 100) -> dict[str, Any]:
        return await aside(alerts.alerts, sources, limit=limit)

    @router.post("/alerts/rules/{kind}", summary="Change a threshold, or switch a rule off")
    async def set_rule(kind: Kind, body: SetRule, person: Admin, request: Request) -> Done:
        await aside(sources.alerts.set_rule, kind, threshold=body.threshold, enabled=body.enabled)
        await audit(request, person, "alert-rule-set", kind, f"{body.threshold:g}, {'on' if body.enabled else 'off'}")
        return Done()

    @router.get("/webhooks", summary="Who is told, and what still waits to be")
    async def list_webhooks(_: Admin) -> dict[str, Any]:
        return await aside(alerts.webhooks, sources)

    @router.post("/webhooks", summary="Tell an address of every change; answers its secret, once")
    async def add_webhook(body: AddWebhook, person: Admin, request: Request) -> dict[str, Any]:
        answer = await aside(alerts.add_webhook, sources, body.url, private=body.private)
        await audit(request, person, "webhook-added", str(answer["number"]))
        return answer

    @router.delete("/webhooks/{number}", summary="Tell it no more")
    async def remove_webhook(number: NumberInPath, person: Admin, request: Request) -> Done:
        await aside(sources.alerts.remove_webhook, number)
        await audit(request, person, "webhook-removed", str(number))
        return Done()

    @router.post("/webhooks/{number}/test", summary="Send it a message that says it is a test")
    async def test_webhook(number: NumberInPath, person: Admin, request: Request) -> Done:
        await aside(sources.alerts.test_webhook, number, sources.clock_us())
        await audit(request, person, "webhook-tested", str(number))
        return Done()

    return router
