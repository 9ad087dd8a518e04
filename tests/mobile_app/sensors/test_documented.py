"""docs/sensors.md names every sensor with its columns, and every adapter gives exactly those."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mobile_app.sensors import battery, network
from mobile_app.sensors.termux.sources import SENSORS as IN_TERMUX
from shared.stream.sources import SENSORS

ROWS = dict(
    re.findall(r"^\| `(\w+)` \| ([^|]*) \|", (Path(__file__).parents[3] / "docs" / "sensors.md").read_text(), re.M)
)


def test_every_sensor_is_documented_and_no_other():
    assert set(ROWS) == set(SENSORS)


@pytest.mark.parametrize("sensor", sorted(SENSORS))
def test_its_columns_are_documented(sensor):
    for name in SENSORS[sensor].names:
        assert re.search(rf"\b{name}\b", ROWS[sensor]), f"{sensor}.{name} is not in docs/sensors.md"


def test_every_adapter_gives_the_columns_of_the_schema():
    given = dict(IN_TERMUX) | {"battery": battery.COLUMNS, "network": network.COLUMNS}
    for sensor, columns in given.items():
        assert set(columns) == set(SENSORS[sensor].names), sensor
