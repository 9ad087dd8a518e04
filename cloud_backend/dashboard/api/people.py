"""`/v1/api/me`, `/v1/api/accounts`, `/v1/api/audit`: who may do what, and who did."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Request
from pydantic import Field

from cloud_backend.coordinator.accounts import PASSWORD_CHARACTERS_MAX, PASSWORD_CHARACTERS_MIN
from cloud_backend.dashboard.access import audit
from cloud_backend.dashboard.api.asked import REFUSALS, Admin, Before, Body, Done, Limit, Operator, Viewer, aside
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.views import audit as audit_view

NAME = r"^[a-z0-9][a-z0-9._-]{0,39}$"
Role = Literal["viewer", "operator", "admin"]
AccountName = Annotated[str, Path(pattern=NAME)]


class PutAccount(Body):
    name: str = Field(pattern=NAME)
    role: Role
    password: str | None = Field(
        None, min_length=PASSWORD_CHARACTERS_MIN, max_length=PASSWORD_CHARACTERS_MAX,
        description="left out: a one-time link is enough to begin with",
    )  # fmt: skip


class MakeLink(Body):
    name: str = Field(pattern=NAME)
    role: Role = Field("viewer", description="of a new account; one that is there keeps its own")


def people_router(sources: Sources) -> APIRouter:
    router = APIRouter(prefix="/v1/api", tags=["people"], responses=REFUSALS)
    accounts = sources.access.accounts

    @router.get("/me", summary="Who asks, and as what")
    async def me(person: Viewer) -> dict[str, Any]:
        return {"name": person.name, "role": person.role, "version": sources.version}

    @router.get("/accounts", summary="Every account")
    async def list_accounts(_: Admin) -> dict[str, Any]:
        return {"accounts": [asdict(account) for account in await aside(accounts.all)]}

    @router.post("/accounts", summary="Create an account, or change its role or password; ends its sessions")
    async def put_account(body: PutAccount, person: Admin, request: Request) -> Done:
        await aside(accounts.put, body.name, body.role, sources.clock_us(), body.password)
        await audit(request, person, "account-put", body.name, body.role)
        return Done()

    @router.delete("/accounts/{name}", summary="Remove an account")
    async def remove_account(name: AccountName, person: Admin, request: Request) -> Done:
        await aside(accounts.remove, name)
        await audit(request, person, "account-removed", name)
        return Done()

    @router.post("/accounts/link", summary="A link that signs this person in once")
    async def link(body: MakeLink, person: Admin, request: Request) -> dict[str, str]:
        await audit(request, person, "account-link-made", body.name, body.role)
        secret = await aside(accounts.new_link, sources.clock_us(), name=body.name, role=body.role)
        return {"path": f"/signin/once/{secret}"}

    @router.get("/audit", summary="Who did what, newest first")
    async def lines(_: Operator, limit: Limit = 100, before: Before = None) -> dict[str, Any]:
        return await aside(audit_view.lines, sources, limit=limit, before=before)

    @router.get("/audit/verify", summary="Whether every line of the audit log is as it was written")
    async def verify(_: Operator) -> dict[str, Any]:
        return await aside(audit_view.verify, sources)

    return router
