"""Which network the device is on: the sensor `network`, and what lane policies (Wi-Fi only, metered, roaming) ask.

A reading says what the system believes, not whether the gateway can be reached: only an exchange shows that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mobile_app.host import ANDROID_APP, ANDROID_SERVICE, TERMUX, host

COLUMNS = ("lane", "metered", "roaming")
ROUTES = Path("/proc/net/route")
INTERFACES = Path("/sys/class/net")
ROUTE_UP = 0x1


@dataclass(frozen=True, slots=True)
class Network:
    lane: str  # wifi, cellular, ethernet, other, none, or unknown where the system does not tell
    metered: bool = False
    roaming: bool = False


UNKNOWN = Network("unknown")


def linux_network(routes: Path = ROUTES, interfaces: Path = INTERFACES) -> Network:
    """By the interface of the default route. Whether it is metered nobody says, so it is not."""
    try:
        lines = routes.read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return UNKNOWN
    for fields in (line.split() for line in lines):
        if len(fields) > 3 and fields[1] == "00000000" and int(fields[3], 16) & ROUTE_UP:
            name = fields[0]
            if (interfaces / name / "wireless").exists() or name.startswith("wl"):
                return Network("wifi")
            if name.startswith(("ww", "rmnet", "ppp")):
                return Network("cellular", metered=True)
            return Network("ethernet" if name.startswith(("en", "eth")) else "other")
    return Network("none")


def termux_network() -> Network:
    """Termux tells of Wi-Fi only. Off Wi-Fi a phone is on its mobile network or on none: metered, to be careful."""
    from mobile_app.sensors.termux.sources import newest_answer

    answer = newest_answer("termux-wifi-connectioninfo")
    if not isinstance(answer, dict):
        return UNKNOWN
    joined = answer.get("supplicant_state") == "COMPLETED" and answer.get("ip") not in (None, "", "0.0.0.0")  # noqa: S104
    return Network("wifi") if joined else Network("cellular", metered=True)


def android_network() -> Network:
    from mobile_app.sensors.android.network import read

    return read()


READERS: dict[str, Callable[[], Network]] = {
    ANDROID_SERVICE: android_network,
    ANDROID_APP: android_network,
    TERMUX: termux_network,
}


def ask_network() -> Mapping[str, Any] | None:
    """A reading of the sensor `network`; policies watch it like any other."""
    return asdict(READERS.get(host(), linux_network)())
