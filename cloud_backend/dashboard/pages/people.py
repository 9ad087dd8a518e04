"""The people who may sign in: for admins."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from cloud_backend.dashboard.acts import people as acts
from cloud_backend.dashboard.acts.act import Act
from cloud_backend.dashboard.pages.acting import ActPage, Visit
from cloud_backend.dashboard.pages.answers import Admin, answer
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.threads import in_thread


def people_router(sources: Sources) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/people", response_class=HTMLResponse)
    async def people_page(request: Request, person: Admin) -> HTMLResponse:
        people = await in_thread(sources.access.people.all)
        return answer(request, "people.html", person, "You", people=people, link="", now_us=sources.clock_us())

    return router


def people_manners() -> dict[Act[Any], ActPage]:
    return {acts.MAKE_LINK: ActPage(done=_link_made)}


def _link_made(visit: Visit, made: dict[str, Any]) -> Response:
    """A page, not a redirect: the link is a secret that belongs into no address."""
    link = str(visit.request.base_url).rstrip("/") + made["path"]
    sources = visit.sources
    return answer(
        visit.request, "people.html", visit.person, "You", people=sources.access.people.all(), link=link,
        name=visit.form.get("name", ""), now_us=sources.clock_us(),
    )  # fmt: skip
