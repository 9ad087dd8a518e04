"""A copy on this machine of a log in Kafka, for what reads a log by one offset: pages, contracts' reports, deletion.

It is an ordinary log in a directory, written by whoever follows Kafka here and read like one that a gateway keeps on
its disk. Partitions are merged by the time of arrival. Nothing is acknowledged from it and nobody else relies on it:
where it is lost, is of another log, or was away for longer than Kafka keeps records, it is made again from what Kafka
has, behind the offsets that were given out before. How far it has come is in `place.json`, written after the records;
what a crash leaves between the two is recognised by its numbers.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cloud_backend.log.format import GENESIS, Record, encode_segment_header, segment_name
from cloud_backend.log.index import NUMBERED, EdgeState, Index, pack_key
from cloud_backend.log.kafka.location import Location, parse
from cloud_backend.log.kafka.reader import KafkaReader, read_index
from cloud_backend.log.log import SEGMENT_BYTES, Log
from cloud_backend.log.partitions import Place, partition_of, place_in
from cloud_backend.log.segments import bases
from cloud_backend.log.trimmed_index import TrimmedIndex, add_trimmed_index
from shared.errors import DamagedData
from shared.identity import DeviceId, EdgeKey
from shared.spool.disk import PosixDisk
from shared.wire.frame import FrameType, stored_header

DIRECTORY = "kafka-copy"  # in the gateway's home
PLACE = "place.json"
FORMAT = 1
SLICE_BYTES = 8 * 1024 * 1024
MARK_BYTES = SEGMENT_BYTES  # between two places that trimming may go to


class LogCopy:
    """`log` is the copy, the same object for good. Safe to share between threads."""

    def __init__(self, home: Path, location: str, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._reader = KafkaReader(parse(location))
        self._directory = home / DIRECTORY
        self._lock = threading.Lock()  # whoever writes the copy, or replaces a part of it
        self.as_of_us: int | None = None  # all that was committed before this time is here
        said = self._said()
        self._place = place_in(said.get("place", {})) if said.get("log") == _name(self._reader.location) else {}
        self._marks: list[tuple[int, dict[str, int]]] = [(at, place_in(where)) for at, where in said.get("marks", [])]
        self._ends: dict[str, int] = said.get("deletions", {})  # by device: where its partition ended then
        self._erased: list[str] = said.get("erased", [])  # deletions that were carried out in the copy
        self._base = max(int(said.get("base", 1)), self._after_all())
        if len(self._place) != self._reader.count:
            self._make()
        self.log = Log.open(PosixDisk(self._directory / "log"), segment_bytes=segment_bytes)

    def close(self) -> None:
        with self._lock:
            self.log.close()

    def follow(self) -> bool:
        """Take in what was committed, or a slice of it; whether nothing is left. Raises Unreachable while brokers are
        away."""
        now_us = time.time_ns() // 1000
        ends = self._reader.ends()
        with self._lock:
            try:
                self._take(self._reader.bounded(self._place, ends, SLICE_BYTES))
            except DamagedData as error:
                if error.code != "log-trimmed":
                    raise
                self._base = self.log.durable_end + 1  # what pages remember of offsets stays behind
                self._make()
                self.log.reopen()
                return False
            if all(self._place[each] >= end for each, end in ends.items()):
                self.as_of_us = now_us
                return True
        return False

    def trim(self, stable: Place) -> None:
        """Forget what no job needs, as Kafka does; not now while it is being written, which may wait for brokers."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            passed = [mark for mark in self._marks if all(mark[1].get(each, 0) <= at for each, at in stable.items())]
            if not passed:
                return
            at, _ = passed[-1]
            self._marks = self._marks[len(passed) :]
            self.log.keep_trimmed_index(at)
            self.log.trim(at)
            self._save()
        finally:
            self._lock.release()

    async def run_when_idle(self, work: Callable[[], object]) -> None:
        """Do something with the copy that must not overlap what is written to it."""
        await asyncio.to_thread(self._alone, work)

    def _alone(self, work: Callable[[], object]) -> None:
        with self._lock:
            work()

    def holds(self, device: DeviceId, *, since_us: int) -> str | None:
        """The partition in which Kafka still keeps what a device had sent when this was first asked; None when nothing
        of that is left."""
        partition, key = partition_of(device, self._reader.count), f"{device.hex()} {since_us}"
        if key not in self._ends:
            ends = self._reader.ends()
            with self._lock:
                self._ends[key] = ends[partition]
                self._save()
        return partition if self._reader.starts()[partition] < self._ends[key] else None

    def has_erased(self, device: DeviceId, asked_us: int) -> bool:
        return f"{device.hex()} {asked_us}" in self._erased

    def note_erased(self, device: DeviceId, asked_us: int) -> None:
        with self._lock:
            self._erased.append(f"{device.hex()} {asked_us}")
            self._save()

    # -- writing ------------------------------------------------------------------------------------------------------

    def _take(self, upto: Place) -> None:
        parts = [self._records(each, self._place[each], end) for each, end in upto.items() if end > self._place[each]]
        if not parts:
            return
        for record in heapq.merge(*parts, key=lambda each: each.received_us):
            if not self._is_here(record):
                self.log.append((record,))
        self.log.sync()
        self._place = dict(upto)
        if not self._marks or self.log.durable_end - self._marks[-1][0] >= MARK_BYTES:
            self._marks.append((self.log.durable_end, dict(upto)))
        self._save()

    def _records(self, partition: str, start: int, end: int) -> Iterator[Record]:
        return (record for _, record in self._reader.read(partition, start, end))

    def _is_here(self, record: Record) -> bool:
        header = stored_header(record.frame)
        key = EdgeKey(header.source, header.incarnation, header.edge)
        return header.kind in NUMBERED and header.seq < self.log.high_water(key)

    def _make(self) -> None:
        """Anew, from where Kafka's records begin. A crash on the way starts over: there is no place yet."""
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._place, self._marks, self._erased = {}, [], []
        self._save()
        shutil.rmtree(self._directory / "log", ignore_errors=True)
        starts = self._reader.starts()
        disk = PosixDisk(self._directory / "log")
        add_trimmed_index(disk, TrimmedIndex(0, self._base, _index_at(self._reader, starts).encode()))
        file = disk.open(segment_name(self._base), create=True)
        file.write(0, encode_segment_header(self._base, GENESIS, b""))
        file.sync()
        file.close()
        disk.sync()
        self._place = starts
        self._save()

    def _said(self) -> dict[str, Any]:
        try:
            found = json.loads((self._directory / PLACE).read_bytes())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) and found.get("format") == FORMAT else {}

    def _after_all(self) -> int:
        """An offset behind all that were given out here, also by a version whose place this one cannot read."""
        disk = PosixDisk(self._directory / "log")
        found = bases(disk)
        if not found:
            return 1
        file = disk.open(segment_name(found[-1]))
        try:
            return found[-1] + file.size() + 1
        finally:
            file.close()

    def _save(self) -> None:
        said = {
            "format": FORMAT, "log": _name(self._reader.location), "place": self._place, "marks": self._marks,
            "base": self._base, "deletions": self._ends, "erased": self._erased,
        }  # fmt: skip
        PosixDisk(self._directory).replace(PLACE, json.dumps(said).encode())


