"""A job over three devices of which one is deleted, and the search for what it said through every file."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from cloud_backend.log.erasure import ErasureCounts, erase, prepare
from cloud_backend.log.reader import Reader
from cloud_backend.spark.control.driver import JobManager
from shared.engine.snapshots import decode_state
from shared.language.schema import Schema
from shared.wire import columns, frame
from shared.wire.messages import Data
from tests.spark.worlds import World

LATITUDE = 48.137_432_117
ASKED_US = 7
COLUMNS = {"x": "float64", "cell": "int64"}
SCHEMA = Schema.of(COLUMNS)


class Walks(World):
    """Three devices; the first is always at one latitude, which nobody else is."""

    def walk(self, seconds: int = 12) -> None:
        records = []
        for number in range(len(self.ids)):
            if number == 0 and self.deleted:
                continue
            x = np.full(seconds, LATITUDE) if number == 0 else self.random.normal(size=seconds)
            records.append(self.record(number, x, cells=3))
        self.log.append(records)
        self.log.sync()

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        super().__post_init__()
        self.deleted: dict[str, int] = {}

    def watched(self) -> JobManager:
        return self.driver(deleted=lambda: self.deleted, gone=lambda: dict.fromkeys(self.deleted, 0))

    def erase(self) -> None:
        for base in prepare(self.log):
            erase(self.log, base, self.ids[0], through_incarnation=1, done=ErasureCounts())

    def delete(self) -> None:
        """As gateway and dashboard do: the log, then the results; Spark finds it in the roster."""
        self.erase()
        self.deleted[self.ids[0].hex()] = ASKED_US
        self.results.forget_device(self.ids[0].hex())


def files_with(root: Path, value: float) -> list[str]:
    """Every file that holds this number, as bytes, as text, inside a state or inside a batch of a log."""
    marks = (struct.pack("<d", value), value.hex().encode(), repr(value).encode())
    found = []
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        data = path.read_bytes()
        inside = path.suffix in (".base", ".delta") and _holds(decode_state(data), value)
        if inside or any(mark in data for mark in marks):
            found.append(path.relative_to(root).as_posix())
    for log in {path.parent for path in root.rglob("*.segment")}:
        reader = Reader(log)
        for _, record in reader.read(reader.start, reader.valid_end()):
            if frame.stored_header(record.frame).kind == frame.FrameType.DATA:
                data = Data.of(frame.decode_one(record.frame)[0])
                batch = columns.decode(data.codec, bytes(data.columns), SCHEMA, lo=data.lo, hi=data.hi)
                if value in batch.columns["x"]:
                    found.append(f"{log.name}: batch {data.lo}")
    return found


def _holds(value: object, wanted: float) -> bool:
    return any(wanted in part if isinstance(part, np.ndarray) else part == wanted for part in _parts(value))


def _parts(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        for each in value.values():
            yield from _parts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _parts(each)
    elif isinstance(value, bytes):
        yield struct.pack("<d", LATITUDE) in value and LATITUDE
    elif not isinstance(value, np.ndarray) or value.dtype.kind == "f":
        yield value


def started(world: Walks) -> JobManager:
    driver = world.watched()
    for _ in range(3):
        world.walk()
        driver.drain()
    return driver
