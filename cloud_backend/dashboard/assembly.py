"""Putting the dashboard together over a gateway: sources, sign-in, pages, API, and what it does by itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fastapi import FastAPI

from cloud_backend.coordinator import alerts, queries
from cloud_backend.coordinator.followers import Followers
from cloud_backend.dashboard.api.acting import acting_router
from cloud_backend.dashboard.api.reading import reading_routers
from cloud_backend.dashboard.history.contracts import audits_of
from cloud_backend.dashboard.history.history import History
from cloud_backend.dashboard.history.job_facts import JobFacts
from cloud_backend.dashboard.pages.routes import pages_router
from cloud_backend.dashboard.pages.sign_in import signin_router
from cloud_backend.dashboard.prometheus import Exposition
from cloud_backend.dashboard.refusals import install_refusals
from cloud_backend.dashboard.sign_in.access import Access, install
from cloud_backend.dashboard.sources import PROGRAM, Sources
from cloud_backend.dashboard.upkeep import Upkeep
from cloud_backend.database import in_home
from cloud_backend.gateway.gateway import Gateway, now_us
from cloud_backend.gateway.operator_routes import operator_token
from cloud_backend.results.store import Results
from cloud_backend.spark.control.jobs import JobDirectory


def include_dashboard(app: FastAPI, gateway: Gateway, results: Results, *, version: str) -> Upkeep:
    """Add everything a person or the command line asks; run the upkeep while the app runs, close it after."""
    sources = sources_of(gateway, results, version=version)
    app.state.sources = sources
    install(app, sources.access)
    install_refusals(app)
    app.include_router(signin_router())
    app.include_router(pages_router(sources))
    for router in (*reading_routers(sources), acting_router(sources)):
        app.include_router(router)
    exposition = Exposition(sources, gateway.metrics.registry)
    gateway.metrics.before.append(exposition.look)
    return Upkeep(
        sources, gateway.appender.run_when_idle if gateway.copy is None else gateway.copy.run_when_idle,
        lambda devices: gateway.waits.news(gateway.downlink.forget_heads(devices)),
    )  # fmt: skip


def sources_of(gateway: Gateway, results: Results, *, version: str) -> Sources:
    settings = gateway.settings
    home = settings.home
    jobs = None if settings.jobs is None else JobDirectory(settings.jobs)

    def stores() -> Mapping[str, Path]:
        program = {} if settings.stable is None else {PROGRAM: settings.stable.parent}
        return program | ({} if jobs is None else {name: jobs.store(name) for name in jobs.names()})

    facts = JobFacts()
    return Sources(
        home=home, log=gateway.disk_log, roster=gateway.roster, results=results,
        access=Access(home, token=operator_token(home), hosts=settings.dashboard_hosts, sign=gateway.keys.sign),
        history=History(gateway.disk_log, home / "history.sqlite"), plan=settings.plan, stores=stores,
        queries=queries.Queries(in_home(home, queries.FILE)), alerts=alerts.Alerts(home / alerts.FILE),
        followers=Followers.of_home(home, settings.results),
        jobs=jobs,
        contracts=audits_of(gateway, results, settings.plan, facts, stores), facts=facts,
        clock_us=now_us, version=version, key=gateway.keys.public_key, quarantined=lambda: gateway.quarantined,
        governed=gateway.fleet, live=gateway.live,
        requests=gateway.downlink.requests, told_us=gateway.told_us, unread=gateway.unread, kafka=gateway.copy,
    )  # fmt: skip
