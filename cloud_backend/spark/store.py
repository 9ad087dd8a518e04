"""The store: attempt-unique files that only a manifest entry makes real, and entries that are put once.

Files under `files/` are written whole under a name no other attempt can have, and synced before the task returns.
Nobody looks for files: the manifest names them. So a zombie, a speculative copy or a half-written attempt is garbage,
never a wrong answer. Manifest entries are numbered and put if absent (`os.link` refuses an existing name; a
rename would let two drivers overwrite each other), so of two drivers exactly one commits.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from pathlib import Path

from shared.errors import DamagedData


class Store:
    """A directory that driver and executors share."""

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)
        self.files = self.root / "files"
        self.manifest = self.root / "manifest"

    def create(self) -> None:
        for directory in (self.root, self.files, self.manifest):
            directory.mkdir(parents=True, exist_ok=True)

    def write_file(self, prefix: str, suffix: str, data: bytes, *, durable: bool = True) -> str:
        """Write a new file and return its name, which carries the digest of its content. After a crash the file is
        whole or nobody knows its name."""
        name = f"{prefix}.{uuid.uuid4().hex[:12]}.{_digest(data)}.{suffix}"
        handle = os.open(self.files / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(handle, view) :]
            if durable:
                os.fdatasync(handle)
        except BaseException:
            os.close(handle)
            (self.files / name).unlink(missing_ok=True)
            raise
        os.close(handle)
        return name

    def sync_files(self) -> None:
        """Make the names of written files durable; the driver calls it once before it commits."""
        _sync_directory(self.files)

    def read_file(self, name: str) -> bytes:
        """The whole file, checked against the digest in its name."""
        try:
            data = (self.files / name).read_bytes()
        except FileNotFoundError:
            raise DamagedData(f"file {name} is gone from the store", code="store-missing") from None
        if name.split(".")[-2] != _digest(data):
            raise DamagedData(f"file {name} does not hold what was written", code="store-damaged")
        return data

    def file_names(self) -> list[str]:
        return sorted(entry.name for entry in self.files.iterdir())

    def remove_file(self, name: str) -> None:
        (self.files / name).unlink(missing_ok=True)

    # -- the manifest ---------------------------------------------------------------------------------------------

    def put_entry(self, number: int, data: bytes) -> bool:
        """Put manifest entry `number` durably unless it exists; False when somebody else was first."""
        temporary = self.manifest / f".{number:012d}.{uuid.uuid4().hex[:12]}"
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(handle, view) :]
            os.fdatasync(handle)
        except BaseException:
            os.close(handle)
            temporary.unlink(missing_ok=True)
            raise
        os.close(handle)
        try:
            os.link(temporary, self.manifest / f"{number:012d}.json")
        except FileExistsError:
            return False
        finally:
            temporary.unlink(missing_ok=True)
        _sync_directory(self.manifest)
        return True

    def entry(self, number: int) -> bytes | None:
        try:
            return (self.manifest / f"{number:012d}.json").read_bytes()
        except FileNotFoundError:
            return None

    def entry_numbers(self) -> list[int]:
        if not self.manifest.exists():
            return []
        return sorted(int(entry.stem) for entry in self.manifest.glob("????????????.json"))

    def put_summary(self, number: int, data: bytes) -> None:
        """Keep the folded state after entry `number`, so that opening does not read all of history."""
        temporary = self.manifest / f".summary.{uuid.uuid4().hex[:12]}"
        temporary.write_bytes(data)
        handle = os.open(temporary, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        temporary.replace(self.manifest / f"{number:012d}.summary")
        _sync_directory(self.manifest)

    def summaries(self) -> list[int]:
        if not self.manifest.exists():
            return []
        return sorted(int(entry.stem) for entry in self.manifest.glob("????????????.summary"))

    def summary(self, number: int) -> bytes:
        return (self.manifest / f"{number:012d}.summary").read_bytes()

    def remove_history(self, before: int) -> None:
        """Forget entries and summaries that a newer summary covers."""
        for entry in [*self.manifest.glob("????????????.json"), *self.manifest.glob("????????????.summary")]:
            if int(entry.stem) < before:
                entry.unlink(missing_ok=True)


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
