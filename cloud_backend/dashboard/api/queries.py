"""`/v1/api/queries`: submit SQL or a plan, explain, stop, resume, drop."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic import Field

from cloud_backend.dashboard.access import audit
from cloud_backend.dashboard.api.asked import REFUSALS, Body, Done, NameInPath, Operator, Viewer, aside
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.views import queries

SQL_CHARACTERS_MAX = 20_000
NAME_PATTERN = r"^[a-z0-9][a-z0-9_-]{0,39}$"


class Asked(Body):
    sql: str | None = Field(None, max_length=SQL_CHARACTERS_MAX, description="SELECT ... FROM edge ...")
    plan: dict[str, Any] | None = Field(None, description="a plan as `resurge plan FILE --json` prints it")


class Explain(Asked):
    name: str = Field("query", pattern=NAME_PATTERN, description="what its sink would be called if it is SQL")


class Submit(Asked):
    name: str = Field(pattern=NAME_PATTERN, description="its own, and its sink's if it is SQL")


def queries_router(sources: Sources) -> APIRouter:
    router = APIRouter(prefix="/v1/api/queries", tags=["queries"], responses=REFUSALS)

    @router.get("", summary="Every query and what its job does")
    async def list_queries(_: Viewer) -> dict[str, Any]:
        return {"queries": await aside(queries.queries, sources)}

    @router.post("/explain", summary="What a query means, before anything runs")
    async def explain(body: Explain, _: Viewer) -> dict[str, Any]:
        return await aside(queries.explain, sources, body.name, sql=body.sql, plan=body.plan)

    @router.post("", summary="Run a query as a further Spark job")
    async def submit(body: Submit, person: Operator, request: Request) -> dict[str, Any]:
        answer = await aside(queries.submit, sources, person, body.name, sql=body.sql, plan=body.plan)
        await audit(request, person, "query-submitted", body.name)
        return answer

    @router.post("/{name}/stop", summary="Pause it; its job keeps its place")
    async def stop(name: NameInPath, person: Operator, request: Request) -> Done:
        await aside(queries.stop, sources, name)
        await audit(request, person, "query-stopped", name)
        return Done()

    @router.post("/{name}/resume", summary="Go on where it stopped")
    async def resume(name: NameInPath, person: Operator, request: Request) -> Done:
        await aside(queries.resume, sources, name)
        await audit(request, person, "query-resumed", name)
        return Done()

    @router.delete("/{name}", summary="Forget it, its job and its results")
    async def drop(name: NameInPath, person: Operator, request: Request) -> Done:
        await aside(queries.drop, sources, name)
        await audit(request, person, "query-dropped", name)
        return Done()

    return router
