"""A disk that keeps what was synced and does as it pleases with the rest.

What the running program reads is the cache. At a crash every write since the last sync of its file is kept,
dropped, cut short or garbled, each on its own, as SQLite's crash tests do; files created or removed since the
last sync of the directory may or may not be there. A crash can also be armed to happen inside the n-th write or
sync from now, and the disk can be full, or fail a sync.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from random import Random
from zlib import crc32

SECTOR_BYTES = 512


class Crash(BaseException):
    """The machine stopped in the middle of a disk operation. Not an Exception: nothing may swallow it."""


class SimulatedFile:
    def __init__(self, disk: SimulatedDisk, durable: bytearray) -> None:
        self._disk = disk
        self.durable = durable
        self.cache = bytearray(durable)
        self.unsynced: list[tuple[int, bytes] | int] = []  # a write, or a truncation to a size

    def read(self, offset: int, length: int) -> bytes:
        return bytes(self.cache[offset : offset + length])

    def checksums(self, pieces: Sequence[tuple[int, int]]) -> list[int]:
        return [crc32(self.read(offset, length)) for offset, length in pieces]

    def write(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        written = bytes(data)
        self._disk.count_write(self, offset, written)
        _put(self.cache, offset, written)
        self.unsynced.append((offset, written))

    def write_parts(self, offset: int, parts: Sequence[bytes]) -> None:
        self.write(offset, b"".join(parts))

    def size(self) -> int:
        return len(self.cache)

    def truncate(self, size: int) -> None:
        self._disk.count_write(self, 0, b"")
        _resize(self.cache, size)
        self.unsynced.append(size)

    def sync(self) -> None:
        self._disk.count_sync()
        for change in self.unsynced:
            _apply(self.durable, change)
        self.unsynced.clear()

    def close(self) -> None:
        pass

    def crash(self, rng: Random) -> None:
        for change in self.unsynced:
            fate = rng.randrange(4)
            if fate == 0 or (isinstance(change, int) and fate != 1):
                continue
            if fate == 1 or isinstance(change, int):
                _apply(self.durable, change)
                continue
            offset, data = change
            if fate == 2:
                data = data[: rng.randrange(len(data) + 1)]
            else:
                # One sector of it reached the disk as noise.
                at = rng.randrange(0, len(data) or 1, SECTOR_BYTES)
                data = data[:at] + rng.randbytes(len(data[at : at + SECTOR_BYTES])) + data[at + SECTOR_BYTES :]
            _put(self.durable, offset, data)
        self.unsynced.clear()
        self.cache = bytearray(self.durable)


class SimulatedDisk:
    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._files: dict[str, SimulatedFile] = {}
        self._durable_names: dict[str, SimulatedFile] = {}
        self.full = False
        self.sync_fails = False
        self.operations = 0
        self._crash_at: int | None = None

    def arm(self, operations: int) -> None:
        """Crash inside the n-th write or sync from now."""
        self._crash_at = self.operations + operations

    def disarm(self) -> None:
        self._crash_at = None

    def durable(self) -> dict[str, bytes]:
        """What is there for certain after a crash just now."""
        return {name: bytes(file.durable) for name, file in self._durable_names.items()}

    @property
    def bytes_used(self) -> int:
        return sum(len(file.cache) for file in self._files.values())

    # --- the port ----------------------------------------------------------------------------------------

    def open(self, name: str, *, create: bool = False) -> SimulatedFile:
        file = self._files.get(name)
        if file is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, name)
            file = self._files[name] = SimulatedFile(self, bytearray())
        return file

    def names(self) -> list[str]:
        return sorted(self._files)

    def remove(self, name: str) -> None:
        del self._files[name]

    def replace(self, name: str, data: bytes) -> None:
        self._refuse_when_full(1)
        # Before the operation counts the old content stands, after it the new: never a mix.
        self._count()
        file = self._files[name] = SimulatedFile(self, bytearray(data))
        self._durable_names[name] = file

    def sync(self) -> None:
        self._count()
        self._durable_names = dict(self._files)

    # -----------------------------------------------------------------------------------------------------

    def crash(self) -> None:
        """Stop: what was not synced is decided now. The same disk goes on with what is left."""
        names = {}
        for name in sorted(self._files.keys() | self._durable_names.keys()):
            before, after = self._durable_names.get(name), self._files.get(name)
            chosen = before if before is after or self._rng.random() < 0.5 else after
            if chosen is not None:
                chosen.crash(self._rng)
                names[name] = chosen
        self._files = names
        self._durable_names = dict(names)
        self.sync_fails = False
        self.disarm()

    def count_write(self, file: SimulatedFile, offset: int, data: bytes) -> None:
        self._refuse_when_full(max(0, offset + len(data) - file.size()))
        if self._crash_at is not None and self.operations + 1 == self._crash_at:
            file.unsynced.append((offset, data))  # it may have reached the disk, or part of it
        self._count()

    def count_sync(self) -> None:
        self._count()
        if self.sync_fails:
            raise OSError(errno.EIO, "simulated: sync failed")

    def _count(self) -> None:
        self.operations += 1
        if self.operations == self._crash_at:
            raise Crash

    def _refuse_when_full(self, growth: int) -> None:
        if self.full and growth > 0:
            raise OSError(errno.ENOSPC, "simulated: no space left")


def _put(content: bytearray, offset: int, data: bytes) -> None:
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _resize(content: bytearray, size: int) -> None:
    if size <= len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))


def _apply(content: bytearray, change: tuple[int, bytes] | int) -> None:
    if isinstance(change, int):
        _resize(content, change)
    else:
        _put(content, *change)
