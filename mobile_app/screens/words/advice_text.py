"""What the size of the buffer means, in one plain sentence: how long it lasts, and whether that was enough so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mobile_app.screens.words.number_text import duration, size
from shared.spool.advice import Advice, in_words

OTHERS = "other nodes"


def advice_line(advice: Mapping[str, Any], reader: str = "a gateway") -> str:
    """For pages and commands."""
    return in_words(advice_in(advice), duration, size, reader)


def buffer_words(view: Mapping[str, Any]) -> str:
    """For the phone's Buffer page: what waits for the gateway and, where it feeds a fleet, what waits for its nodes."""
    line, fleet = advice_line(view["advice"]), view.get("fleet_buffer")
    if fleet is None:
        return line
    used, room = fleet["spool"]["used_bytes"], fleet["spool"]["capacity_bytes"]
    return f"{line} For other devices: {size(used)} of {size(room)} wait. {advice_line(fleet['advice'], OTHERS)}"


def advice_in(view: Mapping[str, Any]) -> Advice:
    """As a node's view has it."""
    return Advice(**{key: value for key, value in view.items() if key != "bytes_per_second"})


def loss_words(share: float | None) -> str:
    """What an outage would do to the readings of its time, when the buffer was empty before it."""
    if share is None:
        return "lose nobody knows how much yet"
    return f"lose {100 * share:.3g} % of its readings" if share else "lose nothing"
