"""Who may see and do what: every route of pages and API names the role it needs, and this decides.

    @router.post("/v1/api/devices/{device}/revoke")
    async def revoke(person: Annotated[Person, Depends(require("operator"))]): ...

A person is known by a session cookie (HttpOnly, SameSite=Strict), the command line by the operator's token in the
gateway's home, as Bearer; whoever may read that file owns the gateway, so it counts as admin. A request that changes
something and comes with the cookie must also carry the session's CSRF token, in the header X-CSRF-Token or the form
field `csrf`, and must not come from another site; a Bearer token is never sent by a browser on its own.

Where: the gateway's port is open to phones on any network, the dashboard by default only to this machine. Names given
as `dashboard_hosts` open it further, and then only over TLS: a password must not cross a network in the clear. The
Host header is checked in either case, so that a name somebody points at this machine reads nothing out to them.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import Protocol
from urllib.parse import parse_qsl, urlsplit

from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse

from cloud_backend.coordinator import audit as audit_module
from cloud_backend.coordinator import people as people_module
from cloud_backend.coordinator.audit import AuditLog, Sign
from cloud_backend.coordinator.people import ROLES, People, Person
from cloud_backend.dashboard.sign_in.live_streams import LiveStreams
from cloud_backend.dashboard.sign_in.security_headers import SecurityHeaders
from cloud_backend.dashboard.threads import in_thread
from cloud_backend.database import in_home
from cloud_backend.gateway.http_problems import Problem

__all__ = ["Access", "Person", "anybody", "audit", "csrf_token", "form_fields", "install", "require"]

COOKIE = "resurge_session"
KNOWN_COOKIE = "resurge_known"  # says that somebody has signed in in this browser; signs nobody in
KNOWN_S = 365 * 86_400
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
FIELDS_MAX = 64
_NAME = re.compile(r"[0-9A-Za-z._-]{1,80}")
TOKEN_PERSON = Person("operator-token", "admin")


def _now_us() -> int:
    return time.time_ns() // 1000


class Dependency(Protocol):
    role: str

    def __call__(self, request: Request) -> Awaitable[Person | None]: ...


class Access:
    """The people, the audit log and the rules of one gateway's home."""

    def __init__(
        self,
        home: Path,
        *,
        token: str,
        hosts: Sequence[str] = (),
        clock_us: Callable[[], int] = _now_us,
        sign: Sign | None = None,
    ) -> None:
        self.people = People(in_home(home, people_module.FILE))
        self.audit_log = AuditLog(in_home(home, audit_module.FILE), sign=sign)
        self.hosts = frozenset(host.lower() for host in hosts)
        self.clock_us = clock_us
        self.streams = LiveStreams()
        self._bearer = f"Bearer {token}".encode()

    def close(self) -> None:
        self.people.close()
        self.audit_log.close()

    def audit(self, person: Person, action: str, subject: str = "", detail: str = "") -> None:
        """Durable when this returns; do it before the act, so that nothing is done and not told."""
        self.audit_log.append(
            self.clock_us(), person=person.name, role=person.role, action=action, subject=subject, detail=detail
        )
        logging.getLogger("resurge.audit").info("%s %s %s", person.name, action, subject)

    def check_place(self, request: Request) -> None:
        """Refuse a request from where the dashboard does not answer."""
        host = _host(request)
        near = _is_loopback(request.client.host if request.client else "")
        if near and (host == "localhost" or _is_loopback(host) or host in self.hosts):
            return
        if host in self.hosts and request.url.scheme == "https":
            return
        raise Problem(
            "dashboard-elsewhere",
            "the dashboard answers only on the gateway's own machine, or over TLS at a name it was started with "
            "(--dashboard-host)",
            status=403,
        )

    def bearer(self, request: Request) -> Person | None:
        given = request.headers.get("authorization", "").encode("utf-8", "replace")
        return TOKEN_PERSON if given and hmac.compare_digest(given, self._bearer) else None

    def session(self, request: Request, *, touch: bool = True) -> Person | None:
        """Who the cookie belongs to. A long answer (a stream) asks again without touching: it is not a use."""
        secret = request.cookies.get(COOKIE, "")
        return self.people.session(secret, self.clock_us(), touch=touch) if secret else None

    def person(self, request: Request, *, touch: bool = True) -> Person | None:
        return self.bearer(request) or self.session(request, touch=touch)

    def sign_in(self, request: Request, response: Response, person: Person) -> None:
        """Open a session and put its cookie on the answer."""
        secret = self.people.open_session(person, self.clock_us())
        response.set_cookie(COOKIE, secret, httponly=True, samesite="strict", secure=_is_secure(request), path="/")

    def knows_browser(self, request: Request, name: str) -> bool:
        """Whether this person has signed in in this browser before, with the password they still have."""
        token = self.people.browser_token(name)
        return token is not None and hmac.compare_digest(request.cookies.get(KNOWN_COOKIE, "").encode(), token.encode())

    def remember_browser(self, request: Request, response: Response, name: str) -> None:
        token = self.people.browser_token(name)
        if token is not None:
            response.set_cookie(
                KNOWN_COOKIE, token, httponly=True, samesite="strict", secure=_is_secure(request), path="/signin",
                max_age=KNOWN_S,
            )  # fmt: skip

    def sign_out(self, request: Request, response: Response) -> None:
        if secret := request.cookies.get(COOKIE):
            self.people.close_session(secret)
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")


