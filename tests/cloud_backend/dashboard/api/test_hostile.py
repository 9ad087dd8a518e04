"""Hostile input on every parameter, body and form: refused in our own words, never a 5xx, and nothing comes back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from fastapi.routing import APIRoute

from cloud_backend.dashboard.threads import Turns
from cloud_backend.gateway.rate_limits import Buckets, Rate
from tests.cloud_backend.dashboard.house import EDGE_HEX, House, every_route

MARK = "zqxj"  # in every text sent, and in nothing of ours
TEXTS = [
    f"<script>alert('{MARK}')</script>",
    f"'; DROP TABLE devices; -- {MARK}",
    f"../../../../etc/passwd{MARK}",
    f"{MARK}\x00\x01\x1b[31m",
    f"{{{{7*7}}}}{MARK}${{7*7}}",
    f"\u202e{MARK}\ufeff\ud7ff",
    MARK * 5000,
    f"{MARK}%0d%0aSet-Cookie: a=b",
    f"http://169.254.169.254/{MARK}",
    f"{MARK}\n\r\tresurge://x:1/#",
    "9" * 400,
    "-1",
    "NaN",
    "1e999",
]
VALUES = [
    None, True, -1, 2**63, 2**200, 1e308, [], {}, [[[[]]]], {"a": {"b": {"c": MARK}}}, "", *TEXTS[:6], [MARK] * 1000,
    {MARK: MARK},
]  # fmt: skip
RAW = [
    b"", b"{", b"\xff\xfe", b'{"a": NaN}', b"[" * 5000, b"null", b'"' + b"a" * 3000 + b'"', b'{"name": 1e999}',
    b'{"name": "\\ud800"}', b"{}" * 10, b'{"\\u0000": 1}', b"a=b&c=d", b'{"name":"a","name":"b"}',
]  # fmt: skip
# In every run each case meets a third of the routes, another third than its neighbours; in `make soak` all of them.
EVERY = pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.soak)])
KNOWN = {"device": None, "edge": EDGE_HEX, "sink": "my_trips", "job": "main", "kind": "gap", "number": "1"}


@pytest.fixture(scope="module")
def admin(house):
    browser = house.browser()
    browser.bearer = (house.settings.home / "operator.token").read_text().strip()
    return browser


def routes(house: House) -> Iterator[APIRoute]:
    skipped = {"/v1/overview/stream", "/v1/live", "/metrics", "/healthz", "/v1/account", "/openapi.json"}
    for route in every_route(house.app):
        if route.path not in skipped and "stream" not in getattr(route.response_class, "__name__", "").lower():
            yield route


def some(cases: list, case: object, chosen: list[APIRoute], every: int) -> list[APIRoute]:
    """Of the routes that a test is about, those that this one of its cases meets."""
    number = next(number for number, each in enumerate(cases) if each is case)
    return chosen[number % every :: every]


def address_of(route: APIRoute, house: House, hostile: str | None = None) -> str:
    from urllib.parse import quote

    def value(match: re.Match[str]) -> str:
        if hostile is not None:
            return quote(hostile, safe="", errors="replace")
        return KNOWN.get(match[1]) or (house.phones[0].hex() if match[1] == "device" else "something")

    return re.sub(r"\{(\w+)(?::path)?\}", value, route.path)


def check(answer, what: str) -> None:
    assert answer.status_code < 500, f"{what}: {answer.status_code} {answer.text[:300]}"
    assert MARK not in str(answer.headers), f"{what} repeats what was sent in a header"
    if "json" in answer.headers.get("content-type", ""):
        # What was saved may be told; what was refused is not repeated, except for the names a program or query used,
        # and those without anything that could be markup.
        refusal = answer.json() if answer.status_code >= 400 else {}
        named = refusal.get("code", "").startswith(("sql-", "column-", "plan-", "rollback-unknown-vertex"))
        assert not refusal or named or MARK not in answer.text, f"{what} repeats what was sent: {answer.text[:300]}"
        assert not refusal or not re.search(r"[<>&\x00-\x1f]", refusal["detail"]), f"{what}: {refusal['detail']}"
    else:
        # A form may be shown again with what was written into it, as text.
        assert "<script>alert" not in answer.text, f"{what} is markup now: {answer.text[:300]}"
        assert "\x1b" not in answer.text
        assert MARK * 100 not in answer.text


@EVERY
@pytest.mark.parametrize("text", TEXTS)
def test_a_path_can_hold_anything(house, admin, text, every):
    for route in some(TEXTS, text, [route for route in routes(house) if "{" in route.path], every):
        for method in route.methods - {"HEAD"}:
            kind = {"json": {}} if method == "POST" and route.path.startswith("/v1/api") else {}
            check(admin.ask(method, address_of(route, house, text), **kind), f"{method} {route.path}")


@pytest.mark.parametrize("text", TEXTS)
def test_a_query_parameter_can_hold_anything(house, admin, text):
    assert sum(bool(route.dependant.query_params) for route in routes(house)) >= 5
    for route in routes(house):
        names = {parameter.alias for parameter in route.dependant.query_params}
        if "GET" in route.methods and names:
            for name in names:
                answer = admin.get(address_of(route, house), params={name: text})
                check(answer, f"GET {route.path}?{name}")


@EVERY
@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_a_field_of_a_body_can_hold_anything(house, admin, value, every):
    taking = [route for route in routes(house) if route.dependant.body_params and route.path.startswith("/v1/")]
    assert len(taking) >= 5
    for route in some(VALUES, value, taking, every):
        for name in [*route.dependant.body_params[0].field_info.annotation.model_fields, "more"]:
            text = json.dumps({name: value}, allow_nan=True)
            answer = admin.post(
                address_of(route, house), content=text.encode(), headers={"content-type": "application/json"}
            )
            check(answer, f"POST {route.path} {name}")


@EVERY
@pytest.mark.parametrize("body", RAW, ids=range(len(RAW)))
def test_a_body_can_be_anything(house, admin, body, every):
    for route in some(RAW, body, list(routes(house)), every):
        for method in route.methods - {"GET", "HEAD"}:
            if route.path in ("/v1/enrol",) or "delete" in route.path or "revoke" in route.path:
                continue
            for kind in ("application/json", "application/x-www-form-urlencoded"):
                answer = admin.ask(method, address_of(route, house), content=body, headers={"content-type": kind})
                check(answer, f"{method} {route.path} {kind}")


FORM_FIELDS = (
    "name", "password", "current", "csrf", "host", "note", "sampling_rate", "sql", "plan", "vertex", "to", "entry",
    "url", "threshold", "role", "link", "confirm", "ranges", "private", "enabled",
)  # fmt: skip


@EVERY
@pytest.mark.parametrize("text", TEXTS)
def test_a_field_of_a_form_can_hold_anything(house, admin, text, every):
    forms = [route for route in routes(house) if "POST" in route.methods and not route.path.startswith("/v1/")]
    assert len(forms) >= 5
    for route in some(TEXTS, text, forms, every):
        fields = {name: text.encode("utf-8", "replace") for name in FORM_FIELDS}
        answer = admin.ask("POST", address_of(route, house), data=fields)
        check(answer, f"POST {route.path}")


def test_sql_that_bites_is_refused_in_our_words(house, admin, monkeypatch):
    monkeypatch.setattr(Turns, "asked", Buckets(Rate(per_s=100, burst=100)))  # the words count here, not how many
    for sql in (
        f"SELECT {MARK} FROM gps", f"SELECT lat FROM {MARK}", "SELECT " + "(" * 3000 + "1", "SELECT lat FROM gps; DROP",
        "SELECT lat FROM gps WHERE " + " AND ".join(["lat > 1"] * 2000), "WITH x AS (SELECT 1) SELECT * FROM x",
        "SELECT '" + "a" * 19000 + "' FROM gps", "SELECT lat FROM gps GROUP BY TUMBLE(0 SECONDS)", "\x00", "SELECT",
        "SELECT avg(lat) FROM gps GROUP BY TUMBLE(99999999999999999999 DAYS), device", "-" * 19000,
        "SELECT CASE " * 500 + "lat FROM gps", "SELECT <script> FROM gps",
    ):  # fmt: skip
        answer = admin.post("/v1/api/queries/explain", json={"sql": sql})
        assert answer.status_code in (200, 422), f"{sql[:40]}: {answer.text[:300]}"
        assert "<script>" not in answer.text


def test_a_hostile_request_leaves_no_trace_but_in_the_audit_log(house, admin):
    assert {entry.name for entry in house.gateway.roster.entries() if entry.revoked_us is None} >= {"bus-12"}
    assert house.access.audit_log.verify() > 0
