"""Reading segments: what of one is sound, and the records of a range across all of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cloud_backend.log.format import (
    ERASED,
    RECORD_HEADER_BYTES,
    SEAL,
    SEGMENT_HEADER,
    Record,
    RecordHeader,
    SegmentHeader,
    decode_record_header,
    decode_segment_header,
    header_length,
    record_is_whole,
    segment_base,
    segment_name,
    synced_record_after,
)
from cloud_backend.log.index import Index
from cloud_backend.log.trimmed_index import TrimmedIndex
from shared.batch import NO_FRONTIER
from shared.errors import BrokenInvariant, DamagedData, PeerError
from shared.spool.disk import Disk, File
from shared.wire.frame import HEADER_BYTES, encode, payload_digest, read_header, stored_header
from shared.wire.messages import Frontier

CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Prefix:
    """The sound start of a segment: whole records in one unbroken chain."""

    header: SegmentHeader
    chain: bytes
    length: int  # bytes of the file that are sound
    records: int
    torn_bytes: int  # bytes after that which are neither a record nor reserved zeros


def bases(disk: Disk) -> list[int]:
    """The base of every segment, ascending."""
    return [base for name in disk.names() if (base := segment_base(name)) is not None]


def sound_prefix(data: bytes, base: int, index: Index | None = None) -> Prefix:
    """Walk a whole segment. Raises DamagedData if its header is not sound or acknowledged records are damaged.
    `index`, as it is at the segment's base, is brought to the segment's end."""
    header = decode_segment_header(data, base)
    chain = header.chain
    position = header.length
    records = 0
    while (record := decode_record_header(data, position, base + position)) is not None:
        if not record_is_whole(data, position, record, chain):
            break
        chain = record.chain
        frame = data[position + RECORD_HEADER_BYTES : position + record.length]
        position += record.length
        if record.flags & SEAL:
            continue
        records += 1
        if index is None:
            continue
        try:
            index.apply(frame)
        except BrokenInvariant as error:
            raise DamagedData(
                f"segment {segment_name(base)}: the record that ends at {base + position} contradicts the index: "
                f"{error.message}",
                code="log-index",
            ) from error
    rest = len(data) - position
    if not rest or not data.count(b"\0", position) < rest:
        return Prefix(header, chain, position, records, 0)
    later = synced_record_after(data, position, base)
    if later is not None:
        raise DamagedData(
            f"segment {segment_name(base)} is damaged at offset {base + position}, {later - position} bytes before "
            "records that were acknowledged later; restore it from a copy with resurge log verify --repair",
            code="log-damaged",
        )
    return Prefix(header, chain, position, records, rest)


def read_segment_header(disk: Disk, base: int) -> SegmentHeader:
    file = disk.open(segment_name(base))
    try:
        return decode_segment_header(file.read(0, first_record(file, base)), base)
    finally:
        file.close()


def index_at(disk: Disk, wanted: int, trimmed_files: Sequence[TrimmedIndex]) -> Index:
    """The index at the base of a segment: what was trimmed, then what every kept segment up to there changed."""
    index, at = Index(), 0
    for file in trimmed_files:
        index.add_entries(file.entries)
        at = file.end
    headers: list[SegmentHeader] = []
    for base in reversed([base for base in bases(disk) if at < base <= wanted]):
        headers.append(read_segment_header(disk, base))
        if headers[-1].is_whole:
            index = Index()
            break
    else:
        _check_nothing_is_missing(disk, at)
    for header in reversed(headers):
        index.add_entries(header.entries)
    return index


def _check_nothing_is_missing(disk: Disk, at: int) -> None:
    """Changes must be there from the first offset on, or from where the files of trimmed segments end."""
    found = bases(disk)
    if found and found[0] > at:
        raise DamagedData(
            f"older segments than {segment_name(found[0])} were trimmed and no file of marks is left of them; "
            "restore it from a copy with resurge log verify --repair",
            code="log-marks",
        )


def read_records(disk: Disk, start: int, end: int, *, erased: bool = False) -> Iterator[tuple[int, Record]]:
    """Records that start in [start, end). Each is checked; what the range should hold and does not is DamagedData.
    `erased`: erased ones as they are, with their own headers, for whoever counts; else what stands in for them."""
    found = bases(disk)
    for base, following in itertools.zip_longest(found, found[1:]):
        if base >= end or (following is not None and following <= start):
            continue
        stop = end if following is None else min(end, following)
        file = disk.open(segment_name(base))
        try:
            yield from _read_segment(file, base, start, stop, erased=erased)
        finally:
            file.close()


def first_record(file: File, base: int) -> int:
    """The position of a segment's first record, from the fixed part of its header."""
    fixed = file.read(0, SEGMENT_HEADER.size)
    if len(fixed) < SEGMENT_HEADER.size:
        raise DamagedData(f"segment {segment_name(base)} ends inside its header", code="log-segment-header")
    return header_length(SEGMENT_HEADER.unpack(fixed)[-1])