def asks_for_part(request: Request) -> bool:
    """Whether htmx asks, from within an open page."""
    return request.headers.get("hx-request") == "true"


class SignInNeeded(Problem):
    """For a program 401; for somebody who looks at a page, the way to the sign-in page."""

    def __init__(self, request: Request) -> None:
        super().__init__("signin-required", "sign in, or send the operator's token as Bearer", status=401)
        wants_page = "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/v1/")
        self._is_page = request.method == "GET" and wants_page
        self._is_part = asks_for_part(request)

    def response(self) -> Response:
        if self._is_part:  # htmx follows a redirect inside the page; this header leaves the page
            return Response(status_code=401, headers={"HX-Redirect": "/signin"})
        if self._is_page:
            return RedirectResponse("/signin", status_code=303)
        answer = super().response()
        answer.headers["WWW-Authenticate"] = "Bearer"
        return answer


@cache
def require(role: str, word: str = "") -> Dependency:
    """A dependency that gives the person who asks, when they have at least this role. `word` is that of an act in the
    audit log: whoever tries it without the role is noted as refused."""
    if role not in ROLES:
        raise ValueError(role)

    async def person(request: Request) -> Person:
        access = access_of(request)
        access.check_place(request)
        found = access.bearer(request)
        if found is None:
            found = await in_thread(access.session, request)
            if found is None:
                raise SignInNeeded(request)
            if request.method not in SAFE_METHODS:
                await _check_csrf(request)
        if not found.may(role):
            if word:
                await audit(request, found, f"{word}-refused", _subject(request), "role-required")
            raise Problem("role-required", f"this needs the role {role}; ask an admin for it", status=403)
        request.state.person = found
        return found

    person.role = role  # type: ignore[attr-defined]  # found by the test that walks the routes
    return person  # type: ignore[return-value]


async def anybody(request: Request) -> None:
    """The declared absence of a role: the sign-in page and what it needs, from where the dashboard answers."""
    access_of(request).check_place(request)
    if request.method not in SAFE_METHODS:
        _check_origin(request)


anybody.role = "anybody"  # type: ignore[attr-defined]


def access_of(request: Request) -> Access:
    access: Access = request.app.state.access
    return access


def may_still_look(request: Request) -> bool:
    """A stream outlives its request; it ends with the session that opened it."""
    return access_of(request).person(request, touch=False) is not None


def install(app: FastAPI, access: Access) -> None:
    """Make `require` work in this app, and guard every answer with the security headers."""
    app.state.access = access
    app.add_middleware(SecurityHeaders)


async def audit(request: Request, person: Person, action: str, subject: str = "", detail: str = "") -> None:
    """Note who did what, durably, without holding up the loop."""
    await in_thread(access_of(request).audit, person, action, subject, detail)


def _subject(request: Request) -> str:
    """What a refused act was to be done to, if it looks like a name of ours: nothing else goes into the audit log."""
    given = next(iter(request.path_params.values()), "")
    return given if isinstance(given, str) and _NAME.fullmatch(given) else ""


def csrf_token(request: Request) -> str:
    """For forms and htmx of this session; empty without one."""
    secret = request.cookies.get(COOKIE, "")
    return hmac.new(secret.encode(), b"resurge-csrf", hashlib.sha256).hexdigest() if secret else ""


async def form_fields(request: Request) -> dict[str, str]:
    """The fields of an urlencoded form, the last of each name; empty for any other body."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        return {}
    body = await request.body()  # bounded before it is read, like every body
    try:
        return dict(parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=FIELDS_MAX))
    except ValueError:
        raise Problem("form-invalid", "the form is not urlencoded as a browser does it", status=422) from None


async def _check_csrf(request: Request) -> None:
    _check_origin(request)
    given = request.headers.get("x-csrf-token") or (await form_fields(request)).get("csrf", "")
    if not hmac.compare_digest(given.encode("utf-8", "replace"), csrf_token(request).encode()):
        raise Problem("csrf-token", "the page is out of date; reload it and try again", status=403)


def _check_origin(request: Request) -> None:
    """Refuse what another site makes a browser send. A browser always says one of the two; others need not."""
    origin = request.headers.get("origin")
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none") or (
        origin is not None and urlsplit(origin).netloc.lower() != request.headers.get("host", "").lower()
    ):
        raise Problem("cross-site", "another site sent this request; open the dashboard itself", status=403)


def _host(request: Request) -> str:
    return request.headers.get("host", "").rsplit(":", 1)[0].strip("[]").lower()


def _is_secure(request: Request) -> bool:
    """Whether a cookie may go over TLS only: everywhere but on this machine itself."""
    return request.url.scheme == "https" or not (_host(request) == "localhost" or _is_loopback(_host(request)))


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False
