"""The log's own directory: as any, but its files leave memory once they are durable and read.

A log is written once and read soon, by the job that follows it. Left alone the operating system keeps every page of it
in memory, takes a page that is not in use for each new one, and on a virtual machine has to ask its host for that page:
more than the write itself (`docs/decisions/0034-what-a-commit-costs.md`). So what is durable is given back but for the
newest part, and new pages are the ones just given back. A job further behind reads from the disk.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from shared.spool.disk import PosixDisk, PosixFile

KEPT_BYTES = 32 * 1024 * 1024  # of the segment being written: what a job that keeps up has not read yet
GIVEN_BACK_AT_ONCE = 4 * 1024 * 1024
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
    def open(self, name: str, *, create: bool = False) -> LogFile:
        return LogFile(self.directory / name, create=create)
