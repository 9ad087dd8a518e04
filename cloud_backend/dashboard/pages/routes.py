"""Every page of the dashboard, as one router over one site."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter

from cloud_backend.dashboard.feed import Feed
from cloud_backend.dashboard.fleet import Fleet
from cloud_backend.dashboard.job_facts import JobFacts
from cloud_backend.dashboard.overview import Contact
from cloud_backend.dashboard.pages.alerts import alerts_router
from cloud_backend.dashboard.pages.audit import audit_router
from cloud_backend.dashboard.pages.devices import device_acts_router, devices_router
from cloud_backend.dashboard.pages.jobs import jobs_router
from cloud_backend.dashboard.pages.live import live_router
from cloud_backend.dashboard.pages.queries import queries_router
from cloud_backend.dashboard.pages.results import results_router
from cloud_backend.dashboard.pages.site import Site
from cloud_backend.dashboard.pages.streams import streams_router
from cloud_backend.dashboard.routes import dashboard_router
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.views.hidden import hidden_columns

ROUTERS = (
    live_router, devices_router, device_acts_router, streams_router, queries_router, jobs_router, results_router,
    audit_router, alerts_router,
)  # fmt: skip


def site_of(sources: Sources, quarantined: Callable[[], int] = lambda: 0) -> Site:
    def contacts() -> list[Contact]:
        return [
            Contact(entry.device.hex(), entry.name, entry.seen_us, entry.status)
            for entry in sources.roster.entries()
            if entry.revoked_us is None
        ]

    feed = Feed(
        log=sources.log, results=sources.results, contacts=contacts, clock_us=sources.clock_us,
        quarantined=quarantined, history=sources.history, hidden=lambda sink: hidden_columns(sources, sink),
    )  # fmt: skip
    return Site(sources, sources.history, Fleet(sources.log, sources.history), feed, JobFacts(), quarantined)


def pages_router(site: Site) -> APIRouter:
    """All pages; include it in the gateway's app."""
    router = APIRouter()
    router.include_router(dashboard_router(site.feed, issues=site.issues))
    for part in ROUTERS:
        router.include_router(part(site))
    return router
