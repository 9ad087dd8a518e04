"""The bytes of a log segment: a header with what changed in the index before it, then records in one hash chain.

Offsets are global: a segment's base plus the position in its file, so an offset names a record for as long
as the record is kept. Three checks overlap on purpose:

- the record header's checksum covers its own offset, so a record that was copied, moved or left behind
  elsewhere is not taken for one that belongs here, and a length is bounded before it is believed;
- the frame inside brings its own checksum, so one record can be checked without its neighbours;
- each record carries SHA-256 over its predecessor's hash, its own fields, its frame's header and the SHA-256 of its
  frame's payload, and a segment carries its predecessor's last hash: nothing in the middle can be changed, dropped or
  swapped without breaking the rest. The payload's digest is the one the seal of its exchange was checked with.

`AFTER_SYNC` marks the first record written after a sync had returned. It is what tells damage from a torn
write: bytes after the last such record may never have reached the disk, bytes before it did.
`docs/formats.md` has the byte tables.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from dataclasses import dataclass, field
from typing import NamedTuple

from shared.errors import DamagedData
from shared.wire.frame import HEADER_BYTES as FRAME_HEADER_BYTES
from shared.wire.frame import PAYLOAD_BYTES_MAX, payload_digest

SEGMENT_MAGIC = b"RSLG"
RECORD_MAGIC = b"RSrc"
VERSION = 3  # the header holds the changed entries of the index; before, all of them. Frames are of version 2, as in 2
_READ = (1, 2, VERSION)
_WHOLE_INDEX = (1, 2)
CHAIN_BYTES = 32
GENESIS = bytes(CHAIN_BYTES)  # the chain before the first segment

SEGMENT_HEADER = struct.Struct(f"<4sHHQ{CHAIN_BYTES}sI")  # magic, version, 0, base, previous chain, bytes of entries
CHECKSUM = struct.Struct("<I")
RECORD_FIELDS = struct.Struct("<4sB3sIqQ")  # magic, flags, 0, frame bytes, received_us, offset
_BODY_BYTES = RECORD_FIELDS.size + CHAIN_BYTES
RECORD_HEADER_BYTES = _BODY_BYTES + CHECKSUM.size

FRAME_BYTES_MAX = FRAME_HEADER_BYTES + PAYLOAD_BYTES_MAX
INDEX_BYTES_MAX = 1 << 30

AFTER_SYNC = 1  # everything before this record was durable before it was written
SEAL = 2  # no frame: says only that everything before it is durable
ERASED = 4  # the payload was deleted; in its place are its digest, if that fits, and zeros (erasure.py)
_FLAGS = AFTER_SYNC | SEAL | ERASED

_SUFFIX = ".segment"


@dataclass(slots=True)
class Record:
    """A frame as the device sent it, and when the gateway received it (microseconds since 1970).

    Nobody changes one; it is not frozen because one is made for every exchange, and freezing doubles the price.
    """

    received_us: int
    frame: bytes | memoryview  # read records have bytes
    digest: bytes | None = field(default=None, compare=False)  # of the frame's payload, where it is known already


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    base: int
    previous: bytes  # the chain at the end of the segment before
    entries: bytes  # of the index: those that changed in the segment before
    is_whole: bool  # all entries instead, as older versions wrote them
    length: int  # of the whole header, so the first record starts at base + length
    chain: bytes  # where this segment's chain starts


class RecordHeader(NamedTuple):
    flags: int
    frame_bytes: int
    received_us: int
    chain: bytes

    @property
    def length(self) -> int:
        return RECORD_HEADER_BYTES + self.frame_bytes


def segment_name(base: int) -> str:
    return offset_name(base, _SUFFIX)


def segment_base(name: str) -> int | None:
    """The base in a segment's file name, None for a file that is no segment."""
    return offset_in_name(name, _SUFFIX)


def offset_name(offset: int, suffix: str) -> str:
    """A file's name that sorts by its offset; twenty digits hold any 64-bit one."""
    return f"{offset:020d}{suffix}"


def offset_in_name(name: str, suffix: str) -> int | None:
    digits = name.removesuffix(suffix)
    return int(digits) if name.endswith(suffix) and len(digits) == 20 and digits.isdigit() else None


def header_length(index_bytes: int) -> int:
    return SEGMENT_HEADER.size + index_bytes + CHECKSUM.size


def encode_segment_header(base: int, previous: bytes, entries: bytes) -> bytes:
    body = SEGMENT_HEADER.pack(SEGMENT_MAGIC, VERSION, 0, base, previous, len(entries)) + entries
    return body + CHECKSUM.pack(zlib.crc32(body))


def segment_chain(header: bytes) -> bytes:
    """Where the chain of the segment with this header starts."""
    return hashlib.sha256(header).digest()


