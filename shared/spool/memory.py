"""A disk in memory: `place="memory"`, for a spool that need not outlive its process."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32


class MemoryFile:
    def __init__(self) -> None:
        self.content = bytearray()

    def read(self, offset: int, length: int) -> bytes:
        with memoryview(self.content) as content:  # a slice of the array itself would be copied twice
            return bytes(content[offset : offset + length])

    def checksums(self, pieces: Sequence[tuple[int, int]]) -> list[int]:
        return [crc32(self.read(offset, length)) for offset, length in pieces]

    def write(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        if len(self.content) < offset:
            self.content.extend(bytes(offset - len(self.content)))
        self.content[offset : offset + len(data)] = data

    def write_parts(self, offset: int, parts: Sequence[bytes | memoryview]) -> None:
        self.write(offset, b"".join(parts))

    def size(self) -> int:
        return len(self.content)

    def truncate(self, size: int) -> None:
        del self.content[size:]
        self.content.extend(bytes(size - len(self.content)))

    def sync(self) -> None:
        pass

    def close(self) -> None:
        pass


class MemoryDisk:
    def __init__(self) -> None:
        self.files: dict[str, MemoryFile] = {}

    def open(self, name: str, *, create: bool = False) -> MemoryFile:
        if name not in self.files:
            if not create:
                raise FileNotFoundError(name)
            self.files[name] = MemoryFile()
        return self.files[name]

    def names(self) -> list[str]:
        return sorted(self.files)

    def remove(self, name: str) -> None:
        del self.files[name]

    def replace(self, name: str, data: bytes) -> None:
        file = MemoryFile()
        file.content[:] = data
        self.files[name] = file

    def sync(self) -> None:
        pass
