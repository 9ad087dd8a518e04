"""A PostgreSQL server for benches and tests: in a directory of its own, on a socket there, ended by its process id."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

from resurge.bench._downloads import NotReachable

USER, PASSWORD = "resurge", "only for tests"
START_S = 120.0
PLACE_LENGTH_MAX = 60
FAST = ("--no-sync", "--locale=C", "--encoding=UTF8", "--auth=scram-sha-256")


def binaries() -> Path | None:
    """Where the server's programs are: Debian keeps them beside the path, by version."""
    found = [path.parent for path in sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))]
    on_path = shutil.which("postgres")
    return found[-1] if found else Path(on_path).parent if on_path else None


def place() -> Path:
    """Where temporary files lie, if every user may enter there and a socket's path is not too long."""
    found = Path(tempfile.gettempdir())
    open_to_all = all(directory.stat().st_mode & stat.S_IXOTH for directory in (found, *found.parents))
    return found if open_to_all and len(str(found)) < PLACE_LENGTH_MAX else Path("/tmp")


class PostgresServer:
    """Made, and not started yet. Nobody but root may choose another user; the server refuses to be run by root."""

    def __init__(self) -> None:
        found = binaries()
        if found is None:
            raise NotReachable("Debian's package postgresql")
        self._binaries = found
        self.directory = Path(tempfile.mkdtemp(prefix="resurge-pg-", dir=place()))
        self._as: dict[str, Any] = {"cwd": self.directory}
        if os.getuid() == 0:
            user = pwd.getpwnam("postgres" if "postgres" in {each.pw_name for each in pwd.getpwall()} else "nobody")
            os.chown(self.directory, user.pw_uid, user.pw_gid)
            self._as |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        password = self.directory / "password"
        password.write_text(PASSWORD)
        self._run("initdb", "--pgdata", "data", "--username", USER, "--pwfile", password, *FAST)
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def url(self, database: str = "postgres", *, password: str = PASSWORD) -> str:
        return f"postgresql://{USER}:{quote(password)}@/{database}?host={quote(str(self.directory), safe='')}"

    def start(self, *settings: str) -> None:
        """And wait until it answers."""
        options = [part for setting in ("listen_addresses=", f"unix_socket_directories={self.directory}", *settings)
                   for part in ("-c", setting)]  # fmt: skip
        with (self.directory / "output").open("ab") as output:
            self.process = subprocess.Popen(
                [self._binaries / "postgres", "-D", "data", *options], stdout=output, stderr=output, **self._as
            )
        self.starts += 1
        deadline = time.monotonic() + START_S
        while not self.answers():
            if time.monotonic() > deadline:
                raise RuntimeError(f"the server did not answer within {START_S:.0f} s")
            time.sleep(0.02)

    def answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.url(), connect_timeout=2).close()
        except psycopg.OperationalError:
            assert self.process is not None
            assert self.process.poll() is None, (self.directory / "output").read_text()
            return False
        return True

    def clear(self) -> None:
        """Drop what stores have made."""
        ours = "SELECT nspname FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema|public)'"
        for (schema,) in self.ask(ours):
            self.ask(f'DROP SCHEMA "{schema}" CASCADE')

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """As the owner of the server: around what the product allows."""
        import psycopg

        with psycopg.connect(self.url(), autocommit=True) as connection:
            cursor = connection.execute(query)
            return cursor.fetchall() if cursor.description else []

    def kill(self) -> None:
        """As a power cut would: its children end when they notice."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)  # disconnects everybody
            self.process.wait()

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _run(self, program: str, *arguments: object) -> None:
        subprocess.run(
            [self._binaries / program, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL, **self._as
        )
