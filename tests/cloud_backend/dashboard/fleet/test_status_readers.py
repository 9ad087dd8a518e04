"""Nothing is said that no page shows: each field of a device's status changes what somebody reads."""

from __future__ import annotations

import re
from dataclasses import fields, replace

import pytest

from cloud_backend.dashboard.fleet import devices
from shared.wire.fleet_status import FleetStatus
from shared.wire.status import AdviceStatus, DeviceStatus, PaceStatus

SAID = DeviceStatus(
    battery=80, charging=False, full_in_s=90_000.0, incarnation=1, plan=3, poll_s=30.0, produced=500, python="3.11.9",
    spool_bytes=4_000, spool_capacity_bytes=9_000, version="1.0",
)  # fmt: skip
OTHERWISE = {
    "advice": AdviceStatus(1200.0, 7, 61.0, 300.0), "battery": 7, "build": "My trips 1.0", "clock_doubt_s": 18.0, "charging": True, "fleet": FleetStatus(3), "full_in_s": 600.0, "incarnation": 2, "lane": "cellular", "late": 4,
    "leaving": "battery low",
    "malformed_results": 3, "missing_sensors": ("gps",), "operators": ("track@1",), "overruns": 9, "pace": PaceStatus(60.0, 5, 3), "plan": 4, "poll_s": 60.0, "produced": 900,
    "python": "3.14.0", "refusal": "revoked", "refused_sensors": ("gps",), "spool_bytes": 8_500, "spool_capacity_bytes": 50_000, "version": "2.0",
}  # fmt: skip


OF_A_HOST = {
    "accuracy_m",
    "back",
    "base",
    "boot",
    "cuts",
    "deployment",
    "instances",
    "kept",
    "neighbours",
    "offer",
    "offered",
    "position",
    "stamps",
    "took",
    "unreachable",
    "urgent",
}  # a node says them to its fleet's coordinator, which reads them


@pytest.mark.parametrize(
    "field", [field.name for field in fields(DeviceStatus) if field.name not in {*OF_A_HOST, "live"}]
)
def test_every_field_of_a_status_is_shown_on_the_devices_page(house, monkeypatch, field):
    monkeypatch.setattr(devices, "FRESH_S", 0.0)
    object.__setattr__(house.app.state.sources, "clock_us", lambda: house.now_us)  # pages say how long ago
    device, browser = house.phones[0], house.browser("viewer")

    def page(status: DeviceStatus) -> str:
        house.gateway.roster.seen([(device, house.now_us, status)])
        answer = browser.get(f"/devices/{device.hex()}", headers={"hx-request": "true"})
        assert answer.status_code == 200
        return answer.text

    assert page(SAID) == page(SAID)
    assert page(replace(SAID, **{field: OTHERWISE[field]})) != page(SAID)


def test_of_a_silent_device_only_what_was_known_is_said(dashboard, monkeypatch):
    monkeypatch.setattr(devices, "FRESH_S", 0.0)
    device, browser = dashboard.phones[0], dashboard.browser("viewer")
    dashboard.gateway.roster.seen([(device, dashboard.now_us, replace(SAID, clock_doubt_s=5e-6))])

    def page(later_s: int) -> str:
        clock_us = dashboard.now_us + later_s * 1_000_000
        object.__setattr__(dashboard.app.state.sources, "clock_us", lambda: clock_us)
        return browser.get(f"/devices/{device.hex()}", headers={"hx-request": "true"}).text

    assert "last heard" not in page(0).partition("Its streams")[0]
    silent = page(3600).partition("Its streams")[0]
    assert "when last heard" in silent
    assert "if it goes on; when last heard it had room for" in silent
    assert "within 1 ms of its wall clock" in silent


def test_a_sensor_that_its_person_keeps_from_the_plan_is_said_so_and_not_called_missing(dashboard, monkeypatch):
    monkeypatch.setattr(devices, "FRESH_S", 0.0)
    device, browser = dashboard.phones[0], dashboard.browser("viewer")
    object.__setattr__(dashboard.app.state.sources, "clock_us", lambda: dashboard.now_us)
    said = replace(SAID, missing_sensors=("gps", "light"), refused_sensors=("gps",))
    dashboard.gateway.roster.seen([(device, dashboard.now_us, said)])
    page = browser.get(f"/devices/{device.hex()}", headers={"hx-request": "true"}).text
    assert "<dt>Missing sensors</dt><dd>light</dd>" in page
    assert "<dt>Kept from the plan</dt><dd>gps " in page


def test_how_many_are_connected_comes_with_every_new_list(dashboard):
    """The line above the list and the list are of one moment."""
    browser, now_us = dashboard.browser("viewer"), dashboard.now_us
    whole = browser.get("/devices", headers={"accept": "text/html"}).text
    assert whole.count('id="contact-counts"') == 1
    assert "hx-swap-oob" not in whole
    for phone in dashboard.phones:
        dashboard.gateway.roster.seen([(phone, now_us, SAID)])
    part = browser.get("/devices", headers={"hx-request": "true"}).text
    (said,) = re.findall(r'<p id="contact-counts" hx-swap-oob="true">([^<]*)</p>', part)
    counted = {
        word: part.count(f'<span class="state {light}">{word}')
        for word, light in (("connected", "on"), ("offline", "off"))
    }
    assert said.startswith(f"{counted['connected']} connected, {counted['offline']} offline")
