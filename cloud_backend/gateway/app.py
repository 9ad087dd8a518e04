"""The gateway's HTTP app: FastAPI for everything that is asked rarely, the ingest route around it.

    app = create_app(settings)         # run it with uvicorn; `python -m cloud_backend.gateway` does

Every status a route can answer is declared, so a generated client or fuzzer knows what to expect.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from cloud_backend.gateway import http_problems, ingest, waits
from cloud_backend.gateway.body_limit import LimitBody
from cloud_backend.gateway.enrolment import enrolment_router
from cloud_backend.gateway.gateway import Gateway
from cloud_backend.gateway.operator_routes import operations_router
from cloud_backend.gateway.settings import Settings

if TYPE_CHECKING:
    from cloud_backend.dashboard.upkeep import Upkeep

VERSION = "1"
REFUSALS = (400, 401, 405, 408, 413, 415, 429, 503)  # of any path that takes frames
REQUEST_BYTES_MAX = 64 * 1024  # of everything but an exchange


class GatewayApp(FastAPI):
    """FastAPI with one path taken out before its middleware; `gateway` is the state behind it all."""

    gateway: Gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == ingest.PATH:
            await self.gateway.ingest(scope, receive, send)
        elif scope["type"] == "http" and scope["path"] == waits.PATH:
            await self.gateway.waits(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            schema = super().openapi()
            schema["paths"][ingest.PATH] = {
                "post": _operation(_EXCHANGE, "A WELCOME frame or a sealed reply", *REFUSALS, 403, 409, 507)
            }
            schema["paths"][waits.PATH] = {"post": _operation(_WAIT, "One byte", *REFUSALS)}
        return self.openapi_schema or {}


def create_app(settings: Settings, *, gateway: Gateway | None = None) -> GatewayApp:
    """The app over a gateway of these settings (or the one given); it is closed when the app shuts down."""
    the_gateway = gateway or Gateway(settings)
    upkeep: list[Upkeep] = []  # of the dashboard, if there is one

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        parts: list[Gateway | Upkeep] = [the_gateway, *upkeep]
        background = [asyncio.create_task(part.run()) for part in parts]
        try:
            yield
        finally:
            the_gateway.waits.release()
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            await the_gateway.close()
            for each in upkeep:
                each.close()

    app = GatewayApp(
        title="Resurge gateway", version=VERSION, lifespan=lifespan, docs_url=None, redoc_url=None,
        responses=http_problems.declare(403, 422),
        description="Devices enrol and exchange here; operators look after it.",
    )  # fmt: skip
    app.gateway = the_gateway
    http_problems.install(app)
    app.add_middleware(LimitBody, bytes_max=REQUEST_BYTES_MAX)
    app.include_router(enrolment_router(the_gateway))
    app.include_router(operations_router(the_gateway))
    if settings.has_dashboard and the_gateway.results is not None:
        from cloud_backend.dashboard.assembly import include_dashboard

        upkeep.append(include_dashboard(app, the_gateway, the_gateway.results, version=VERSION))
    return app


_EXCHANGE = {
    "summary": "One exchange: batches, tombstones and status up; receipts, results, plans and hints down",
    "description": "The body is a HELLO frame or a sealed exchange; docs/formats.md has the bytes. "
    "Repeating any exchange changes nothing.",
    "operationId": "exchange",
}
_WAIT = {
    "summary": "Wait until there is something for a device, fifty seconds at most",
    "description": "The body is a session's id, the last result that its device has, and a MAC; docs/formats.md "
    "has the bytes. Answered with one byte: 1, make an exchange; 0, ask again.",
    "operationId": "wait",
}


def _operation(words: dict[str, str], answer: str, *statuses: int) -> dict[str, Any]:
    """What /openapi.json says of a path that takes and answers frames, with these refusals."""
    frames = {ingest.MEDIA_TYPE.decode(): {"schema": {"type": "string", "format": "binary"}}}
    refusals: dict[str, Any] = {}
    for status, refused in http_problems.declare(*statuses).items():
        refusals[str(status)] = {**refused, "content": {**frames, **refused["content"]}}  # type: ignore[dict-item]
    return {
        "tags": ["devices"],
        **words,
        "requestBody": {"required": True, "content": frames},
        "responses": {"200": {"description": answer, "content": frames}, **refusals},
    }
