"""The spool's bytes: superblock, journal records, index. `docs/formats.md` has the tables.

`spool` is preallocated and never grows:

    0        superblock, and a second copy at 4096: what never changes after creation
    8192     journal half 0, then journal half 1: small records, one per change
    ...      data area: payloads in extents of 64-byte units

`spool.index` is the whole state at the start of a journal generation, put in place atomically. Generation g
writes its records to half g % 2, so the half that the previous index needs is intact until the next index
is durable. `spool.given-up` is small: what was given up since the last sync, made durable on its own before the
space is used again. Nothing here does IO.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias
from zlib import crc32

import numpy as np

from shared.errors import DamagedData
from shared.identity import DeviceId, EdgeId
from shared.spool.entry import CONTROL, ITEM, PLACE, DataEntry, Extent, Reason, SpooledBatch, Tombstone

VERSION = 1
UNIT_BYTES = 64
SUPERBLOCK_STRIDE = 4096  # the two copies are in different sectors of any disk, so one torn write spares one
JOURNAL_START = 2 * SUPERBLOCK_STRIDE
# What a batch costs beside its payload. More than the at most 63 bytes lost to rounding up to units, so the
# units in use never exceed the bytes accounted for and the data area cannot run out before the account does.
CONTROL_BYTES = 96

_SUPERBLOCK = struct.Struct("<8sII16sIIQQQQ16s")
_SUPERBLOCK_MAGIC = b"RSspool\0"
_UNTIL_RECEIPT = 1 << 8  # beside the evict policy: a batch is kept until its receipt, the only choice there is
_CHECKSUM = struct.Struct("<I")

_RECORD = struct.Struct("<4sIIII")  # marker, generation, offset, synced, body length
_RECORD_AND_CHECKSUM = struct.Struct("<4sIIIII")
_RECORD_MARKER = b"RSj1"
_MARKER_WORD = int.from_bytes(_RECORD_MARKER, "little")
RECORD_HEADER_BYTES = _RECORD.size + _CHECKSUM.size
RECORD_ALIGNMENT = 4  # which divides the header, so a record's padding is its body's
_PADDING = tuple(bytes(count) for count in range(RECORD_ALIGNMENT))

_EXTENT = struct.Struct("<II")
_PLACE_OF_ONE = struct.Struct("<QIIIII")  # both of them, for the usual batch in one piece
_APPEND = struct.Struct(f"<{ITEM.size}x{CONTROL.format[1:]}{PLACE.format[1:]}")  # and then the extents
_TOMBSTONE = struct.Struct("<QQQB")
_TOMBSTONE_ITEM = struct.Struct("<BIQQQB")
TOMBSTONE_ITEM_BYTES = _TOMBSTONE_ITEM.size
_TRIM = struct.Struct("<QQB")
_RELEASED = 1  # not retained after its receipt, as nothing is
_HEAD = struct.Struct("<QQQQ")

_INDEX = struct.Struct("<8sIIQQ")  # magic, version, generation, next order, body length
_INDEX_MAGIC = b"RSindex\0"

_GIVEN_UP = struct.Struct("<8sIIII")  # magic, version, generation, journal offset, body length
_GIVEN_UP_MAGIC = b"RSgivup\0"
_GIVEN_UP_VERSION = 2


class Kind(IntEnum):
    """The kinds of items in journal records and in the index."""

    APPEND = 1
    TOMBSTONE = 2
    TRIM = 3  # delivered up to here
    HEAD = 4  # index only: an edge's numbers, which outlive its entries
    LEDGER = 5  # index only: a range given up, kept after its tombstone was delivered


_KINDS = {int(kind): kind for kind in Kind}
_ITEM_OF_ONE = ITEM.pack(Kind.APPEND, CONTROL.size + _PLACE_OF_ONE.size)


@dataclass(frozen=True, slots=True)
class Superblock:
    device: DeviceId
    incarnation: int
    evict: int  # the number of the policy that makes room
    capacity_bytes: int
    half_bytes: int
    data_units: int
    cipher: bytes  # fingerprint of the key at rest; zeros when payloads are stored in the clear

    @property
    def data_start(self) -> int:
        return JOURNAL_START + 2 * self.half_bytes

    @property
    def file_bytes(self) -> int:
        return self.data_start + self.data_units * UNIT_BYTES

    def half_start(self, generation: int) -> int:
        return JOURNAL_START + (generation % 2) * self.half_bytes


def encode_superblock(block: Superblock) -> bytes:
    body = _SUPERBLOCK.pack(
        _SUPERBLOCK_MAGIC, VERSION, UNIT_BYTES, block.device, block.incarnation, block.evict | _UNTIL_RECEIPT,
        block.capacity_bytes, block.half_bytes, block.data_units, 0, block.cipher,
    )  # fmt: skip
    return (body + _CHECKSUM.pack(crc32(body))).ljust(SUPERBLOCK_STRIDE, b"\0")


def decode_superblock(data: bytes) -> Superblock | None:
    """The superblock, or None when these bytes are not a whole one. A newer version is refused, not ignored."""
    if len(data) < _SUPERBLOCK.size + _CHECKSUM.size or data[: len(_SUPERBLOCK_MAGIC)] != _SUPERBLOCK_MAGIC:
        return None
    if any(data[_SUPERBLOCK.size + _CHECKSUM.size : SUPERBLOCK_STRIDE]):
        return None
    (checksum,) = _CHECKSUM.unpack_from(data, _SUPERBLOCK.size)
    if crc32(data[: _SUPERBLOCK.size]) != checksum:
        return None
    _, version, unit, device, incarnation, policy, capacity, half, units, reserved, cipher = _SUPERBLOCK.unpack_from(
        data
    )
    if version != VERSION or unit != UNIT_BYTES or reserved:
        raise DamagedData(
            f"the spool has format version {version}; this program reads {VERSION}. Install the program that wrote "
            "it; the spool was left as it is",
            code="spool-version",
        )
    return Superblock(DeviceId(device), incarnation, policy & 0xFF, capacity, half, units, cipher)


Item: TypeAlias = tuple[Kind, bytes]  # its kind, and all of it as it is stored


@dataclass(slots=True)
class Record:
    """One whole journal record: what one change did, such as a batch and the tombstones that made room for it.

    `synced` is the journal offset up to which its writer knew everything durable.
    """

    offset: int
    end: int
    synced: int
    items: list[Item]


def encode_item(kind: Kind, body: bytes) -> bytes:
    return ITEM.pack(kind, len(body)) + body


def encode_record(generation: int, offset: int, synced: int, body: bytes) -> bytes:
    header = _RECORD.pack(_RECORD_MARKER, generation, offset, synced, len(body))
    checksum = crc32(body, crc32(header)).to_bytes(4, "little")
    return b"".join((header, checksum, body, _PADDING[-len(body) % RECORD_ALIGNMENT]))


def decode_items(data: bytes) -> list[Item]:
    items: list[Item] = []
    offset, length = 0, len(data)
    while offset < length:
        number, size = ITEM.unpack_from(data, offset)
        end = offset + ITEM.size + size
        kind = _KINDS.get(number)
        if kind is None or end > length:
            raise _inconsistent("an item")
        items.append((kind, data[offset:end]))
        offset = end
    return items


def scan_records(half: bytes, generation: int) -> Iterator[Record]:
    """Every whole record of this generation, in order, looking for the next one after anything that is not whole.

    A record holds its generation and its own offset, so neither a stale record of an earlier generation nor
    one that was copied can pass for one.
    """
    words = np.frombuffer(half, "<u4", len(half) // RECORD_ALIGNMENT)
    end = 0
    for offset in (np.flatnonzero(words == _MARKER_WORD) * RECORD_ALIGNMENT).tolist():
        if offset >= end and len(half) - offset >= RECORD_HEADER_BYTES:
            record = _decode_record(half, offset, generation)
            if record is not None:
                yield record
                end = record.end


def _decode_record(half: bytes, offset: int, generation: int) -> Record | None:
    _, written_in, place, synced, length, checksum = _RECORD_AND_CHECKSUM.unpack_from(half, offset)
    start = offset + RECORD_HEADER_BYTES
    padding = -length % RECORD_ALIGNMENT
    end = start + length + padding
    if written_in != generation or place != offset or end > len(half):
        return None
    body = half[start : start + length]
    if crc32(body, crc32(half[offset : offset + _RECORD.size])) != checksum:
        return None
    if padding and half[start + length : end] != _PADDING[padding]:
        return None
    return Record(offset, end, synced, decode_items(body))


def encode_control(batch: SpooledBatch) -> bytes:
    """The control block: everything about a batch but its bytes. It is what a cipher authenticates."""
    return CONTROL.pack(
        batch.edge, batch.lo, batch.hi - batch.lo, batch.rows, batch.schema_id, batch.applied,
        batch.frontier_us, batch.spooled_us, batch.deadline, batch.codec, batch.priority,
    )  # fmt: skip


def append_item(control: bytes, order: int, payload_bytes: int, checksum: int, extents: tuple[Extent, ...]) -> bytes:
    if len(extents) == 1:
        first, units = extents[0]
        return _ITEM_OF_ONE + control + _PLACE_OF_ONE.pack(order, payload_bytes, checksum, 1, first, units)
    place = PLACE.pack(order, payload_bytes, checksum, len(extents))
    pieces = b"".join([_EXTENT.pack(*extent) for extent in extents])
    return ITEM.pack(Kind.APPEND, CONTROL.size + len(place) + len(pieces)) + control + place + pieces


def decode_append(item: bytes, data_units: int) -> DataEntry:
    edge, lo, count, _, _, _, _, _, deadline, _, priority, order, payload_bytes, _, number = _APPEND.unpack_from(item)
    if len(item) != _APPEND.size + number * _EXTENT.size:
        raise _inconsistent("an append record's extents")
    if number == 1:  # in one piece: most batches
        first, units = _EXTENT.unpack_from(item, _APPEND.size)
        extents: tuple[Extent, ...] = ((first, units),)
        end = first + units
    else:
        extents = tuple(_EXTENT.iter_unpack(item[_APPEND.size :]))
        units = sum(length for _, length in extents)
        end = max((first + length for first, length in extents), default=0)
    if units != -(-payload_bytes // UNIT_BYTES) or end > data_units:
        raise _inconsistent("an append record's extents")
    return DataEntry(edge, lo, lo + count, priority, deadline, order, payload_bytes, extents, item)


def tombstone_item(tombstone: Tombstone, kind: Kind = Kind.TOMBSTONE) -> bytes:
    return _TOMBSTONE_ITEM.pack(kind, _TOMBSTONE.size, tombstone.edge, tombstone.lo, tombstone.hi, tombstone.reason)


def decode_tombstone(item: bytes) -> Tombstone:
    edge, lo, hi, reason = _TOMBSTONE.unpack(item[ITEM.size :])
    return Tombstone(EdgeId(edge), lo, hi, Reason(reason))


def trim_item(edge: EdgeId, through: int) -> bytes:
    return encode_item(Kind.TRIM, _TRIM.pack(edge, through, _RELEASED))


def decode_trim(item: bytes) -> tuple[EdgeId, int]:
    edge, through, _ = _TRIM.unpack(item[ITEM.size :])
    return EdgeId(edge), through


@dataclass(frozen=True, slots=True)
class EdgeHead:
    """An edge's numbers: entries cover [delivered, head)."""

    edge: EdgeId
    delivered: int
    head: int


