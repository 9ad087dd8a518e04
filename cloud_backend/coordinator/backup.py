"""A backup that may be taken while everything runs, and what makes it whole.

The parts refer to each other: a job's manifest to offsets of the log and to files of its store, results to nothing.
Everything is only ever added or replaced whole, so a backup is whole when each part is taken before what it refers to
can be newer, and nothing it refers to can vanish in between:

1. Hard links to all segments and store files there are: what is trimmed or collected from here on stays reachable.
2. The jobs' manifests. 3. Links again: what came meanwhile. 4. The results, which may be newer than the manifests:
   publishing an epoch again changes nothing. 5. The log, up to a sound record: it may be newer than all of it, and the
   jobs simply read on. 6. Roster, people, audit, queries and alerts, each by SQLite's own online backup.

Sessions and one-time links are left out: a copy of the file must not sign anybody in. The gateway's key is in it, since
devices know it: keep a backup as you keep the gateway's home.
"""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import os
import shutil
import sqlite3
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from cloud_backend import process_log
from cloud_backend.database import URL_FILE
from cloud_backend.log.format import segment_base
from cloud_backend.log.kafka.copy import location_of_copy
from cloud_backend.log.segments import sound_prefix
from cloud_backend.log.trimmed_index import trimmed_index_end
from cloud_backend.log.verify import Verification, verify
from shared.errors import DamagedData, UsageError
from shared.spool.disk import PosixDisk

FORMAT = 1
CONTENTS = "backup.json"
PLAIN = ("gateway.key", "gateway.pem", "operator.token", URL_FILE)
DATABASES = (
    "roster.sqlite", "accounts.sqlite", "audit.sqlite", "queries.sqlite", "alerts.sqlite", "contracts.sqlite",
    "fleet.sqlite", "followers.sqlite",
)  # fmt: skip
# Of a store: who drives it now, what it asks for now, what it said.
SKIPPED = frozenset({"lease.json", "hints.json", process_log.FILE, process_log.BEFORE})


@dataclass(frozen=True, slots=True)
class Places:
    """Where the parts of an installation are; those that are not there are not in its backup."""

    gateway: Path
    results: Path
    plan: Path
    store: Path
    jobs: Path

    @staticmethod
    def of_home(gateway: Path) -> Places:
        """As `resurge up` and docs/operations.md lay them out: all under one directory."""
        root = gateway.parent
        return Places(gateway, root / "results.sqlite", root / "plan.bin", root / "spark", root / "jobs")


def create(places: Places, output: Path, *, now_us: int) -> dict[str, object]:
    """Write a backup to a file, which appears only when it is whole; returns what it holds."""
    if (kafka := location_of_copy(places.gateway)) is not None:
        raise UsageError(
            f"the log of {str(places.gateway)!r} is {kafka}: a backup of that is up to the brokers. Take one of them, "
            "one of the databases with pg_dump after it, and a copy of gateway.key; a new home needs nothing else",
            code="backup-kafka",
        )
    if not (places.gateway / "log").is_dir():
        raise UsageError(f"no gateway has run in {str(places.gateway)!r}; give its --home", code="gateway-home")
    with tempfile.TemporaryDirectory(prefix=".backup-", dir=places.gateway.parent) as directory:
        staging = Path(directory)
        _stage(places, staging)
        made = _pack(staging, output, now_us)
    # What is on a server is backed up there, after this: results may be newer than the jobs' manifests, never older.
    return made | ({"elsewhere": "PostgreSQL"} if (places.gateway / URL_FILE).exists() else {})


def restore(backup: Path, target: Path) -> dict[str, object]:
    """Put a backup into an empty directory and check all of it; returns its account."""
    if target.exists() and any(target.iterdir()):
        raise UsageError(f"{str(target)!r} is not empty; restore into a new directory", code="backup-target")
    target.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        with tarfile.open(backup, "r:*") as archive:
            first = archive.next()
            contents = _contents(archive, first)
            expected = dict(contents["files"])
            for member in archive:
                _unpack(archive, member, target, expected)
    except (tarfile.TarError, zlib.error, lzma.LZMAError, EOFError) as error:
        raise _damaged(f"it cannot be unpacked ({type(error).__name__})") from None
    except OSError as error:
        if error.errno is not None:  # the disk's; what gzip and bzip2 find wrong has none
            raise
        raise _damaged(f"it cannot be unpacked ({type(error).__name__})") from None
    if expected:
        raise _damaged(f"{len(expected)} files of it are missing")
    found: Verification = verify(PosixDisk(target / "gateway" / "log"))
    if found.duplicates or found.gaps:
        raise _damaged("the account of its log does not add up")
    return {
        "taken_us": contents["taken_us"], "files": len(contents["files"]), "segments": found.segments,
        "delivered": found.delivered, "ledgered": found.ledgered,
    }  # fmt: skip


def _stage(places: Places, staging: Path) -> None:
    log = staging / "gateway" / "log"
    stores = {staging / "spark": places.store, staging / "jobs": places.jobs}
    _link_segments(places.gateway / "log", log)
    for copy, original in stores.items():
        _link_tree(original, copy, manifests=False)
    for copy, original in stores.items():
        _link_tree(original, copy, manifests=True)
    for copy, original in stores.items():
        _link_tree(original, copy, manifests=False)
    for original, copy in ((places.results, staging / "results.sqlite"), (places.plan, staging / "plan.bin")):
        if original.suffix == ".sqlite":
            _copy_database(original, copy)
        elif original.exists():
            shutil.copyfile(original, copy)
    _link_segments(places.gateway / "log", log)
    _cut_last(log)
    for name in DATABASES:
        _copy_database(places.gateway / name, staging / "gateway" / name)
    _sign_out(staging / "gateway" / "accounts.sqlite")
    for name in PLAIN:
        if (places.gateway / name).exists():
            shutil.copyfile(places.gateway / name, staging / "gateway" / name)


