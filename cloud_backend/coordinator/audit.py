"""The audit log: who did what, append-only, each line bound to the one before it by its hash.

SQLite refuses to change or remove a line (triggers), and whoever edits the file itself breaks the chain at that
line: `verify` names it. A line holds names and numbers of ours, never a secret and never raw input of a stranger.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from cloud_backend.database import Database
from shared.errors import DamagedData

FORMAT = 1
FILE = "audit.sqlite"
TEXT_CHARACTERS_MAX = 500

_SCHEMA = """
CREATE TABLE IF NOT EXISTS lines (
  number INTEGER PRIMARY KEY, at_us INTEGER NOT NULL, person TEXT NOT NULL, role TEXT NOT NULL,
  action TEXT NOT NULL, subject TEXT NOT NULL, detail TEXT NOT NULL, hash BLOB NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS lines_by_time ON lines (at_us);
CREATE TRIGGER IF NOT EXISTS lines_stay BEFORE UPDATE ON lines BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER IF NOT EXISTS lines_last BEFORE DELETE ON lines BEGIN SELECT raise(ABORT, 'append-only'); END;
"""


@dataclass(frozen=True, slots=True)
class AuditLine:
    number: int
    at_us: int
    person: str
    role: str
    action: str
    subject: str
    detail: str


class AuditLog:
    """Open the audit log at a path. Several processes may append; each line is durable when `append` returns."""

    def __init__(self, path: Path) -> None:
        self._database = Database(path, private=True)
        self._database.require(_SCHEMA, format=FORMAT, code="audit-format")

    def close(self) -> None:
        self._database.close()

    def append(self, at_us: int, *, person: str, role: str, action: str, subject: str = "", detail: str = "") -> None:
        texts = [text[:TEXT_CHARACTERS_MAX] for text in (person, role, action, subject, detail)]
        with self._database.transaction() as database:
            last = database.execute("SELECT number, hash FROM lines ORDER BY number DESC LIMIT 1").fetchone()
            number, previous = (last[0] + 1, last[1]) if last else (1, b"")
            line = (number, at_us, *texts)
            database.execute("INSERT INTO lines VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*line, _link(previous, line)))

    def lines(self, *, limit: int = 100, before: int | None = None) -> list[AuditLine]:
        """Newest first; `before` a number goes on where a page ended."""
        rows = self._database.read(
            "SELECT number, at_us, person, role, action, subject, detail FROM lines WHERE number < ?"
            " ORDER BY number DESC LIMIT ?",
            (1 << 62 if before is None else before, limit),
        )
        return [AuditLine(*row) for row in rows]

    def verify(self) -> int:
        """How many lines there are, all of them chained; raises DamagedData that names the first one that is not."""
        rows = self._database.read("SELECT * FROM lines ORDER BY number")
        previous = b""
        for expected, row in enumerate(rows, start=1):
            if row[0] != expected or row[7] != _link(previous, row[:7]):
                raise DamagedData(
                    f"line {expected} of the audit log was changed or removed; restore {FILE} from a backup",
                    code="audit-chain",
                )
            previous = row[7]
        return len(rows)


def _link(previous: bytes, line: tuple[object, ...]) -> bytes:
    return hashlib.sha256(previous + json.dumps(line, ensure_ascii=False).encode("utf-8", "replace")).digest()
