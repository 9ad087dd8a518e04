"""The disk port: what the spool and the log need of a file system, and the real one.

The simulator hands in a disk that loses, tears and garbles unsynced writes; everything durable goes
through this port so that the same code meets both.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol
from zlib import crc32

PARTS_MAX = 1024  # IOV_MAX of Linux and macOS
# Reading and checking let other threads run, so several do both at once. A little is not worth a thread.
THREADS_MAX = 4
THREADED_BYTES = 4 << 20
_pwritev = getattr(os, "pwritev", None)  # macOS 11 has it, Android has it from API level 24 on


class File(Protocol):
    """Random access to one file. A write is durable only once `sync` has returned."""

    def read(self, offset: int, length: int) -> bytes:
        """Up to length bytes; shorter only at the end of the file."""
        ...

    def checksums(self, pieces: Sequence[tuple[int, int]]) -> list[int]:
        """The CRC-32 of each of these (offset, length)."""
        ...

    def write(self, offset: int, data: bytes | bytearray | memoryview) -> None: ...

    def write_parts(self, offset: int, parts: Sequence[bytes | memoryview]) -> None:
        """Write these one after the other; like one write, but nobody joins them."""
        ...

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


class Disk(Protocol):
    """One directory of files. Names are plain, without separators."""

    def open(self, name: str, *, create: bool = False) -> File: ...

    def names(self) -> list[str]:
        """Every file's name, sorted."""
        ...

    def remove(self, name: str) -> None: ...

    def replace(self, name: str, data: bytes) -> None:
        """Put the whole file in place durably: after a crash it holds the old or the new content, never a mix."""
        ...

    def sync(self) -> None:
        """Make creations and removals durable."""
        ...


class PosixFile:
    def __init__(self, path: Path, *, create: bool) -> None:
        flags = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | (os.O_CREAT if create else 0)
        self._fd = os.open(path, flags, 0o600)

    def read(self, offset: int, length: int) -> bytes:
        chunks: list[bytes] = []
        while length > 0:
            chunk = os.pread(self._fd, length, offset)
            if not chunk:
                break
            chunks.append(chunk)
            offset += len(chunk)
            length -= len(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def checksums(self, pieces: Sequence[tuple[int, int]]) -> list[int]:
        threads = min(os.cpu_count() or 1, THREADS_MAX)
        if threads == 1 or sum(length for _, length in pieces) < THREADED_BYTES:
            return self._checksums(pieces)
        sums = [0] * len(pieces)
        with ThreadPoolExecutor(threads - 1, "checksums") as pool:
            others = [pool.submit(self._checksums, pieces[at::threads]) for at in range(1, threads)]
            sums[::threads] = self._checksums(pieces[::threads])
            for at, other in enumerate(others, 1):
                sums[at::threads] = other.result()
        return sums

    def _checksums(self, pieces: Sequence[tuple[int, int]]) -> list[int]:
        # As little as possible between the calls: only one thread at a time has the interpreter.
        file, pread = self._fd, os.pread
        return [crc32(pread(file, length, offset)) for offset, length in pieces]

    def write(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        view = memoryview(data)
        while view:
            written = os.pwrite(self._fd, view, offset)
            view = view[written:]
            offset += written

    def write_parts(self, offset: int, parts: Sequence[bytes | memoryview]) -> None:
        if _pwritev is None:
            self.write(offset, b"".join(parts))
            return
        for start in range(0, len(parts), PARTS_MAX):
            some = parts[start : start + PARTS_MAX]
            length = sum(map(len, some))
            written = _pwritev(self._fd, some, offset)
            if written < length:  # a full disk, or a signal: the rest, as far as it goes
                self.write(offset + written, memoryview(b"".join(some))[written:])
            offset += length

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        # macOS has no fdatasync; there fsync is the nearest promise.
        getattr(os, "fdatasync", os.fsync)(self._fd)

    def close(self) -> None:
        os.close(self._fd)


class PosixDisk:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)

    def open(self, name: str, *, create: bool = False) -> PosixFile:
        return PosixFile(self.directory / name, create=create)

    def names(self) -> list[str]:
        with os.scandir(self.directory) as entries:
            return sorted(entry.name for entry in entries if entry.is_file())

    def remove(self, name: str) -> None:
        (self.directory / name).unlink()

    def replace(self, name: str, data: bytes) -> None:
        temporary = self.directory / f".{name}.new"
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(handle, view) :]
            os.fsync(handle)
        finally:
            os.close(handle)
        temporary.replace(self.directory / name)
        self.sync()

    def sync(self) -> None:
        handle = os.open(self.directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
