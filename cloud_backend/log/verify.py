"""A full check of the log: every byte of every segment, every link between them, and the account.

Opening the log checks its last segment; this walks all of them. The account is counted anew from the records, with
nothing taken from the index: a range that data or a tombstone covers twice is a duplicate, one that is skipped is a
gap, and either is a bug that the index should have made impossible. `provenance.py` adds who signed what.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from cloud_backend.log.account import EdgeAccount, count
from cloud_backend.log.format import ERASED, SEAL, Record, RecordHeader, segment_name
from cloud_backend.log.index import Index
from cloud_backend.log.provenance import IsSigned, SignedRuns
from cloud_backend.log.segments import Prefix, ReadAhead, bases, sound_prefix
from shared.errors import DamagedData
from shared.identity import EdgeKey
from shared.spool.disk import Disk
from shared.wire.frame import FrameType, decode_one
from shared.wire.messages import Lost


@dataclass(slots=True)
class Verification:
    segments: int = 0
    records: int = 0
    bytes: int = 0
    torn_bytes: int = 0  # a write that a crash cut short; opening the log cuts it off, nothing acknowledged is in it
    edges: dict[EdgeKey, EdgeAccount] = field(default_factory=dict)
    signed: SignedRuns = field(default_factory=SignedRuns)

    @property
    def delivered(self) -> int:
        return sum(edge.delivered for edge in self.edges.values())

    @property
    def ledgered(self) -> int:
        return sum(edge.ledgered for edge in self.edges.values())

    @property
    def duplicates(self) -> int:
        return sum(edge.duplicates for edge in self.edges.values())

    @property
    def gaps(self) -> int:
        return sum(edge.gaps for edge in self.edges.values())


def verify(disk: Disk, *, is_signed: IsSigned | None = None) -> Verification:
    """Walk the whole log. Raises DamagedData that names the first place where it is not sound.

    With `is_signed` it also computes anew what devices have signed.
    """
    result = Verification(signed=SignedRuns(is_signed))
    found = bases(disk)
    previous: Prefix | None = None
    for base in found:
        file = disk.open(segment_name(base))
        try:
            data = file.read(0, file.size())
            prefix = sound_prefix(data, base)
            if previous is None:
                result.edges = {
                    key: EdgeAccount(state.high_water, state.high_water)
                    for key, state in Index.decode(prefix.header.index).edges()
                }
            else:
                _check_link(previous, prefix, base)
            for header, frame in _records(ReadAhead(file, base), prefix):
                count(result.edges, frame)
                if is_signed is not None:
                    result.signed.take(frame, erased=bool(header.flags & ERASED))
        finally:
            file.close()
        result.segments += 1
        result.records += prefix.records
        result.bytes += prefix.length
        result.torn_bytes += prefix.torn_bytes
        if prefix.torn_bytes and base != found[-1]:
            raise DamagedData(
                f"segment {segment_name(base)} has {prefix.torn_bytes} bytes that are no record; restore it from a "
                "copy with resurge log verify --repair",
                code="log-damaged",
            )
        previous = prefix
    return result


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    key: EdgeKey
    lo: int
    hi: int
    reason: str
    received_us: int


def ledger(records: Iterator[tuple[int, Record]]) -> Iterator[LedgerEntry]:
    """Every range that was given up, in the order in which it was decided."""
    for _, record in records:
        frame, _ = decode_one(record.frame)
        if frame.type is FrameType.TOMBSTONE:
            lost = Lost.of(frame)
            key = EdgeKey(lost.device, lost.incarnation, lost.edge)
            yield LedgerEntry(key, lost.lo, lost.hi, lost.reason, record.received_us)


def _check_link(previous: Prefix, prefix: Prefix, base: int) -> None:
    if prefix.header.previous != previous.chain or previous.header.base + previous.length != base:
        raise DamagedData(
            f"segment {segment_name(base)} does not continue the one before it: one of them was replaced; restore "
            "both from a copy with resurge log verify --repair",
            code="log-chain",
        )
    if prefix.header.index != previous.index.encode():
        raise DamagedData(
            f"the index that opens segment {segment_name(base)} is not what the records before it add up to",
            code="log-index",
        )


def _records(ahead: ReadAhead, prefix: Prefix) -> Iterator[tuple[RecordHeader, bytes]]:
    position = prefix.header.length
    while position < prefix.length and (header := ahead.load(position)) is not None:
        if not header.flags & SEAL:
            yield header, ahead.frame(position, header)
        position += header.length
