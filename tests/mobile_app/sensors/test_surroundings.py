"""Battery and network of the computer, and which sensors are taken live where."""

from __future__ import annotations

from pathlib import Path

import pytest

from mobile_app import host as host_module
from mobile_app.sensors import network
from mobile_app.sensors.battery import Battery, linux_battery
from mobile_app.sensors.choose import available, open_source, parse_choices
from mobile_app.sensors.network import Network, linux_network
from mobile_app.sensors.source import SensorMissing

HEADER = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"PYTHON_SERVICE_ARGUMENT": "", "ANDROID_ARGUMENT": "x"}, host_module.ANDROID_SERVICE),
        ({"ANDROID_ARGUMENT": "x"}, host_module.ANDROID_APP),
        ({"TERMUX_VERSION": "0.118"}, host_module.TERMUX),
        ({"PREFIX": "/data/data/com.termux/files/usr"}, host_module.TERMUX),
        ({}, host_module.DESKTOP),
    ],
)
def test_the_host_is_told_by_what_it_sets(environment, expected):
    assert host_module.host(environment) == expected


@pytest.mark.parametrize(
    ("route", "expected"),
    [
        ("wlan0\t00000000\t0100A8C0\t0003\n", Network("wifi")),
        ("eth0\t00000000\t0100A8C0\t0003\n", Network("ethernet")),
        ("wwan0\t00000000\t0100A8C0\t0003\n", Network("cellular", metered=True)),
        ("tun0\t00000000\t0100A8C0\t0003\n", Network("other")),
        ("eth0\t0000A8C0\t00000000\t0001\n", Network("none")),
        ("", Network("none")),
    ],
)
def test_the_default_route_tells_the_lane(tmp_path: Path, route, expected):
    routes = tmp_path / "route"
    routes.write_text(HEADER + route)
    assert linux_network(routes, tmp_path) == expected


def test_a_system_that_hides_its_routes_is_unknown(tmp_path: Path):
    assert linux_network(tmp_path / "none") == network.UNKNOWN


def test_the_first_battery_with_a_number_counts(tmp_path: Path):
    assert linux_battery(tmp_path / "none") is None
    for name, files in (
        ("AC", {"type": "Mains"}),
        ("BAT0", {"type": "Battery", "capacity": "81\n", "status": "Charging\n"}),
        ("a_mouse", {"type": "Battery"}),
    ):
        (tmp_path / name).mkdir()
        for file, text in files.items():
            (tmp_path / name / file).write_text(text)
    assert linux_battery(tmp_path) == Battery(0.81, True)


def open_on_desktop(sensor: str, *choices: str):
    return open_source(
        sensor, parse_choices(choices), every_us=1_000_000, origin_us=0, from_us=0, event_time=lambda boot_us: boot_us
    )


def test_a_computer_has_its_network_live_when_asked_and_says_what_else_it_lacks():
    lanes = open_on_desktop("network", "network=live").read(2_000_000).columns
    assert set(lanes) == {"lane", "metered", "roaming"}
    with pytest.raises(SensorMissing, match="this computer has no sensor 'gps'"):
        open_on_desktop("gps", "gps=live")
    with pytest.raises(SensorMissing, match="gps=live"):
        open_on_desktop("gps")  # nothing chosen: on a computer nothing is taken by itself
    assert available()["network"] == ""
