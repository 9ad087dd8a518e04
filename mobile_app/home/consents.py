"""Which sensors a plan may read on this device. The person decides, not the gateway.

A plan that arrives may want a sensor that nobody has allowed yet. The rest of it runs; that sensor is not even opened
until the person has said yes, and it is closed again when they take it back. A refusal is kept, so that the next
version of the plan does not ask again. Sensors that a person named on the command line are allowed by that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from mobile_app.home.files import read_json, write_durably

CONSENTS_FILE = "consents.json"


class Consents:
    """The decisions of one home; durable when `decide` returns."""

    def __init__(self, home: Path, named: Iterable[str] = ()) -> None:
        self._path = home / CONSENTS_FILE
        self._named = frozenset(named)
        self._decided: dict[str, bool] = dict(read_json(self._path) or {})

    def of(self, sensor: str) -> bool | None:
        """True: allowed. False: refused. None: nobody was asked yet, so it is not read."""
        decided = self._decided.get(sensor)
        return True if decided is None and sensor in self._named else decided

    def decide(self, sensor: str, *, allow: bool) -> None:
        self._decided[sensor] = allow
        write_durably(self._path, json.dumps(self._decided).encode())

    def states(self, wanted: Iterable[str]) -> dict[str, bool | None]:
        """Of every sensor that is wanted now, was named by hand or was decided about before."""
        return {sensor: self.of(sensor) for sensor in sorted({*wanted, *self._named, *self._decided})}
