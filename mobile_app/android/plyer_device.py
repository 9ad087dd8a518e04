"""plyer for what is not a sensor: a vibration, where the platform has one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import plyer


def _do(act: Callable[[], Any]) -> Any:
    """plyer raises whatever its platform code meets; for a convenience that means: not here."""
    try:
        return act()
    except Exception:
        return None


def vibrate(seconds: float) -> bool:
    return _do(lambda: plyer.vibrator.vibrate(seconds) or True) is True
