"""Signing in and out, one-time links, and one's own password.

A wrong name and a wrong password get the same answer after the same time. How often somebody may try is for
`sign_in/guesses.py` to say, for signing in and for changing a password alike.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from cloud_backend.coordinator.people import NAME, PASSWORD_CHARACTERS_MIN
from cloud_backend.dashboard.drawing.templating import page
from cloud_backend.dashboard.pages.answers import answer, back
from cloud_backend.dashboard.sign_in.access import (
    Person,
    access_of,
    anybody,
    audit,
    csrf_token,
    form_fields,
    require,
)
from cloud_backend.dashboard.sign_in.guesses import Guesses
from cloud_backend.dashboard.threads import in_thread
from cloud_backend.gateway.http_problems import Problem
from shared.errors import UsageError

NOBODY = Person("nobody", "viewer")

Fields = Annotated[dict[str, str], Depends(form_fields)]
Anyone = Annotated[Person, Depends(require("viewer"))]


def signin_router() -> APIRouter:
    router = APIRouter(include_in_schema=False)
    guesses = Guesses()

    @router.get("/signin", response_class=HTMLResponse, dependencies=[Depends(anybody)])
    async def signin_page(request: Request) -> HTMLResponse:
        return page(request, "signin.html", problem="")

    @router.post("/signin", dependencies=[Depends(anybody)])
    async def sign_in(request: Request, fields: Fields) -> Response:
        access = access_of(request)
        name, password = fields.get("name", "").strip().lower(), fields.get("password", "")
        is_known = NAME.fullmatch(name) is not None and await in_thread(access.knows_browser, request, name)
        who = ("browser", name) if is_known else ("address", request.client.host if request.client else "")
        try:
            person = await guesses.check(
                who,
                lambda: access.people.check_password(name, password) if NAME.fullmatch(name) else None,
                is_known=is_known,
            )
        except Problem as problem:
            return _again(request, f"{problem.detail[:1].upper()}{problem.detail[1:]}.", problem.status)
        if person is None:
            known = name if any(each.name == name for each in access.people.all()) else "an unknown person"
            await audit(request, NOBODY, "sign-in-refused", known)
            return _again(request, "This name and password do not fit together.", 401)
        response = RedirectResponse("/", status_code=303)
        await in_thread(access.remember_browser, request, response, name)
        return await _admitted(request, person, "signed-in", response)

    @router.get("/signin/once/{secret}", response_class=HTMLResponse, dependencies=[Depends(anybody)])
    async def sign_in_once(secret: str, request: Request) -> Response:
        access = access_of(request)
        person = await in_thread(access.people.use_link, secret[:200], access.clock_us())
        if person is None:
            return _again(
                request, "This link was used or is too old. Sign in, or make a new one: resurge person link", 403
            )
        # A page that goes on by itself, not a redirect: from a link on another site a browser would not send the
        # new SameSite=Strict cookie along with a redirect.
        return await _admitted(request, person, "signed-in-by-link", page(request, "signed_in.html", person=person))

    @router.post("/signout")
    async def sign_out(request: Request, person: Anyone) -> Response:
        response = RedirectResponse("/signin", status_code=303)
        await in_thread(access_of(request).sign_out, request, response)
        await audit(request, person, "signed-out")
        return response

    @router.get("/account", response_class=HTMLResponse)
    async def password_page(request: Request, person: Anyone) -> HTMLResponse:
        return _password_page(request, person)

    @router.post("/account/password")
    async def change_password(request: Request, person: Anyone, fields: Fields) -> Response:
        """Whoever has a password must give it; a session that was left open must not be enough."""
        people = access_of(request).people
        mine = next((each for each in people.all() if each.name == person.name), None)
        if mine is None:
            raise Problem("account-not-found", "the operator's token has no password to change", status=409)
        if mine.has_password:
            current = fields.get("current", "")
            try:
                right = await guesses.check(
                    ("session", csrf_token(request)),
                    lambda: people.check_password(person.name, current),
                    is_known=True,
                )
            except Problem as problem:
                return _password_page(request, person, f"{problem.detail}.", status=problem.status)
            if right is None:
                await audit(request, person, "password-change-refused")
                return _password_page(request, person, "The current password is not right.", status=403)
        try:
            await in_thread(people.set_password, person.name, fields.get("password", ""))
        except UsageError as error:
            return _password_page(request, person, f"{error.message[:1].upper()}{error.message[1:]}.", status=422)
        return await _admitted(request, person, "password-changed", back("/account", "password-changed"))

    return router


async def _admitted(request: Request, person: Person, action: str, response: Response) -> Response:
    await audit(request, person, action)
    await in_thread(access_of(request).sign_in, request, response, person)
    return response


def _again(request: Request, problem: str, status: int) -> HTMLResponse:
    return page(request, "signin.html", problem=problem, status=status)


def _password_page(request: Request, person: Person, problem: str = "", *, status: int = 200) -> HTMLResponse:
    has_password = any(each.has_password for each in access_of(request).people.all() if each.name == person.name)
    return answer(
        request, "password.html", person, "You", problem=problem, status=status, has_password=has_password,
        characters_min=PASSWORD_CHARACTERS_MIN,
    )  # fmt: skip
