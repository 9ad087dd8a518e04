"""When a phone will overwrite readings: from a real node's spool, through its status, to the pages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import resurge as rs
from cloud_backend.dashboard.fleet import devices
from mobile_app.home.keys import load_keys
from mobile_app.node.loop import Node
from mobile_app.node.surroundings import Surroundings
from mobile_app.node.view_state import status_for_fleet
from mobile_app.sensors.choose import parse_choices
from mobile_app.settings import Gateway, Settings
from shared.wire.status import DeviceStatus
from tests.mobile_app.small_gateway import SmallGateway
from tests.patience import wait_until

PROGRAM = "import resurge as rs\nrs.sensor('gps', every='1s').sync('raw', batch=20, within='30s')\n"
HOUR_S = 3600


def filling(directory: Path) -> DeviceStatus:
    """What a real node says of itself while its spool fills, because its gateway does not answer."""
    home, gateway = directory / "home", SmallGateway()
    home.mkdir()
    (directory / "program.py").write_text(PROGRAM)
    gateway.enrol_key(load_keys(home).public_key)
    gateway.down = True
    node = Node(
        home,
        Surroundings(
            settings=Settings(spool_mb=1, loss_window_s=0.05),
            gateway=Gateway("http://here", gateway.keys.public_key, b"", 1),
            link=gateway,
            sensors=parse_choices(["gps=synthetic:3"]),
            speed=240.0,
            plan=rs.load_program(directory / "program.py"),
        ),
    )
    try:

        def status() -> DeviceStatus | None:
            node.turn(node.rest.now())
            said = status_for_fleet(node.view(), "")
            return said if said.full_in_s and said.spool_bytes else None

        return wait_until(status, "a spool that fills")
    finally:
        node.close()


@pytest.fixture
def shown(dashboard, monkeypatch):
    """The device's page and the overview, so many seconds after it said this."""
    monkeypatch.setattr(devices, "FRESH_S", 0.0)
    browser, phone = dashboard.browser("viewer"), dashboard.phones[0]

    def look(status: DeviceStatus, after_s: float) -> tuple[str, str]:
        dashboard.gateway.roster.seen([(phone, dashboard.now_us, status)])
        later_us = dashboard.now_us + round(after_s * 1_000_000)
        object.__setattr__(dashboard.app.state.sources, "clock_us", lambda: later_us)
        page = browser.get(f"/devices/{phone.hex()}", headers={"hx-request": "true"}).text
        return page.partition("Overwrite in")[2].partition("</div>")[0], browser.get("/").text

    return look


def test_a_connected_phone_is_no_trouble_and_a_silent_ones_room_runs_out(tmp_path, shown):
    said = filling(tmp_path)
    assert 60 < said.full_in_s < 365 * 24 * HOUR_S, "a rate was measured"
    soon = replace(said, full_in_s=600.0, spool_bytes=said.spool_capacity_bytes // 10, poll_s=30.0)
    fact, overview = shown(soon, 0)
    assert "not while it is in contact, room for 10 min without" in fact
    assert "overwrit" not in overview
    fact, overview = shown(replace(said, full_in_s=3.0 * HOUR_S), 2 * HOUR_S)
    assert "if it goes on; when last heard it had room for 3 h" in fact
    assert "tram-07 will overwrite readings in 1 h if it goes on" in overview
    fact, overview = shown(replace(said, full_in_s=3.0 * HOUR_S), 5 * HOUR_S)
    assert "by now" in fact
    assert "tram-07 may be overwriting readings by now" in overview


def test_a_spool_that_fills_in_spite_of_contact_is_said(tmp_path, shown):
    said = filling(tmp_path)
    full = replace(said, full_in_s=600.0, poll_s=30.0, spool_bytes=round(0.9 * said.spool_capacity_bytes))
    assert "tram-07 will overwrite readings in 10 min although it is in contact" in shown(full, 0)[1]
    rare = replace(full, spool_bytes=0, poll_s=900.0)
    assert "although it is in contact" in shown(rare, 0)[1], "its next exchange comes too late"
