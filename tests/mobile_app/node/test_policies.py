"""Consent, permissions that come and go, and the battery floor, over the real loop with a gateway in memory."""

from __future__ import annotations

import numpy as np
import pytest

from mobile_app.node.view_state import facts_of
from mobile_app.sensors import choose
from mobile_app.sensors.source import Samples, SensorMissing, SoftwareSource
from mobile_app.settings import Settings
from shared.identity import edge_id
from shared.sync.exchange import StatusReceived
from shared.wire.status import DeviceStatus
from tests.mobile_app.node.test_loop import RAW, bench, plan  # noqa: F401 - bench is a fixture

BOTH = ("rs.sensor('gps', every='1s').sync('raw', batch=20, within='30s')",
        "rs.sensor('accelerometer', every='1s').sync('shake', batch=20, within='30s')")  # fmt: skip


def test_a_plan_that_wants_a_refused_sensor_runs_without_it_until_it_is_allowed(bench, tmp_path):  # noqa: F811
    bench.gateway.plan_to_send = plan(tmp_path, *BOTH)
    node = bench.start()
    node.access.consents.decide("gps", allow=False)
    bench.run_until(lambda: bench.delivered("shake") >= 20)
    assert bench.delivered("raw") == 0
    assert node.view()["consents"] == {"accelerometer": True, "gps": False}
    assert "gps" not in node.view()["sensors"]
    node.access.consents.decide("gps", allow=True)
    node.runner.begin_again()
    bench.run_until(lambda: bench.delivered("raw") >= 20)
    node.access.consents.decide("gps", allow=False)
    node.runner.begin_again()
    bench.run_until(lambda: node.runner._next is None)
    taken = node.view()["sensors"]["gps"]["readings"]
    shaken = bench.delivered("shake")
    bench.run_until(lambda: bench.delivered("shake") >= shaken + 40)
    assert node.view()["sensors"]["gps"]["readings"] == taken


def test_a_sensor_nobody_decided_about_is_asked_for_and_not_opened(bench, tmp_path, monkeypatch):  # noqa: F811
    opened: list[str] = []
    real = choose.open_source

    def spy(sensor, *arguments, **options):
        opened.append(sensor)
        return real(sensor, *arguments, **options)

    monkeypatch.setattr("mobile_app.sensors.access.open_source", spy)
    bench.gateway.plan_to_send = plan(tmp_path, RAW, "rs.sensor('light', every='1s').sync('lux', within='30s')")
    node = bench.start()
    bench.run_until(lambda: bench.delivered("raw") >= 20)
    assert "light" not in opened
    assert node.view()["consents"]["light"] is None
    bench.run_until(lambda: "consent-needed" in [entry["code"] for entry in node.stores.health.entries()])
    assert "light" in next(e["what"] for e in node.stores.health.entries() if e["code"] == "consent-needed")
    assert "sensor-missing" not in [entry["code"] for entry in node.stores.health.entries()]


def test_what_a_person_keeps_from_a_plan_is_told_to_the_gateway_and_recorded_all_the_same(bench, tmp_path):  # noqa: F811
    bench.gateway.plan_to_send = plan(tmp_path, *BOTH)
    node = bench.start()
    node.access.consents.decide("gps", allow="recordings")
    node.stores.recordings.start("mine", {"gps": 1_000_000, "accelerometer": 1_000_000}, node.stores.clock.now_us())
    recorded = lambda: node.stores.recordings.state()["readings"]  # noqa: E731
    bench.run_until(lambda: bench.delivered("shake") >= 20 and recorded().get("gps", 0) >= 20)
    assert bench.delivered("raw") == 0
    view = node.view()
    assert view["asked_sensors"] == {"gps": 1.0, "accelerometer": 1.0}
    assert (view["refused_sensors"], view["recording"]["missing"]) == (["gps"], {})
    assert "is kept from this plan by its person" in view["missing_sensors"]["gps"]
    assert "consent-needed" not in [entry["code"] for entry in node.stores.health.entries()]
    heard: list[object] = []

    def told() -> bool:
        heard.extend(bench.gateway.receiver.events())
        return any(isinstance(each, StatusReceived) and each.status.refused_sensors == ("gps",) for each in heard)

    bench.run_until(told)
    node.access.consents.decide("gps", allow=False)  # to nobody any more: the recording stops reading it, too
    taken, shaken = recorded()["gps"], recorded()["accelerometer"]
    bench.run_until(lambda: recorded()["accelerometer"] >= shaken + 40)
    assert recorded()["gps"] == taken
    assert node.view()["recording"]["missing"] == {"gps": "not allowed any more"}


def test_consent_is_kept_over_a_restart(bench, tmp_path):  # noqa: F811
    bench.gateway.plan_to_send = plan(tmp_path, *BOTH)
    bench.start().access.consents.decide("gps", allow=False)
    bench.node.close()
    node = bench.start()
    bench.run_until(lambda: bench.delivered("shake") >= 20)
    assert node.view()["consents"]["gps"] is False
    assert bench.delivered("raw") == 0


