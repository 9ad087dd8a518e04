"""`/v1/api/streams` and `/v1/api/ledger`: rates, lag, completeness, batches, and what was given up."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from cloud_backend.dashboard.api.asked import REFUSALS, Before, EdgeHex, Limit, MaybeDevice, Viewer, aside
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.views import ledger, streams

BATCHES_MAX = 100


def streams_router(sources: Sources) -> APIRouter:
    router = APIRouter(prefix="/v1/api", tags=["streams"], responses=REFUSALS)

    @router.get("/streams", summary="Every edge: rate, lag, elements, ledgered")
    async def list_streams(_: Viewer) -> dict[str, Any]:
        return {"streams": await aside(streams.streams, sources)}

    @router.get("/streams/{edge}", summary="One edge: schema, devices, completeness by hour, ledger")
    async def one_stream(
        edge: EdgeHex, _: Viewer, hours: Annotated[int, Query(ge=1, le=48, description="how far back")] = 24
    ) -> dict[str, Any]:
        return await aside(streams.stream, sources, edge, hours=hours)

    @router.get("/streams/{edge}/batches", summary="Its newest batches, decoded")
    async def batches(
        edge: EdgeHex, person: Viewer, device: MaybeDevice = "", before: Before = None, limit: Limit = 20
    ) -> dict[str, Any]:
        return await aside(
            streams.batches, sources, edge, exact=person.sees_places, device=device, before=before,
            limit=min(limit, BATCHES_MAX),
        )  # fmt: skip

    @router.get("/ledger", summary="Every range that was given up, and what Spark left out")
    async def list_ledger(
        _: Viewer,
        device: MaybeDevice = "",
        edge: Annotated[str, Query(pattern=r"^([0-9a-f]{16})?$", description="only of this edge")] = "",
        limit: Limit = 100,
    ) -> dict[str, Any]:
        return await aside(ledger.ledger, sources, device=device, edge_hex=edge, limit=limit)

    return router
