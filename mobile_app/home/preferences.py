"""What a person chose about the app itself; nothing the recording depends on. `app.json` in the home."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from mobile_app.home.files import publish

PREFERENCES_FILE = "app.json"
APPEARANCES = ("system", "light", "dark")
TEXT_SIZES = {"normal": 1.0, "large": 1.25, "largest": 1.5}


@dataclass(slots=True)
class Preferences:
    welcomed: bool = False
    appearance: str = "system"
    text_size: str = "normal"

    def save(self, home: Path) -> None:
        publish(home / PREFERENCES_FILE, json.dumps(asdict(self)).encode())


def load_preferences(home: Path) -> Preferences:
    """What is kept, or the defaults: a damaged file of tastes is no reason to stop."""
    try:
        kept = json.loads((home / PREFERENCES_FILE).read_bytes())
    except (OSError, ValueError):
        return Preferences()
    if not isinstance(kept, dict):
        return Preferences()
    known = {field.name for field in fields(Preferences)}
    chosen = Preferences(**{name: value for name, value in kept.items() if name in known})
    if chosen.appearance not in APPEARANCES or chosen.text_size not in TEXT_SIZES:
        return Preferences(welcomed=chosen.welcomed is True)
    return chosen
