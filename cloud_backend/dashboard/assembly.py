"""Putting the dashboard together over a gateway: sources, sign-in, pages, API, and what it does by itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fastapi import FastAPI

from cloud_backend.coordinator import alerts, queries
from cloud_backend.dashboard.access import Access, install
from cloud_backend.dashboard.api.alerts import alerts_router
from cloud_backend.dashboard.api.asked import install_errors
from cloud_backend.dashboard.api.devices import devices_router
from cloud_backend.dashboard.api.jobs import jobs_router
from cloud_backend.dashboard.api.people import people_router
from cloud_backend.dashboard.api.queries import queries_router
from cloud_backend.dashboard.api.results import results_router
from cloud_backend.dashboard.api.streams import streams_router
from cloud_backend.dashboard.exposition import Exposition
from cloud_backend.dashboard.history import History
from cloud_backend.dashboard.pages.routes import pages_router, site_of
from cloud_backend.dashboard.signin import signin_router
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.upkeep import Upkeep
from cloud_backend.gateway.gateway import Gateway, now_us
from cloud_backend.gateway.operations import operator_token
from cloud_backend.results.store import Results
from cloud_backend.spark.jobs import JobDirectory

PROGRAM = "main"  # the job of the devices' own program; queries have names of their own


def include_dashboard(app: FastAPI, gateway: Gateway, results: Results, *, version: str) -> Upkeep:
    """Add everything a person or the command line asks; run the upkeep while the app runs, close it after."""
    sources = sources_of(gateway, results, version=version)
    install(app, sources.access)
    install_errors(app)
    app.include_router(signin_router())
    app.include_router(pages_router(site_of(sources, quarantined=lambda: gateway.quarantined)))
    for router in (
        devices_router, streams_router, queries_router, jobs_router, results_router, people_router, alerts_router,
    ):  # fmt: skip
        app.include_router(router(sources))
    exposition = Exposition(sources, gateway.metrics.registry)
    gateway.metrics.before.append(exposition.look)
    return Upkeep(sources, gateway.appender.run_when_idle)


def sources_of(gateway: Gateway, results: Results, *, version: str) -> Sources:
    settings = gateway.settings
    home = settings.home
    jobs = None if settings.jobs is None else JobDirectory(settings.jobs)

    def stores() -> Mapping[str, Path]:
        program = {} if settings.stable is None else {PROGRAM: settings.stable.parent}
        return program | ({} if jobs is None else {name: jobs.store(name) for name in jobs.names()})

    return Sources(
        home=home, log=gateway.log, roster=gateway.roster, results=results,
        access=Access(home, token=operator_token(home), hosts=settings.dashboard_hosts),
        history=History(gateway.log, home / "history.sqlite"), plan=settings.plan, stores=stores,
        queries=queries.Queries(home / queries.FILE), alerts=alerts.Alerts(home / alerts.FILE), jobs=jobs,
        clock_us=now_us, version=version,
    )  # fmt: skip
