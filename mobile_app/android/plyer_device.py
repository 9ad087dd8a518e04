"""plyer for what is not a sensor: a notification, a folder to put things in, a vibration. Each says if it is absent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import plyer


def _do(act: Callable[[], Any]) -> Any:
    """plyer raises whatever its platform code meets; for a convenience that means: not here."""
    try:
        return act()
    except Exception:
        return None


def notify(title: str, text: str) -> bool:
    """Show a passing notification; whether that worked. The service's standing one is RecordingService's."""
    return _do(lambda: plyer.notification.notify(title=title, message=text, app_name="Resurge") or True) is True


def vibrate(seconds: float) -> bool:
    return _do(lambda: plyer.vibrator.vibrate(seconds) or True) is True


def downloads() -> Path | None:
    """Where a person looks for files; None where the platform tells no such place."""
    found = _do(lambda: plyer.storagepath.get_downloads_dir() or None)
    return Path(found) if found else None
