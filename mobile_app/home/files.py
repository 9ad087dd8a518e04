"""Small files in the home directory: whole or not at all, readable by their owner only.

What must survive a power cut goes through `write_durably`; what only informs (the view state) through
`publish`, which is atomic for readers but costs no sync.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from shared.errors import DamagedData, UsageError
from shared.spool.disk import PosixDisk

LOCK_FILE = "lock"
# Beside a phone's home while the recorder runs, until its person stops it; also named in BootReceiver.java.
RESUME_FILE = "resume-after-boot"


def write_durably(path: Path, data: bytes) -> None:
    """Put data in place; after a crash the file holds the old or the new content, never a mix."""
    PosixDisk(path.parent).replace(path.name, data)


def remove_durably(home: Path, name: str) -> None:
    """Remove a file for good; one that is not there is removed already."""
    (home / name).unlink(missing_ok=True)
    PosixDisk(home).sync()


def publish(path: Path, data: bytes) -> None:
    """Put data in place for other processes to read. A power cut may lose it; a reader never sees half of it."""
    temporary = path.with_name(f".{path.name}.new")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(handle, data)
    finally:
        os.close(handle)
    temporary.replace(path)


def read_json(path: Path) -> Any:
    """The JSON value in the file, or None when there is no file."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise DamagedData(
            f"{path.name!r} in {str(path.parent)!r} is not whole JSON; restore it from a copy, or move it away",
            code="home-damaged",
        ) from error


class HomeLock:
    """Only one node may use a home directory; the kernel gives the lock back when the process ends, however."""

    def __init__(self, home: Path) -> None:
        self._handle = os.open(home / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._handle)
            raise UsageError(
                f"another node runs in {str(home)!r}; stop it, or give this one its own --home", code="home-busy"
            ) from None

    def __enter__(self) -> HomeLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Give the lock back; saying it again changes nothing."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