class Taken(SoftwareSource):
    """A sensor whose permission comes and goes."""

    allowed = True

    def __init__(self, source) -> None:
        self._source = source

    def read(self, until_us: int) -> Samples:
        if not Taken.allowed:
            raise SensorMissing("the location permission was taken away", code="sensor-permission")
        return self._source.read(until_us)

    def at(self, time_us: np.ndarray) -> Samples:
        return self._source.at(time_us)

    def sample_every(self, period_us: int) -> None:
        self._source.sample_every(period_us)


def test_a_permission_taken_while_running_stops_that_sensor_only_and_it_comes_back(bench, tmp_path, monkeypatch):  # noqa: F811
    real = choose.open_source

    def open_source(sensor, *arguments, **options):
        if sensor == "gps" and not Taken.allowed:
            raise SensorMissing("the location permission is missing", code="sensor-permission")
        source = real(sensor, *arguments, **options)
        return Taken(source) if sensor == "gps" else source

    monkeypatch.setattr("mobile_app.sensors.access.open_source", open_source)
    monkeypatch.setattr("mobile_app.node.plan_runner.TRY_MISSING_S", 0.05)
    monkeypatch.setattr(Taken, "allowed", True)
    node = bench.start(plan=plan(tmp_path, *BOTH))
    bench.run_until(lambda: bench.delivered("raw") >= 20)
    monkeypatch.setattr(Taken, "allowed", False)
    shaken = bench.delivered("shake")
    bench.run_until(lambda: "sensor-permission" in [entry["code"] for entry in node.stores.health.entries()])
    bench.run_until(lambda: bench.delivered("shake") >= shaken + 40)
    assert "permission" in node.view()["missing_sensors"]["gps"]
    raw = node.stores.spool.head(edge_id("raw"))
    monkeypatch.setattr(Taken, "allowed", True)
    bench.run_until(lambda: node.stores.spool.head(edge_id("raw")) >= raw + 20)
    bench.run_until(lambda: node.stores.health.entries() == [])
    view = node.view()
    assert view["missing_sensors"] == {}
    assert view["sensors"]["gps"]["gaps"] >= 1
    assert view["produced"] == view["delivered"] + view["spooled"]


@pytest.mark.covers("MS-25")
def test_at_the_battery_floor_reading_stops_and_the_gateway_is_told(bench, tmp_path, monkeypatch):  # noqa: F811
    statuses: list[DeviceStatus] = []
    real = choose.open_source
    level = {"level": 0.9}

    class Battery(SoftwareSource):
        def read(self, until_us: int) -> Samples:
            columns = {"level": np.array([level["level"]]), "charging": np.array([False])}
            return Samples(np.array([until_us]), columns, until_us)

    monkeypatch.setattr(
        "mobile_app.sensors.access.open_source",
        lambda sensor, *a, **o: Battery() if sensor == "battery" else real(sensor, *a, **o),
    )
    node = bench.start(plan=plan(tmp_path, RAW))
    monkeypatch.setattr(node.sender, "status", statuses.append)
    bench.run_until(lambda: bench.delivered("raw") >= 20)
    level["level"] = 0.01
    bench.run_until(lambda: node.decision.hold == "battery-floor")
    assert statuses[-1].leaving == "battery-floor"
    assert statuses[-1].battery == 1
    taken = node.view()["sensors"]["gps"]["readings"]
    turns = iter(range(10))
    bench.run_until(lambda: next(turns, None) is None)
    assert node.view()["sensors"]["gps"]["readings"] == taken
    assert node.view()["paused"] == "battery-floor"
    level["level"] = 0.5
    bench.run_until(lambda: node.view()["sensors"]["gps"]["readings"] >= taken + 20)
    assert node.view()["paused"] == ""


def test_uploads_wait_for_wifi_while_readings_go_on(bench, tmp_path, monkeypatch):  # noqa: F811
    kind = {"kind": "cellular"}
    real = choose.open_source

    class Network(SoftwareSource):
        def read(self, until_us: int) -> Samples:
            return Samples(np.array([until_us]), {"lane": np.array([kind["kind"]])}, until_us)

    monkeypatch.setattr(
        "mobile_app.sensors.access.open_source",
        lambda sensor, *a, **o: Network() if sensor == "network" else real(sensor, *a, **o),
    )
    node = bench.start(settings=Settings(loss_window_s=0.05, spool_mb=2, wifi_only=True), plan=plan(tmp_path, RAW))
    node.decision = node.upkeep.look(0.0, 1, node.settings, facts_of(node))
    bench.run_until(lambda: node.final_account()["spooled"] >= 100)
    assert bench.delivered("raw") == 0
    assert [entry["code"] for entry in node.stores.health.entries()] == ["waiting-wifi"]
    assert node.view()["lane"] == "cellular"
    kind["kind"] = "wifi"
    bench.run_until(lambda: bench.delivered("raw") >= 100)
