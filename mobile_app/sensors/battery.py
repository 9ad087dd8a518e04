"""How full the battery is, for the sensor of that name and for the policies that spare it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mobile_app.host import ANDROID_APP, ANDROID_SERVICE, TERMUX, host
from mobile_app.sensors.source import SensorMissing

COLUMNS = ("level", "charging")
SUPPLIES = Path("/sys/class/power_supply")


@dataclass(frozen=True, slots=True)
class Battery:
    level: float  # 0 to 1
    charging: bool


def linux_battery(supplies: Path = SUPPLIES) -> Battery | None:
    """The first battery the kernel tells of; None on a machine that has none."""
    for supply in sorted(supplies.glob("*")) if supplies.is_dir() else ():
        try:
            if (supply / "type").read_text().strip() != "Battery":
                continue
            percent = int((supply / "capacity").read_text())
            charging = (supply / "status").read_text().strip() in ("Charging", "Full")
        except (OSError, ValueError):
            continue  # a mouse's battery, say, without a number
        return Battery(percent / 100.0, charging)
    return None


def android_battery() -> Battery | None:
    from mobile_app.sensors.android.battery import battery

    level, charging = battery()
    return Battery(level, charging)


def termux_battery() -> Battery | None:
    from mobile_app.sensors.termux.answers import battery
    from mobile_app.sensors.termux.sources import newest_answer

    answer = newest_answer("termux-battery-status")
    return None if answer is None else Battery(*battery(answer))


READERS: dict[str, Callable[[], Battery | None]] = {
    ANDROID_SERVICE: android_battery,
    ANDROID_APP: android_battery,
    TERMUX: termux_battery,
}


def ask_battery() -> Mapping[str, Any] | None:
    """A reading of the sensor `battery`; policies watch it like any other."""
    battery = READERS.get(host(), linux_battery)()
    if battery is None:
        raise SensorMissing("this machine tells of no battery", code="sensor-absent")
    return {"level": battery.level, "charging": battery.charging}
