"""Every route says who may use it, and nobody else can: found by walking the routes, so a new one cannot be forgotten."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fastapi.routing import APIRoute

from tests.cloud_backend.dashboard.house import EDGE_HEX, House, every_route

# What is not for people: devices prove who they are by signature, a probe asks one word, a scraper has the token.
NOT_FOR_PEOPLE = {
    "/v1/enrol": "the code in the body",
    "/healthz": "one word, for anybody",
    "/readyz": "one word, for anybody",
    "/metrics": "the operator's token",
    "/v1/account": "the operator's token",
    "/openapi.json": "the description of it all, for anybody",
}
ROLES = ("viewer", "operator", "admin")
VALUES = {
    "device": "0" * 32, "edge": EDGE_HEX, "name": "somebody", "sink": "my_trips", "number": "1", "kind": "gap",
    "secret": "x", "query": "q",
}  # fmt: skip


def roles_of(route: APIRoute) -> list[str]:
    found: list[str] = []
    waiting = [route.dependant]
    while waiting:
        dependant = waiting.pop()
        waiting += dependant.dependencies
        role = getattr(dependant.call, "role", None)
        if role is not None:
            found.append(role)
    return found


def routes(house: House) -> Iterator[APIRoute]:
    for route in every_route(house.app):
        if route.path not in NOT_FOR_PEOPLE:
            yield route


def address_of(route: APIRoute) -> str:
    """The route's path with something in the place of each parameter; who may ask is decided before it is looked at."""
    return re.sub(r"\{(\w+)(?::path)?\}", lambda match: VALUES.get(match[1], "something"), route.path)


def test_the_walk_finds_the_routes(house):
    found = {route.path for route in routes(house)}
    assert {"/", "/signin", "/devices", "/v1/overview", "/v1/api/devices", "/v1/api/jobs/{name}/rollback"} <= found
    documented = {path for path in house.app.openapi()["paths"] if path not in NOT_FOR_PEOPLE}
    assert documented - found == {"/v1/exchange", "/v1/wait"}


def test_every_route_declares_the_role_it_needs(house):
    silent = [f"{sorted(route.methods)} {route.path}" for route in routes(house) if not roles_of(route)]
    assert not silent, f"these say nothing about who may use them: {silent}"


def test_only_signing_in_and_assets_are_for_anybody(house):
    open_routes = {route.path for route in routes(house) if "anybody" in roles_of(route)}
    assert open_routes == {"/signin", "/signin/once/{secret}", "/static/{name:path}"}


def test_what_changes_something_needs_more_than_a_viewer(house):
    own = {"/signin", "/signout", "/account/password"}  # one's own session and password
    asks_only = {"/v1/api/queries/explain", "/queries/explain"}  # a question too long for an address
    for route in routes(house):
        if route.methods - {"GET", "HEAD"} and route.path not in own | asks_only:
            assert set(roles_of(route)) & {"operator", "admin"}, f"{route.path} lets a viewer act"


def test_nobody_gets_in_without_signing_in(house):
    nobody = house.browser()
    for route in routes(house):
        if "anybody" in roles_of(route):
            continue
        for method in route.methods - {"HEAD"}:
            answer = nobody.ask(method, address_of(route))
            assert answer.status_code == 401, f"{method} {route.path} answered {answer.status_code} to nobody"


def test_each_role_is_refused_what_needs_a_higher_one(house):
    people = {role: house.browser(role) for role in ROLES}
    for route in routes(house):
        needed = max((role for role in roles_of(route) if role in ROLES), key=ROLES.index, default=None)
        if needed is None or route.path == "/signout":
            continue
        for role in ROLES[: ROLES.index(needed)]:
            for method in route.methods - {"HEAD"}:
                headers = {"x-csrf-token": people[role].csrf}
                answer = people[role].ask(method, address_of(route), headers=headers)
                assert answer.status_code == 403, f"{method} {route.path} answered {answer.status_code} to a {role}"
                assert answer.json()["code"] == "role-required"


def test_each_act_needs_the_csrf_token(house):
    admin = house.browser("admin")
    for route in routes(house):
        if "anybody" in roles_of(route):
            continue
        for method in route.methods - {"GET", "HEAD"}:
            answer = admin.ask(method, address_of(route))
            assert answer.status_code == 403, f"{method} {route.path} acts without a token"
            assert answer.json()["code"] == "csrf-token"


def test_no_route_answers_from_another_machine(house):
    for where in ({"peer": "192.0.2.7"}, {"host": "evil.example"}):
        stranger = house.browser(**where)
        stranger.bearer = (house.settings.home / "operator.token").read_text().strip()
        for route in routes(house):
            for method in route.methods - {"HEAD"}:
                assert stranger.ask(method, address_of(route)).status_code == 403, route.path