def decode_segment_header(data: bytes, base: int) -> SegmentHeader:
    """Data starts at the segment's first byte and may go on after the header."""
    name = segment_name(base)
    if len(data) < SEGMENT_HEADER.size:
        raise DamagedData(f"segment {name} ends inside its header", code="log-segment-header")
    magic, version, reserved, stored_base, previous, index_bytes = SEGMENT_HEADER.unpack_from(data)
    if magic != SEGMENT_MAGIC or reserved or stored_base != base or index_bytes > INDEX_BYTES_MAX:
        raise DamagedData(f"segment {name} does not start as a segment with this base does", code="log-segment-header")
    length = header_length(index_bytes)
    if len(data) < length:
        raise DamagedData(f"segment {name} ends inside its index", code="log-segment-header")
    end = length - CHECKSUM.size
    if CHECKSUM.unpack_from(data, end)[0] != zlib.crc32(data[:end]):
        raise DamagedData(f"the index that opens segment {name} fails its checksum", code="log-segment-header")
    if version not in _READ:  # after the checksum, which stays where it is in every version: a torn header has none
        raise DamagedData(
            f"segment {name} has format {version}; this program reads {VERSION}, use the one that wrote it",
            code="log-segment-version",
        )
    entries = bytes(data[SEGMENT_HEADER.size : end])
    return SegmentHeader(base, previous, entries, version in _WHOLE_INDEX, length, segment_chain(data[:length]))


def encode_record(record: Record, offset: int, chain: bytes, flags: int) -> tuple[bytes, bytes]:
    """The record's header, to be followed by its frame, and the chain after it."""
    frame = record.frame
    fields = RECORD_FIELDS.pack(RECORD_MAGIC, flags, b"\0\0\0", len(frame), record.received_us, offset)
    digest = record.digest
    if digest is None:
        digest = payload_digest(memoryview(frame)[FRAME_HEADER_BYTES:])
    after = hashlib.sha256(b"".join((chain, fields, frame[:FRAME_HEADER_BYTES], digest))).digest()
    header = fields + after
    return header + CHECKSUM.pack(zlib.crc32(header)), after


def decode_record_header(data: bytes | memoryview, position: int, offset: int) -> RecordHeader | None:
    """The header at this position, or None when no whole record header for this offset is there."""
    if len(data) - position < RECORD_HEADER_BYTES:
        return None
    header = bytes(data[position : position + RECORD_HEADER_BYTES])
    magic, flags, reserved, frame_bytes, received_us, stored = RECORD_FIELDS.unpack_from(header)
    if magic != RECORD_MAGIC or stored != offset or frame_bytes > FRAME_BYTES_MAX or flags & ~_FLAGS or any(reserved):
        return None
    if CHECKSUM.unpack_from(header, _BODY_BYTES)[0] != zlib.crc32(header[:_BODY_BYTES]):
        return None
    return RecordHeader(flags, frame_bytes, received_us, header[RECORD_FIELDS.size : _BODY_BYTES])


def record_is_whole(data: bytes | memoryview, position: int, header: RecordHeader, chain: bytes) -> bool:
    """Whether the frame is all there and the record follows the record whose chain is given."""
    end = position + header.length
    if end > len(data):
        return False
    view = memoryview(data)
    fields = view[position : position + RECORD_FIELDS.size]
    start = position + RECORD_HEADER_BYTES
    payload = min(start + FRAME_HEADER_BYTES, end)
    if header.flags & ERASED:
        return _erased_is_whole(view[position:payload], view[payload:end], header, chain)
    digest = payload_digest(view[payload:end])
    return hashlib.sha256(b"".join((chain, fields, view[start:payload], digest))).digest() == header.chain


def _erased_is_whole(head: memoryview, rest: memoryview, header: RecordHeader, chain: bytes) -> bool:
    """An erased record hashes as it did with its payload. One too short for the digest only has to be nothing but
    zeros: that somebody erased it can be seen, what it was cannot."""
    if len(rest) < CHAIN_BYTES:
        return not any(rest)
    fields = bytearray(head[: RECORD_FIELDS.size])
    fields[len(RECORD_MAGIC)] &= ~ERASED
    kept = b"".join((chain, fields, head[RECORD_HEADER_BYTES:], rest[:CHAIN_BYTES]))
    return not any(rest[CHAIN_BYTES:]) and hashlib.sha256(kept).digest() == header.chain


def synced_record_after(data: bytes, position: int, base: int) -> int | None:
    """Where a record starts, after this position, that was written once all before it was durable."""
    while (position := data.find(RECORD_MAGIC, position + 1)) >= 0:
        header = decode_record_header(data, position, base + position)
        if header is not None and header.flags & AFTER_SYNC:
            return position
    return None
