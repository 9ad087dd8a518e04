"""Signing in and out, one-time links, and one's own account.

A wrong name and a wrong password get the same answer after the same time; each failure costs the address and the
account a token of a bucket, and argon2 runs in two threads at most: guessing is slow and cannot fill the memory.
"""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from cloud_backend.coordinator.accounts import NAME, PASSWORD_CHARACTERS_MIN
from cloud_backend.dashboard.access import (
    Person,
    access_of,
    anybody,
    audit,
    form_fields,
    require,
)
from cloud_backend.dashboard.templating import page
from cloud_backend.gateway.limits import Buckets, Rate
from cloud_backend.gateway.problems import Problem
from shared.errors import UsageError

FAILURES = Rate(per_s=0.2, burst=10)
HASHES_AT_ONCE = 2
NOBODY = Person("nobody", "viewer")

Fields = Annotated[dict[str, str], Depends(form_fields)]
Anyone = Annotated[Person, Depends(require("viewer"))]


def signin_router() -> APIRouter:
    router = APIRouter(include_in_schema=False)
    failures = Buckets(FAILURES)
    hashing = asyncio.Semaphore(HASHES_AT_ONCE)

    @router.get("/signin", response_class=HTMLResponse, dependencies=[Depends(anybody)])
    async def signin_page(request: Request) -> HTMLResponse:
        return page(request, "signin.html", problem="")

    @router.post("/signin", dependencies=[Depends(anybody)])
    async def sign_in(request: Request, fields: Fields) -> Response:
        access = access_of(request)
        name, password = fields.get("name", "").strip().lower(), fields.get("password", "")
        keys = [("address", request.client.host if request.client else ""), ("name", name[:40])]
        if wait_s := max(failures.wait_s(key, time.monotonic()) for key in keys):
            return _again(request, f"Too many attempts. Try again in {int(wait_s + 0.999)} s.", 429)
        person = None
        if NAME.fullmatch(name):
            async with hashing:
                person = await asyncio.to_thread(access.accounts.check_password, name, password)
        if person is None:
            for key in keys:
                failures.take(key, time.monotonic())
            known = name if any(account.name == name for account in access.accounts.all()) else "an unknown account"
            await audit(request, NOBODY, "sign-in-refused", known)
            return _again(request, "This name and password do not fit together.", 401)
        return await _admitted(request, person, "signed-in", RedirectResponse("/", status_code=303))

    @router.get("/signin/once/{secret}", response_class=HTMLResponse, dependencies=[Depends(anybody)])
    async def sign_in_once(secret: str, request: Request) -> Response:
        access = access_of(request)
        person = await asyncio.to_thread(access.accounts.use_link, secret[:200], access.clock_us())
        if person is None:
            return _again(
                request, "This link was used or is too old. Sign in, or make a new one: resurge account link", 403
            )
        # A page that goes on by itself, not a redirect: from a link on another site a browser would not send the
        # new SameSite=Strict cookie along with a redirect.
        return await _admitted(request, person, "signed-in-by-link", page(request, "signed_in.html", person=person))

    @router.post("/signout")
    async def sign_out(request: Request, person: Anyone) -> Response:
        answer = RedirectResponse("/signin", status_code=303)
        await asyncio.to_thread(access_of(request).sign_out, request, answer)
        await audit(request, person, "signed-out")
        return answer

    @router.get("/account", response_class=HTMLResponse)
    async def account_page(request: Request, person: Anyone) -> HTMLResponse:
        return _account(request, person)

    @router.post("/account/password")
    async def change_password(request: Request, person: Anyone, fields: Fields) -> Response:
        """Whoever has a password must give it; a session that was left open must not be enough."""
        accounts = access_of(request).accounts
        mine = next((account for account in accounts.all() if account.name == person.name), None)
        if mine is None:
            raise Problem("account-not-found", "the operator's token has no password to change", status=409)
        async with hashing:
            if mine.has_password and not await asyncio.to_thread(
                accounts.check_password, person.name, fields.get("current", "")
            ):
                return _account(request, person, "The current password is not right.", status=403)
            try:
                await asyncio.to_thread(accounts.set_password, person.name, fields.get("password", ""))
            except UsageError as error:
                return _account(request, person, f"{error.message[:1].upper()}{error.message[1:]}.", status=422)
        return await _admitted(request, person, "password-changed", RedirectResponse("/account", status_code=303))

    return router


async def _admitted(request: Request, person: Person, action: str, answer: Response) -> Response:
    await audit(request, person, action)
    await asyncio.to_thread(access_of(request).sign_in, request, answer, person)
    return answer


def _again(request: Request, problem: str, status: int) -> HTMLResponse:
    return page(request, "signin.html", problem=problem, status=status)


def _account(request: Request, person: Person, problem: str = "", *, status: int = 200) -> HTMLResponse:
    has_password = any(
        account.has_password for account in access_of(request).accounts.all() if account.name == person.name
    )
    return page(
        request, "account.html", person=person, problem=problem, status=status, has_password=has_password,
        characters_min=PASSWORD_CHARACTERS_MIN,
    )  # fmt: skip
