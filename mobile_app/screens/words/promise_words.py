"""A promise and its light in words: nothing is said by colour alone."""

from __future__ import annotations

from typing import Any

from mobile_app.screens.words import number_text

# By verdict: the icon and the colour of its light.
LIGHTS = {
    "kept": ("check", "good"),
    "at risk": ("alert", "warn"),
    "broken": ("alert", "bad"),
    "unknown": ("info", "faint"),
}
WORDS = {"kept": "Kept", "at risk": "At risk", "broken": "Broken", "unknown": "Unknown"}


def light_text(promise: dict[str, Any]) -> str:
    return WORDS[promise["verdict"]]


def state_text(promise: dict[str, Any]) -> str:
    """The promise, and why its light is not green."""
    why = {
        ("broken", "loss"): f"{number_text.count(promise['ledgered'])} readings were given up.",
        ("broken", "delay"): "What waits here is older than promised.",
        ("at risk", "loss"): "It has given up almost all it may.",
        ("at risk", "delay"): "What waits here will soon be older than promised.",
        ("unknown", "silent"): "The gateway is out of reach." if promise["produced"] else "It has sent nothing yet.",
    }.get((promise["verdict"], promise["why"]), "")
    promised = promise["promise"][:1].upper() + promise["promise"][1:] + "."
    return f"{promised} {why}".strip()
