"""The audit log: who did what, append-only, each line bound to the one before it by its hash.

SQLite refuses to change or remove a line (triggers), and whoever edits the file itself breaks the chain at that
line: `verify` names it. A line holds names and numbers of ours, never a secret and never raw input of a stranger.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from dataclasses import dataclass
from pathlib import Path

from shared.errors import DamagedData

FORMAT = 1
FILE = "audit.sqlite"
TEXT_CHARACTERS_MAX = 500

_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS lines (
  number INTEGER PRIMARY KEY, at_us INTEGER NOT NULL, person TEXT NOT NULL, role TEXT NOT NULL,
  action TEXT NOT NULL, subject TEXT NOT NULL, detail TEXT NOT NULL, hash BLOB NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS lines_by_time ON lines (at_us);
CREATE TRIGGER IF NOT EXISTS lines_stay BEFORE UPDATE ON lines BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER IF NOT EXISTS lines_last BEFORE DELETE ON lines BEGIN SELECT raise(ABORT, 'append-only'); END;
PRAGMA user_version = {FORMAT};
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
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = threading.Lock()
        self._database = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
        path.chmod(0o600)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = FULL")
        (version,) = self._database.execute("PRAGMA user_version").fetchone()
        if version not in (0, FORMAT):
            self._database.close()
            raise DamagedData(
                f"{path.name} has format {version}, this version reads {FORMAT}; use the version that wrote it",
                code="audit-format",
            )
        if version == 0:
            self._database.executescript(f"BEGIN IMMEDIATE;{_SCHEMA}COMMIT;")

    def close(self) -> None:
        with self._lock:
            self._database.close()

    def append(self, at_us: int, *, person: str, role: str, action: str, subject: str = "", detail: str = "") -> None:
        texts = [text[:TEXT_CHARACTERS_MAX] for text in (person, role, action, subject, detail)]
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                last = self._database.execute("SELECT number, hash FROM lines ORDER BY number DESC LIMIT 1").fetchone()
                number, previous = (last[0] + 1, last[1]) if last else (1, b"")
                line = (number, at_us, *texts)
                self._database.execute(
                    "INSERT INTO lines VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*line, _link(previous, line))
                )
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")

    def lines(self, *, limit: int = 100, before: int | None = None) -> list[AuditLine]:
        """Newest first; `before` a number goes on where a page ended."""
        with self._lock:
            rows = self._database.execute(
                "SELECT number, at_us, person, role, action, subject, detail FROM lines WHERE number < ?"
                " ORDER BY number DESC LIMIT ?",
                (1 << 62 if before is None else before, limit),
            ).fetchall()
        return [AuditLine(*row) for row in rows]

    def verify(self) -> int:
        """How many lines there are, all of them chained; raises DamagedData that names the first one that is not."""
        with self._lock:
            rows = self._database.execute("SELECT * FROM lines ORDER BY number").fetchall()
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
