"""What a spool holds: batches, and tombstones for the ranges it had to give up."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import TypeAlias

from shared.batch import END_OF_TIME, NO_FRONTIER
from shared.identity import EdgeId

Extent: TypeAlias = tuple[int, int]  # (first unit, number of units) in the data area
NO_DEADLINE = END_OF_TIME
PRIORITY_MAX = 255

# A batch as it stands in the journal: the item's header, its control block, and where its payload is.
ITEM = Struct("<BI")  # kind, length
CONTROL = Struct("<QQIIIIqqqBBxx")
PLACE = Struct("<QIII")  # order, payload bytes, payload checksum, number of extents
_CHECKSUM_AT = ITEM.size + CONTROL.size + 12


class Reason(IntEnum):
    """Why a range was given up. The ledger counts by it and the tombstone carries it to the log."""

    EVICTED = 1  # the spool was full and its policy chose this range
    EXPIRED = 2  # its deadline passed before it could be sent
    REJECTED = 3  # it could never be kept: larger than the whole spool
    QUARANTINED = 4  # the other side cannot read it: poison, or a schema it does not know
    DAMAGED = 5  # the stored bytes fail their checksum
    FORGOTTEN = 6  # every copy of the state that made it is gone


# Not frozen, for speed: setting fields one by one through the frozen guard costs as much as the write itself.
@dataclass(slots=True, unsafe_hash=True)
class SpooledBatch:
    """An encoded batch as the spool takes it and gives it back: the control block, and the payload. Never changed."""

    edge: EdgeId
    lo: int
    hi: int
    rows: int
    schema_id: int
    applied: int
    frontier_us: int
    codec: int
    payload: bytes
    priority: int = 0  # 0..255, higher is kept longer; only the `priority` policy looks at it
    deadline: int = NO_DEADLINE  # microseconds; worthless after it
    spooled_us: int = NO_FRONTIER  # when it was spooled, for "oldest" on the screens


@dataclass(slots=True, eq=False)
class DataEntry:
    """A batch that is in the spool; `Spool.read` fetches its payload. Never changed.

    A full spool makes and drops one for every batch: what only the sender asks for is read out of `item`.
    """

    edge: EdgeId
    lo: int
    hi: int
    priority: int
    deadline: int
    order: int  # place in the order of arrival over all edges
    payload_bytes: int  # as stored: sealed when the spool is encrypted
    extents: tuple[Extent, ...]
    item: bytes  # as it stands in the journal, so that an index is joined and not made anew

    @property
    def control(self) -> bytes:
        return self.item[ITEM.size : ITEM.size + CONTROL.size]

    @property
    def rows(self) -> int:
        return int(CONTROL.unpack_from(self.item, ITEM.size)[3])

    @property
    def schema_id(self) -> int:
        return int(CONTROL.unpack_from(self.item, ITEM.size)[4])

    @property
    def applied(self) -> int:
        return int(CONTROL.unpack_from(self.item, ITEM.size)[5])

    @property
    def spooled_us(self) -> int:
        return int(CONTROL.unpack_from(self.item, ITEM.size)[7])

    @property
    def checksum(self) -> int:
        return int.from_bytes(self.item[_CHECKSUM_AT : _CHECKSUM_AT + 4], "little")

    def batch(self, payload: bytes) -> SpooledBatch:
        """The batch as it was appended."""
        edge, lo, count, rows, schema_id, applied, frontier_us, spooled_us, deadline, codec, priority = (
            CONTROL.unpack_from(self.item, ITEM.size)
        )
        return SpooledBatch(
            edge, lo, lo + count, rows, schema_id, applied, frontier_us, codec, payload, priority, deadline, spooled_us
        )


@dataclass(slots=True, unsafe_hash=True)
class Tombstone:
    """[lo, hi) of an edge was given up. It travels in the batches' place and takes their numbers. Never changed."""

    edge: EdgeId
    lo: int
    hi: int
    reason: Reason


Entry: TypeAlias = DataEntry | Tombstone
