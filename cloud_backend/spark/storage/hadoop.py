"""A store on any file system that Hadoop knows, through Hadoop's own client in a JVM.

The jars are there wherever pyspark is, executors included. The driver's process has a JVM already; an executor's Python
worker, or a tool such as `resurge job`, starts a small one of its own on first use (2 s of CPU time, then it stays).

Put-if-absent is what a store stands or falls with, and file systems differ in how they give it:

* a store that can create conditionally at close (S3A of Hadoop 3.4.2 or newer says so as a path capability): the
  object appears whole at close, or not at all when one is there
* `hdfs`: the entry is written under a name of its own and renamed without overwriting, one atomic step of the name node
* `file`: the same with a hard link; renaming overwrites silently there

A file system that gives none of these is refused when the store is opened: two drivers would overwrite each other.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cloud_backend.spark.storage.files import ReadAt, Unreadable, temporary_name
from shared.errors import UsageError

CONDITIONAL = "fs.option.create.conditional.overwrite"
JVM_MEGABYTES = 256

_lock = threading.RLock()
_started: dict[int, Any] = {}  # process id -> gateway: a forked worker must not share its parent's connection
_opened: dict[tuple[int, str], HadoopFiles] = {}
_settings: dict[str, str] = {}


def configure(settings: Mapping[str, str]) -> None:
    """Hadoop settings for stores that this process opens from now on; the driver hands its own to the tasks."""
    _settings.update(settings)


def settings_of_session() -> dict[str, str]:
    """What the running Spark session was told about Hadoop (`spark.hadoop.*`), for its executors' workers."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None:
        return dict(_settings)
    prefix = "spark.hadoop."
    given = context.getConf().getAll()
    return _settings | {key.removeprefix(prefix): value for key, value in given if key.startswith(prefix)}


def hadoop_files(location: str) -> HadoopFiles:
    with _lock:
        key = (os.getpid(), location)
        if key not in _opened:
            _opened[key] = HadoopFiles(location, _gateway())
        return _opened[key]


def _gateway() -> Any:
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:
        return SparkContext._active_spark_context._gateway
    if os.getpid() not in _started:
        _started[os.getpid()] = _start()
    return _started[os.getpid()]


def _start() -> Any:
    """A JVM with the Hadoop client on its class path; it ends with this process."""
    import pyspark
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    jars = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent) / "jars"
    found = next(iter(sorted(jars.glob("py4j-*.jar"))), None)
    if found is None:
        raise UsageError(f"no Hadoop client: {str(jars)!r} holds no py4j jar; set SPARK_HOME", code="store-hadoop")
    places = [str(jars / "*"), *filter(None, [os.environ.get("HADOOP_CONF_DIR")])]
    home = os.environ.get("JAVA_HOME")
    port, token = launch_gateway(
        jarpath=str(found), classpath=os.pathsep.join(places), die_on_exit=True, enable_auth=True,
        javaopts=[f"-Xmx{JVM_MEGABYTES}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"],
        java_path=str(Path(home) / "bin" / "java") if home else "java",
    )  # fmt: skip
    return JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True))


def way_to_put(location: str, scheme: str, conditional: bool) -> str:
    """How this file system puts a file only if it is absent: by condition, rename or link."""
    if conditional:
        return "condition"
    if scheme not in ("hdfs", "file"):
        raise UsageError(
            f"{location!r}: file system {scheme!r} cannot put a file only if it is absent, so two drivers would "
            "overwrite each other; use hdfs, s3a (Hadoop 3.4.2 or newer), or a path all machines share",
            code="store-put-if-absent",
        )
    return "rename" if scheme == "hdfs" else "link"