def head_item(head: EdgeHead) -> bytes:
    return encode_item(Kind.HEAD, _HEAD.pack(head.edge, head.delivered, head.delivered, head.head))


def decode_head(item: bytes) -> EdgeHead:
    edge, _, delivered, head = _HEAD.unpack(item[ITEM.size :])
    return EdgeHead(EdgeId(edge), delivered, head)


def encode_index(generation: int, next_order: int, items: list[bytes]) -> bytes:
    body = b"".join(items)
    content = _INDEX.pack(_INDEX_MAGIC, VERSION, generation, next_order, len(body)) + body
    return content + _CHECKSUM.pack(crc32(content))


def decode_index(data: bytes) -> tuple[int, int, list[Item]]:
    """(generation, next order, items). The index is put in place atomically: anything not whole is damage."""
    if len(data) < _INDEX.size + _CHECKSUM.size:
        raise _inconsistent("the index's length")
    (checksum,) = _CHECKSUM.unpack_from(data, len(data) - _CHECKSUM.size)
    if crc32(data[: -_CHECKSUM.size]) != checksum:
        raise _inconsistent("the index's checksum")
    magic, version, generation, next_order, length = _INDEX.unpack_from(data)
    if magic != _INDEX_MAGIC or version != VERSION or _INDEX.size + length + _CHECKSUM.size != len(data):
        raise _inconsistent("the index's header")
    return generation, next_order, decode_items(data[_INDEX.size : -_CHECKSUM.size])


