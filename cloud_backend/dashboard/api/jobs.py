"""`/v1/api/jobs`: vertices, ranges, epochs, snapshots, exceptions; roll back and undo that."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field

from cloud_backend.dashboard.access import audit
from cloud_backend.dashboard.api.asked import POSITION_MAX, REFUSALS, Body, NameInPath, Operator, Viewer, aside
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.views import jobs


class Rollback(Body):
    vertex: str = Field(min_length=1, max_length=200, description="whose work is undone")
    to: int = Field(ge=0, le=POSITION_MAX, description="the last epoch to keep")
    ranges: list[Annotated[str, Field(pattern=r"^\d{1,9}-\d{1,9}(@\d{1,15})?$")]] = Field(
        default_factory=list, max_length=64, description="only these hash ranges, as LO-HI"
    )
    dry_run: bool = Field(True, description="only say what it would take")


class Undo(Body):
    entry: int = Field(ge=0, le=POSITION_MAX, description="the rollback's manifest entry")
    dry_run: bool = Field(True, description="only say what it would take")


def jobs_router(sources: Sources) -> APIRouter:
    router = APIRouter(prefix="/v1/api/jobs", tags=["jobs"], responses=REFUSALS)

    @router.get("", summary="Every job: the program's and the queries'")
    async def list_jobs(_: Viewer) -> dict[str, Any]:
        return {"jobs": await aside(jobs.jobs, sources)}

    @router.get("/{name}", summary="Vertices x ranges, epochs, snapshots, exceptions, divisions, rollbacks")
    async def one_job(
        name: NameInPath, _: Viewer, epochs: Annotated[int, Query(ge=1, le=200, description="how many back")] = 20
    ) -> dict[str, Any]:
        return await aside(jobs.job, sources, name, epochs=epochs)

    @router.get("/{name}/plan", summary="Its plan, explained and drawn")
    async def plan(name: NameInPath, _: Viewer) -> dict[str, Any]:
        return await aside(jobs.plan_svg, sources, name)

    @router.post("/{name}/rollback", summary="Undo a vertex's work after an epoch, or say what that takes")
    async def rollback(name: NameInPath, body: Rollback, person: Operator, request: Request) -> dict[str, Any]:
        if not body.dry_run:
            await audit(request, person, "job-rolled-back", name, f"vertex {body.vertex} to epoch {body.to}")
        return await aside(
            jobs.roll_back, sources, name, vertex=body.vertex, to=body.to, ranges=body.ranges, dry_run=body.dry_run
        )

    @router.post("/{name}/undo", summary="Take a rollback back")
    async def undo(name: NameInPath, body: Undo, person: Operator, request: Request) -> dict[str, Any]:
        if not body.dry_run:
            await audit(request, person, "job-rollback-undone", name, f"entry {body.entry}")
        return await aside(jobs.revert, sources, name, entry=body.entry, dry_run=body.dry_run)

    return router