def location_of_copy(home: Path) -> str | None:
    """The log of which a home keeps a copy, as people name it; None where it keeps none."""
    try:
        found = json.loads((home / DIRECTORY / PLACE).read_bytes())["log"]
    except (OSError, ValueError, KeyError):
        return None
    return str(found)


def _name(location: Location) -> str:
    return f"kafka://{location.brokers}/{location.name}"


def _index_at(reader: KafkaReader, starts: Place) -> Index:
    """How far each edge had come where the records begin that are kept. Where nothing was trimmed it is empty; else the
    index says how far it came, and the records how much of that is theirs."""
    index = Index()
    for partition in (each for each in starts if starts[each] > 0):
        _, states = read_index(reader.location, int(partition))
        first: dict[bytes, int] = {}
        given_up: Counter[bytes] = Counter()
        for _, record in reader.read(partition, starts[partition], reader.ends()[partition]):
            header = stored_header(record.frame)
            key = pack_key(EdgeKey(header.source, header.incarnation, header.edge))
            if header.kind not in NUMBERED or key not in states:
                continue
            first.setdefault(key, header.seq)
            if header.kind == FrameType.TOMBSTONE and header.seq < states[key].high_water:
                given_up[key] += header.elements
        for key, state in states.items():
            reached = first.get(key, state.high_water)
            index.put(key, EdgeState(reached, state.ledgered - given_up[key], state.declaration))
    return index
