"""Erasing what a device delivered from a log that is append-only and chained.

The chain of a record covers its own fields, its frame's header and the SHA-256 of its frame's payload. So the readings
can go and everything else can stay: an erased record has the flag `ERASED`, its frame's header as it was, and in place
of the payload that digest and zeros. Lengths and offsets do not move, the index does not change, and the chain still
verifies over the erased record and everything after it: one can see *that* and *where* something was erased, and that
nothing else was touched. A payload shorter than a digest becomes zeros, and its own link alone cannot be checked.

Closed segments are put in place whole (old or new after a crash, never a mix), so erasing again finishes what a crash
cut short, and a reader that has the old file open reads on in it. Whoever reads an erased record from the log gets what
an empty batch would have told: the frontier it carried.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from cloud_backend.log.format import (
    CHAIN_BYTES,
    CHECKSUM,
    ERASED,
    RECORD_FIELDS,
    RECORD_HEADER_BYTES,
    RecordHeader,
    decode_record_header,
    decode_segment_header,
)
from cloud_backend.log.log import Log
from shared.identity import DeviceId
from shared.wire.frame import HEADER_BYTES, FrameType, payload_digest, stored_header


@dataclass(slots=True)
class ErasureCounts:
    segments: int = 0  # rewritten
    batches: int = 0
    elements: int = 0
    bytes: int = 0  # of payload


def prepare(log: Log) -> list[int]:
    """Close the open segment and name all closed ones: those are to be erased in, one by one."""
    log.commit(log.take(roll=True))
    return log.closed_segments()


def erase(log: Log, base: int, device: DeviceId, *, through_incarnation: int, done: ErasureCounts) -> None:
    """Erase a device's batches, up to an incarnation, in one closed segment. Call it, like `prepare`, while nothing is
    appended or trimmed; a segment takes some tenths of a second."""
    if base not in log.closed_segments():
        return  # trimmed since
    changed = _erase_in(bytearray(log.closed_segment(base)), base, device, through_incarnation, done)
    if changed is not None:
        log.replace_closed(base, changed)
        done.segments += 1


def _erase_in(data: bytearray, base: int, device: DeviceId, incarnation: int, done: ErasureCounts) -> bytes | None:
    """The segment with this device's batches erased; None when it has none that are not erased already."""
    found = False
    position = decode_segment_header(bytes(data), base).length
    while (header := decode_record_header(memoryview(data), position, base + position)) is not None:
        if header.frame_bytes and not header.flags & ERASED:
            frame = stored_header(data, position + RECORD_HEADER_BYTES)
            if frame.kind == FrameType.DATA and frame.source == device and frame.incarnation <= incarnation:
                done.bytes += _erase_at(data, position, header)
                done.batches += 1
                done.elements += frame.elements
                found = True
        position += header.length
    return bytes(data) if found else None


def _erase_at(data: bytearray, position: int, header: RecordHeader) -> int:
    """Erase the record at a position in place; returns how many bytes of readings went."""
    start, end = position + RECORD_HEADER_BYTES + HEADER_BYTES, position + header.length
    digest = payload_digest(bytes(data[start:end]))
    size = end - start
    data[start:end] = digest + bytes(size - len(digest)) if size >= len(digest) else bytes(size)
    magic, flags, reserved, frame_bytes, received_us, offset = RECORD_FIELDS.unpack_from(data, position)
    RECORD_FIELDS.pack_into(data, position, magic, flags | ERASED, reserved, frame_bytes, received_us, offset)
    body_end = position + RECORD_FIELDS.size + CHAIN_BYTES
    CHECKSUM.pack_into(data, body_end, zlib.crc32(data[position:body_end]))
    return size
