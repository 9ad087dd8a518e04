"""Every page of the dashboard, as one router over one site, and the task that keeps reading the log for them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable

from fastapi import APIRouter, FastAPI

from cloud_backend.dashboard.feed import Feed
from cloud_backend.dashboard.fleet import Fleet
from cloud_backend.dashboard.overview import Contact
from cloud_backend.dashboard.pages.devices import devices_router
from cloud_backend.dashboard.pages.live import live_router
from cloud_backend.dashboard.pages.site import Site
from cloud_backend.dashboard.pages.streams import streams_router
from cloud_backend.dashboard.routes import dashboard_router
from cloud_backend.dashboard.sources import Sources

FOLLOW_EVERY_S = 5.0
FOLLOW_S_MAX = 0.05  # at a time: while it catches up with a long past, exchanges come first
CATCH_UP_PAUSE_S = 0.05


def site_of(sources: Sources, quarantined: Callable[[], int] = lambda: 0) -> Site:
    def contacts() -> list[Contact]:
        return [
            Contact(entry.device.hex(), entry.name, entry.seen_us, entry.status)
            for entry in sources.roster.entries()
            if entry.revoked_us is None
        ]

    feed = Feed(
        log=sources.log, results=sources.results, contacts=contacts, clock_us=sources.clock_us,
        quarantined=quarantined, history=sources.history,
    )  # fmt: skip
    return Site(sources, sources.history, Fleet(sources.log, sources.history), feed, quarantined)


def pages_router(site: Site) -> APIRouter:
    """All pages; include it in the gateway's app."""

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        following = asyncio.create_task(follow(site))
        try:
            yield
        finally:
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await following
            await asyncio.to_thread(site.history.close)

    router = APIRouter(lifespan=lifespan)
    router.include_router(dashboard_router(site.feed, issues=site.issues))
    for part in (live_router, devices_router, streams_router):
        router.include_router(part(site))
    return router


async def follow(site: Site) -> None:
    """Take in the log every few seconds, so that the first page of the morning has nothing to catch up with."""
    while True:
        left = 0
        try:
            left = await asyncio.to_thread(site.history.follow, seconds_max=FOLLOW_S_MAX)
        except Exception:  # the edge of a task: a page that reads the log says what is wrong with it
            logging.getLogger("resurge.dashboard").exception("reading the log for the pages failed; trying again")
        await asyncio.sleep(CATCH_UP_PAUSE_S if left else FOLLOW_EVERY_S)
