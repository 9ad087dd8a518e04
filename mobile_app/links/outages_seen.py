"""How long the gateway was out of reach, each time: kept in the home, for the size of the spool."""

from __future__ import annotations

import json
from pathlib import Path

from mobile_app.home.files import publish, read_json
from shared.errors import DamagedData

FILE = "outages.json"
FORMAT = 1
KEPT = 500  # the newest


class OutagesSeen:
    """Lengths in seconds, the newest last. They only inform: a file that cannot be read begins anew."""

    def __init__(self, home: Path) -> None:
        self._path = home / FILE
        self.lengths_s: list[float] = _read(self._path)

    def note(self, outage_s: float) -> None:
        """One has ended."""
        self.lengths_s = [*self.lengths_s, round(max(0.0, outage_s), 1)][-KEPT:]
        publish(self._path, json.dumps({"format": FORMAT, "seconds": self.lengths_s}).encode())


def _read(path: Path) -> list[float]:
    try:
        value = read_json(path)
    except DamagedData:
        return []
    match value:
        case {"format": int(found), "seconds": list(seconds)} if found == FORMAT:
            return [float(each) for each in seconds if type(each) in (int, float) and each >= 0][-KEPT:]
    return []
