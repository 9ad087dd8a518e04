"""What the coordinator inside a gateway must know after a restart: the fleet it decided last, and who may decide.

A fleet is stored before any node is told of it. It is stored under its lease: a coordinator that was paused while
another one began finds a higher lease here, and is refused before it has said anything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from cloud_backend.database import Database, Location
from shared.errors import UsageError

FILE = "fleet.sqlite"
FORMAT = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS fleet (one INTEGER PRIMARY KEY CHECK (one = 1), lease INTEGER NOT NULL, data BLOB NOT NULL)
  STRICT;
CREATE TABLE IF NOT EXISTS notes (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
"""


class FleetStore:
    """Open it at a path; None is in memory. The notes are where a `Lease` is kept."""

    def __init__(self, path: Location | None) -> None:
        self._database = Database(path)
        self._database.require(_SCHEMA, format=FORMAT, code="fleet-format", name="fleet")

    def load(self) -> bytes:
        """The fleet that was stored last; empty when none was."""
        rows = self._database.read("SELECT data FROM fleet")
        return bytes(rows[0][0]) if rows else b""

    def store(self, data: bytes, lease: int) -> None:
        """Make a fleet durable. UsageError, and nothing changes, where one of a higher lease is there."""
        with self._database.transaction() as database:
            row = database.execute("SELECT lease FROM fleet").fetchone()
            if row is not None and row[0] > lease:
                raise UsageError(
                    f"another coordinator of this fleet began later (lease {row[0]}, this one {lease}); it rules now",
                    code="coordinator-deposed",
                )
            database.execute(
                "INSERT INTO fleet VALUES (1, ?, ?) ON CONFLICT (one) DO UPDATE SET lease = excluded.lease,"
                " data = excluded.data",
                (lease, data),
            )

    def note(self, name: str) -> dict[str, Any]:
        rows = self._database.read("SELECT value FROM notes WHERE name = ?", (name,))
        value = json.loads(rows[0][0]) if rows else {}
        return value if isinstance(value, dict) else {}

    def put_note(self, name: str, value: Mapping[str, Any]) -> None:
        with self._database.transaction() as database:
            database.execute(
                "INSERT INTO notes VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                (name, json.dumps(dict(value))),
            )

    def remove_note(self, name: str) -> None:
        with self._database.transaction() as database:
            database.execute("DELETE FROM notes WHERE name = ?", (name,))

    def close(self) -> None:
        self._database.close()
