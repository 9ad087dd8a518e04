"""`/v1/api/results`: sinks, rows, exports."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response

from cloud_backend.dashboard.access import audit
from cloud_backend.dashboard.api.asked import REFUSALS, Before, Limit, NameInPath, Viewer, aside
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.views import exports, results

Format = Annotated[Literal["csv", "parquet", "geojson", "gpx"], Query(description="how to write the rows")]
_CONTENT: dict[str, dict[str, str]] = {media.partition(";")[0]: {} for media in exports.MEDIA_TYPES.values()}


def results_router(sources: Sources) -> APIRouter:
    router = APIRouter(prefix="/v1/api/results", tags=["results"], responses=REFUSALS)

    @router.get("", summary="Every sink and how many rows it has")
    async def list_sinks(_: Viewer) -> dict[str, Any]:
        return {"sinks": await aside(results.sinks, sources)}

    @router.get("/{sink}", summary="A sink's rows, newest windows first")
    async def rows(sink: NameInPath, person: Viewer, before_us: Before = None, limit: Limit = 100) -> dict[str, Any]:
        return await aside(results.rows, sources, sink, exact=person.sees_places, before_us=before_us, limit=limit)

    @router.get(
        "/{sink}/export", summary="A sink's rows as a file", response_class=Response,
        responses={200: {"description": "the file", "content": _CONTENT}},
    )  # fmt: skip
    async def export(sink: NameInPath, person: Viewer, request: Request, format: Format = "csv") -> Response:
        body = await aside(exports.export, sources, sink, format, exact=person.sees_places)
        await audit(request, person, "results-exported", sink, format)
        name = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in sink)
        headers = {"Content-Disposition": f'attachment; filename="{name}.{format}"'}
        return Response(body, media_type=exports.MEDIA_TYPES[format], headers=headers)

    return router
