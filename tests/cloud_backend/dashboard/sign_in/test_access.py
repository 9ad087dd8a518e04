"""Who gets in, from where, as what; and what another site, an old page or a stranger cannot do."""

import asyncio
import re
from types import SimpleNamespace
from typing import Annotated

import httpx
import pytest
from fastapi import Depends, FastAPI

from cloud_backend.coordinator.people import IDLE_US, SESSION_US
from cloud_backend.dashboard.pages.sign_in import signin_router
from cloud_backend.dashboard.sign_in.access import (
    COOKIE,
    KNOWN_COOKIE,
    Access,
    Person,
    anybody,
    audit,
    install,
    require,
)
from cloud_backend.dashboard.sign_in.guesses import FAILURES
from cloud_backend.gateway import http_problems
from tests.cloud_backend.dashboard.browsing import Browser

PASSWORD = "correct horse battery"


@pytest.fixture
def house(tmp_path):
    """An app with one page per role, its access, and a clock that stands still."""
    now = SimpleNamespace(us=1_000_000_000_000_000)
    access = Access(tmp_path, token="token", hosts=["dash.example.org"], clock_us=lambda: now.us)
    app = FastAPI()
    http_problems.install(app)
    install(app, access)
    app.include_router(signin_router())
    for role in ("viewer", "operator", "admin"):

        @app.get(f"/for/{role}")
        async def look(person: Annotated[Person, Depends(require(role))]) -> dict[str, str]:
            return {"name": person.name, "role": person.role}

        @app.post(f"/for/{role}")
        async def act(person: Annotated[Person, Depends(require(role))]) -> dict[str, str]:
            return {"name": person.name}

    yield SimpleNamespace(app=app, access=access, now=now, browser=lambda **where: Browser(app, **where))
    access.close()


def signed_in(house, role="viewer", **where) -> Browser:
    browser = house.browser(**where)
    house.access.people.put("ada", role, house.now.us, PASSWORD)
    answer = browser.post("/signin", data={"name": "ada", "password": PASSWORD})
    assert answer.status_code == 303, answer.text
    return browser


def test_a_person_signs_in_and_gets_a_cookie_no_script_can_read(house):
    browser = house.browser()
    house.access.people.put("ada", "operator", house.now.us, PASSWORD)
    answer = browser.post("/signin", data={"name": " Ada ", "password": PASSWORD})
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "secure" not in cookie  # loopback has no TLS
    assert browser.get("/for/operator").json() == {"name": "ada", "role": "operator"}


@pytest.mark.parametrize(
    ("role", "statuses"), [("viewer", [200, 403, 403]), ("operator", [200, 200, 403]), ("admin", [200, 200, 200])]
)
def test_a_role_opens_what_needs_it_and_what_needs_less(house, role, statuses):
    browser = signed_in(house, role)
    assert [browser.get(f"/for/{asked}").status_code for asked in ("viewer", "operator", "admin")] == statuses
    assert [browser.post(f"/for/{asked}").status_code for asked in ("viewer", "operator", "admin")] == statuses


