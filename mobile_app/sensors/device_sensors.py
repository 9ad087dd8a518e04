"""The sensors this device really has: `NAME=live`, and what a node on a phone takes when nothing else was said."""

from __future__ import annotations

from mobile_app.host import ANDROID_APP, ANDROID_SERVICE, DESKTOP, TERMUX, host
from mobile_app.sensors import battery, network
from mobile_app.sensors.arrival_queue import EventTime
from mobile_app.sensors.polling import PolledValue
from mobile_app.sensors.source import SensorMissing, Source


def has_sensors() -> bool:
    """Whether a sensor that nobody chose a source for is taken live: on phones."""
    return host() != DESKTOP


def open_live(sensor: str, *, every_us: int, from_us: int, event_time: EventTime) -> Source:
    """The device's own sensor. Raises SensorMissing when it has no such one."""
    here = host()
    if sensor == "network":
        return PolledValue(network.ask_network, network.COLUMNS, every_us=every_us, from_us=from_us)
    if here in (ANDROID_SERVICE, ANDROID_APP):
        from mobile_app.sensors.android.sources import open_android

        return open_android(sensor, every_us=every_us, from_us=from_us, event_time=event_time)
    if here == TERMUX:
        from mobile_app.sensors.termux.sources import open_termux

        return open_termux(sensor, every_us=every_us, from_us=from_us, event_time=event_time)
    if sensor == "battery":
        return PolledValue(battery.ask_battery, battery.COLUMNS, every_us=every_us, from_us=from_us)
    raise SensorMissing(
        f"this computer has no sensor {sensor!r} (it has: battery, network); "
        f"give --sensor {sensor}=synthetic:SEED or {sensor}=recording:FILE",
        code="sensor-absent",
    )


def available() -> dict[str, str]:
    """{sensor: empty, or why it cannot be had} of this device. What only shows when opened counts as there."""
    here = host()
    if here in (ANDROID_SERVICE, ANDROID_APP):
        from mobile_app.sensors.android.sources import absent_sensors

        return absent_sensors() | {"network": ""}
    if here == TERMUX:
        from mobile_app.sensors.termux.sources import absent_sensors as absent_in_termux

        return absent_in_termux() | {"network": ""}
    return {"battery": "" if battery.linux_battery() else "this computer tells of no battery", "network": ""}
