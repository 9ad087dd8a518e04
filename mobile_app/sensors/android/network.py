"""What Android says of the active network. Asked for, not called back: the callback is an abstract class, which
Python cannot implement, and a quarter of a minute is soon enough for choosing a lane."""

from __future__ import annotations

from mobile_app.android.context import api_level, system_service
from mobile_app.sensors.network import Network

TRANSPORTS = {0: "cellular", 1: "wifi", 3: "ethernet"}  # NetworkCapabilities.TRANSPORT_*
NOT_METERED = 11  # NetworkCapabilities.NET_CAPABILITY_*
NOT_ROAMING = 18  # from API 28; before it no network has it, so ask only there
ROAMING_KNOWN_API = 28


def read() -> Network:
    manager = system_service("connectivity", "android.net.ConnectivityManager")
    active = manager.getActiveNetwork()
    capabilities = None if active is None else manager.getNetworkCapabilities(active)
    if capabilities is None:
        return Network("none")
    lane = next((name for kind, name in TRANSPORTS.items() if capabilities.hasTransport(kind)), "other")
    return Network(
        lane,
        metered=not capabilities.hasCapability(NOT_METERED),
        roaming=api_level() >= ROAMING_KNOWN_API and not capabilities.hasCapability(NOT_ROAMING),
    )
