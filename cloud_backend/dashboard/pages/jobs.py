"""The jobs: how far each vertex is, what went wrong, and going back: dry run, do, undo."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from cloud_backend.dashboard.access import audit
from cloud_backend.dashboard.pages.site import (
    Fields,
    Operator,
    Site,
    Viewer,
    answer,
    back,
    missing,
    part_or_page,
    refusing,
    whole_number,
)
from cloud_backend.dashboard.plan_graph import Marked, anchor, plan_graph
from cloud_backend.dashboard.views import jobs as view
from cloud_backend.spark.plans import stored_plan
from cloud_backend.spark.store import Store
from shared.plan.graph import Plan

EPOCH_MAX = 1 << 40
ENTRY_MAX = 1 << 40


def jobs_router(site: Site) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/jobs", response_class=HTMLResponse)
    async def jobs_page(request: Request, person: Viewer) -> HTMLResponse:
        found = await asyncio.to_thread(_listing, site)
        template = part_or_page(request, "jobs_table.html", "jobs.html")
        return answer(request, template, person, "Jobs", jobs=found, now_us=site.now_us())

    @router.get("/jobs/{job}", response_class=HTMLResponse)
    async def job_page(job: str, request: Request, person: Viewer) -> HTMLResponse:
        found = await asyncio.to_thread(_one, site, job, request)
        template = part_or_page(request, "job_now.html", "job.html")
        return answer(request, template, person, "Jobs", **found)

    @router.get("/jobs/{job}/rollback", response_class=HTMLResponse)
    async def dry_run(job: str, request: Request, person: Operator) -> HTMLResponse:
        asked = request.query_params
        vertex, to = asked.get("vertex", ""), _epoch(asked.get("to"))
        with refusing(request):
            found = await asyncio.to_thread(_dry_run, site, job, vertex, to, _ranges(asked.getlist("range")))
        return answer(request, "rollback.html", person, "Jobs", **found)

    @router.post("/jobs/{job}/rollback")
    async def roll_back(job: str, request: Request, person: Operator, fields: Fields) -> Response:
        vertex, to = fields.get("vertex", ""), _epoch(fields.get("to"))
        ranges = _ranges(fields.get("ranges", "").split())
        with refusing(request):
            # Once without effect: what is refused is not noted as done.
            await asyncio.to_thread(_roll_back, site, job, vertex, to, ranges, dry_run=True)
            await audit(request, person, "rolled-back", f"{job} {vertex}", f"to epoch {to}")
            done = await asyncio.to_thread(_roll_back, site, job, vertex, to, ranges, dry_run=False)
        site.jobs.forget()
        return back(f"/jobs/{job}", "rolled-back" if done["entry"] else "nothing")

    @router.get("/jobs/{job}/undo/{entry}", response_class=HTMLResponse)
    async def undo_dry_run(job: str, entry: str, request: Request, person: Operator) -> HTMLResponse:
        number = whole_number(entry, highest=ENTRY_MAX)
        with refusing(request):
            found = await asyncio.to_thread(view.revert, site.sources, job, entry=number, dry_run=True)
        return answer(request, "undo.html", person, "Jobs", name=job, undo=found)

    @router.post("/jobs/{job}/undo/{entry}")
    async def undo(job: str, entry: str, request: Request, person: Operator) -> Response:
        number = whole_number(entry, highest=ENTRY_MAX)
        with refusing(request):
            await asyncio.to_thread(view.revert, site.sources, job, entry=number, dry_run=True)
            await audit(request, person, "rollback-undone", job, f"manifest entry {number}")
            await asyncio.to_thread(view.revert, site.sources, job, entry=number, dry_run=False)
        site.jobs.forget()
        return back(f"/jobs/{job}", "undone")

    return router


def _roll_back(site: Site, job: str, vertex: str, to: int, ranges: list[str], *, dry_run: bool) -> dict[str, Any]:
    return view.roll_back(site.sources, job, vertex=vertex, to=to, ranges=ranges, dry_run=dry_run)


def _listing(site: Site) -> list[dict[str, Any]]:
    facts = site.jobs.all(site.sources.stores())
    return [each | {"facts": facts.get(each["name"], {})} for each in view.jobs(site.sources)]


def _one(site: Site, name: str, request: Request) -> dict[str, Any]:
    about = next((each for each in view.jobs(site.sources) if each["name"] == name), None)
    if about is None:
        raise missing(request, "job")
    store = site.sources.stores()[name]
    facts = site.jobs.of(store)
    plan = _plan(site, name, facts)
    last = next((each for each in reversed(facts.get("rollbacks", ())) if _is_open(facts, each)), None)
    marked = Marked(last["R"], last["E"]) if last else None
    graph = plan_graph(plan, facts["vertices"], marked) if plan else ""
    return {
        "name": name, "job": about, "facts": facts, "graph": graph, "marked": last, "anchor": anchor,
        "now_us": site.now_us(),
    }  # fmt: skip


def _is_open(facts: dict[str, Any], rollback: dict[str, Any]) -> bool:
    """Whether ranges that went back with it are still running again."""
    moved = {(vertex, text) for vertex, text in rollback["moved"]}
    return any(
        each["running_again"] and (vertex["name"], each["range"]) in moved
        for vertex in facts["vertices"]
        for each in vertex["ranges"]
    )


def _plan(site: Site, name: str, facts: dict[str, Any]) -> Plan | None:
    number = facts.get("plan")
    return stored_plan(Store(site.sources.stores()[name]), number) if number else None


def _dry_run(site: Site, job: str, vertex: str, to: int, ranges: list[str]) -> dict[str, Any]:
    found = _roll_back(site, job, vertex, to, ranges, dry_run=True)
    facts = site.jobs.of(site.sources.stores()[job])
    plan = _plan(site, job, facts)
    graph = plan_graph(plan, facts["vertices"], Marked(found["rollback"], found["replay"])) if plan else ""
    positions = {
        f"{each['name']} {part['range']}": part["position"] for each in facts["vertices"] for part in each["ranges"]
    }
    return {
        "name": job, "vertex": vertex, "to": to, "ranges": ranges, "undo": found, "graph": graph,
        "positions": positions, "epoch": facts["epoch"],
    }  # fmt: skip


def _epoch(text: str | None) -> int:
    return whole_number(text, highest=EPOCH_MAX)


def _ranges(texts: list[str]) -> list[str]:
    return [text for text in texts[:64] if text and len(text) < 40]
