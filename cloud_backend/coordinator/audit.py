"""The audit log: who did what, append-only, each line bound to the one before it by its hash.

SQLite refuses to change or remove a line (triggers), and whoever edits the file itself breaks the chain at that
line: `verify` names it. Each line's hash is signed with the gateway's key, so whoever has the file and not the key
cannot compute a chain of their own. Whoever has both can still cut the end off, or sign anew: that shows against a head
that was kept somewhere else (`resurge audit anchor`). A line holds names and numbers of ours, never a secret and never
raw input of a stranger.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass

from cloud_backend.database import Database, Location
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
# Added since format 1 was first written; a version that does not know it ignores it.
_LATER = """
CREATE TABLE IF NOT EXISTS heads (number INTEGER PRIMARY KEY, signature BLOB NOT NULL) STRICT;
"""
_SIGNED = b"resurge-audit-head"

Sign = Callable[[bytes], bytes]
IsSigned = Callable[[bytes, bytes], bool]  # of a message and its signature


@dataclass(frozen=True, slots=True)
class AuditLine:
    number: int
    at_us: int
    person: str
    role: str
    action: str
    subject: str
    detail: str


@dataclass(frozen=True, slots=True)
class AuditHead:
    """The newest line by its number and hash, to be kept where nobody who can write here can write."""

    number: int
    hash: bytes
    signature: bytes | None

    def message(self) -> bytes:
        return _message(self.number, self.hash)


class AuditLog:
    """Open the audit log at a path. Several processes may append; each line is durable when `append` returns.

    `sign` signs with the gateway's key; whoever has none appends lines that nobody signed, and `verify` says so."""

    def __init__(self, path: Location, *, sign: Sign | None = None) -> None:
        self._sign = sign
        self._database = Database(path)
        self._database.require(_SCHEMA, format=FORMAT, code="audit-format", later=_LATER)

    def close(self) -> None:
        self._database.close()

    def append(self, at_us: int, *, person: str, role: str, action: str, subject: str = "", detail: str = "") -> None:
        texts = [text[:TEXT_CHARACTERS_MAX] for text in (person, role, action, subject, detail)]
        with self._database.transaction() as database:
            last = database.execute("SELECT number, hash FROM lines ORDER BY number DESC LIMIT 1").fetchone()
            number, previous = (last[0] + 1, last[1]) if last else (1, b"")
            line = (number, at_us, *texts)
            linked = _link(previous, line)
            database.execute("INSERT INTO lines VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*line, linked))
            if self._sign is not None:
                signature = self._sign(_message(number, linked))
                database.execute("INSERT INTO heads VALUES (?, ?)", (number, signature))

    def lines(self, *, limit: int = 100, before: int | None = None) -> list[AuditLine]:
        """Newest first; `before` a number goes on where a page ended."""
        rows = self._database.read(
            "SELECT number, at_us, person, role, action, subject, detail FROM lines WHERE number < ?"
            " ORDER BY number DESC LIMIT ?",
            (1 << 62 if before is None else before, limit),
        )
        return [AuditLine(*row) for row in rows]

    def head(self) -> AuditHead:
        """The newest line; number 0 while there is none."""
        rows = self._database.read(
            "SELECT number, hash, signature FROM lines LEFT JOIN heads USING (number) ORDER BY number DESC LIMIT 1"
        )
        return AuditHead(*rows[0]) if rows else AuditHead(0, b"", None)

    def check_anchor(self, number: int, hash: bytes) -> None:
        """Raise DamagedData unless the line of this number is there and is the one that was anchored."""
        rows = self._database.read("SELECT hash FROM lines WHERE number = ?", (number,))
        if number and not rows:
            raise DamagedData(
                f"line {number} of the audit log was anchored and is gone: the end was cut off; restore {FILE} from a "
                "backup",
                code="audit-anchor",
            )
        if number and rows[0][0] != hash:
            raise DamagedData(
                f"line {number} of the audit log is not the one that was anchored: it was written anew; restore {FILE} "
                "from a backup",
                code="audit-anchor",
            )

    def verify(self, is_signed: IsSigned | None = None) -> int:
        """How many lines there are, all of them chained and, from the first signature on, signed; raises DamagedData
        that names the first one that is not."""
        rows = self._database.read("SELECT * FROM lines ORDER BY number")
        previous = b""
        for expected, row in enumerate(rows, start=1):
            if row[0] != expected or row[7] != _link(previous, row[:7]):
                raise DamagedData(
                    f"line {expected} of the audit log was changed or removed; restore {FILE} from a backup",
                    code="audit-chain",
                )
            previous = row[7]
        if is_signed is not None:
            self._check_signatures({row[0]: row[7] for row in rows}, is_signed)
        return len(rows)

    def _check_signatures(self, hashes: dict[int, bytes], is_signed: IsSigned) -> None:
        signatures = dict(self._database.read("SELECT number, signature FROM heads ORDER BY number"))
        for number in range(min(signatures, default=len(hashes) + 1), len(hashes) + 1):
            # A chain that was computed anew differs in every hash from the change on: the ends of it are enough.
            checked = number in (min(signatures), len(hashes))
            if number not in signatures or (
                checked and not is_signed(_message(number, hashes[number]), signatures[number])
            ):
                raise DamagedData(
                    f"line {number} of the audit log is not signed with this gateway's key: the chain was computed "
                    f"anew; restore {FILE} from a backup",
                    code="audit-signature",
                )


def _message(number: int, hash: bytes) -> bytes:
    return _SIGNED + number.to_bytes(8, "big") + hash


def _link(previous: bytes, line: tuple[object, ...]) -> bytes:
    return hashlib.sha256(previous + json.dumps(line, ensure_ascii=False).encode("utf-8", "replace")).digest()
