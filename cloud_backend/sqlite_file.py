"""A database in a file of its own, by SQLite in WAL mode: one writer at a time, and readers that never wait for it.

Synchronous is FULL: in WAL mode NORMAL may lose the last transactions in a power cut, after a receipt for them. NORMAL
is for a file that can be made again from another.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from shared.errors import DamagedData

BUSY_S = 30  # how long another process's transaction is waited for
# Of a large file: each transaction writes pages all over it. What fits in no cache is read and written several times
# in one transaction, and a journal of 4 MB, SQLite's default, is copied into the file after each. With both, publishing
# for 1,000 of 100,000 devices takes a quarter less processor time. Memory is used as far as it is needed.
LARGE_CACHE_KIB = 32 * 1024
LARGE_JOURNAL_PAGES = 8 * 1024  # of 4 KB
DAMAGED = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)


class SqliteFile:
    """Nobody but its owner may read the file, nor look into its directory if that had to be made: wherever an operator
    puts it, positions of people are in it."""

    def __init__(self, path: Path | None, *, synchronous: Literal["FULL", "NORMAL"], large: bool = False) -> None:
        self.name = "the database" if path is None else path.name
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.statements = sqlite3.connect(
            ":memory:" if path is None else path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
        )
        try:
            if path is not None:
                with suppress(PermissionError):  # somebody else's file, shared on purpose
                    path.chmod(0o600)  # before WAL: SQLite gives the files beside it the mode this one has
            self.statements.execute("PRAGMA journal_mode = WAL")
            self.statements.execute(f"PRAGMA synchronous = {synchronous}")
            if large:
                self.statements.execute(f"PRAGMA cache_size = -{LARGE_CACHE_KIB}")
                self.statements.execute(f"PRAGMA wal_autocheckpoint = {LARGE_JOURNAL_PAGES}")
            self.statements.execute("SELECT count(*) FROM sqlite_master")  # reads what a damaged file fails on
        except BaseException as error:
            self.statements.close()
            if isinstance(error, sqlite3.DatabaseError) and error.sqlite_errorcode in DAMAGED:
                raise DamagedData(
                    f"{self.name} is damaged or is no SQLite file; restore it from a backup", code="database-damaged"
                ) from error
            raise

    def format(self) -> int:
        return int(self.statements.execute("PRAGMA user_version").fetchone()[0])

    def create(self, schema: str, format: int) -> None:
        # IMMEDIATE, and a schema that creates only what is not there: two processes may both be first.
        self.statements.executescript(f"BEGIN IMMEDIATE;{schema};PRAGMA user_version = {format};COMMIT;")

    def add(self, schema: str) -> None:
        self.statements.executescript(schema)

    def migrate(self, script: str, before: int, after: int) -> None:
        self.begin()  # of two processes the second finds it done
        try:
            if self.format() == before:
                for statement in script.split(";"):
                    self.statements.execute(statement)
                self.statements.execute(f"PRAGMA user_version = {after}")
            self.commit()
        except BaseException:
            self.roll_back()
            raise

    def begin(self) -> sqlite3.Connection:
        self.statements.execute("BEGIN IMMEDIATE")
        return self.statements

    def commit(self) -> None:
        self.statements.execute("COMMIT")

    def roll_back(self) -> None:
        if self.statements.in_transaction:  # SQLite undoes it by itself when the disk fails
            self.statements.execute("ROLLBACK")

    def read(self, query: str, parameters: Sequence[Any]) -> list[Any]:
        return self.statements.execute(query, parameters).fetchall()

    def changes(self) -> int:
        return int(self.statements.execute("PRAGMA data_version").fetchone()[0])

    def shrink(self) -> None:
        """The journal beside the file holds nothing of it either."""
        self.statements.execute("VACUUM")
        self.statements.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        self.statements.close()
