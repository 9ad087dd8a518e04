"""Reading the log from another process, while the gateway appends to it.

A reader sees records in the page cache before they are durable. It may act only on what cannot vanish, so
`valid_end` syncs the segment itself before it names an end: whatever it has named survives a crash of the
machine, and the gateway's recovery keeps every sound record it finds.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

from cloud_backend.log.format import Record, decode_segment_header, segment_name
from cloud_backend.log.index import frame_type
from cloud_backend.log.segments import ReadAhead, bases, first_record, index_at, read_records
from cloud_backend.log.trimmed_index import read_trimmed_index
from shared.errors import DamagedData
from shared.spool.disk import PosixDisk
from shared.wire.frame import FrameType


class Reader:
    """Read-only; keeps its place, so a second `valid_end` costs only what was appended since. Threads may share one."""

    def __init__(self, directory: Path) -> None:
        self._disk = PosixDisk(Path(directory))
        self._base = -1
        self._position = 0
        self._chain = b""
        self._synced = -1  # the offset up to which this has seen to it that records are durable
        self._lock = threading.Lock()

    @property
    def start(self) -> int:
        """The first offset that is still kept."""
        found = bases(self._disk)
        return found[0] if found else 0

    def valid_end(self) -> int:
        """The offset after the last whole record, durable when this returns; 0 while there is no log yet."""
        found = bases(self._disk)
        if not found:
            return 0
        try:
            with self._lock:
                return self._walk(found[-1])
        except (DamagedData, FileNotFoundError):
            # The gateway is just creating this segment, or has just undone a creation that a crash cut
            # short: the log ends where the segment before it ends, and that one is durable.
            return found[-1] if len(found) > 1 else 0

    def read(self, start: int, end: int) -> Iterator[tuple[int, Record]]:
        """Records that start in [start, end), with their offsets; ask only up to a `valid_end`."""
        return read_records(self._disk, start, end)

    def pieces(self, start: int, end: int) -> list[tuple[int, int]]:
        """[start, end) cut where segments begin, for readers that share the work."""
        borders = [start, *(base for base in bases(self._disk) if start < base < end), end]
        return list(itertools.pairwise(borders)) if start < end else []

    def declarations(self) -> Iterator[bytes]:
        """Every DECLARE frame that still counts or is still kept: names and schemas of the edges, oldest first."""
        found = bases(self._disk)
        if found:
            yield from self._declared(found[0], self.valid_end())

    def declared_before(self, offset: int) -> Iterator[bytes]:
        """The DECLARE frames that counted when the segment of this offset began, and those in it up to the offset."""
        found = [base for base in bases(self._disk) if base <= offset]
        if found:
            yield from self._declared(found[-1], offset)

    def _declared(self, base: int, end: int) -> Iterator[bytes]:
        for _, state in index_at(self._disk, base, read_trimmed_index(self._disk)).edges():
            if state.declaration:
                yield state.declaration
        for _, record in self.read(base, end):
            if frame_type(record.frame) == FrameType.DECLARE:
                yield bytes(record.frame)

    def _walk(self, base: int) -> int:
        file = self._disk.open(segment_name(base))
        try:
            if base != self._base:
                header = decode_segment_header(file.read(0, first_record(file, base)), base)
                self._base, self._position, self._chain = base, header.length, header.chain
            ahead = ReadAhead(file, base)
            while (record := ahead.load(self._position)) and ahead.follows(self._position, record, self._chain):
                self._position += record.length
                self._chain = record.chain
            end = base + self._position
            if end != self._synced:  # who asks again and again, as several jobs do, is not to flush the disk each time
                file.sync()
                self._synced = end
            return end
        finally:
            file.close()
