"""The store: attempt-unique files that only a manifest entry makes real, and entries that are put once.

Files under `files/` are written whole under a name no other attempt can have, and synced before the task returns.
Nobody looks for files: the manifest names them. So a zombie, a speculative copy or a half-written attempt is garbage,
never a wrong answer. Manifest entries are numbered and put if absent, so of two drivers exactly one commits. Notes are
small JSON files beside them that one writer replaces: they may be lost, and then something is done twice.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cloud_backend.spark.storage.file_names import (
    bundle_name,
    digest_in,
    file_name,
    in_bundle,
    object_name,
    place_in_bundle,
)
from cloud_backend.spark.storage.files import ReadAt, Unreadable, files_at, is_uri
from shared.errors import DamagedData, UsageError

GONE = "gone"  # the kind of a manifest entry that was emptied
ENTRIES_KEPT = 64
GIVEN_BYTES_MAX = 16 * 1024 * 1024
TORN = ".torn"  # half a manifest entry, set aside under this name


class Store:
    """A place that driver and executors share, and that survives both."""

    def __init__(self, location: Path | str) -> None:
        self.location = str(location)
        self._at = files_at(location)
        self._bundle: _Bundle | None = None
        self._put: OrderedDict[int, bytes] = OrderedDict()  # entries put here, which publishing reads soon after
        self._given: OrderedDict[str, bytes] = OrderedDict()  # files that tasks told the content of

    @property
    def counts_requests(self) -> bool:
        """Whether requests cost more than bytes: then notes are rarer, and epochs longer."""
        return self._at.bundles

    @property
    def root(self) -> Path:
        """The store's directory; only where it is one of this machine."""
        if is_uri(self.location):
            raise UsageError(f"store {self.location!r} is no directory of this machine", code="store-remote")
        return Path(self.location)

    @property
    def files(self) -> Path:
        return self.root / "files"

    @property
    def name(self) -> str:
        return self.location.rstrip("/").rpartition("/")[2]

    def create(self) -> None:
        self._at.create(("files", "manifest", "plans"))

    def exists(self) -> bool:
        """True when a job's manifest is here."""
        return bool(self._at.names("manifest"))

    def write_file(self, prefix: str, suffix: str, data: bytes, *, durable: bool = True) -> str:
        """Write a new file and return its name, which carries the digest of its content. After a crash the file is
        whole or nobody knows its name."""
        if self._bundle is not None:
            return self._bundle.add(prefix, suffix, data)
        name = file_name(prefix, uuid.uuid4().hex[:12], _digest(data), suffix)
        self._at.write(f"files/{name}", data, durable=durable)
        return name

    @contextmanager
    def bundled(self, prefix: str) -> Iterator[None]:
        """What is written inside becomes one object at its end, or nothing does; where requests cost more than bytes.
        Elsewhere each file is its own. Not for two threads at once."""
        if not self._at.bundles:
            yield
            return
        self._bundle = _Bundle(prefix)
        try:
            yield
            if self._bundle.parts:
                self._at.write(f"files/{self._bundle.name}", b"".join(self._bundle.parts), durable=True)
        finally:
            self._bundle = None

    def sync_files(self) -> None:
        """Make the names of written files durable; the driver calls it once before it commits."""
        self._at.sync("files")

    def give(self, files: Mapping[str, bytes]) -> None:
        """Know what is in files that others wrote, which are then not asked for. Forgotten when they are read: what
        publishes them reads them once."""
        self._given.update(files)
        size = sum(map(len, self._given.values()))
        while size > GIVEN_BYTES_MAX:
            size -= len(self._given.popitem(last=False)[1])

    def read_file(self, name: str) -> bytes:
        """The whole file, checked against the digest in its name."""
        try:
            with self.opened_file(name) as (read, size):
                data = read(size, 0)
        except FileNotFoundError:
            raise DamagedData(f"file {name} is gone from the store", code="store-missing") from None
        except Unreadable:
            raise DamagedData(f"file {name} cannot be read whole", code="store-damaged") from None
        if digest_in(name) != _digest(data):
            raise DamagedData(f"file {name} does not hold what was written", code="store-damaged")
        return data

    @contextmanager
    def opened_file(self, name: str) -> Iterator[tuple[ReadAt, int]]:
        """A way to read parts of a file, and its size; FileNotFoundError when it is gone."""
        if name in self._given:
            data = self._given.pop(name)
            yield (lambda count, offset: data[offset : offset + count]), len(data)
            return
        with self._at.opened(f"files/{object_name(name)}") as (read, size):
            place = place_in_bundle(name)
            if place is None:
                yield read, size
            else:
                start, length = place[0], max(min(place[1], size - place[0]), 0)
                yield (lambda count, offset: read(min(count, max(length - offset, 0)), start + offset)), length

    def object_names(self) -> list[str]:
        """The objects that hold the files: each one file, or a bundle of them."""
        return self._at.names("files")

    def remove_objects(self, names: list[str]) -> None:
        gone = set(names)
        for each in [each for each in self._given if object_name(each) in gone]:
            del self._given[each]
        self._at.remove_all([f"files/{name}" for name in names])

    # -- the manifest ---------------------------------------------------------------------------------------------

    def put_entry(self, number: int, data: bytes) -> bool:
        """Put manifest entry `number` durably unless it exists; False when somebody else was first."""
        if not self._at.put(f"manifest/{number:012d}.json", data):
            return False
        if self._at.bundles:
            self._put[number] = data
            while len(self._put) > ENTRIES_KEPT:
                self._put.popitem(last=False)
        return True

    def entry(self, number: int) -> bytes | None:
        if number in self._put:
            return self._put[number]
        try:
            return self._at.read(f"manifest/{number:012d}.json")
        except FileNotFoundError:
            return None

    def has_entry(self, number: int) -> bool:
        return self._at.exists(f"manifest/{number:012d}.json")

    def entry_numbers(self) -> list[int]:
        return self._numbers("manifest", ".json")

    def set_aside_torn(self, number: int) -> bool:
        """Give half an entry another name, so that its number is free; False when it is not there, is whole, or the
        file system cannot do it safely."""
        name = f"manifest/{number:012d}"
        return self._at.set_aside(f"{name}.json", f"{name}{TORN}", lambda data: not is_whole(data))

    def set_aside(self) -> list[int]:
        """The numbers of entries of which half was found."""
        return self._numbers("manifest", TORN)

    def put_summary(self, number: int, data: bytes) -> None:
        """Keep the folded state after entry `number`, so that opening does not read all of history."""
        self._at.replace(f"manifest/{number:012d}.summary", data, durable=True)

    def summaries(self) -> list[int]:
        return self._numbers("manifest", ".summary")

    def summary(self, number: int) -> bytes:
        return self._at.read(f"manifest/{number:012d}.summary")

    def empty_history(self, number: int) -> None:
        """Take what entries up to this number say out of them, and remove the summaries before it."""
        self._put.clear()
        for each in self._numbers("manifest", ".json"):
            if each <= number:
                empty = json.dumps({"n": each, "term": 0, "kind": GONE}).encode()
                self._at.replace(f"manifest/{each:012d}.json", empty)
        for each in self._numbers("manifest", ".summary"):
            if each < number:
                self._at.remove(f"manifest/{each:012d}.summary")
        for each in self.set_aside():
            self._at.remove(f"manifest/{each:012d}{TORN}")
        self._at.sync("manifest")

    def remove_history(self, before: int, summaries_before: int | None = None) -> None:
        """Forget entries before a number that a newer summary covers, in their order, and summaries."""
        stays = {".json": before, TORN: before, ".summary": before if summaries_before is None else summaries_before}
        for name in self._at.names("manifest"):  # sorted, and so ascending
            stem, dot, suffix = name.partition(".")
            if stem.isdigit() and int(stem) < stays.get(dot + suffix, 0):
                self._at.remove(f"manifest/{name}")

    # -- plans and notes ------------------------------------------------------------------------------------------

    def put_plan(self, data: bytes) -> int:
        """Keep an encoded plan under the next free number, which it returns."""
        number = max(self._numbers("plans", ".plan"), default=0) + 1
        while not self._at.put(f"plans/{number}.plan", data):
            number += 1
        return number

    def plan(self, number: int) -> bytes | None:
        try:
            return self._at.read(f"plans/{number}.plan")
        except FileNotFoundError:
            return None

    def note(self, name: str) -> dict[str, Any]:
        """What a note says; nothing when it is not there or not whole."""
        try:
            value: dict[str, Any] = json.loads(self._at.read(f"{name}.json"))
        except (FileNotFoundError, ValueError):
            return {}
        return value if isinstance(value, dict) else {}

    def put_note(self, name: str, value: Mapping[str, Any], *, durable: bool = False) -> None:
        self._at.replace(f"{name}.json", json.dumps(value).encode(), durable=durable)

    def remove_note(self, name: str) -> None:
        self._at.remove(f"{name}.json")

    def _numbers(self, directory: str, suffix: str) -> list[int]:
        stems = [name.removesuffix(suffix) for name in self._at.names(directory) if name.endswith(suffix)]
        return sorted(int(stem) for stem in stems if stem.isdigit())


class _Bundle:
    """The files of one task's attempt, one after the other."""

    def __init__(self, prefix: str) -> None:
        self._attempt = uuid.uuid4().hex[:12]
        self.name = bundle_name(prefix, self._attempt)
        self.parts: list[bytes] = []
        self._end = 0

    def add(self, prefix: str, suffix: str, data: bytes) -> str:
        name = file_name(in_bundle(prefix, self._end, len(data)), self._attempt, _digest(data), suffix)
        self.parts.append(data)
        self._end += len(data)
        return name


def is_whole(entry: bytes) -> bool:
    """Whether all of an entry is there. It is one JSON object, so no beginning of it passes for one."""
    try:
        return isinstance(json.loads(entry), dict)
    except ValueError:
        return False


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()
