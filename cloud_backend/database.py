"""One SQLite file of the cloud half: opened, its format checked, shared between threads, written in whole transactions.

Every such file is in WAL mode: one writer at a time, of whatever process, and readers that never wait for it. The one
rule: what a transaction wrote is there as a whole or not at all, and durable when `transaction` ends. So synchronous is
FULL: in WAL mode NORMAL may lose the last transactions in a power cut, after a receipt for them. NORMAL is for a file
that can be made again from another.

A file of another format is refused and left as it is: an older version must not write into what it does not understand.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from shared.errors import DamagedData

BUSY_S = 30  # how long another process's transaction is waited for
DAMAGED = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)


class Database:
    """Open the file at a path, creating it when it is not there; None is in memory. Safe to share between threads.

    Nobody but its owner may read the file, nor look into its directory if that had to be made: wherever an operator
    puts it, positions of people are in it.
    """

    def __init__(self, path: Path | None, *, synchronous: Literal["FULL", "NORMAL"] = "FULL") -> None:
        self._name = "the database" if path is None else path.name
        self._lock = threading.Lock()
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._connection = sqlite3.connect(
            ":memory:" if path is None else path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
        )
        try:
            if path is not None:
                with suppress(PermissionError):  # somebody else's file, shared on purpose
                    path.chmod(0o600)  # before WAL: SQLite gives the files beside it the mode this one has
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute(f"PRAGMA synchronous = {synchronous}")
            self._connection.execute("SELECT count(*) FROM sqlite_master")  # reads what a damaged file fails on
        except BaseException as error:
            self._connection.close()
            if isinstance(error, sqlite3.DatabaseError) and error.sqlite_errorcode in DAMAGED:
                raise DamagedData(
                    f"{self._name} is damaged or is no SQLite file; restore it from a backup", code="database-damaged"
                ) from error
            raise

    @property
    def format(self) -> int:
        """The number of the format it was made with; 0 while nothing was made."""
        return int(self.read("PRAGMA user_version")[0][0])

    def create(self, schema: str, *, format: int) -> None:
        """Make the tables and number the format, all or none."""
        with self._lock:
            # IMMEDIATE, and a schema that creates only what is not there: two processes may both be first.
            self._connection.executescript(f"BEGIN IMMEDIATE;{schema};PRAGMA user_version = {format};COMMIT;")

    def require(
        self,
        schema: str,
        *,
        format: int,
        code: str,
        later: str = "",
        name: str = "",
        remedy: str = "use the version that wrote it",
    ) -> None:
        """Create what is not there yet; close and raise DamagedData with `code` when the file has another format.

        `later` makes what was added since the format was first written, and a version that does not know it ignores.
        """
        found = self.format
        if found not in (0, format):
            self.close()
            raise DamagedData(
                f"{name}{' ' if name else ''}{self._name} has format {found}, this version reads {format}; {remedy}",
                code=code,
            )
        if found == 0:
            self.create(schema, format=format)
        with self._lock:
            self._connection.executescript(later)

    def shrink(self) -> None:
        """Write the file anew, so that it holds nothing that was deleted; neither does the journal beside it."""
        with self._lock:
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def migrate(self, script: str, *, before: int, after: int) -> None:
        """Bring a file of an earlier format to a later one, all or none; nothing happens to a file of another."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")  # of two processes the second finds it done
            try:
                if int(self._connection.execute("PRAGMA user_version").fetchone()[0]) == before:
                    for statement in script.split(";"):
                        self._connection.execute(statement)
                    self._connection.execute(f"PRAGMA user_version = {after}")
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """The connection, for one transaction: durable when this ends, undone when it ends with an exception."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # SQLite undoes it by itself when the disk fails
                    self._connection.execute("ROLLBACK")
                raise

    def read(self, query: str, parameters: tuple[object, ...] = ()) -> list[Any]:
        """The rows of one query, as of one moment."""
        with self._lock:
            return self._connection.execute(query, parameters).fetchall()

    def close(self) -> None:
        """Also twice; nothing can be read or written after it."""
        with self._lock:
            self._connection.close()