def _link_segments(original: Path, copy: Path) -> None:
    copy.mkdir(parents=True, exist_ok=True)
    for path in sorted(original.iterdir()):
        if segment_base(path.name) is not None or trimmed_index_end(path.name) is not None:
            _link(path, copy / path.name)


def _link_tree(original: Path, copy: Path, *, manifests: bool) -> None:
    """Files of a store, its manifest's entries or all the others. Each was put in place whole, and stays as it is."""
    for path in sorted(original.rglob("*")) if original.is_dir() else []:
        relative = path.relative_to(original)
        is_entry = "manifest" in relative.parts
        if path.is_file() and is_entry == manifests and path.name not in SKIPPED and not path.name.startswith("."):
            (copy / relative).parent.mkdir(parents=True, exist_ok=True)
            _link(path, copy / relative)


def _link(path: Path, copy: Path) -> None:
    """One that was replaced since the last time is taken anew; one that has just vanished was taken before."""
    temporary = copy.with_name(f".{copy.name}")
    try:
        if copy.exists() and copy.samefile(path):
            return  # renaming one link over another of the same file would leave both
        try:
            os.link(path, temporary)
        except OSError as error:
            if isinstance(error, FileNotFoundError):
                raise
            shutil.copyfile(path, temporary)  # another file system
    except FileNotFoundError:
        return
    temporary.replace(copy)


def _cut_last(log: Path) -> None:
    """The last segment is being appended to: keep its sound start, as a file of its own."""
    segments = sorted(log.glob("*.segment"))
    for path in segments[-1:]:
        base = segment_base(path.name)
        data = path.read_bytes()
        try:
            length = sound_prefix(data, base or 0).length
        except DamagedData as error:
            if error.code != "log-segment-header" or len(segments) == 1:
                raise
            path.unlink()  # just being created: the log ends where the one before it ends
            continue
        path.unlink()  # it is a link: the gateway's own file must not be cut
        path.write_bytes(data[:length])


def _copy_database(original: Path, copy: Path) -> None:
    if not original.exists():
        return
    copy.parent.mkdir(parents=True, exist_ok=True)
    source, target = sqlite3.connect(original, timeout=30), sqlite3.connect(copy)
    try:
        source.backup(target)
    finally:
        source.close()
        target.close()


def _sign_out(people: Path) -> None:
    if people.exists():
        database = sqlite3.connect(people, isolation_level=None)
        database.execute("DELETE FROM sessions")
        database.execute("DELETE FROM links")
        database.execute("VACUUM")
        database.close()


def _files(staging: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(staging.rglob("*")):
        if path.is_file() and not path.name.endswith(("-wal", "-shm")):
            yield path.relative_to(staging).as_posix(), path


def _pack(staging: Path, output: Path, now_us: int) -> dict[str, object]:
    digests = {name: _digest(path) for name, path in _files(staging)}
    contents: dict[str, object] = {"format": FORMAT, "taken_us": now_us, "files": digests}
    data = json.dumps(contents).encode()
    temporary = output.with_name(f".{output.name}.new")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)  # the gateway's key is in it
    try:
        with os.fdopen(handle, "wb") as file:
            with tarfile.open(fileobj=file, mode="w|gz" if output.suffix == ".gz" else "w|") as archive:
                about = tarfile.TarInfo(CONTENTS)
                about.size = len(data)
                archive.addfile(about, io.BytesIO(data))
                for name, path in _files(staging):
                    archive.add(path, name, recursive=False)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(output)
    finally:
        temporary.unlink(missing_ok=True)
    return {"file": str(output), "bytes": output.stat().st_size, "files": len(digests), "taken_us": now_us}


def _contents(archive: tarfile.TarFile, first: tarfile.TarInfo | None) -> dict[str, Any]:
    opened = archive.extractfile(first) if first is not None and first.name == CONTENTS else None
    try:
        value = json.loads(opened.read()) if opened is not None else None
    except (ValueError, RecursionError):
        value = None
    if (
        not isinstance(value, dict)
        or value.get("format") != FORMAT
        or not isinstance(value.get("files"), dict)
        or not isinstance(value.get("taken_us"), int)
    ):
        raise UsageError("this is no backup that this version reads", code="backup-format")
    return value


def _unpack(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path, expected: dict[str, str]) -> None:
    """Only plain files that the contents name, under names that stay inside the target, with the bytes they had."""
    if member.name == CONTENTS:
        return
    parts = PurePosixPath(member.name).parts
    digest = expected.pop(member.name, None)
    opened = archive.extractfile(member) if member.isreg() else None
    if digest is None or opened is None or ".." in parts or member.name.startswith("/"):
        raise _damaged("it holds something its contents do not name")
    path = target.joinpath(*parts)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with path.open("xb") as file:
        shutil.copyfileobj(opened, file, 1024 * 1024)
    path.chmod(0o600)
    if _digest(path) != digest:
        raise _damaged(f"{member.name} is not as it was written")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _damaged(what: str) -> DamagedData:
    return DamagedData(f"the backup is damaged: {what}; use another one", code="backup-damaged")
