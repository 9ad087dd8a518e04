"""One database of the cloud half: a SQLite file, or a schema of a PostgreSQL server where several gateways share it.

It is opened, its format checked, shared between threads, written in whole transactions. The one rule: what a
transaction wrote is there as a whole or not at all, and durable when `transaction` ends; there is one writer at a time,
of whatever process, and readers never wait for it. Statements are written for SQLite (3.35) in what PostgreSQL
understands, too; the schema's few own words are translated (`postgres.py`).

One of another format is refused and left as it is: an older version must not write into what it does not understand.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from shared.errors import DamagedData, ResurgeError, UsageError

URL_FILE = "database.url"  # in a gateway's home: what else would be files there is in this database
SCHEMES = ("postgresql://", "postgres://")
LOST = "database-lost"
AGAIN_MAX = 10
T = TypeVar("T")


class DatabaseLost(ResurgeError):
    """The server is away, or was lost while it worked. What was under way is there whole or not at all; do it again."""


@dataclass(frozen=True, slots=True)
class Served:
    """A schema of a server's database, in the place of a file."""

    url: str
    schema: str


Location = Path | Served


class Cursor(Protocol):
    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Statements(Protocol):
    """What may be said inside a transaction."""

    def execute(self, query: str, parameters: Sequence[Any] = ..., /) -> Cursor: ...
    def executemany(self, query: str, rows: Iterable[Sequence[Any]], /) -> object: ...


class Kept(Protocol):
    """A file or a schema, as `Database` uses it: under a lock."""

    name: str

    def format(self) -> int: ...
    def create(self, schema: str, format: int) -> None: ...
    def add(self, schema: str) -> None: ...
    def migrate(self, script: str, before: int, after: int) -> None: ...
    def begin(self) -> Statements: ...
    def commit(self) -> None: ...
    def roll_back(self) -> None: ...
    def read(self, query: str, parameters: Sequence[Any]) -> list[Any]: ...
    def changes(self) -> int: ...
    def shrink(self) -> None: ...
    def close(self) -> None: ...


def location(text: str) -> Path | str:
    """As an option of a command names it: a file, or the URL of a database on a server."""
    return text if text.startswith(SCHEMES) else Path(text)


def located(where: Location | str, file: str) -> Location:
    """A file by its path; of a server's database the schema that has the name of the file."""
    if isinstance(where, Served):
        return where
    if isinstance(where, str) and where.startswith(SCHEMES):
        return Served(where, Path(file).stem)
    return Path(where)


def in_home(home: Path, file: str) -> Location:
    """Where a gateway's home keeps what a file of this name is for."""
    try:
        url = (home / URL_FILE).read_text().strip()
    except FileNotFoundError:
        return home / file
    if not url.startswith(SCHEMES):
        raise UsageError(f"{URL_FILE} in {str(home)!r} holds no URL of a PostgreSQL database", code="database-url")
    return Served(url, Path(file).stem)


def is_there(where: Location) -> bool:
    """A schema is made when it is first opened: only of a file one can tell before."""
    return isinstance(where, Served) or where.exists()


def keep_url(home: Path, url: str, files: Iterable[str]) -> None:
    """From now on a home keeps in this database what else is in these files. A home that has them goes on as it is:
    a roster that were suddenly empty would refuse every device."""
    there = [file for file in files if (home / file).exists()]
    if there:
        raise UsageError(
            f"{str(home)!r} keeps {', '.join(there)}; start without --database, or with a new --home",
            code="database-home",
        )
    if not url.startswith(SCHEMES):
        raise UsageError("--database is a URL like postgresql://USER@HOST/NAME", code="database-url")
    path = home / URL_FILE
    path.touch(mode=0o600)
    path.chmod(0o600)  # a password may be in it
    path.write_text(url + "\n")


class Database:
    """Open the file at a path or the schema of a server, creating it when it is not there; None is in memory. Safe to
    share between threads.

    `large`: a file that grows to gigabytes gets more memory. `patience_s`: how long to wait for a server that is away
    before saying so."""

    def __init__(
        self,
        where: Location | None,
        *,
        synchronous: Literal["FULL", "NORMAL"] = "FULL",
        large: bool = False,
        patience_s: float = 0,
    ) -> None:
        self._lock = threading.Lock()
        self._kept: Kept
        if isinstance(where, Served):
            from cloud_backend.postgres import PostgresSchema

            self._kept = PostgresSchema(where, patience_s=patience_s)
        else:
            from cloud_backend.sqlite_file import SqliteFile

            self._kept = SqliteFile(where, synchronous=synchronous, large=large)

    @property
    def format(self) -> int:
        """The number of the format it was made with; 0 while nothing was made."""
        with self._lock:
            return self._kept.format()

    def create(self, schema: str, *, format: int) -> None:
        """Make the tables and number the format, all or none."""
        with self._lock:
            self._kept.create(schema, format)

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
        """Create what is not there yet; close and raise DamagedData with `code` when it has another format.

        `later` makes what was added since the format was first written, and a version that does not know it ignores.
        """
        found = self.format
        if found not in (0, format):
            self.close()
            raise DamagedData(
                f"{name}{' ' if name else ''}{self._kept.name} has format {found}, this version reads {format}; "
                f"{remedy}",
                code=code,
            )
        if found == 0:
            self.create(schema, format=format)
        with self._lock:
            self._kept.add(later)

    def shrink(self) -> None:
        """Write all of it anew, so that it holds nothing that was deleted."""
        with self._lock:
            self._kept.shrink()

    def migrate(self, script: str, *, before: int, after: int) -> None:
        """Bring a file of an earlier format to a later one, all or none; nothing happens to a file of another."""
        with self._lock:
            self._kept.migrate(script, before, after)

    @contextmanager
    def transaction(self) -> Iterator[Statements]:
        """What to say in one transaction: durable when this ends, undone when it ends with an exception."""
        with self._lock:
            statements = self._kept.begin()
            try:
                yield statements
                self._kept.commit()
            except BaseException:
                self._kept.roll_back()
                raise

    def read(self, query: str, parameters: tuple[object, ...] = ()) -> list[Any]:
        """The rows of one query, as of one moment."""
        with self._lock:
            return self._kept.read(query, parameters)

    def changes(self) -> int:
        """A number that is another one after somebody else has written."""
        with self._lock:
            return self._kept.changes()

    def again(self, work: Callable[[], T]) -> T:
        """Do it, and do it again while the server is lost meanwhile and comes back: for work that may be done twice."""
        for _ in range(AGAIN_MAX - 1):
            try:
                return work()
            except DatabaseLost as lost:
                if lost.code != LOST:
                    raise
        return work()

    def close(self) -> None:
        """Also twice; nothing can be read or written after it."""
        with self._lock:
            self._kept.close()
