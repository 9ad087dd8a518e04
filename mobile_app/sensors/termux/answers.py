"""What the commands of Termux:API answer, as rows of our columns. Keys a phone does not know are left out by it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from mobile_app.sensors.arrival_queue import Row
from mobile_app.sensors.termux.calls import TermuxRefused

NO_LOCATION_PERMISSION = "Termux:API names no cell; grant it the location permission"


def _number(answer: dict[str, Any], key: str) -> float:
    value = answer.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan


def _table(answer: Any) -> dict[str, Any]:
    if not isinstance(answer, dict):
        raise TermuxRefused(f"Termux:API answered with {type(answer).__name__}, expected an object")
    return answer


def position(answer: Any) -> Row:
    """One fix. Raises TermuxRefused for an answer without a place."""
    table = _table(answer)
    lat, lon = _number(table, "latitude"), _number(table, "longitude")
    if math.isnan(lat) or math.isnan(lon):
        raise TermuxRefused("Termux:API answered without a position")
    return (lat, lon, *(_number(table, key) for key in ("altitude", "accuracy", "speed", "bearing")))


def position_age_s(answer: Any) -> float:
    """How long ago the fix was made; `-r last` may tell one of hours ago."""
    age_ms = _number(_table(answer), "elapsedMs")
    return 0.0 if math.isnan(age_ms) else max(0.0, age_ms / 1000.0)


def battery(answer: Any) -> Row:
    table = _table(answer)
    level = _number(table, "percentage")
    charging = table.get("status") in ("CHARGING", "FULL") or str(table.get("plugged", "")).startswith("PLUGGED")
    return (level / 100.0, charging)


def wifi(answer: Any) -> Row:
    table = _table(answer)
    numbers = (_number(table, key) for key in ("rssi", "link_speed_mbps", "frequency_mhz"))
    return (*numbers, str(table.get("bssid") or ""))


def cell(answer: Any) -> Row:
    """The cell the phone is registered with, by network, area and cell number. Text and numbers both occur."""
    cells = [entry for entry in answer if isinstance(entry, dict)] if isinstance(answer, list) else []
    if not cells:
        raise TermuxRefused(NO_LOCATION_PERMISSION)
    here = next((entry for entry in cells if entry.get("registered")), cells[0])
    area = here.get("tac", here.get("lac", ""))
    number = here.get("ci", here.get("nci", here.get("cid", "")))
    tower = "-".join(str(part) for part in (here.get("mcc", ""), here.get("mnc", ""), area, number))
    return (tower, _number(here, "dbm"))


# sensor: (command, columns, reader of its answer)
ANSWERS: dict[str, tuple[tuple[str, ...], tuple[str, ...], Callable[[Any], Row]]] = {
    "gps": (
        ("termux-location", "-p", "gps", "-r", "last"),
        ("lat", "lon", "altitude", "accuracy", "speed", "bearing"),
        position,
    ),
    "battery": (("termux-battery-status",), ("level", "charging"), battery),
    "wifi": (("termux-wifi-connectioninfo",), ("rssi_dbm", "link_mbps", "frequency_mhz", "bssid"), wifi),
    "cell": (("termux-telephony-cellinfo",), ("tower", "dbm"), cell),
}
