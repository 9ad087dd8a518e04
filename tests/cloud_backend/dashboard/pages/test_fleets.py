"""The fleets' page: where each vertex runs, how it is, who keeps it, what moved and why; never as current when it is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cloud_backend.dashboard.fleet import devices
from shared.moves import Move
from shared.wire.fleet_status import FleetNodeStatus, FleetQueryStatus, FleetStatus, PlacementStatus
from shared.wire.status import DeviceStatus

SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US


@pytest.fixture
def coordinated(dashboard, monkeypatch):
    """tram-07 coordinates; bus-12 runs a vertex; a hub that no gateway knows was silent."""
    monkeypatch.setattr(devices, "FRESH_S", 0.0)
    now = dashboard.now_us
    object.__setattr__(dashboard.app.state.sources, "clock_us", lambda: now)
    tram, bus = dashboard.phones
    dashboard.fleet = FleetStatus(
        5,
        (
            FleetNodeStatus("tram", tram.hex()), FleetNodeStatus("bus", bus.hex()),
            FleetNodeStatus("hub<1>", "ab" * 16, now - 5 * MINUTE_US),
        ),
        (FleetQueryStatus("noise", "ecoc", 500, ("bus",), "tram"),),
        (
            PlacementStatus("noise", "band", 2, ("bus",), ("tram",), "running", "", 0, 14, 5_300, now - 40 * SECOND_US),
            PlacementStatus("noise", "loud", 3, ("tram",), ("bus",), "failed", "ValueError: no <b>beat</b>", 7),
        ),
        (
            Move(now - 9 * MINUTE_US, "noise", "band", 2, ("hub<1>",), ("bus",), "hub<1> is silent"),
            Move(now - MINUTE_US, "noise", "loud", 3, ("tram",), ("tram",), "'loud' failed on tram"),
        ),
    )  # fmt: skip
    dashboard.tell = lambda fleet=dashboard.fleet: dashboard.gateway.roster.seen(
        [(tram, now, DeviceStatus(produced=12, incarnation=1, fleet=fleet, poll_s=30.0))]
    )
    dashboard.tell()
    return dashboard


def test_the_page_shows_where_each_vertex_runs_and_what_moved(coordinated):
    page = coordinated.browser("viewer").get("/fleets").text
    assert "3 nodes, coordinated by" in page
    for words in (
        "ecoc, c = 500", "From bus to tram. The vertices take a snapshot together every 500 elements",
        "40 s ago", "after 14 elements", "5.3 KB", "none yet", "7 elements lost", "silent for 5 min",
        "band moved from hub&lt;1&gt; to bus", "hub&lt;1&gt; is silent", "loud began again on tram",
        "ValueError: no &lt;b&gt;beat&lt;/b&gt;",
    ):  # fmt: skip
        assert words in page, words
    assert "As of" not in page
    assert f'href="/devices/{coordinated.phones[1].hex()}"' in page  # a node that is enrolled has a page of its own
    assert "/devices/" + "ab" * 16 not in page


def test_what_a_coordinator_said_before_it_fell_silent_is_never_shown_as_current(coordinated):
    later_us = coordinated.now_us + 20 * MINUTE_US
    object.__setattr__(coordinated.app.state.sources, "clock_us", lambda: later_us)
    browser = coordinated.browser("viewer")
    page = browser.get("/fleets", headers={"hx-request": "true"}).text
    assert "As of <time" in page
    assert "has not been heard since" in page
    assert "20 min ago" in page
    assert "What ran on each when it was last heard." in page
    assert "after 14 elements" in page
    assert "s ago" not in page
    (fleet,) = browser.get("/v1/api/fleets").json()["fleets"]
    assert (fleet["current"], fleet["heard_us"]) == (False, coordinated.now_us)
    assert "does not run" not in browser.get("/", headers={"accept": "text/html"}).text


def test_the_api_says_the_same(coordinated):
    browser = coordinated.browser("viewer")
    (fleet,) = browser.get("/v1/api/fleets").json()["fleets"]
    assert (fleet["current"], fleet["version"], fleet["coordinator"]["name"]) == (True, 5, "tram-07")
    (query,) = fleet["queries"]
    assert [(each["vertex"], each["hosts"], each["state"]) for each in query["vertices"]] == [
        ("band", ["bus"], "running"), ("loud", ["tram"], "failed"),
    ]  # fmt: skip
    assert [each["words"] for each in fleet["moves"]] == ["loud began again on tram", "band moved from hub<1> to bus"]
    assert [(each["name"], each["enrolled"], each["keeps"]) for each in fleet["nodes"]] == [
        ("tram", True, ["band"]), ("bus", True, ["loud"]), ("hub<1>", False, []),
    ]  # fmt: skip
    assert coordinated.browser().get("/v1/api/fleets").status_code == 401


def test_a_vertex_that_does_not_run_needs_attention(coordinated):
    page = coordinated.browser("viewer").get("/").text
    assert "loud of noise does not run on tram" in page
    assert 'href="/fleets"' in page
    running = replace(coordinated.fleet, placements=coordinated.fleet.placements[:1], left_off=1)
    coordinated.tell(running)
    assert "does not run" not in coordinated.browser("viewer").get("/").text
    assert "1 vertex more did not fit" in coordinated.browser("viewer").get("/fleets").text


def test_without_a_fleet_the_page_says_how_there_is_one(dashboard):
    browser = dashboard.browser("viewer")
    assert "No fleet reports here." in browser.get("/fleets").text
    assert 'href="/fleets"' not in browser.get("/devices").text
    assert browser.get("/v1/api/fleets").json() == {"fleets": []}
    assert dashboard.browser().get("/fleets").status_code in (303, 401)


def test_the_devices_page_leads_there_and_a_revoked_coordinator_is_not_shown(coordinated):
    browser = coordinated.browser("viewer")
    assert 'href="/fleets"' in browser.get("/devices").text
    coordinated.gateway.roster.revoke(coordinated.phones[0], coordinated.now_us)
    assert "No fleet reports here." in browser.get("/fleets").text