def encode_given_up(generation: int, offset: int, items: list[bytes]) -> bytes:
    """What was given up since the journal was last durable, as of this journal offset: one copy of it."""
    body = b"".join(items)
    content = _GIVEN_UP.pack(_GIVEN_UP_MAGIC, _GIVEN_UP_VERSION, generation, offset, len(body)) + body
    return content + _CHECKSUM.pack(crc32(content))


def decode_given_up(data: bytes) -> tuple[int, int, list[Item]]:
    """(generation, journal offset, items): the newer of the two copies that each fill a half of the file.

    One of them may be torn, which is no damage: it was being written, and the other has all that was relied on.
    A file of version 1 is one copy.
    """
    middle = len(data) // 2
    copies = [_whole_copy(data, 1), _whole_copy(data[:middle], 2), _whole_copy(data[middle:], 2)]
    whole = [copy for copy in copies if copy is not None]
    if not whole:
        raise _inconsistent("the list of what was given up")
    generation, offset, body = max(whole, key=lambda copy: copy[:2])
    return generation, offset, decode_items(body)


def _whole_copy(data: bytes, version: int) -> tuple[int, int, bytes] | None:
    """(generation, journal offset, body) when a whole list of this version begins here."""
    if len(data) < _GIVEN_UP.size + _CHECKSUM.size:
        return None
    magic, written_as, generation, offset, length = _GIVEN_UP.unpack_from(data)
    end = _GIVEN_UP.size + length
    if (magic, written_as) != (_GIVEN_UP_MAGIC, version) or end + _CHECKSUM.size > len(data):
        return None
    if version == 1 and end + _CHECKSUM.size != len(data):
        return None
    (checksum,) = _CHECKSUM.unpack_from(data, end)
    return (generation, offset, data[_GIVEN_UP.size : end]) if crc32(data[:end]) == checksum else None


def units_of(payload_bytes: int) -> int:
    return -(-payload_bytes // UNIT_BYTES)


def _inconsistent(what: str) -> DamagedData:
    return DamagedData(
        f"{what} does not fit the rest of the spool. Numbers that may have been sent cannot be recovered from it: "
        "keep a copy of the files, remove them and enrol again, which starts a new incarnation",
        code="spool-damaged",
    )