def test_a_program_without_a_session_gets_401_and_a_person_the_sign_in_page(house):
    browser = house.browser()
    assert browser.get("/for/viewer").json()["code"] == "signin-required"
    answer = browser.get("/for/viewer", headers={"accept": "text/html"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/signin")
    answer = browser.get("/for/viewer", headers={"accept": "text/html", "hx-request": "true"})
    assert answer.headers["hx-redirect"] == "/signin"


def test_the_operators_token_is_admin_and_needs_no_csrf_token(house):
    browser = house.browser()
    browser.bearer = "token"
    assert browser.get("/for/admin").json()["name"] == "operator-token"
    assert browser.post("/for/admin").status_code == 200
    browser.bearer = "tokem"
    assert browser.get("/for/admin").status_code == 401


@pytest.mark.parametrize("csrf", ["", "x", "0" * 64, "é", "<script>"])
def test_an_act_without_the_sessions_csrf_token_is_refused(house, csrf):
    browser = signed_in(house, "admin")
    answer = browser.post("/for/admin", csrf=csrf.encode())
    assert (answer.status_code, answer.json()["code"]) == (403, "csrf-token")
    assert browser.post("/for/admin", csrf="", data={"csrf": browser.csrf}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [{"origin": "http://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "x"}],
)
def test_another_site_can_neither_act_nor_sign_a_browser_in(house, headers):
    browser = signed_in(house, "admin")
    assert browser.post("/for/admin", headers=headers).json()["code"] == "cross-site"
    answer = browser.post("/signin", headers=headers, data={"name": "ada", "password": PASSWORD})
    assert answer.json()["code"] == "cross-site"


def test_a_session_ends_after_an_hour_without_use_and_after_half_a_day_in_use(house):
    browser = signed_in(house)
    house.now.us += IDLE_US - 1
    assert browser.get("/for/viewer").status_code == 200
    house.now.us += IDLE_US - 1
    assert browser.get("/for/viewer").status_code == 200
    house.now.us += IDLE_US + 1
    assert browser.get("/for/viewer").status_code == 401
    browser = signed_in(house)
    for _ in range(SESSION_US // (IDLE_US // 2)):
        house.now.us += IDLE_US // 2
        assert browser.get("/for/viewer").status_code == 200
    house.now.us += IDLE_US // 2
    assert browser.get("/for/viewer").status_code == 401


def test_signing_out_ends_the_session_for_whoever_holds_a_copy_of_the_cookie(house):
    browser = signed_in(house)
    copy = house.browser()
    copy.cookies = dict(browser.cookies)
    answer = browser.post("/signout")
    assert f'{COOKIE}=""' in answer.headers["set-cookie"]
    assert copy.get("/for/viewer").status_code == 401


@pytest.mark.parametrize(("name", "password"), [("ada", "wrong password"), ("eve", PASSWORD), ("", ""), ("'--", "x")])
def test_a_wrong_name_and_a_wrong_password_get_the_same_answer(house, name, password):
    house.access.people.put("ada", "viewer", house.now.us, PASSWORD)
    answer = house.browser().post("/signin", data={"name": name, "password": password})
    assert answer.status_code == 401
    assert "do not fit together" in answer.text
    assert house.access.audit_log.lines()[0].action == "sign-in-refused"
    assert PASSWORD not in str(house.access.audit_log.lines())


def test_guessing_is_slowed_down_for_who_guesses(house):
    house.access.people.put("ada", "viewer", house.now.us, PASSWORD)
    guesser = house.browser()
    for _ in range(FAILURES.burst):
        assert guesser.post("/signin", data={"name": "ada", "password": "x"}).status_code == 401
    assert guesser.post("/signin", data={"name": "ada", "password": PASSWORD}).status_code == 429


def test_guesses_sent_all_at_once_count_like_guesses_one_after_the_other(house):
    house.access.people.put("ada", "viewer", house.now.us, PASSWORD)
    transport = httpx.ASGITransport(house.app, client=("127.0.0.1", 50000))

    async def story() -> list[int]:
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8750") as client:
            tries = [client.post("/signin", data={"name": "ada", "password": f"guess {n}"}) for n in range(60)]
            return [answer.status_code for answer in await asyncio.gather(*tries)]

    answered = asyncio.run(story())
    assert answered.count(401) == FAILURES.burst
    assert answered.count(429) == 60 - FAILURES.burst


def test_nobody_is_locked_out_by_guesses_from_another_address(house):
    house.access.people.put("ada", "viewer", house.now.us, PASSWORD)
    guesser = house.browser(peer="127.0.0.9")
    for _ in range(40):
        guesser.post("/signin", data={"name": "ada", "password": "x"})
    assert house.browser().post("/signin", data={"name": "ada", "password": PASSWORD}).status_code == 303


def test_nobody_who_signed_in_here_before_is_locked_out_by_guesses_from_the_same_address(house):
    browser = signed_in(house)
    browser.post("/signout")
    guesser = house.browser()
    for _ in range(40):
        guesser.post("/signin", data={"name": "ada", "password": "x"})
    assert guesser.post("/signin", data={"name": "ada", "password": PASSWORD}).status_code == 429
    assert browser.post("/signin", data={"name": "ada", "password": PASSWORD}).status_code == 303


def test_what_a_browser_remembers_signs_nobody_in_and_ends_with_the_password(house):
    browser = signed_in(house)
    kept = {KNOWN_COOKIE: browser.cookies[KNOWN_COOKIE]}
    copy = house.browser()
    copy.cookies = dict(kept)
    assert copy.get("/for/viewer").status_code == 401
    house.access.people.set_password("ada", PASSWORD + "!")
    for _ in range(FAILURES.burst):
        copy.post("/signin", data={"name": "ada", "password": "x"})
    assert house.browser().post("/signin", data={"name": "ada", "password": PASSWORD}).status_code == 429


def test_whoever_holds_a_session_cannot_guess_the_password_behind_it(house):
    browser = signed_in(house)
    answered = [
        browser.post("/account/password", data={"password": PASSWORD + "!", "current": f"no {number}"}).status_code
        for number in range(FAILURES.burst + 3)
    ]
    assert answered == [403] * FAILURES.burst + [429] * 3
    assert house.access.audit_log.lines()[0].action == "password-change-refused"
    assert signed_in_again(house).get("/for/viewer").status_code == 200


def signed_in_again(house) -> Browser:
    browser = house.browser()
    assert browser.post("/signin", data={"name": "ada", "password": PASSWORD}).status_code == 303
    return browser


def test_a_one_time_link_signs_in_once_and_makes_the_first_admin(house):
    secret = house.access.people.new_link(house.now.us)
    browser = house.browser()
    answer = browser.get(f"/signin/once/{secret}")
    assert answer.status_code == 200
    assert re.search(r'http-equiv="refresh" content="0;url=/"', answer.text)
    assert browser.get("/for/admin").json() == {"name": "admin", "role": "admin"}
    assert house.browser().get(f"/signin/once/{secret}").status_code == 403


def test_a_one_time_link_grows_old(house):
    secret = house.access.people.new_link(house.now.us, lifetime_us=5)
    house.now.us += 6
    assert house.browser().get(f"/signin/once/{secret}").status_code == 403


def test_the_first_password_is_chosen_and_the_next_needs_the_one_before(house):
    browser = house.browser()
    browser.get(f"/signin/once/{house.access.people.new_link(house.now.us)}")
    assert browser.post("/account/password", data={"password": "short"}).status_code == 422
    assert browser.post("/account/password", data={"password": PASSWORD}).status_code == 303
    assert browser.get("/for/admin").status_code == 200  # a new session replaced the one that ended
    assert browser.post("/account/password", data={"password": PASSWORD + "!", "current": "no"}).status_code == 403
    assert browser.post("/account/password", data={"password": PASSWORD + "!", "current": PASSWORD}).status_code == 303
    assert not house.access.people.needs_admin()


@pytest.mark.parametrize(
    ("where", "open_"),
    [
        ({}, True),
        ({"host": "localhost:1"}, True),
        ({"host": "[::1]:8750"}, True),
        ({"peer": "192.0.2.7"}, False),
        ({"host": "evil.example"}, False),
        ({"peer": "192.0.2.7", "host": "dash.example.org"}, False),  # a password in the clear
        ({"peer": "192.0.2.7", "host": "dash.example.org", "scheme": "https"}, True),
        ({"peer": "127.0.0.1", "host": "dash.example.org"}, True),  # behind a proxy on this machine
        ({"peer": "192.0.2.7", "host": "evil.example", "scheme": "https"}, False),
        ({"peer": "nobody"}, False),
    ],
)
def test_the_dashboard_answers_here_and_over_tls_at_its_names(house, where, open_):
    answer = house.browser(**where).get("/signin")
    assert answer.status_code == (200 if open_ else 403)
    if not open_:
        assert answer.json()["code"] == "dashboard-elsewhere"


def test_beyond_this_machine_the_cookie_is_only_for_tls(house):
    browser = house.browser(host="dash.example.org")
    browser.get(f"/signin/once/{house.access.people.new_link(house.now.us)}")
    house.access.people.put("ada", "viewer", house.now.us, PASSWORD)
    answer = browser.post("/signin", data={"name": "ada", "password": PASSWORD})
    assert "secure" in answer.headers["set-cookie"].lower()


def test_every_answer_carries_the_policy(house):
    for address in ("/signin", "/for/viewer", "/nowhere"):
        policy = house.browser().get(address).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy


@pytest.mark.parametrize("body", [b"\xff\xfe", b"a=1&" * 100, b"name=%ff%fe&password=%00", b"=&=&="])
def test_a_form_that_is_none_is_refused_not_a_crash(house, body):
    headers = {"content-type": "application/x-www-form-urlencoded"}
    assert house.browser().post("/signin", content=body, headers=headers).status_code in (401, 422)


def test_what_is_declared_public_says_so():
    assert anybody.role == "anybody"
    assert require("viewer") is require("viewer")
    assert callable(audit)
