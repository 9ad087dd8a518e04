"""What the size of the buffer means, in one plain sentence: how long it lasts, and whether that was enough so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mobile_app.screens.words.number_text import duration, size
from shared.spool.advice import Advice, in_words


def advice_line(advice: Mapping[str, Any]) -> str:
    """For the phone's Buffer page and for commands."""
    return in_words(advice_in(advice), duration, size)


def advice_in(view: Mapping[str, Any]) -> Advice:
    """As a node's view has it."""
    return Advice(**{key: value for key, value in view.items() if key != "bytes_per_second"})


def loss_words(share: float | None) -> str:
    """What an outage would do to the readings of its time, when the buffer was empty before it."""
    if share is None:
        return "lose nobody knows how much yet"
    return f"lose {100 * share:.3g} % of its readings" if share else "lose nothing"
