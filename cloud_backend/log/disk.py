"""The log's own directory: as any, but its files leave memory once they are durable and read.

A log is written once and read soon, by the job that follows it. Left alone the operating system keeps every page of it
in memory, takes a page that is not in use for each new one, and on a virtual machine has to ask its host for that page:
more than the write itself (`docs/decisions/0034-what-a-commit-costs.md`). So what is durable is given back but for the
newest part, and new pages are the ones just given back. A job further behind reads from the disk.

A process that has too many connections open can open no file either, and the log must go on: some descriptors are held
for it and let go when they are needed.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from shared.spool.disk import PosixDisk, PosixFile

KEPT_BYTES = 32 * 1024 * 1024  # of the segment being written: what a job that keeps up has not read yet
GIVEN_BACK_AT_ONCE = 4 * 1024 * 1024
SPARE_FILES = 4  # a new segment, its directory, a file that is put in place, a listing
_NO_FILES = (errno.EMFILE, errno.ENFILE)
_T = TypeVar("_T")
_advise = getattr(os, "posix_fadvise", None)  # macOS and Windows have none


class LogFile(PosixFile):
    _written = 0  # the end of what was written through this file
    _given_back = 0

    def write_parts(self, offset: int, parts: Sequence[bytes | memoryview]) -> None:
        super().write_parts(offset, parts)
        self._written = offset + sum(map(len, parts))

    def sync(self) -> None:
        super().sync()
        if self._written - KEPT_BYTES - self._given_back >= GIVEN_BACK_AT_ONCE:
            self._give_back(self._written - KEPT_BYTES)

    def close(self) -> None:
        if self._written:
            self._give_back(self._written)
        super().close()

    def _give_back(self, end: int) -> None:
        """Durable bytes up to here need no memory; what is not durable stays in any case."""
        if _advise is not None:
            _advise(self._fd, self._given_back, end - self._given_back, os.POSIX_FADV_DONTNEED)
        self._given_back = end


class LogDisk(PosixDisk):
    def __init__(self, directory: Path) -> None:
        self._spare: list[int] = []
        super().__init__(directory)
        self._hold_spare()

    def open(self, name: str, *, create: bool = False) -> LogFile:
        return self._with_files(lambda: LogFile(self.directory / name, create=create))

    def names(self) -> list[str]:
        return self._with_files(super().names)

    def replace(self, name: str, data: bytes) -> None:
        self._with_files(lambda: PosixDisk.replace(self, name, data))

    def sync(self) -> None:
        self._with_files(super().sync)
        self._hold_spare()

    def __del__(self) -> None:
        self._release_spare()

    def _release_spare(self) -> None:
        while self._spare:
            os.close(self._spare.pop())

    def _with_files(self, act: Callable[[], _T]) -> _T:
        try:
            return act()
        except OSError as error:
            if error.errno not in _NO_FILES or not self._spare:
                raise
        self._release_spare()
        try:
            return act()
        finally:
            self._hold_spare()

    def _hold_spare(self) -> None:
        try:
            while len(self._spare) < SPARE_FILES:
                self._spare.append(os.open(os.devnull, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)))
        except OSError as error:
            if error.errno not in _NO_FILES:
                raise  # else there are none to hold just now; the next sync tries again
