"""The dashboard's routes: what a browser gets, and what nobody else does."""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from fastapi import FastAPI

from cloud_backend.coordinator.people import Person
from cloud_backend.dashboard.pages.overview import STATIC, _events, _resume_point, dashboard_router
from cloud_backend.dashboard.sign_in import access
from cloud_backend.dashboard.sign_in.live_streams import PER_PERSON_MAX, LiveStreams
from cloud_backend.gateway import http_problems
from cloud_backend.gateway.http_problems import Problem
from tests.user_interface.world import build, build_empty

HERE = ("127.0.0.1", 50000)


class Browser:
    """Asks the app without a socket; from this machine, unless told otherwise."""

    def __init__(self, app: FastAPI, peer: tuple[str, int], host: str) -> None:
        self.transport = httpx.ASGITransport(app, client=peer)
        self.base_url = f"http://{host}"

    def get(self, address: str, **arguments) -> httpx.Response:
        async def ask() -> httpx.Response:
            async with httpx.AsyncClient(transport=self.transport, base_url=self.base_url) as client:
                return await client.get(address, headers={"authorization": "Bearer t"}, **arguments)

        return asyncio.run(ask())


def client_for(feed, *, peer=HERE, host="127.0.0.1:8750") -> Browser:
    app = FastAPI()
    http_problems.install(app)
    access.install(app, access.Access(Path(tempfile.mkdtemp()), token="t"))
    app.include_router(dashboard_router(feed))
    return Browser(app, peer, host)


@pytest.fixture
def client(tmp_path):
    return client_for(build(tmp_path))


def test_the_page_shows_the_account_before_any_script_ran(client):
    page = client.get("/").text
    figures = dict(re.findall(r'id="account-(\w+)">([\d,]+)<', page))
    whole, *parts = (int(figures[name].replace(",", "")) for name in ("produced", "delivered", "spooled", "ledgered"))
    assert whole == sum(parts) > 0
    assert figures["duplicates"] == "0"
    assert "bicycle-3 is offline" in page


def test_the_page_has_no_inline_script_or_style_and_its_policy_forbids_them(client):
    answer = client.get("/")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", answer.text)
    assert "http://" not in answer.text.replace("http://www.w3.org", "")
    assert "https://" not in answer.text


def test_every_asset_the_page_names_is_served_and_may_be_kept(client):
    for address in re.findall(r'(?:src|href)="(/static/[^"]+)"', client.get("/").text):
        answer = client.get(address)
        assert answer.status_code == 200, address
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert client.get("/static/charts.js").headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("name", ["", "no.js", "../routes.py", "%2e%2e/routes.py", "vendor", "/etc/passwd"])
def test_nothing_but_the_assets_is_served(client, name):
    assert client.get(f"/static/{name}").status_code == 404


def test_vendored_code_comes_with_its_license():
    assert "MIT" in (STATIC / "vendor" / "uplot-LICENSE.txt").read_text()


def test_the_overview_goes_on_after_the_given_second_and_change(client):
    whole = client.get("/v1/overview").json()
    assert sum(whole["arrivals"]["counts"]["all"]) == whole["account"]["delivered"]
    assert whole["sinks"] == {"my_trips": len(whole["results"])}
    rest = client.get(
        "/v1/overview", params={"after_second": whole["arrivals"]["until"] - 3, "after_change": whole["change"]}
    ).json()
    assert rest["results"] == []
    assert {len(counts) for counts in rest["arrivals"]["counts"].values()} == {3}
    assert rest["account"] == whole["account"]


def test_an_outage_is_seen_where_nothing_arrived(client):
    view = client.get("/v1/overview").json()
    by_name = {phone["name"]: phone for phone in view["phones"]}
    assert [by_name[name]["outage_count"] for name in ("tram-07", "bus-12", "bicycle-3")] == [2, 1, 2]
    assert by_name["bicycle-3"]["outages"][-1][1] is None


def test_what_is_not_known_yet_is_not_called_empty(client):
    """Counts and results come with the first event; until then nothing says that there are none."""
    page = client.get("/").text
    for part in ("arrivals", "results", "phones"):
        assert re.search(rf'id="{part}-empty" hidden>', page)


