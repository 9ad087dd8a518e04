"""The reports: what each sink promised and kept, hour by hour, each bound to the one before it and signed.

One SQLite file holds the reports and where the audit stands, and both change in one transaction: a crash neither loses
a report nor writes one twice. A report's hash covers the hash of the report before it and every byte of its own body;
the gateway's key signs the hash. SQLite refuses to change a report (triggers), and whoever edits the file itself breaks
the chain at that report: `verify` names it. A cut end shows against a head that was kept elsewhere.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cloud_backend.database import Database, Location
from shared.errors import DamagedData

FORMAT = 1
FILE = "contracts.sqlite"
_SIGNED = b"resurge-contract-report"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS reports (
  number INTEGER PRIMARY KEY, sink TEXT NOT NULL, from_us INTEGER NOT NULL, to_us INTEGER NOT NULL,
  verdict TEXT NOT NULL, body TEXT NOT NULL, hash BLOB NOT NULL, signature BLOB NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS reports_by_sink ON reports (sink, number);
CREATE TRIGGER IF NOT EXISTS reports_stay BEFORE UPDATE ON reports BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER IF NOT EXISTS reports_last BEFORE DELETE ON reports BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TABLE IF NOT EXISTS states (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
"""

Sign = Callable[[bytes], bytes]
IsSigned = Callable[[bytes, bytes], bool]  # of a message and its signature


@dataclass(frozen=True, slots=True)
class Report:
    """`body` is what was hashed, to the byte; `content` is what it says."""

    number: int
    sink: str
    from_us: int
    to_us: int
    verdict: str
    body: str
    hash: bytes
    signature: bytes

    @property
    def content(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


class Reports:
    """Open the reports at a path, creating the file when it is not there. Safe to share between threads."""

    def __init__(self, path: Location | None, *, sign: Sign) -> None:
        self._sign = sign
        self._database = Database(path)
        self._database.require(_SCHEMA, format=FORMAT, code="contract-format")

    def close(self) -> None:
        self._database.close()

    def save(self, states: Mapping[str, object], reports: tuple[Mapping[str, Any], ...] = ()) -> None:
        """Make states durable, and with them the reports that belong to them, in this order."""
        with self._database.transaction() as database:
            for content in reports:
                last = database.execute("SELECT number, hash FROM reports ORDER BY number DESC LIMIT 1").fetchone()
                number, previous = (last[0] + 1, last[1]) if last else (1, b"")
                body = json.dumps({"number": number, **content}, sort_keys=True, separators=(",", ":"))
                linked = _link(previous, body)
                database.execute(
                    "INSERT INTO reports VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        number, content["sink"], content["from_us"], content["to_us"], content["verdict"], body, linked,
                        self._sign(_message(number, linked)),
                    ),
                )  # fmt: skip
            database.executemany(
                "INSERT INTO states VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                [(name, json.dumps(value, separators=(",", ":"))) for name, value in states.items()],
            )

    def state(self, name: str) -> Any:
        """What was saved last under this name; None when nothing was."""
        rows = self._database.read("SELECT value FROM states WHERE name = ?", (name,))
        return json.loads(rows[0][0]) if rows else None

    def reports(self, *, sink: str = "", before: int | None = None, limit: int = 100) -> list[Report]:
        """Newest first, of one sink if named; `before` a number goes on where a page ended."""
        rows = self._database.read(
            "SELECT * FROM reports WHERE number < ? AND (? = '' OR sink = ?) ORDER BY number DESC LIMIT ?",
            (1 << 62 if before is None else before, sink, sink, limit),
        )
        return [Report(*row) for row in rows]

    def verify(self, is_signed: IsSigned) -> int:
        """How many reports there are, each chained to the one before it and signed; raises DamagedData that names the
        first that is not."""
        previous = b""
        rows = self._database.read("SELECT * FROM reports ORDER BY number")
        for expected, row in enumerate(rows, start=1):
            report = Report(*row)
            if report.number != expected or report.hash != _link(previous, report.body) or not _agrees(report):
                raise DamagedData(
                    f"report {expected} on contracts was changed or removed; restore {FILE} from a backup",
                    code="contract-chain",
                )
            if not is_signed(_message(report.number, report.hash), report.signature):
                raise DamagedData(
                    f"report {expected} on contracts is not signed with this gateway's key; restore {FILE} from a "
                    "backup",
                    code="contract-signature",
                )
            previous = report.hash
        return len(rows)


def _agrees(report: Report) -> bool:
    """Whether the columns one searches by say what the body says: only the body is hashed."""
    content = report.content
    named = (content["number"], content["sink"], content["from_us"], content["to_us"], content["verdict"])
    return named == (report.number, report.sink, report.from_us, report.to_us, report.verdict)


def _message(number: int, hash: bytes) -> bytes:
    return _SIGNED + number.to_bytes(8, "big") + hash


def _link(previous: bytes, body: str) -> bytes:
    return hashlib.sha256(previous + body.encode()).digest()
