"""How much of each edge the gateway may have when it is next asked: tells an old copy of a home from the home itself.

Theory of operation. The gateway can only have what this spool had numbered when it was opened, because nothing is sent
before the first contact. A home restored from an older copy is found out there: the gateway has more. But a restored
home may run offline for days and through many restarts first, and number new elements past the gateway's mark; the
head at the latest start says nothing then. So the heads of the **first start since the last contact** count. They are
kept here until the sender has compared them with the gateway's marks, and that is durable before anything numbered is
sent. The file lies beside the snapshots: a new spool starts with a new one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from mobile_app.home.files import read_json, write_durably
from shared.identity import EdgeId

CONTACT_FILE = "contact.json"


class FirstContact:
    """`heads` are the spool's heads at this start, before anything is appended."""

    def __init__(self, directory: Path, heads: Mapping[EdgeId, int]) -> None:
        self._path = directory / CONTACT_FILE
        kept: dict[str, int | None] | None = read_json(self._path)
        self._reaches: dict[str, int | None] = {}
        for edge, head in heads.items():
            # None: contact was made since. Not there: the edge began after the first start, with nothing.
            before = None if kept is None else kept.get(str(int(edge)), 0)
            self._reaches[str(int(edge))] = head if before is None else before
        if self._reaches != kept:
            self._save()

    @property
    def reaches(self) -> dict[EdgeId, int]:
        return {EdgeId(int(edge)): reach for edge, reach in self._reaches.items() if reach is not None}

    def confirm(self, edge: EdgeId) -> None:
        """What the gateway has of this edge fits the spool; durable when this returns."""
        self._reaches[str(int(edge))] = None
        self._save()

    def _save(self) -> None:
        write_durably(self._path, json.dumps(self._reaches).encode())
