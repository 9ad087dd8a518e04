"""What an operator asks a gateway: is it well, what has it counted, where does every element stand.

Health and readiness are open to anybody and say one word. The rest needs the operator's token, a file in the gateway's
home that only its owner can read: whoever may read the log there may also ask about it here.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from pathlib import Path
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Header, Response
from pydantic import BaseModel, Field

from cloud_backend.gateway.gateway import Gateway
from cloud_backend.gateway.http_problems import Problem, declare
from shared.spool.disk import PosixDisk

TOKEN_FILE = "operator.token"  # noqa: S105 - a file's name


class Health(BaseModel):
    status: Literal["ok", "impaired"] = Field(
        description="impaired: in the last minutes an exchange failed in a way nobody expected; the log says where"
    )


class Ready(BaseModel):
    status: Literal["ready"]


class Account(BaseModel):
    delivered: int = Field(description="elements that data in the log covers")
    ledgered: int = Field(description="elements that a tombstone in the log covers")
    duplicates: int = Field(description="elements the log covers twice; the index lets none in")
    log_end: int = Field(description="offset after the last durable record")
    devices: int = Field(description="installations with at least one edge in the log")


def operator_token(home: Path) -> str:
    """The token of this home; made on first use."""
    path = home / TOKEN_FILE
    if not path.exists():
        PosixDisk(home).replace(TOKEN_FILE, secrets.token_urlsafe(32).encode())
    return path.read_text().strip()


def operations_router(gateway: Gateway) -> APIRouter:
    router = APIRouter(tags=["operations"])
    expected = f"Bearer {operator_token(gateway.settings.home)}".encode()

    def operator_only(authorization: Annotated[str, Header()] = "") -> None:
        if not hmac.compare_digest(authorization.encode("utf-8", "replace"), expected):
            raise Problem(
                "operator-required", f"send the token in {TOKEN_FILE} of the gateway's home as Bearer", status=401
            )

    @router.get("/healthz", responses=declare(503), summary="Whether this gateway takes exchanges")
    async def health() -> Health:
        if gateway.broken is not None:
            raise Problem("log-disk-failed", "the disk refused the log; the gateway is stopping")
        return Health(status="impaired" if gateway.faults.is_recent else "ok")

    @router.get("/readyz", responses=declare(503), summary="Whether exchanges sent to this gateway are taken now")
    async def ready() -> Ready:
        """For a load balancer. Unlike `/healthz` it says no while brokers are away: restarting would not help. One of
        several gateways says no, too, until it knows all owners of partitions, and when it is about to end."""
        code = gateway.unavailable
        if code is not None:
            raise Problem(code, "the log takes nothing now; send devices elsewhere or let them come back", status=503)
        return Ready(status="ready")

    @router.get(
        "/metrics", dependencies=[Depends(operator_only)], summary="Counters in the Prometheus text format",
        response_class=Response, responses={**declare(401), 200: {"content": {"text/plain": {}}}},
    )  # fmt: skip
    async def metrics() -> Response:
        for look in gateway.metrics.before:
            await asyncio.to_thread(look)
        return Response(gateway.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @router.get(
        "/v1/account", dependencies=[Depends(operator_only)], responses=declare(401),
        summary="Where every element that reached this gateway stands",
    )  # fmt: skip
    async def account() -> Account:
        """Read from the log's index, not from counters: a restart changes nothing."""
        edges = list(gateway.log.edges())
        ledgered = sum(state.ledgered for _, state in edges)
        return Account(
            delivered=sum(state.high_water for _, state in edges) - ledgered,
            ledgered=ledgered,
            duplicates=0,
            log_end=gateway.log.durable_end,
            devices=len({(key.device, key.incarnation) for key, _ in edges}),
        )

    return router
