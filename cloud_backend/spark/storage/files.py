"""Where a store's bytes are: a directory of this machine, an object store, or any file system that Hadoop knows.

A store needs little of a file system: write a file under a name nobody else has, put one whole unless it exists,
replace a small one, read a part, list, delete. `PosixFiles` does it with system calls, `storage.objects` with a client
for object stores, `storage.hadoop` with Hadoop's `FileSystem`. Which one is a matter of the location alone: `s3://…`,
`gs://…` and `az://…` are objects, any other scheme (`hdfs://…`, `file:/…`) is Hadoop's, a plain path has none. Driver,
executors and tools all open the same location.
"""

from __future__ import annotations

import fcntl
import os
import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

ReadAt = Callable[[int, int], bytes]  # (length, offset) -> bytes, fewer only at the end
OBJECT_SCHEMES = ("s3", "gs", "az")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+:")


def temporary_name(path: str) -> str:
    """A name in the same directory that no other writer has: written under it, a file is then put in place."""
    directory, slash, name = path.rpartition("/")
    return f"{directory}{slash}.{name}.{uuid.uuid4().hex[:12]}"


class Unreadable(OSError):
    """The file is there, and the file system itself says that its content is damaged or gone."""


class Files(Protocol):
    """Paths are relative to the store, with '/'. Nothing is ever written in place."""

    bundles: bool  # whether requests cost more than bytes: then a task's files go into one

    def create(self, directories: tuple[str, ...]) -> None: ...

    def write(self, path: str, data: bytes, *, durable: bool) -> None:
        """A new file under a name no other writer has. A crash leaves it torn: nobody may look for it by name."""

    def put(self, path: str, data: bytes) -> bool:
        """Put a file durably and whole unless one is there; False when somebody was first."""

    def replace(self, path: str, data: bytes, *, durable: bool = False) -> None:
        """Put a file whole, over what is there."""

    def read(self, path: str) -> bytes:
        """All of it; FileNotFoundError when it is not there."""

    def opened(self, path: str) -> AbstractContextManager[tuple[ReadAt, int]]:
        """A way to read parts, and the size; FileNotFoundError when it is not there."""

    def exists(self, path: str) -> bool: ...

    def names(self, directory: str) -> list[str]:
        """The names in a directory, hidden ones left out; none when it is not there."""

    def remove(self, path: str) -> None:
        """Delete a file; nothing happens when it is not there."""

    def remove_all(self, paths: list[str]) -> None:
        """Delete many."""

    def set_aside(self, path: str, to: str, unwanted: Callable[[bytes], bool]) -> bool:
        """Move a file whose content is unwanted to another name, durably. Of several at once nobody moves what
        another has put in its place. False when nothing was moved, also where that cannot be promised."""

    def sync(self, directory: str) -> None:
        """Make the names in a directory durable."""


def files_at(location: Path | str) -> Files:
    text = str(location)
    if isinstance(location, str) and text.partition(":")[0] in OBJECT_SCHEMES and is_uri(text):
        from cloud_backend.spark.storage.objects import object_files

        return object_files(text)
    if isinstance(location, str) and is_uri(text):
        from cloud_backend.spark.storage.hadoop import hadoop_files

        return hadoop_files(text)
    return PosixFiles(Path(location))


def is_uri(location: str) -> bool:
    return _SCHEME.match(location) is not None


class PosixFiles:
    """Files under a directory. Put-if-absent is `os.link`, which refuses an existing name; a rename would let two
    drivers overwrite each other."""

    bundles = False

    def __init__(self, root: Path) -> None:
        self.root = root

    def create(self, directories: tuple[str, ...]) -> None:
        for name in directories:
            (self.root / name).mkdir(parents=True, exist_ok=True)
        self.sync(".")  # an entry is no safer than the directory it is in

    def write(self, path: str, data: bytes, *, durable: bool) -> None:
        handle = os.open(self.root / path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(handle, view) :]
            if durable:
                os.fdatasync(handle)
        except BaseException:
            os.close(handle)
            (self.root / path).unlink(missing_ok=True)
            raise
        os.close(handle)

    def put(self, path: str, data: bytes) -> bool:
        temporary = temporary_name(path)
        self.write(temporary, data, durable=True)
        try:
            os.link(self.root / temporary, self.root / path)
        except FileExistsError:
            return False
        finally:
            self.remove(temporary)
        self.sync(str(Path(path).parent))
        return True

    def replace(self, path: str, data: bytes, *, durable: bool = False) -> None:
        temporary = temporary_name(path)
        self.write(temporary, data, durable=durable)
        (self.root / temporary).replace(self.root / path)
        if durable:
            self.sync(str(Path(path).parent))

    def read(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    @contextmanager
    def opened(self, path: str) -> Iterator[tuple[ReadAt, int]]:
        handle = os.open(self.root / path, os.O_RDONLY)
        try:
            yield (lambda length, offset: os.pread(handle, length, offset)), os.fstat(handle).st_size
        finally:
            os.close(handle)

    def exists(self, path: str) -> bool:
        return (self.root / path).exists()

    def names(self, directory: str) -> list[str]:
        try:
            with os.scandir(self.root / directory) as found:
                return sorted(entry.name for entry in found if entry.name[0] != ".")
        except (FileNotFoundError, NotADirectoryError):
            return []

    def remove(self, path: str) -> None:
        (self.root / path).unlink(missing_ok=True)

    def remove_all(self, paths: list[str]) -> None:
        for path in paths:
            self.remove(path)

    def set_aside(self, path: str, to: str, unwanted: Callable[[bytes], bool]) -> bool:
        directory = str(Path(path).parent)
        lock = os.open(self.root / directory, os.O_RDONLY)
        try:
            # Put-if-absent needs no lock: what is unwanted goes away under this one only, so nothing takes its place
            # between looking and moving.
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                content = self.read(path)
            except OSError:  # it is gone, or a network disk locks no directories
                return False
            if not unwanted(content):
                return False
            (self.root / path).replace(self.root / to)
            os.fsync(lock)
            return True
        finally:
            os.close(lock)

    def sync(self, directory: str) -> None:
        handle = os.open(self.root / directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
