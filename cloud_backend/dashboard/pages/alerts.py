"""Alerts and webhooks, as the audit page shows them: what is watched, what holds now, who is told."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request, Response

from cloud_backend.dashboard.access import audit
from cloud_backend.dashboard.pages.site import Admin, Fields, Operator, Site, answer, back, refusing, whole_number
from shared.errors import UsageError

ALERTS_SHOWN = 30
WEBHOOK_MAX = 1 << 40


def alerts_view(site: Site) -> dict[str, Any]:
    """What the audit page shows of them."""
    alerts = site.sources.alerts
    return {
        "alerts": alerts.alerts(limit=ALERTS_SHOWN), "rules": list(alerts.rules().values()),
        "webhooks": alerts.webhooks(), "queue": alerts.queue(), "told": alerts.counts(),
    }  # fmt: skip


def alerts_router(site: Site) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.post("/alerts/rules/{kind}")
    async def set_rule(kind: str, request: Request, person: Operator, fields: Fields) -> Response:
        with refusing(request):
            threshold = _number(fields.get("threshold", ""))
            enabled = fields.get("enabled") == "yes"
            await asyncio.to_thread(site.sources.alerts.set_rule, kind, threshold=threshold, enabled=enabled)
        await audit(request, person, "alert-rule-set", kind, f"{threshold:g}" if enabled else "off")
        return back("/audit", "saved")

    @router.post("/alerts/webhooks")
    async def add_webhook(request: Request, person: Admin, fields: Fields) -> Response:
        """A page, not a redirect: the secret is shown once and belongs into no address."""
        private = fields.get("private") == "yes"
        with refusing(request):
            hook = await asyncio.to_thread(
                site.sources.alerts.add_webhook, fields.get("url", ""), site.now_us(), private=private
            )
        await audit(request, person, "webhook-added", str(hook.number))
        return answer(request, "webhook.html", person, "Audit", hook=hook)

    @router.post("/alerts/webhooks/{number}/remove")
    async def remove_webhook(number: str, request: Request, person: Admin) -> Response:
        webhook = whole_number(number, highest=WEBHOOK_MAX)
        with refusing(request):
            await asyncio.to_thread(site.sources.alerts.remove_webhook, webhook)
        await audit(request, person, "webhook-removed", str(webhook))
        return back("/audit", "removed")

    @router.post("/alerts/webhooks/{number}/test")
    async def test_webhook(number: str, request: Request, person: Operator) -> Response:
        webhook = whole_number(number, highest=WEBHOOK_MAX)
        with refusing(request):
            await asyncio.to_thread(site.sources.alerts.test_webhook, webhook, site.now_us())
        await audit(request, person, "webhook-tested", str(webhook))
        return back("/audit", "tested")

    return router


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1e12:
        raise UsageError("a threshold is a number from 0", code="alert-threshold")
    return value
