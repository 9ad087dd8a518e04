"""What a person is told of one sensor: how often it is read, and what the plan has of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mobile_app.screens.words import number_text


def rate(hertz: float | None) -> str:
    return "only on request" if hertz is None else number_text.rate(hertz)


def recorded(sensor: str, hertz: float, view: Mapping[str, Any]) -> str:
    """How often a recording reads it, or would; and that the plan reads it whatever a recording takes."""
    taken = view.get("to_record", {})
    at = number_text.rate(taken.get(sensor, hertz))
    if view.get("consents", {}).get(sensor) is not True or sensor not in view.get("asked_sensors", {}):
        return at
    return f"{at}; the plan reads it too" if sensor in taken else "Not recorded; the plan still reads it"


def of_plan(sensor: str, view: Mapping[str, Any]) -> str:
    """How it stands between this sensor and the gateway's plan; empty where that does not ask for it."""
    wanted = view.get("asked_sensors", {})
    if sensor not in wanted:
        return ""
    plan, consent = view["plan"]["name"], view.get("consents", {}).get(sensor)
    if consent is None:
        return f"The plan “{plan}” asks to read this, {rate(wanted[sensor])}"
    if consent is True:
        return f"The plan “{plan}” reads this, {rate(wanted[sensor])}"
    return f"Kept from the plan “{plan}”; the gateway is told"
