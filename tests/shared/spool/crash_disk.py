"""A disk whose unsynced writes a crash may keep, drop, cut short or garble, each on its own (SQLite's test6.c method)."""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random

from shared.spool.memory import MemoryDisk, MemoryFile


class CrashFile(MemoryFile):
    def __init__(self, disk: CrashDisk) -> None:
        super().__init__()
        self._disk = disk
        self.durable = bytearray()
        self.unsynced: list[tuple[int, bytes]] = []

    def write(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        self._disk.happens("write")
        super().write(offset, data)
        self.unsynced.append((offset, bytes(data)))
        self._disk.happened()

    def truncate(self, size: int) -> None:
        super().truncate(size)
        self.durable = bytearray(self.content)
        self.unsynced.clear()

    def sync(self) -> None:
        self._disk.happens("sync")
        self.durable[:] = self.content
        self.unsynced.clear()
        self._disk.happened()


class CrashDisk(MemoryDisk):
    """`after_event` runs after each write, sync and replace; `fail_at` makes the n-th of them an IO error."""

    def __init__(self) -> None:
        super().__init__()
        self.after_event: Callable[[], None] = lambda: None
        self.events = 0
        self.fail_at: int | None = None
        self.failure = errno.EIO

    def happens(self, what: str) -> None:
        self.events += 1
        if self.fail_at is not None and self.events >= self.fail_at:
            raise OSError(self.failure, f"{what} refused")

    def happened(self) -> None:
        self.after_event()

    def open(self, name: str, *, create: bool = False) -> MemoryFile:
        if name not in self.files and create:
            self.files[name] = CrashFile(self)
        return super().open(name)

    def replace(self, name: str, data: bytes) -> None:
        self.happens("replace")
        file = CrashFile(self)
        file.content[:] = data
        file.durable[:] = data
        self.files[name] = file
        self.happened()

    def image(self, random: Random, fates: str = "KDTG") -> MemoryDisk:
        """What the disk may hold after a crash now: each unsynced write Kept, Dropped, Truncated or Garbled."""
        image = MemoryDisk()
        for name, file in self.files.items():
            if not isinstance(file, CrashFile):
                raise TypeError(name)
            after = MemoryFile()
            after.content[:] = file.durable
            for offset, data in file.unsynced:
                fate = random.choice(fates)
                if fate == "K":
                    after.write(offset, data)
                elif fate == "T":
                    after.write(offset, data[: random.randrange(len(data) + 1)])
                elif fate == "G":
                    start = random.randrange(len(data) + 1)
                    after.write(offset, data[:start] + random.randbytes(len(data) - start))
            image.files[name] = after
        return image
