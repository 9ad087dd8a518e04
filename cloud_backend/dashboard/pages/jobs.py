"""The jobs: how far each vertex is, what went wrong, and going back: dry run, do, undo."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import ValidationError

from cloud_backend.dashboard.acts import jobs as acts
from cloud_backend.dashboard.acts.act import Act, Fields, perform
from cloud_backend.dashboard.drawing.plan_graph import RollbackSet, anchor, plan_graph
from cloud_backend.dashboard.pages.acting import ActPage, Visit
from cloud_backend.dashboard.pages.answers import (
    NOTHING,
    Operator,
    Refused,
    Viewer,
    answer,
    back,
    refusing,
)
from cloud_backend.dashboard.refusals import invalid
from cloud_backend.dashboard.sign_in.access import Person, asks_for_part
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.threads import in_thread
from cloud_backend.dashboard.views import jobs as view
from cloud_backend.dashboard.views.queries import program_sinks
from cloud_backend.spark.manifest.plans import stored_plan
from cloud_backend.spark.storage.store import Store
from shared.errors import UsageError
from shared.plan.graph import Plan


def jobs_router(sources: Sources) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/jobs", response_class=HTMLResponse)
    async def jobs_page(request: Request, person: Viewer) -> HTMLResponse:
        found = await in_thread(_listing, sources)
        return answer(
            request, "jobs.html", person, "Jobs", part="jobs_table.html", jobs=found, now_us=sources.clock_us()
        )

    @router.get("/jobs/{name}", response_class=HTMLResponse)
    async def job_page(name: str, request: Request, person: Viewer) -> HTMLResponse:
        with refusing(request):
            found = await in_thread(_one, sources, name)
        has_run = bool(found["facts"].get("vertices"))
        if has_run and asks_for_part(request) and request.query_params.get("waits"):
            return HTMLResponse("", headers={"HX-Refresh": "true"})  # the page that waited has everything to show now
        part = "job_now.html" if has_run else "job_waits.html"
        return answer(request, "job.html", person, "Jobs", part=part, **found)

    @router.get("/jobs/{name}/rollback", response_class=HTMLResponse)
    async def rollback_dry(name: str, request: Request, person: Operator) -> HTMLResponse:
        given = request.query_params
        vertex, to, ranges = given.get("vertex", ""), given.get("to", ""), " ".join(given.getlist("range"))
        form = {"vertex": vertex, "to": to, "ranges": ranges}
        found = await _dry(sources, acts.ROLLBACK, request, person, name=name, form=form)
        drawn = await in_thread(_rollback, sources, name, found)
        return answer(
            request, "rollback.html", person, "Jobs", name=name, vertex=vertex, to=to, ranges=ranges, undo=found,
            **drawn,
        )  # fmt: skip

    @router.get("/jobs/{name}/undo/{entry}", response_class=HTMLResponse)
    async def undo_dry(name: str, entry: str, request: Request, person: Operator) -> HTMLResponse:
        found = await _dry(sources, acts.UNDO, request, person, name=name, form={"entry": entry})
        return answer(request, "undo.html", person, "Jobs", name=name, undo=found)

    return router


def job_act_pages() -> dict[Act[Any], ActPage]:
    return {acts.ROLLBACK: ActPage(done=_rolled_back)}


def _rolled_back(visit: Visit, done: dict[str, Any]) -> Response:
    return back(f"/jobs/{visit.subject}", acts.ROLLBACK.word if done["entry"] else NOTHING)


async def _dry(
    sources: Sources, act: Act[Any], request: Request, person: Person, *, name: str, form: dict[str, str]
) -> dict[str, Any]:
    """What the act would take, without doing it."""
    with refusing(request):
        try:
            fields: Fields = act.fields.of_form(form | {"dry_run": "yes"})
        except ValidationError as error:
            raise Refused(request, invalid(error, act.fields)) from None
        found: dict[str, Any] = await in_thread(perform, act, sources, person, name, fields)
        return found


def _listing(sources: Sources) -> list[dict[str, Any]]:
    facts = sources.facts.all(sources.stores())
    return [each | {"facts": facts.get(each["name"], {})} for each in view.jobs(sources)]


def _one(sources: Sources, name: str) -> dict[str, Any]:
    about = next((each for each in view.jobs(sources) if each["name"] == name), None)
    if about is None:
        raise UsageError("no job has this name; resurge job names shows those that are", code="job-unknown")
    store = sources.stores()[name]
    facts = sources.facts.of(store)
    plan = _plan(sources, name, facts)
    last = next((each for each in reversed(facts.get("rollbacks", ())) if _is_open(facts, each)), None)
    rolled = RollbackSet(last["R"], last["E"]) if last else None
    graph = plan_graph(plan, facts["vertices"], rolled) if plan else ""
    return {
        "name": name, "job": about, "facts": facts, "graph": graph, "rollback": last, "anchor": anchor,
        "now_us": sources.clock_us(), "sinks": _sinks(sources, name),
    }  # fmt: skip


def _sinks(sources: Sources, name: str) -> list[str]:
    """What the job writes to, as far as rows have come."""
    query = sources.queries.find(name)
    written = program_sinks(sources) if query is None else query.sinks
    come = sources.results.sinks()
    return [sink for sink in written if sink in come]


def _is_open(facts: dict[str, Any], rollback: dict[str, Any]) -> bool:
    """Whether ranges that went back with it are still running again."""
    moved = {(vertex, text) for vertex, text in rollback["moved"]}
    return any(
        each["running_again"] and (vertex["name"], each["range"]) in moved
        for vertex in facts["vertices"]
        for each in vertex["ranges"]
    )


def _plan(sources: Sources, name: str, facts: dict[str, Any]) -> Plan | None:
    number = facts.get("plan")
    return stored_plan(Store(sources.stores()[name]), number) if number else None


def _rollback(sources: Sources, name: str, found: dict[str, Any]) -> dict[str, Any]:
    """The rollback set drawn on the job's plan, and how far each of its ranges is."""
    facts = sources.facts.of(sources.stores()[name])
    plan = _plan(sources, name, facts)
    graph = plan_graph(plan, facts["vertices"], RollbackSet(found["rollback"], found["replay"])) if plan else ""
    positions = {
        f"{each['name']} {part['range']}": part["position"] for each in facts["vertices"] for part in each["ranges"]
    }
    return {"graph": graph, "positions": positions, "epoch": facts["epoch"]}