def test_an_empty_gateway_has_a_page(tmp_path):
    page = client_for(build_empty(tmp_path)).get("/").text
    assert "No phone is paired yet" in page


@pytest.mark.parametrize(
    ("peer", "host"),
    [("192.0.2.7", "127.0.0.1:8750"), ("127.0.0.1", "evil.example"), ("127.0.0.1", "192.0.2.1:8750"), ("nobody", "x")],
)
def test_only_this_machine_may_look(tmp_path, peer, host):
    client = client_for(build_empty(tmp_path), peer=(peer, 1), host=host)
    for address in ("/", "/v1/overview", "/v1/overview/stream", "/static/mark.svg"):
        answer = client.get(address)
        assert answer.status_code == 403
        assert answer.json()["code"] == "dashboard-elsewhere"


@pytest.mark.parametrize("host", ["localhost:8750", "127.0.0.1", "[::1]:8750"])
def test_this_machine_has_several_names(tmp_path, host):
    assert client_for(build_empty(tmp_path), host=host).get("/v1/overview").status_code == 200


@pytest.mark.parametrize("position", ["-1", str(2**64), "x", "1e9", "NaN", "<script>"])
@pytest.mark.parametrize("name", ["after_second", "after_change"])
def test_a_position_that_cannot_be_is_refused_without_being_repeated(client, name, position):
    answer = client.get("/v1/overview", params={name: position})
    assert answer.status_code == 422
    assert answer.json()["code"] == "request-invalid"
    assert "script" not in answer.text


ADA = Person("ada", "viewer")


class Watcher:
    """A browser that leaves after so many events."""

    def __init__(self, events: int, streams: LiveStreams | None = None) -> None:
        self.left = events
        self.app = SimpleNamespace(state=SimpleNamespace(access=SimpleNamespace(streams=streams or LiveStreams())))

    async def is_disconnected(self) -> bool:
        self.left -= 1
        return self.left < 0


def test_the_stream_sends_everything_once_and_then_what_is_new(tmp_path, monkeypatch):
    monkeypatch.setattr("cloud_backend.dashboard.pages.overview.STREAM_INTERVAL_S", 0)
    monkeypatch.setattr("cloud_backend.dashboard.pages.overview.may_still_look", lambda _: True)
    feed = build(tmp_path)

    async def collect() -> list[str]:
        return [event async for event in _events(feed, Watcher(2), ADA, (0, 0))]

    _, first, second = asyncio.run(collect())
    first_view, second_view = (json.loads(event.split("data: ")[1]) for event in (first, second))
    assert first_view["results"]
    assert second_view["results"] == []
    assert second_view["arrivals"]["from"] == first_view["arrivals"]["until"]
    resume = re.search(r"^id: (.*)$", first, re.M)[1]
    assert _resume_point(resume) == (first_view["arrivals"]["until"], first_view["change"])


def test_a_viewer_has_a_few_pages_open_and_keeps_nobody_else_from_theirs(tmp_path, monkeypatch):
    """Each looks at the databases every second, in threads that all pages share."""
    monkeypatch.setattr("cloud_backend.dashboard.pages.overview.may_still_look", lambda _: True)
    feed, streams = build(tmp_path), LiveStreams()

    async def story() -> None:
        opened = []
        for _ in range(PER_PERSON_MAX):
            streams.check_room(ADA)
            opened.append(_events(feed, Watcher(9, streams), ADA, (0, 0)))
            await anext(opened[-1])
        with pytest.raises(Problem, match="too many pages"):
            streams.check_room(ADA)
        streams.check_room(Person("eve", "viewer"))
        await opened.pop().aclose()  # one tab is closed
        streams.check_room(ADA)
        for each in opened:
            await each.aclose()

    asyncio.run(story())


@pytest.mark.parametrize("text", ["", "x", "1", "-1:2", "1:2:3", "٣:1", "9" * 50 + ":1"])
def test_a_resume_point_nobody_gave_means_from_the_start(text):
    assert _resume_point(text) == (0, 0)
