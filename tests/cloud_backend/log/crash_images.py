"""A disk that remembers every write, and the disks a crash at any moment could leave behind.

After SQLite's crash tests: at each write and each sync every write not yet synced is kept, dropped, cut short
or garbled, each file and each directory entry on its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random


@dataclass
class _Content:
    durable: bytes = b""
    unsynced: list[tuple[int, bytes | None]] = field(default_factory=list)  # (offset, data), or (size, None): truncate

    def now(self) -> bytearray:
        content = bytearray(self.durable)
        for operation in self.unsynced:
            _apply(content, *operation)
        return content


class RecordingFile:
    def __init__(self, disk: RecordingDisk, content: _Content) -> None:
        self._disk = disk
        self._content = content

    def read(self, offset: int, length: int) -> bytes:
        return bytes(self._content.now()[offset : offset + length])

    def write(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        self._disk.moment()
        self._content.unsynced.append((offset, bytes(data)))
        self._disk.moment()

    def write_parts(self, offset: int, parts: Sequence[bytes]) -> None:
        self.write(offset, b"".join(parts))

    def size(self) -> int:
        return len(self._content.now())

    def truncate(self, size: int) -> None:
        self._content.unsynced.append((size, None))
        self._disk.moment()

    def sync(self) -> None:
        self._disk.moment()
        self._content.durable = bytes(self._content.now())
        self._content.unsynced.clear()

    def close(self) -> None:
        pass


class RecordingDisk:
    """Calls `on_moment` whenever a crash could leave something new behind."""

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self._files = {name: _Content(data) for name, data in (files or {}).items()}
        self._durable_names = dict(self._files)
        self.on_moment = lambda: None

    def moment(self) -> None:
        self.on_moment()

    def open(self, name: str, *, create: bool = False) -> RecordingFile:
        if name not in self._files:
            if not create:
                raise FileNotFoundError(name)
            self._files[name] = _Content()
            self.moment()
        return RecordingFile(self, self._files[name])

    def names(self) -> list[str]:
        return sorted(self._files)

    def remove(self, name: str) -> None:
        del self._files[name]
        self.moment()

    def replace(self, name: str, data: bytes) -> None:
        self._files[name] = _Content(data)
        self.sync()

    def sync(self) -> None:
        self.moment()
        self._durable_names = dict(self._files)

    def contents(self) -> dict[str, bytes]:
        return {name: bytes(content.now()) for name, content in self._files.items()}

    def image(self, random: Random) -> dict[str, bytes]:
        """What one crash right now could leave on the disk."""
        names = dict(self._durable_names)
        for name in sorted({*self._files, *self._durable_names}):
            if (name in self._files) != (name in self._durable_names) and random.random() < 0.5:
                if name in self._files:
                    names[name] = self._files[name]
                else:
                    del names[name]
        return {name: _crashed(content, random) for name, content in names.items()}


def _crashed(content: _Content, random: Random) -> bytes:
    result = bytearray(content.durable)
    for offset, data in content.unsynced:
        fate = random.random()
        if fate < 0.3:
            continue
        if data is None or fate < 0.6:
            _apply(result, offset, data)
        elif fate < 0.8:
            _apply(result, offset, data[: random.randrange(len(data) + 1)])
        else:
            garbled = bytearray(data)
            for _ in range(random.randrange(1, 4)):
                if garbled:
                    start = random.randrange(len(garbled))
                    length = random.choice([1, 16, 512])
                    garbled[start : start + length] = random.choice(
                        [
                            bytes(len(garbled[start : start + length])),
                            random.randbytes(len(garbled[start : start + length])),
                        ]
                    )
            _apply(result, offset, bytes(garbled))
    return bytes(result)


def _apply(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        if offset < len(content):
            del content[offset:]
        else:
            content.extend(bytes(offset - len(content)))
        return
    if offset > len(content):
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data
