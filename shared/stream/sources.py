"""Where streams begin in a program: sensors, timers, appended streams, feedback edges."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from shared.errors import UsageError
from shared.language.durations import microseconds
from shared.language.schema import Schema
from shared.plan import operators as op
from shared.stream.drafts import draft, located
from shared.stream.stream import Stream

_XYZ = {"x": "float64", "y": "float64", "z": "float64"}

# What a device gives for the sensors it may have: SI units, degrees for positions, NaN where it says nothing.
SENSORS: dict[str, Schema] = {
    "gps": Schema.of(dict.fromkeys(("lat", "lon", "altitude", "accuracy", "speed", "bearing"), "float64")),
    "accelerometer": Schema.of(_XYZ),  # m/s2
    "gyroscope": Schema.of(_XYZ),  # rad/s
    "magnetometer": Schema.of(_XYZ),  # microtesla
    "gravity": Schema.of(_XYZ),  # m/s2
    "barometer": Schema.of({"hpa": "float64"}),
    "light": Schema.of({"lux": "float64"}),
    "steps": Schema.of({"steps": "int64"}),
    "battery": Schema.of({"level": "float64", "charging": "bool"}),  # level 0 to 1
    "cell": Schema.of({"tower": "str", "dbm": "float64"}),
    "wifi": Schema.of({"rssi_dbm": "float64", "link_mbps": "float64", "frequency_mhz": "float64", "bssid": "str"}),
    "network": Schema.of({"lane": "str", "metered": "bool", "roaming": "bool"}),
    "microphone": Schema.of({"dbfs": "float64", "peak_dbfs": "float64"}),  # 0 is the loudest; sound is never kept
    "proximity": Schema.of({"near": "bool"}),
    "temperature": Schema.of({"celsius": "float64"}),
    "humidity": Schema.of({"percent": "float64"}),
}


def sensor_schema(name: str, columns: Mapping[str, str] | None) -> Schema:
    """The columns of a sensor: the given ones, or those of a known name."""
    if columns is not None:
        return Schema.of(columns)
    known = SENSORS.get(name)
    if known is None:
        near = difflib.get_close_matches(name, SENSORS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise UsageError(
            f"sensor {name!r} is not known (known: {', '.join(SENSORS)}){hint} Give its columns for one of your own, "
            "like columns={'ppm': 'float64'}",
            code="sensor-unknown",
        )
    return known


@located
def sensor(name: str, *, every: str, columns: Mapping[str, str] | None = None) -> Stream:
    """An active stream: one reading of a sensor at every interval. `rs.sensor("gps", every="5s")`."""
    return Stream(draft(op.Sensor(name, microseconds(every), sensor_schema(name, columns))))


@located
def timer(every: str, *, name: str | None = None) -> Stream:
    """A tick at every interval, with the column `tick`."""
    return Stream(draft(op.Timer(name or every, microseconds(every))))


@located
def stream(name: str, columns: Mapping[str, str]) -> Stream:
    """A stream that the program appends to while it runs: `node.append(name, rows)`, or `evaluate`'s inputs."""
    return Stream(draft(op.Appended(name, Schema.of(columns))))


@located
def feedback(name: str, columns: Mapping[str, str], *, key: tuple[str, ...] = (op.DEVICE,)) -> Stream:
    """The start of a cycle; close it with `.feed(this)`. Its columns include the key's, `device` need not be named."""
    schema = Schema.of(columns if op.DEVICE in columns or op.DEVICE not in key else {op.DEVICE: "str", **columns})
    return Stream(draft(op.Feedback(name, schema, key)))
