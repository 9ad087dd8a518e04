"""What a device that catches up says is newest: on its page and on the map, and nowhere that counts."""

from __future__ import annotations

import re
from pathlib import Path

from cloud_backend.dashboard.fleet import devices
from cloud_backend.dashboard.views.alerts import conditions
from cloud_backend.gateway.live_readings import KEPT_US, LiveReadings
from shared.identity import DeviceId
from shared.sync.exchange import StatusReceived
from shared.wire.live import LiveReading
from shared.wire.status import DeviceStatus
from tests.cloud_backend.dashboard.house import SECOND_US

ROOT = Path(__file__).resolve().parents[3]
HERE = (("lat", 46.948123), ("lon", 7.447456), ("accuracy", 4.25))


def place(browser, device):
    features = browser.get(f"/devices/{device.hex()}/map.json").json()["features"]
    return next(each for each in features if each["geometry"]["type"] == "Point")


def test_the_newest_reading_is_shown_before_the_log_has_it_and_counted_nowhere(house, monkeypatch):
    monkeypatch.setattr(devices, "FRESH_S", 0.0)
    device, gateway = house.phones[0], house.gateway
    operator, viewer = house.browser("operator"), house.browser("viewer")
    end = gateway.log.durable_end
    reading = LiveReading("gps", house.now_us + 60 * SECOND_US, HERE)
    gateway._take_events([StatusReceived(device, 1, DeviceStatus(produced=12, incarnation=1, live=(reading,)))])
    gateway._flush_seen()

    shown = place(operator, device)
    assert shown["geometry"]["coordinates"] == [7.447456, 46.948123]
    assert shown["properties"]["live"] is True
    text = operator.get(f"/devices/{device.hex()}").text
    assert "not yet part of results" in text
    assert "accuracy 4.25" in text
    assert place(viewer, device)["geometry"]["coordinates"] == [7.45, 46.95]
    rounded = viewer.get(f"/devices/{device.hex()}").text
    assert "46.948123" not in rounded
    assert "accuracy 4.25" not in rounded
    assert gateway.log.durable_end == end
    assert gateway.roster.entry(device).status.live == ()

    house.now_us += 120 * SECOND_US
    house.deliver(device, seq=8)
    caught_up = place(operator, device)
    assert "live" not in caught_up["properties"]
    assert 'id="live-title"' not in operator.get(f"/devices/{device.hex()}").text


def test_it_is_forgotten_when_the_device_says_so_is_revoked_or_silent_for_long():
    live, device = LiveReadings(), DeviceId(bytes(16))
    reading = LiveReading("gps", 1, HERE)
    live.heard(device, (reading,), 0)
    assert live.of(device, KEPT_US) == (reading,)
    assert live.of(device, KEPT_US + 1) == ()
    live.heard(device, (reading,), 0)
    live.heard(device, (), 1)
    assert live.of(device, 1) == ()
    live.heard(device, (reading,), 0)
    live.forget([device])
    assert live.of(device, 1) == ()


def test_a_lag_alert_says_that_the_device_is_sending_what_it_holds(dashboard, monkeypatch):
    monkeypatch.setattr(devices, "FRESH_S", 0.0)
    sources, device = dashboard.app.state.sources, dashboard.phones[0]
    later_us = dashboard.now_us + 7200 * SECOND_US
    object.__setattr__(sources, "clock_us", lambda: later_us)
    sources.alerts.set_rule("lag", threshold=60, enabled=True)
    dashboard.gateway.roster.seen([(each, later_us, None) for each in dashboard.phones])
    dashboard.gateway.live.heard(device, (LiveReading("gps", later_us, HERE),), later_us)
    sources.look_again()
    sources.history.follow()
    said = {each.subject.partition("/")[0]: each.detail for each in conditions(sources) if each.kind == "lag"}
    catching_up, silent = (said[each.hex()] for each in dashboard.phones)
    assert catching_up.endswith("s; it is sending what it holds, and its page shows the newest reading")
    assert catching_up.startswith("gps of tram-07 lags more than ")
    assert "sending" not in silent


def test_the_api_has_it_under_the_path_that_the_handbook_names(dashboard, monkeypatch):
    monkeypatch.setattr(devices, "FRESH_S", 0.0)
    device, operator = dashboard.phones[0], dashboard.browser("operator")
    [path] = re.findall(r"`GET (\S+)/ID` has them as `live`", (ROOT / "docs" / "operations.md").read_text())
    assert operator.get(f"{path}/{device.hex()}").json()["live"] == []
    reading = LiveReading("gps", dashboard.now_us + 60 * SECOND_US, HERE)
    dashboard.gateway.live.heard(device, (reading,), dashboard.now_us)
    told = operator.get(f"{path}/{device.hex()}").json()
    assert told["live"] == [{"stream": "gps", "time_us": reading.time_us, "values": dict(HERE)}]
    assert told["position_is_live"] is True
