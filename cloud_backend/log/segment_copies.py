"""A second and third copy of every segment (SO-21), each on its own disk, written before anything is acknowledged.

`CopiedDisk` is a disk made of several: writes and syncs go to all of them, reads come from the first. A copy that
refuses a write or sync fails the whole: an acknowledgement promises all copies, not some. `repair` brings copies
that were damaged, cut short or lost back to the best one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cloud_backend.log.disk import LogDisk
from cloud_backend.log.format import segment_name
from cloud_backend.log.segments import bases, sound_prefix
from cloud_backend.log.trimmed_index import decode_trimmed_index, trimmed_index_end
from shared.errors import DamagedData
from shared.spool.disk import Disk, File


def open_disk(directory: Path, copies: Sequence[Path] = ()) -> Disk:
    """The log's disk: one directory, or several that hold the same."""
    disks = [LogDisk(path) for path in (directory, *copies)]
    return CopiedDisk(disks) if copies else disks[0]


class CopiedFile:
    def __init__(self, files: Sequence[File], every: Callable[[Callable[[File], None]], None]) -> None:
        self._files = files
        self._every = every

    def read(self, offset: int, length: int) -> bytes:
        return self._files[0].read(offset, length)

    def checksums(self, pieces: Sequence[tuple[int, int]]) -> list[int]:
        return self._files[0].checksums(pieces)

    def write(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        for file in self._files:
            file.write(offset, data)

    def write_parts(self, offset: int, parts: Sequence[bytes | memoryview]) -> None:
        for file in self._files:
            file.write_parts(offset, parts)

    def size(self) -> int:
        return self._files[0].size()

    def truncate(self, size: int) -> None:
        for file in self._files:
            file.truncate(size)

    def sync(self) -> None:
        # Side by side: the copies are on different disks, and waiting for one after the other would add up.
        self._every(lambda file: file.sync())

    def close(self) -> None:
        for file in self._files:
            file.close()


class CopiedDisk:
    def __init__(self, disks: Sequence[Disk]) -> None:
        self.disks = disks
        self._threads = ThreadPoolExecutor(len(disks), thread_name_prefix="log-copy")

    def open(self, name: str, *, create: bool = False) -> CopiedFile:
        files = [disk.open(name, create=create) for disk in self.disks]

        def every(act: Callable[[File], None]) -> None:
            for done in [self._threads.submit(act, file) for file in files]:
                done.result()

        return CopiedFile(files, every)

    def names(self) -> list[str]:
        return self.disks[0].names()

    def remove(self, name: str) -> None:
        for disk in self.disks:
            if name in disk.names():
                disk.remove(name)

    def replace(self, name: str, data: bytes) -> None:
        for disk in self.disks:
            disk.replace(name, data)

    def sync(self) -> None:
        for disk in self.disks:
            disk.sync()


@dataclass(frozen=True, slots=True)
class Repair:
    """One segment of one copy that was made whole again."""

    copy: int
    segment: str
    reason: str  # damaged, short or missing


def repair(disks: Sequence[Disk]) -> list[Repair]:
    """Give every copy the best of each segment: the one with the most sound bytes. The gateway must not be running.

    Whatever was acknowledged is sound in at least one copy unless all are damaged, and the longest sound prefix
    contains every shorter one. Raises DamagedData when no copy of a segment is sound.
    """
    done = _repair_trimmed_index(disks)
    every = sorted({base for disk in disks for base in bases(disk)})
    for base in every:
        name = segment_name(base)
        contents = [_content(disk, name) for disk in disks]
        lengths = [_sound_length(content, base) for content in contents]
        best = max(range(len(disks)), key=lambda number: lengths[number])
        if lengths[best] < 0:
            if base == every[-1] and len(every) > 1 and not any(contents):
                continue  # a creation that no copy finished; opening the log removes it
            raise DamagedData(f"no copy of segment {name} is sound; restore one from a backup", code="log-no-copy")
        sound = contents[best][: lengths[best]]
        for number, disk in enumerate(disks):
            if contents[number] != sound and not (lengths[number] == lengths[best] and _same(contents[number], sound)):
                reason = "missing" if not contents[number] else "damaged" if lengths[number] < 0 else "short"
                disk.replace(name, sound)
                done.append(Repair(number, name, reason))
    return done


def _repair_trimmed_index(disks: Sequence[Disk]) -> list[Repair]:
    """Give every copy each file of marks that is sound in one of them."""
    done: list[Repair] = []
    for name in sorted({name for disk in disks for name in disk.names() if trimmed_index_end(name) is not None}):
        contents = [_content(disk, name) for disk in disks]
        sound = next((content for content in contents if _trimmed_index_is_sound(content, name)), None)
        for number, disk in enumerate(disks):
            if sound is not None and contents[number] != sound:
                disk.replace(name, sound)
                done.append(Repair(number, name, "damaged" if contents[number] else "missing"))
    return done


def _trimmed_index_is_sound(content: bytes, name: str) -> bool:
    try:
        decode_trimmed_index(content, name)
    except DamagedData:
        return False
    return True


def _content(disk: Disk, name: str) -> bytes:
    if name not in disk.names():
        return b""
    file = disk.open(name)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def _sound_length(content: bytes, base: int) -> int:
    """How many bytes of this segment are sound, -1 when not even all that was acknowledged."""
    try:
        return sound_prefix(content, base).length
    except DamagedData:
        return -1


def _same(content: bytes, sound: bytes) -> bool:
    """Equal but for zeros reserved after the end."""
    return content.startswith(sound) and not content[len(sound) :].strip(b"\0")