def _read_segment(file: File, base: int, start: int, stop: int, *, erased: bool) -> Iterator[tuple[int, Record]]:
    position = max(start - base, first_record(file, base))
    ahead = ReadAhead(file, base)
    while base + position < stop:
        header = ahead.load(position)
        frame = b"" if header is None else ahead.frame(position, header)
        if header is not None and header.flags & ERASED and not erased:
            frame = stand_in(frame)
        digest = (
            None
            if header is None or header.flags & (SEAL | ERASED)
            else payload_digest(memoryview(frame)[HEADER_BYTES:])
        )
        if header is None or not (digest is None or frame_is_sound(frame, digest)):
            raise DamagedData(
                f"segment {segment_name(base)} holds no sound record at offset {base + position}; "
                "restore it from a copy with resurge log verify --repair",
                code="log-damaged",
            )
        if frame and not header.flags & SEAL:
            yield base + position, Record(header.received_us, frame, digest)
        position += header.length


def stand_in(frame: bytes) -> bytes:
    """What a reader gets for an erased batch: the frontier it carried, or nothing if it had none."""
    header = stored_header(frame)
    if header.frontier_us == NO_FRONTIER:
        return b""
    message = Frontier(header.source, header.incarnation, header.edge, header.seq, header.frontier_us)
    return encode(message.frame())


class ReadAhead:
    """One segment's bytes, read a chunk at a time, never less than a whole record."""

    def __init__(self, file: File, base: int) -> None:
        self._file = file
        self._base = base
        self._data = b""
        self._start = 0

    def load(self, position: int) -> RecordHeader | None:
        """The header of the record at this position with all of the record in memory; None if it is not all there."""
        header = self._header(position)
        if header is None or self._missing(position, header):
            self._data, self._start = self._file.read(position, CHUNK_BYTES), position
            header = self._header(position)
            if header is not None and self._missing(position, header):
                self._data = self._file.read(position, header.length)
        return None if header is None or self._missing(position, header) else header

    def frame(self, position: int, header: RecordHeader) -> bytes:
        body = position - self._start + RECORD_HEADER_BYTES
        return self._data[body : body + header.frame_bytes]

    def follows(self, position: int, header: RecordHeader, chain: bytes) -> bool:
        """Whether the loaded record continues this chain."""
        return record_is_whole(self._data, position - self._start, header, chain)

    def _header(self, position: int) -> RecordHeader | None:
        return decode_record_header(self._data, position - self._start, self._base + position)

    def _missing(self, position: int, header: RecordHeader) -> bool:
        return position - self._start + header.length > len(self._data)


def frame_is_sound(frame: bytes, digest: bytes) -> bool:
    """Whether this is one whole frame by its own checksum, given its payload's digest."""
    try:
        length = read_header(memoryview(frame), 0, digest).payload_bytes
    except PeerError:
        return False
    return len(frame) == HEADER_BYTES + length
