"""What the device can afford: lanes, battery floor, adaptive sampling. And what its person was told of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mobile_app.condition.health import Health
from mobile_app.condition.policy import (
    DeviceCondition,
    pacing_conditions,
    sampling_shares,
    why_not_exchange,
    why_not_sample,
)
from mobile_app.condition.upkeep import Facts, Fix, Ground, Upkeep
from mobile_app.sensors.readings import Readings
from mobile_app.sensors.source import Samples, SensorMissing, SoftwareSource
from mobile_app.settings import Settings, change_policies, load_settings, policies
from shared.errors import UsageError
from shared.plan.area import Area


@pytest.mark.parametrize(
    ("settings", "condition", "why"),
    [
        (Settings(), DeviceCondition(), ""),
        (Settings(wifi_only=True), DeviceCondition(network="cellular"), "waiting-wifi"),
        (Settings(wifi_only=True), DeviceCondition(network="wifi"), ""),
        (Settings(wifi_only=True), DeviceCondition(), ""),  # it cannot tell: unknown is not forbidden
        (Settings(metered=False), DeviceCondition(network="wifi", metered=True), "waiting-unmetered"),
        (Settings(), DeviceCondition(network="cellular", roaming=True), "waiting-home-network"),
        (Settings(roaming=True), DeviceCondition(network="cellular", roaming=True), ""),
        (Settings(), DeviceCondition(network="none"), "no-network"),
        (Settings(battery_floor=0.2), DeviceCondition(battery=0.1, charging=False, network="wifi"), "battery-floor"),
        (Settings(battery_floor=0.2), DeviceCondition(battery=0.1, charging=True), ""),
    ],
)
def test_when_the_network_is_left_alone(settings, condition, why):
    assert why_not_exchange(settings, condition) == why


def test_only_the_battery_floor_stops_the_reading():
    assert why_not_sample(Settings(wifi_only=True), DeviceCondition(network="cellular")) == ""
    assert why_not_sample(Settings(battery_floor=0.2), DeviceCondition(battery=0.1, charging=False)) == "battery-floor"


def test_the_sender_hears_of_lane_and_battery():
    conditions = pacing_conditions("gateway", DeviceCondition(battery=0.1, charging=False, network="cellular"))
    assert (conditions.lane, conditions.battery, conditions.charging) == ("cellular", 0.1, False)
    assert pacing_conditions("relay", DeviceCondition(network="cellular")).lane == "gateway"


@pytest.mark.covers("SO-8")
def test_sampling_adapts_to_battery_motion_and_shelter():
    assert sampling_shares(DeviceCondition()) == {}
    assert sampling_shares(DeviceCondition(battery=0.1, charging=False)) == {"*": 0.25, "gps": 0.25}
    assert sampling_shares(DeviceCondition(battery=0.1, charging=True)) == {}
    assert sampling_shares(DeviceCondition(moving=False)) == {"gps": 0.2}
    assert sampling_shares(DeviceCondition(moving=True, indoors=True)) == {"gps": 0.1}
    assert sampling_shares(DeviceCondition(battery=0.2, charging=False, moving=False)) == {"*": 0.5, "gps": 0.1}


def test_policies_are_kept_and_count_before_the_file_a_person_wrote(tmp_path):
    (tmp_path / "settings.toml").write_text('name = "attic"\nwifi_only = true\n')
    changed = change_policies(tmp_path, {"wifi_only": False, "record": "gps, light"})
    assert policies(changed)["record"] == ["gps", "light"]
    assert load_settings(tmp_path) == changed
    assert changed.name == "attic"


@pytest.mark.parametrize("changes", [{"spool_mb": 5}, {"battery_floor": 2.0}, {"wifi_only": 1}, {"unknown": True}])
def test_a_policy_that_cannot_be_is_refused_and_nothing_changes(tmp_path, changes):
    with pytest.raises(UsageError, match="settings-"):
        change_policies(tmp_path, changes)
    assert load_settings(tmp_path) == Settings()


SETTINGS = Settings()


class Fixed(SoftwareSource):
    """A sensor that always reads the same."""

    def __init__(self, **columns: object) -> None:
        self.columns = columns

    def read(self, until_us: int) -> Samples:
        return Samples(
            np.array([until_us]), {name: np.array([value]) for name, value in self.columns.items()}, until_us
        )

    at = sample_every = None


class World:
    def __init__(self, home: Path) -> None:
        self.wall_us = self.boot_us = 1_000_000_000
        self.sources = {"battery": Fixed(level=0.5, charging=False), "network": Fixed(lane="wifi", metered=False)}
        self.health = Health(home, wall_us=lambda: self.wall_us, boot="one")
        self.readings = Readings()
        self.upkeep = Upkeep(
            self.health, self.readings, self.open, wall_us=lambda: self.wall_us, boot_us=lambda: self.boot_us
        )
        self.now = 0.0

    def open(self, sensor: str, _every_us: int) -> Fixed:
        if sensor not in self.sources:
            raise SensorMissing("none here", code="sensor-missing")
        return self.sources[sensor]

    def look(self, settings: Settings = SETTINGS, **facts):
        self.now += 1.0
        self.wall_us += 1_000_000
        self.boot_us += 1_000_000
        return self.upkeep.look(self.now, self.wall_us, settings, Facts(**{"paired": True, **facts}))

    def codes(self) -> list[str]:
        return [entry["code"] for entry in self.health.entries()]


@pytest.fixture
def world(tmp_path) -> World:
    return World(tmp_path)


def test_battery_and_network_are_read_from_their_sensors(world):
    decision = world.look()
    assert (decision.condition.battery, decision.condition.charging, decision.condition.network) == (0.5, False, "wifi")
    assert (decision.pause, decision.hold, world.codes()) == ("", "", [])


def test_without_such_sensors_nothing_is_held_back(world):
    world.sources.clear()
    decision = world.look()
    assert decision.condition.battery is None
    assert (decision.pause, decision.hold) == ("", "")


@pytest.mark.covers("MS-25")
def test_at_the_battery_floor_it_says_so_once_and_then_is_quiet(world):
    world.sources["battery"].columns["level"] = 0.02
    first = world.look(exchanges=7)
    assert (first.pause, first.hold) == ("battery-floor", "")  # paused, but it may still tell the gateway
    assert world.look(exchanges=7).hold == ""
    assert world.look(exchanges=8).hold == "battery-floor"  # told
    assert world.codes() == ["battery-floor"]
    world.sources["battery"].columns["charging"] = True
    assert world.look(exchanges=8).pause == ""
    assert world.codes() == []


def test_a_device_that_cannot_tell_its_gateway_stops_trying(world):
    world.sources["battery"].columns["level"] = 0.02
    assert world.look().hold == ""
    world.now += 100
    assert world.look().hold == "battery-floor"


@pytest.mark.parametrize(("seconds", "word"), [(3600, "forward"), (-3600, "back")])
def test_a_clock_that_jumps_is_told_and_moves_nothing_else(world, seconds, word):
    world.look()
    world.wall_us += seconds * 1_000_000
    world.look()
    world.look()
    (entry,) = world.health.entries()
    assert entry["code"] == "clock-jump"
    assert f"{word} by 3600 seconds" in entry["what"]


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({"paired": False}, "not-paired"),
        ({"disconnected": True, "link_failure": "the gateway cannot be reached"}, "gateway-unreachable"),
        ({"refusal": "revoked", "refusal_code": "device-revoked"}, "revoked"),
        ({"withheld": "version 2 needs walk@2"}, "plan-withheld"),
        ({"refusal": "too old", "refusal_code": "frame-version"}, "gateway-refuses"),
        ({"blocked": True}, "spool-full"),
        ({"missing": {"gps": "the permission was taken away"}}, "sensor-permission"),
        ({"missing": {"gyroscope": "not built in"}}, "sensor-missing"),
        ({"undecided": ("gps",)}, "consent-needed"),
    ],
)
def test_each_obstacle_has_its_own_entry(world, facts, code):
    world.look(**facts)
    assert world.codes() == [code]


def test_motion_and_shelter_are_seen_in_the_readings(world):
    class Once(Fixed):
        def read(self, until_us: int) -> Samples:
            rows = 50
            times = np.arange(rows) + until_us - rows
            return Samples(times, {name: np.full(rows, value) for name, value in self.columns.items()}, until_us)

    gps = world.readings.watch("gps", Once(speed=0.0, accuracy=80.0), 1_000_000)
    gps.read(100)
    condition = world.look(Settings(adaptive=True)).condition
    assert (condition.moving, condition.indoors) == (False, True)
    world.readings.watch("gps", Once(speed=2.0, accuracy=5.0), 1_000_000).read(200)
    condition = world.look(Settings(adaptive=True)).condition
    assert (condition.moving, condition.indoors) == (True, False)


def test_adapting_is_the_persons_choice(world):
    world.sources["battery"].columns["level"] = 0.1
    assert world.look().shares == {}
    assert world.look(Settings(adaptive=True)).shares == {"*": 0.25, "gps": 0.25}


@pytest.mark.covers("MS-5", "MS-32")
def test_the_area_is_watched_through_the_positions_and_the_link(world):
    settings = Settings(area="47.37, 8.54, 300", dwell_s=2.0)
    gps = world.readings.watch("gps", Fixed(lat=47.3701, lon=8.5401, accuracy=5.0), 1_000_000)
    assert world.look(settings).region == "outside"
    gps.read(1)
    assert world.look(settings).region == "dwelling"
    assert [world.look(settings).region for _ in range(2)] == ["dwelling", "idle"]
    world.now += 10
    assert world.look(settings, disconnected=True).rebuild
    attempts = [world.look(settings, disconnected=True) for _ in range(25)]
    assert sum(decision.rebuild for decision in attempts) == 2, "three in all, five seconds apart"
    assert [decision.region for decision in attempts[13:]] == ["urgent", "leaving", *["outside"] * 10]
    assert world.look(settings).region == "dwelling", "it stays anew when the link is back"
    assert world.look(Settings()).region == ""


@pytest.mark.covers("MS-5")
def test_a_fleets_regions_hear_where_it_is_when_that_changes_and_only_with_consent(world):
    stop = {"stop": Ground(Area(((47.37, 8.54),), 300.0), 2.0)}
    source = Fixed(lat=47.3701, lon=8.5401, accuracy=5.0)
    gps = world.readings.watch("gps", source, 1_000_000)
    gps.read(1)
    assert world.look(grounds=stop).fix is None, "nobody has allowed it"
    assert world.look(may_locate=True).fix is None, "its fleet has no region"
    decision = world.look(grounds=stop, may_locate=True)
    assert decision.fix == Fix((47.3701, 8.5401), 5.0)
    places = [world.look(grounds=stop, may_locate=True).places for _ in range(2)]
    assert places == [{"stop": "dwelling"}, {"stop": "idle"}]
    for lat, accuracy in ((47.3705, 5.0), (47.3728, 40.0)):  # a few metres on, and a fix that may be on either side
        source.columns |= {"lat": lat, "accuracy": accuracy}
        gps.read(2)
        assert world.look(grounds=stop, may_locate=True).fix == decision.fix
        assert world.look(grounds=stop, may_locate=True).places == {"stop": "idle"}
    source.columns |= {"lat": 47.38}
    gps.read(3)
    away = world.look(grounds=stop, may_locate=True)
    assert (away.fix, away.places) == (Fix((47.38, 8.5401), 40.0), {"stop": "outside"})


@pytest.mark.parametrize("area", ["47.37", "a, b, c", "95, 8, 10", "47, 8, 0"])
def test_an_area_that_is_none_is_refused(tmp_path, area):
    (tmp_path / "settings.toml").write_text(f'area = "{area}"\n')
    with pytest.raises(UsageError, match="settings-value"):
        load_settings(tmp_path)
