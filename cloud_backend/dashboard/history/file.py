"""Where the history keeps its sums between two starts: one SQLite file, written in whole transactions.

The place in the log is part of the same transaction as the sums up to it, so after any crash both are from the same
moment. Losing the file costs reading the kept segments again, so it is not synced hard.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cloud_backend.database import Database

FORMAT = 1
LEDGER_KEPT = 100_000

_SCHEMA = """
CREATE TABLE IF NOT EXISTS place (only INTEGER PRIMARY KEY CHECK (only = 0), position INTEGER NOT NULL,
  recent INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS edges (edge TEXT PRIMARY KEY, content TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS trails (device TEXT PRIMARY KEY, content TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS ledger (
  at INTEGER PRIMARY KEY, received_us INTEGER NOT NULL, device TEXT NOT NULL, incarnation INTEGER NOT NULL,
  edge TEXT NOT NULL, lo INTEGER NOT NULL, hi INTEGER NOT NULL, reason TEXT NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS ledger_by_edge ON ledger (edge, at);
CREATE INDEX IF NOT EXISTS ledger_by_device ON ledger (device, at);
"""
# What another version summed is dropped: the kept segments are read again.
_FRESH = "".join(f"DROP TABLE IF EXISTS {table};" for table in ("place", "edges", "trails", "ledger"))


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A range that was given up, as its tombstone says. `at` is the tombstone's offset in the log."""

    at: int
    received_us: int
    device: str
    incarnation: int
    edge: str  # its number in hex
    lo: int
    hi: int
    reason: str


@dataclass(frozen=True, slots=True)
class Saved:
    position: int | None
    recent: int | None  # where the last minutes begin
    edges: Mapping[str, Any]
    trails: Mapping[str, Any]


class HistoryFile:
    """At a path, or in memory only. Safe to share between threads."""

    def __init__(self, path: Path | None) -> None:
        self._database = Database(path, synchronous="NORMAL")
        if self._database.format != FORMAT:
            self._database.create(_FRESH + _SCHEMA, format=FORMAT)

    def load(self) -> Saved:
        with self._database.transaction() as database:
            place = database.execute("SELECT position, recent FROM place").fetchone()
            edges = database.execute("SELECT edge, content FROM edges").fetchall()
            trails = database.execute("SELECT device, content FROM trails").fetchall()
        return Saved(
            place[0] if place else None,
            place[1] if place else None,
            {edge: json.loads(content) for edge, content in edges},
            {device: json.loads(content) for device, content in trails},
        )

    def save(
        self,
        position: int,
        recent: int,
        edges: Mapping[str, Any],
        trails: Mapping[str, Any],
        ledger: Iterable[LedgerEntry],
    ) -> None:
        with self._database.transaction() as database:
            database.executemany(
                "INSERT OR REPLACE INTO edges VALUES (?, ?)",
                [(edge, json.dumps(content, separators=(",", ":"))) for edge, content in edges.items()],
            )
            database.executemany(
                "INSERT OR REPLACE INTO trails VALUES (?, ?)",
                [(device, json.dumps(content, separators=(",", ":"))) for device, content in trails.items()],
            )
            database.executemany(
                "INSERT OR REPLACE INTO ledger VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (each.at, each.received_us, each.device, each.incarnation, each.edge, each.lo, each.hi,
                     each.reason)
                    for each in ledger
                ],
            )  # fmt: skip
            database.execute(
                "DELETE FROM ledger WHERE at < (SELECT at FROM ledger ORDER BY at DESC LIMIT 1 OFFSET ?)",
                (LEDGER_KEPT,),
            )
            database.execute("INSERT OR REPLACE INTO place VALUES (0, ?, ?)", (position, recent))

    def ledger(self, *, edge: str = "", device: str = "", before: int | None = None, limit: int) -> list[LedgerEntry]:
        """The newest entries first, of one edge or device if named, before an offset if given."""
        conditions: list[tuple[str, object]] = [("edge = ?", edge)] if edge else []
        conditions += [("device = ?", device)] if device else []
        conditions += [("at < ?", before)] if before is not None else []
        where = f"WHERE {' AND '.join(text for text, _ in conditions)}" if conditions else ""
        query = f"SELECT * FROM ledger {where} ORDER BY at DESC LIMIT ?"  # noqa: S608 - conditions are ours
        rows = self._database.read(query, (*(value for _, value in conditions), limit))
        return [LedgerEntry(*row) for row in rows]

    def close(self) -> None:
        self._database.close()
