"""A store in an object store: `s3://BUCKET/PATH`, `gs://…`, `az://CONTAINER/PATH`, by the client `obstore`.

No JVM is needed for it. Credentials, region and endpoint come from the environment of each process (`AWS_…`,
`GOOGLE_…`, `AZURE_…`): the driver's, and that of the executors' workers.

An object appears whole or not at all, and put-if-absent is a condition of the request, decided by the server. What
costs here is the request, not the byte. So whatever is up to 8 MB is read whole with one request; a file that was
written once never changes, so a worker that has read or written it does not ask again (`kept`); and a task writes all
its files as one object (`Store.bundled`).
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from cloud_backend.spark.storage.files import ReadAt, Unreadable
from shared.errors import UsageError

if TYPE_CHECKING:
    pass

WHOLE_BYTES_MAX = 8 * 1024 * 1024
KEPT_BYTES_MAX = 64 * 1024 * 1024
RETRY_S = 30

_lock = threading.Lock()
_opened: dict[tuple[int, str], ObjectFiles] = {}  # by process: a client does not survive a fork


def object_files(location: str) -> ObjectFiles:
    with _lock:
        key = (os.getpid(), location)
        if key not in _opened:
            _opened[key] = ObjectFiles(location)
        return _opened[key]


class Kept:
    """Objects that never change, the newest of them, by location and path."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._bytes = 0

    def get(self, key: tuple[str, str]) -> bytes | None:
        with self._lock:
            return self._found.get(key)

    def add(self, key: tuple[str, str], data: bytes) -> None:
        if len(data) > WHOLE_BYTES_MAX:
            return
        with self._lock:
            self._bytes += len(data) - len(self._found.pop(key, b""))
            self._found[key] = data
            while self._bytes > KEPT_BYTES_MAX:
                self._bytes -= len(self._found.popitem(last=False)[1])

    def forget(self, key: tuple[str, str]) -> None:
        with self._lock:
            self._bytes -= len(self._found.pop(key, b""))

    def clear(self) -> None:
        """Forget everything, as a fresh worker has it."""
        with self._lock:
            self._found.clear()
            self._bytes = 0


kept = Kept()


class ObjectFiles:
    """Objects under a location. Safe to use from several threads."""

    bundles = True

    def __init__(self, location: str) -> None:
        try:
            import obstore
            from obstore.store import from_url
        except ImportError:
            raise UsageError(
                f"store {location!r} needs a client for object stores: pip install 'resurge[objects]'",
                code="store-extra",
            ) from None
        self._location = location
        self._client: Any = obstore
        options: Any = {"connect_timeout": timedelta(seconds=5), "timeout": timedelta(seconds=RETRY_S)}
        # Given options are all that counts, so what the environment says of this one is repeated.
        options["allow_http"] = any(os.environ.get(f"{each}_ALLOW_HTTP") == "true" for each in ("AWS", "AZURE"))
        try:
            self._store: Any = from_url(
                location, client_options=options,
                retry_config={"max_retries": 5, "retry_timeout": timedelta(seconds=RETRY_S)},
            )  # fmt: skip
        except Exception as error:
            raise self._refused(error) from None

    def create(self, directories: tuple[str, ...]) -> None:
        """Directories are nothing here. That the place is there and may be used is found out now and not by a task."""
        for name in directories[:1]:
            try:
                self._client.list_with_delimiter(self._store, f"{name}/")
            except Exception as error:
                raise self._refused(error) from None

    def _refused(self, error: Exception) -> UsageError:
        """One line of what an answer of the server means for whoever named this location."""
        kind, text = type(error).__name__, " ".join(str(error).split())
        if kind in ("UnauthenticatedError", "PermissionDeniedError") or "redential" in text:
            return UsageError(
                f"store {self._location!r}: no credentials that it accepts; set them in the environment of driver and "
                "executors (AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_KEY, …)",
                code="store-credentials",
            )
        if isinstance(error, FileNotFoundError) or "NoSuchBucket" in text:
            return UsageError(f"store {self._location!r}: there is no such bucket or container", code="store-bucket")
        return UsageError(f"store {self._location!r} cannot be reached: {text[:200]}", code="store-unreachable")

    def write(self, path: str, data: bytes, *, durable: bool) -> None:  # noqa: ARG002 - what was put is durable
        self._client.put(self._store, path, data)
        kept.add((self._location, path), data)

    def put(self, path: str, data: bytes) -> bool:
        try:
            self._client.put(self._store, path, data, mode="create")
        except self._client.exceptions.AlreadyExistsError:
            # A request whose answer was lost is sent again, and then meets what it has put itself. Entries name who
            # wrote them, so the same bytes are the same writer's.
            return self.read(path) == data
        return True

    def replace(self, path: str, data: bytes, *, durable: bool = False) -> None:  # noqa: ARG002 - as in `write`
        self._client.put(self._store, path, data)

    def read(self, path: str) -> bytes:
        return bytes(self._client.get(self._store, path).bytes())

    @contextmanager
    def opened(self, path: str) -> Iterator[tuple[ReadAt, int]]:
        """Of a file that never changes."""
        key = (self._location, path)
        whole = kept.get(key)
        if whole is not None:
            yield _reading(whole), len(whole)
            return
        answer = self._client.get(self._store, path)
        size = int(answer.meta["size"])
        if size <= WHOLE_BYTES_MAX:
            whole = bytes(answer.bytes())
            if len(whole) != size:
                raise Unreadable(f"{path} came with {len(whole)} of {size} bytes")
            kept.add(key, whole)
            yield _reading(whole), size
            return
        del answer  # its body is not read
        yield lambda length, offset: self._part(path, offset, min(length, size - offset)), size

    def _part(self, path: str, offset: int, length: int) -> bytes:
        return bytes(self._client.get_range(self._store, path, start=offset, length=length)) if length > 0 else b""

    def exists(self, path: str) -> bool:
        try:
            self._client.head(self._store, path)
        except FileNotFoundError:
            return False
        return True

    def names(self, directory: str) -> list[str]:
        found = self._client.list_with_delimiter(self._store, f"{directory}/")["objects"]
        names = [str(each["path"]).rpartition("/")[2] for each in found]
        return sorted(name for name in names if name[0] != ".")

    def remove(self, path: str) -> None:
        self.remove_all([path])

    def remove_all(self, paths: list[str]) -> None:
        """Many with one request, where the server takes that."""
        for path in paths:
            kept.forget((self._location, path))
        if not paths:
            return
        try:
            self._client.delete(self._store, paths)
        except FileNotFoundError:  # Azure says so of one that is gone already, and may have left out the others
            for path in paths:
                with suppress(FileNotFoundError):
                    self._client.delete(self._store, path)

    def set_aside(self, path: str, to: str, unwanted: Callable[[bytes], bool]) -> bool:  # noqa: ARG002
        """Never: nobody ever sees half an object."""
        return False

    def sync(self, directory: str) -> None:
        """Nothing to do: what was put is durable, name and all."""


def _reading(data: bytes) -> ReadAt:
    return lambda length, offset: data[offset : offset + length]
