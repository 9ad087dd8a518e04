"""The text of the notification that stands while a recording runs. A person reads it at a glance, so: one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SHOW_EVERY_S = 5.0  # Android drops updates that come faster than a few a second; nobody reads faster either


def count(number: int) -> str:
    """1234567 -> '1.2 M'."""
    for limit, unit in ((1_000_000, "M"), (10_000, "k")):
        if number >= limit:
            return f"{number / (limit if unit == 'M' else 1000):.1f} {unit}"
    return str(number)


def duration(seconds: float) -> str:
    hours = seconds / 3600
    if hours >= 48:
        return f"{hours / 24:.0f} days"
    return f"{hours:.0f} h" if hours >= 2 else f"{max(1.0, seconds / 60):.0f} min"


def notice(view: Mapping[str, Any]) -> tuple[str, str]:
    """(title, text) for this view of the node."""
    readings = sum(_readings(entry) for entry in view.get("sensors", {}).values())
    silent = sorted(view.get("missing_sensors", {}))
    failed = any(entry["code"] == "operator-failed" and not entry["over"] for entry in view.get("health", ()))
    title = "Recording" if view.get("plan") else "Waiting for something to record"
    title = "Not computing: its program failed" if failed else title
    parts = [f"{count(readings)} readings"]
    if held := view.get("spooled", 0):
        parts.append(f"{count(held)} held here")
        full_in_s = view.get("spool", {}).get("full_in_s")
        if full_in_s is not None and full_in_s < 48 * 3600:
            parts.append(f"room for {duration(full_in_s)}")
    if view.get("gateway") and not view.get("connected"):
        parts.append("offline")
    if silent:
        parts.append(f"no {', '.join(silent)}")
    return title, " · ".join(parts)


def _readings(entry: Any) -> int:
    return int(entry.get("readings", 0)) if isinstance(entry, Mapping) else int(entry)
