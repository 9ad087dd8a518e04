"""What the device can afford just now. Pure decisions from its condition and its person's policies.

Unknown is not forbidden: a laptop that cannot tell its network's kind exchanges over it, and a device without a
battery has no floor.
"""

from __future__ import annotations

from dataclasses import dataclass

from mobile_app.settings import Settings
from shared.sync.pacing import BATTERY_LOW, BATTERY_MODEST, Conditions

# Shares of the plan's rate. Sonora's adaptive program (its Figure 2) takes every fourth location when the battery is
# low and none indoors; here indoors keeps one in ten, so that leaving the building is noticed.
SHARE_BATTERY_LOW = 0.25
SHARE_BATTERY_MODEST = 0.5
SHARE_AT_REST = 0.2
SHARE_INDOORS = 0.1

MOVING_METRES_PER_SECOND = 0.5
MOVING_ACCELERATION = 0.3  # m/s2, spread of a second or more: a hand or a pocket, not a table
INDOORS_ACCURACY_M = 40.0


@dataclass(frozen=True, slots=True)
class DeviceCondition:
    """What the device says of itself; None: it does not say."""

    battery: float | None = None  # share of full
    charging: bool | None = None
    network: str | None = None  # wifi, cellular, ethernet, none
    metered: bool | None = None
    roaming: bool | None = None
    moving: bool | None = None
    indoors: bool | None = None


def why_not_sample(settings: Settings, condition: DeviceCondition) -> str:
    """Empty, or the health code of what forbids reading sensors."""
    if condition.battery is None or condition.charging:
        return ""
    return "battery-floor" if condition.battery < settings.battery_floor else ""


def why_not_exchange(settings: Settings, condition: DeviceCondition) -> str:
    """Empty, or the health code of what forbids using the network."""
    if why := why_not_sample(settings, condition):
        return why
    if condition.network == "none":
        return "no-network"
    if settings.wifi_only and condition.network == "cellular":
        return "waiting-wifi"
    if condition.roaming and not settings.roaming:
        return "waiting-home-network"
    if condition.metered and not settings.metered:
        return "waiting-unmetered"
    return ""


def may_wait(condition: DeviceCondition, *, watched: bool) -> bool:
    """Whether to keep a connection open for news: while somebody looks, else where that costs little."""
    if watched:
        return True
    low = condition.battery is not None and condition.battery < BATTERY_MODEST and not condition.charging
    return not low and condition.network != "cellular" and not condition.metered


def pacing_conditions(lane: str, condition: DeviceCondition) -> Conditions:
    """The same for the sender: on a dear lane or a low battery what may wait waits longer."""
    known = {"wifi": "wifi", "ethernet": "gateway", "cellular": "cellular"}
    return Conditions(
        lane=known.get(condition.network or "", "gateway") if lane != "relay" else "gateway",
        battery=1.0 if condition.battery is None else condition.battery,
        charging=condition.charging is not False,
    )


def sampling_shares(condition: DeviceCondition) -> dict[str, float]:
    """{sensor or "*": share of the plan's rate} for a device that adapts; a sensor's own entry includes the general."""
    general = 1.0
    if condition.battery is not None and not condition.charging:
        if condition.battery < BATTERY_LOW:
            general = SHARE_BATTERY_LOW
        elif condition.battery < BATTERY_MODEST:
            general = SHARE_BATTERY_MODEST
    place = 1.0
    if condition.moving is False:
        place = SHARE_AT_REST
    if condition.indoors:
        place = min(place, SHARE_INDOORS)
    return {name: share for name, share in (("*", general), ("gps", general * place)) if share < 1.0}
