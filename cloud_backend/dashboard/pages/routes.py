"""Every page of the dashboard."""

from __future__ import annotations

from fastapi import APIRouter

from cloud_backend.dashboard.fleet.attention import Issue, issues
from cloud_backend.dashboard.fleet.crowd import Crowd
from cloud_backend.dashboard.fleet.overview import FleetOverview
from cloud_backend.dashboard.pages.acting import acting_router
from cloud_backend.dashboard.pages.audit import alert_manners, audit_router
from cloud_backend.dashboard.pages.contracts import contracts_router
from cloud_backend.dashboard.pages.devices import device_manners, devices_router
from cloud_backend.dashboard.pages.fleets import fleet_manners, fleets_router
from cloud_backend.dashboard.pages.jobs import job_act_pages, jobs_router
from cloud_backend.dashboard.pages.live import live_router
from cloud_backend.dashboard.pages.logs import logs_router
from cloud_backend.dashboard.pages.overview import dashboard_router
from cloud_backend.dashboard.pages.people import people_manners, people_router
from cloud_backend.dashboard.pages.program import program_manners, program_router
from cloud_backend.dashboard.pages.queries import queries_router, query_manners
from cloud_backend.dashboard.pages.results import result_manners, results_router
from cloud_backend.dashboard.pages.streams import streams_router
from cloud_backend.dashboard.privacy.hidden import hidden_columns
from cloud_backend.dashboard.sources import Sources

ROUTERS = (
    live_router, devices_router, fleets_router, streams_router, contracts_router, queries_router, jobs_router,
    results_router, audit_router, people_router, program_router, logs_router,
)  # fmt: skip


def pages_router(sources: Sources) -> APIRouter:
    """All pages; include it in the gateway's app."""
    router = APIRouter()
    router.include_router(dashboard_router(_overview(sources), issues=lambda: _issues(sources)))
    for part in ROUTERS:
        router.include_router(part(sources))
    manners = device_manners() | query_manners() | job_act_pages() | result_manners() | people_manners()
    manners |= fleet_manners() | alert_manners() | program_manners()
    router.include_router(acting_router(sources, manners))
    return router


def _overview(sources: Sources) -> FleetOverview:
    def crowd() -> Crowd:
        return sources.look().crowd

    return FleetOverview(
        log=sources.log, results=sources.results, crowd=crowd, clock_us=sources.clock_us,
        quarantined=sources.quarantined, history=sources.history, hidden=lambda sink: hidden_columns(sources, sink),
        names=sources.device_names,
        alerts=lambda: len([alert for alert in sources.alerts.alerts(only_open=True) if alert.kind != "gap"]),
    )  # fmt: skip


def _issues(sources: Sources) -> list[Issue]:
    """What needs attention, from what the other pages show."""
    return issues(
        sources.look().listing, sources.facts.all(sources.stores()), sources.quarantined(),
        sources.alerts.alerts(only_open=True), sources.plan_needs(),
        followers=sources.followers.all(), now_us=sources.clock_us(),
    )  # fmt: skip
