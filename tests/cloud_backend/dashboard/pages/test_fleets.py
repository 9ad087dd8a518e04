"""The fleets' page: where each vertex runs, how it is, who keeps it, what moved and why; never as current when it is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cloud_backend.dashboard.fleet import devices
from shared.moves import GIVEN_UP, MOVED, PREVIEW, UNDER_WAY, Move, MoveAnswer, MovePreview, MoveRequest
from shared.wire.fleet_status import AppliedStatus, FleetNodeStatus, FleetQueryStatus, FleetStatus, PlacementStatus
from shared.wire.messages import Hint
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


MOVE = {"query": "noise", "vertex": "band", "to": "tram"}


def asked_of(house) -> tuple[MoveRequest, ...]:
    """What the coordinator is told with its next exchange, as the gateway signs it."""
    gateway, tram = house.gateway, house.phones[0]
    hint = gateway.downlink.hint(tram)
    return () if hint is None else Hint.of(hint.frame()).moves


def test_a_dry_run_is_asked_of_the_coordinator_shown_and_only_then_confirmed(coordinated):
    browser = coordinated.browser("operator")
    path = f"/fleets/{coordinated.phones[0].hex()}/move"
    page = browser.get("/fleets").text
    assert 'data-vertex="band"' in page
    assert f'action="{path}"' in page
    there = browser.post(path, data=MOVE | {"dry_run": "true"}).headers["location"]
    waiting = browser.get(there).text
    assert "The fleet&#39;s coordinator is asked" in waiting or "The fleet's coordinator is asked" in waiting
    (request,) = asked_of(coordinated)
    assert (request.vertex, request.to, request.dry_run, there) == ("band", "tram", True, f"/fleets?asked={request.id}")
    preview = MovePreview(("bus",), ("tram",), ("band",), 0.8, 5_300, 1, 3, 2, 64, 0, 64)
    coordinated.tell(replace(coordinated.fleet, asked=(MoveAnswer(request, PREVIEW, preview=preview),)))
    coordinated.gateway.downlink.requests.heard(
        coordinated.phones[0], DeviceStatus(fleet=replace(coordinated.fleet, asked=(MoveAnswer(request, PREVIEW),)))
    )
    assert asked_of(coordinated) == (), "it was answered"
    shown = browser.get(there).text
    for words in ("Move band to tram?", "nothing has changed yet", "5.3 KB", "for about 0.8 s", "Move it"):
        assert words in shown, words
    assert "Move it" not in coordinated.browser("viewer").get(there).text
    there = browser.post(path, data=MOVE | {"leaving": ""}).headers["location"]
    (request,) = asked_of(coordinated)
    assert not request.dry_run
    for state, words in (
        (UNDER_WAY, "is on its way to tram"),
        (MOVED, "was moved to tram"),
        (GIVEN_UP, "was not moved"),
    ):
        answer = MoveAnswer(request, state, "tram is silent" if state == GIVEN_UP else "")
        coordinated.gateway.downlink.requests.heard(
            coordinated.phones[0], DeviceStatus(fleet=replace(coordinated.fleet, asked=(answer,)))
        )
        coordinated.tell(replace(coordinated.fleet, asked=(answer,)))
        assert words in browser.get(there).text
    audit = coordinated.browser("admin").get("/audit").text
    assert audit.count("band of noise to tram") == 1, "a dry run changes nothing, and is not noted"


def test_who_may_not_move_and_what_cannot_be_asked(coordinated):
    tram, bus = (each.hex() for each in coordinated.phones)
    viewer, operator = coordinated.browser("viewer"), coordinated.browser("operator")
    assert viewer.post(f"/v1/api/fleets/{tram}/move", json=MOVE).status_code == 403
    page = viewer.get("/fleets").text
    assert "data-moves" not in page
    assert "<select" not in page
    refused = operator.post(f"/v1/api/fleets/{bus}/move", json=MOVE)
    assert refused.json()["code"] == "fleet-unknown"
    for _ in range(8):
        assert "id" in operator.post(f"/v1/api/fleets/{tram}/move", json=MOVE | {"dry_run": True}).json()
    assert operator.post(f"/v1/api/fleets/{tram}/move", json=MOVE).json()["code"] == "move-busy"
    later_us = coordinated.now_us + 20 * MINUTE_US
    object.__setattr__(coordinated.app.state.sources, "clock_us", lambda: later_us)
    assert operator.post(f"/v1/api/fleets/{tram}/move", json=MOVE).json()["code"] == "fleet-silent"
    assert "nothing is known of that request" in operator.get("/fleets?asked=00").text


def test_the_drawing_has_every_node_its_vertices_and_the_streams_between_them(coordinated):
    nodes = (
        FleetNodeStatus("phone", "ab" * 16, None, 4, ("hub",)), FleetNodeStatus("hub", "cd" * 16),
        FleetNodeStatus("desk", "ef" * 16),
    )  # fmt: skip
    placed = (
        PlacementStatus("noise", "band", 1, ("hub",), (), "running", begins=True),
        PlacementStatus("noise", "<loud>", 1, ("desk",), (), "running", reads=("band",), ends=True, to="hub"),
    )
    fleet = FleetStatus(
        1, nodes, (FleetQueryStatus("noise", "ecoc", 5, ("phone",), "desk"),), placed, links=(("hub", "desk", "wifi"),)
    )
    coordinated.tell(fleet)
    drawn = coordinated.browser("operator").get("/fleets").text
    assert "phone to hub: not reached" in drawn
    assert "hub to desk over wifi" in drawn
    assert "&lt;loud&gt;, running, on its way to hub" in drawn
    assert drawn.count('class="chip fine movable"') == 1, "what is on its way already stays where it is"


def test_who_passes_rows_on_for_whom_is_drawn_and_listed(coordinated):
    nodes = tuple(
        FleetNodeStatus(name, mark * 16) for name, mark in (("phone", "ab"), ("hub", "cd"), ("stop", "ef"), ("desk", "01"))
    )  # fmt: skip
    placed = (PlacementStatus("noise", "band", 1, ("hub",), (), "running", begins=True, ends=True),)
    fleet = FleetStatus(1, nodes, (FleetQueryStatus("noise", "ecoc", 5, ("phone",), "desk"),), placed)
    coordinated.tell(fleet)
    browser = coordinated.browser("viewer")
    assert "passed on" not in browser.get("/fleets").text
    coordinated.tell(replace(fleet, ways=(("noise", "phone", ("stop",)),)))
    page = browser.get("/fleets").text
    for words in (
        "passes on for phone", "phone to stop, rows of phone that are passed on",
        "stop to hub, rows of phone that are passed on", "Dotted: rows that a node only passes on",
        "<dt>Passes on rows of</dt><dd>phone</dd>",
    ):  # fmt: skip
        assert words in page, words
    assert "phone to hub" not in page, "there is no direct way now"
    (shown,) = browser.get("/v1/api/fleets").json()["fleets"]
    assert shown["queries"][0]["ways"] == [{"source": "phone", "nodes": ["stop"]}]
    assert {node["name"]: node["passes_on"] for node in shown["nodes"]}["stop"] == ["phone"]
    filters = AppliedStatus("noise", "phone", "stop", ("where db > 3",))
    coordinated.tell(replace(fleet, applied=(filters,)))
    assert "rows of phone: where db &gt; 3 on stop" in browser.get("/fleets").text
    coordinated.tell(replace(fleet, ways=(("noise", "phone", ("stop",)), ("noise", "phone", ()))))
    assert "<title>phone to hub</title>" in browser.get("/fleets").text, "both ways at once"
