"""Which sensors may be read on this device. The person decides, not the gateway.

A plan that arrives may want a sensor that nobody has allowed yet. The rest of it runs; that sensor is not even opened
until the person has said yes, and it is closed again when they take it back. A refusal is kept, so that the next
version of the plan does not ask again. A yes may be for this device's own recordings and screens alone: then plans of a
gateway do without the sensor, and the gateway is told that. Sensors that a person named on the command line are allowed
by that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from mobile_app.home.files import read_json, write_durably
from shared.errors import UsageError

CONSENTS_FILE = "consents.json"
RECORDINGS = "recordings"  # the yes that is for this device alone; a version before it takes it for no yes at all

Consent = bool | str | None


class Consents:
    """The decisions of one home; durable when `decide` returns."""

    def __init__(self, home: Path, named: Iterable[str] = ()) -> None:
        self._path = home / CONSENTS_FILE
        self._named = frozenset(named)
        self._decided: dict[str, bool | str] = dict(read_json(self._path) or {})

    def of(self, sensor: str) -> Consent:
        """True: allowed. RECORDINGS: not to plans. False: refused. None: nobody was asked yet, so it is not read."""
        decided = self._decided.get(sensor)
        return True if decided is None and sensor in self._named else decided

    def allows(self, sensor: str) -> bool:
        """Whether recordings and screens of this device may read it; what plans may, is `of`'s True alone."""
        return bool(self.of(sensor))

    def decide(self, sensor: str, *, allow: bool | str) -> None:
        if not isinstance(allow, bool) and allow != RECORDINGS:
            raise UsageError(f"a consent is true, false or {RECORDINGS!r}, not {allow!r}", code="settings-value")
        self._decided[sensor] = allow
        write_durably(self._path, json.dumps(self._decided).encode())

    def states(self, wanted: Iterable[str]) -> dict[str, Consent]:
        """Of every sensor that is wanted now, was named by hand or was decided about before."""
        return {sensor: self.of(sensor) for sensor in sorted({*wanted, *self._named, *self._decided})}
