"""What is in the two topics. A record of NAME.log is a record as in a segment, its offset being its number in the
partition: header and chain, then the frame. NAME.index is compacted; the newest of each key counts:

    "h"                               the head: how many records the partition has had, their bytes, the chain
    "m" incarnation device edge       how far an edge has come, and how much of that was given up
    "d" incarnation device edge       the declaration that counts

Both are written in one transaction, so the index always says what the records add up to. `docs/formats.md` has the
bytes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from cloud_backend.log.format import (
    CHAIN_BYTES,
    GENESIS,
    RECORD_HEADER_BYTES,
    Record,
    RecordHeader,
    decode_record_header,
)
from cloud_backend.log.index import KEY, EdgeState, Index
from cloud_backend.log.segments import frame_is_sound
from shared.errors import DamagedData
from shared.wire.frame import HEADER_BYTES, payload_digest

VERSION = 1
HEAD = b"h"
_MARK, _DECLARATION = b"m", b"d"
_HEAD = struct.Struct(f"<BHQQ{CHAIN_BYTES}s")  # version, partitions of the log, records, bytes, chain
_MARKS = struct.Struct("<BQQ")  # version, high-water mark, ledgered elements


@dataclass(frozen=True, slots=True)
class Head:
    """Where a partition's chain stands."""

    partitions: int
    records: int = 0
    size: int = 0  # in bytes, of all records
    chain: bytes = GENESIS

    def encode(self) -> bytes:
        return _HEAD.pack(VERSION, self.partitions, self.records, self.size, self.chain)

    @staticmethod
    def decode(value: bytes) -> Head:
        if len(value) != _HEAD.size:
            raise _damaged("its head has another length")
        version, partitions, records, size, chain = _HEAD.unpack(value)
        _check_version(version)
        return Head(partitions, records, size, chain)


def index_entries(index: Index) -> list[tuple[bytes, bytes]]:
    """(key, value) of what changed in an index since `start_changes`."""
    found: list[tuple[bytes, bytes]] = []
    for key, state, declaration in index.changes():
        found.append((_MARK + key, _MARKS.pack(VERSION, state.high_water, state.ledgered)))
        if declaration:
            found.append((_DECLARATION + key, bytes([VERSION]) + declaration))
    return found


def take_entry(states: dict[bytes, EdgeState], key: bytes, value: bytes) -> None:
    """Put one entry of the index topic into states by key; a later one replaces an earlier."""
    kind, of = key[:1], key[1:]
    if kind not in (_MARK, _DECLARATION) or len(of) != KEY.size or not value:
        raise _damaged(f"an entry has the key {key[:40].hex()}")
    _check_version(value[0])
    state = states.setdefault(of, EdgeState())
    if kind == _DECLARATION:
        state.declaration = value[1:]
    elif len(value) != _MARKS.size:
        raise _damaged("a mark has another length")
    else:
        _, state.high_water, state.ledgered = _MARKS.unpack(value)


def decode_record(value: bytes, where: str) -> tuple[int, RecordHeader, Record]:
    """A record's number, header and content, checked by its own checksums; DamagedData where they do not fit."""
    number = struct.unpack_from("<Q", value, 20)[0] if len(value) >= RECORD_HEADER_BYTES else 0
    header = decode_record_header(value, 0, number)
    frame = value[RECORD_HEADER_BYTES:]
    if header is not None and header.frame_bytes == len(frame):
        digest = payload_digest(memoryview(frame)[HEADER_BYTES:])
        if frame_is_sound(frame, digest):
            return number, header, Record(header.received_us, frame, digest)
    raise DamagedData(f"{where} holds no sound record; somebody else writes to this topic", code="log-damaged")


def _check_version(version: int) -> None:
    if version != VERSION:
        raise DamagedData(
            f"the index of this log has format {version}; this program reads {VERSION}, use the one that wrote it",
            code="log-segment-version",
        )


def _damaged(what: str) -> DamagedData:
    return DamagedData(f"the index topic is not as a gateway wrote it: {what}", code="log-index")