class HadoopFiles:
    """Files under a location that has a scheme. Safe to use from several threads."""

    bundles = False

    def __init__(self, location: str, gateway: Any) -> None:
        self._gateway = gateway
        self._jvm = gateway.jvm
        configuration = self._jvm.org.apache.hadoop.conf.Configuration()
        for key, value in settings_of_session().items():
            configuration.set(key, value)
        self._root = self._jvm.org.apache.hadoop.fs.Path(location)
        with _refusals_of(location):
            self._system = self._root.getFileSystem(configuration)
            self._context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._root.toUri(), configuration)
            self._system.mkdirs(self._root)
        scheme = str(self._system.resolvePath(self._root).toUri().getScheme())
        self._way = way_to_put(location, scheme, bool(self._system.hasPathCapability(self._root, CONDITIONAL)))

    def create(self, directories: tuple[str, ...]) -> None:
        for name in directories:
            self._system.mkdirs(self._path(name))

    def write(self, path: str, data: bytes, *, durable: bool) -> None:
        self._fill(self._system.create(self._path(path), False), data, durable=durable)

    def put(self, path: str, data: bytes) -> bool:
        if self._way == "condition":
            return self._put_conditionally(path, data)
        temporary = temporary_name(path)
        self.write(temporary, data, durable=True)
        try:
            with _java_errors_as_python():
                if self._way == "link":
                    self._jvm.java.nio.file.Files.createLink(self._local(path), self._local(temporary))
                else:
                    self._rename(temporary, path, overwrite=False)
        except FileExistsError:
            return False
        finally:
            self.remove(temporary)
        return True

    def _put_conditionally(self, path: str, data: bytes) -> bool:
        builder = self._system.createFile(self._path(path)).overwrite(True)
        try:
            with _java_errors_as_python():
                self._fill(builder.must(CONDITIONAL, True).build(), data, durable=False)
        except FileExistsError:
            return False
        return True

    def replace(self, path: str, data: bytes, *, durable: bool = False) -> None:
        if self._way == "condition":  # an object store: what is written appears whole at close
            self._fill(self._system.create(self._path(path), True), data, durable=False)
            return
        temporary = temporary_name(path)
        self.write(temporary, data, durable=durable)
        if self._way == "link":
            options = self._gateway.new_array(self._jvm.java.nio.file.CopyOption, 1)
            options[0] = self._jvm.java.nio.file.StandardCopyOption.ATOMIC_MOVE
            self._jvm.java.nio.file.Files.move(self._local(temporary), self._local(path), options)
        else:
            self._rename(temporary, path, overwrite=True)

    def read(self, path: str) -> bytes:
        with self.opened(path) as (read, size):
            return read(size, 0)

    @contextmanager
    def opened(self, path: str) -> Iterator[tuple[ReadAt, int]]:
        with _java_errors_as_python():
            size = int(self._system.getFileStatus(self._path(path)).getLen())
            stream = self._system.open(self._path(path))

        def read(length: int, offset: int) -> bytes:
            if offset >= size:
                return b""
            with _java_errors_as_python():
                stream.seek(offset)
                return bytes(stream.readNBytes(length))

        try:
            yield read, size
        finally:
            stream.close()

    def exists(self, path: str) -> bool:
        return bool(self._system.exists(self._path(path)))

    def names(self, directory: str) -> list[str]:
        try:
            with _java_errors_as_python():
                found = self._system.listStatus(self._path(directory))
        except FileNotFoundError:
            return []
        names = [str(each.getPath().getName()) for each in found]
        return sorted(name for name in names if name[0] != ".")

    def remove(self, path: str) -> None:
        self._system.delete(self._path(path), False)

    def remove_all(self, paths: list[str]) -> None:
        for path in paths:
            self.remove(path)

    def set_aside(self, path: str, to: str, unwanted: Callable[[bytes], bool]) -> bool:  # noqa: ARG002
        """Never: there is no lock to do it under, and these systems show no half of a file that was put."""
        return False

    def sync(self, directory: str) -> None:
        """Nothing to do: these systems make a name durable with its file."""

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, path)

    def _local(self, path: str) -> Any:
        """The path on this machine, behind any mount table."""
        resolved = self._system.resolvePath(self._root).toUri().getPath()
        return self._jvm.java.nio.file.Paths.get(f"{resolved}/{path}", self._gateway.new_array(self._jvm.String, 0))

    def _rename(self, path: str, to: str, *, overwrite: bool) -> None:
        kind = self._jvm.org.apache.hadoop.fs.Options.Rename
        options = self._gateway.new_array(kind, 1)
        options[0] = kind.OVERWRITE if overwrite else kind.NONE
        self._context.rename(self._path(path), self._path(to), options)

    @staticmethod
    def _fill(stream: Any, data: bytes, *, durable: bool) -> None:
        """Write and close. A stream that broke is not closed: closing would publish half an object."""
        stream.write(bytearray(data))
        if durable:
            stream.hsync()
        stream.close()


_ABSENT = ("FileNotFoundException", "NoSuchFileException")
_PRESENT = ("FileAlreadyExistsException", "RemoteFileChangedException")
_DAMAGED = ("ChecksumException", "BlockMissingException", "EOFException")


@contextmanager
def _refusals_of(location: str) -> Iterator[None]:
    """One line of why a file system cannot be used, for whoever named this location."""
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        text = " ".join(str(error.java_exception.getMessage()).split())
        kind = error.java_exception.getClass().getSimpleName()
        raise UsageError(f"store {location!r} cannot be used: {kind}: {text[:200]}", code="store-unreachable") from None


@contextmanager
def _java_errors_as_python() -> Iterator[None]:
    """Java's exceptions for a file that is there, is not, or is damaged, as Python's."""
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        name = str(error.java_exception.getClass().getSimpleName())
        if name in _ABSENT:
            raise FileNotFoundError(str(error.java_exception.getMessage())) from error
        if name in _PRESENT:
            raise FileExistsError(str(error.java_exception.getMessage())) from error
        if name in _DAMAGED:
            raise Unreadable(str(error.java_exception.getMessage())) from error
        raise
