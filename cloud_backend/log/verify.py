"""A full check of the log: every byte of every segment, every link between them, and the account.

Opening the log checks its last segment; this walks all of them. The account is counted anew from the records, with
nothing taken from the index: a range that data or a tombstone covers twice is a duplicate, one that is skipped is a
gap, and either is a bug that the index should have made impossible. `provenance.py` adds who signed what.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from cloud_backend.log.account import Account, EdgeAccount, count
from cloud_backend.log.format import (
    ERASED,
    SEAL,
    Record,
    RecordHeader,
    SegmentHeader,
    decode_segment_header,
    segment_name,
)
from cloud_backend.log.heads import SignedHead
from cloud_backend.log.index import Index
from cloud_backend.log.segments import Prefix, ReadAhead, bases, index_at, sound_prefix
from cloud_backend.log.signed_runs import IsSigned, SignedRuns
from cloud_backend.log.trimmed_index import read_trimmed_index
from shared.errors import DamagedData
from shared.identity import EdgeKey
from shared.spool.disk import Disk
from shared.wire.frame import FrameType, decode_one
from shared.wire.messages import LostRange


@dataclass(slots=True)
class Verification(Account):
    segments: int = 0
    records: int = 0
    bytes: int = 0
    torn_bytes: int = 0  # a write that a crash cut short; opening the log cuts it off, nothing acknowledged is in it
    signed: SignedRuns = field(default_factory=SignedRuns)
    heads: int = 0  # signed heads whose place is still kept, and that fit it


def verify(disk: Disk, *, is_signed: IsSigned | None = None, heads: Sequence[SignedHead] = ()) -> Verification:
    """Walk the whole log. Raises DamagedData that names the first place where it is not sound.

    With `is_signed` it also computes anew what devices have signed. `heads` are ends that the log once had; whoever
    reads them from a running gateway's home reads them first.
    """
    wanted = {head.offset: head for head in heads}
    result = Verification(signed=SignedRuns(is_signed))
    trimmed_files = read_trimmed_index(disk)
    trimmed = trimmed_files[-1].end if trimmed_files else 0
    found = [base for base in bases(disk) if base >= trimmed]  # a crash may have left some that were being trimmed
    index = index_at(disk, found[0], trimmed_files) if found else Index()
    result.edges = {key: EdgeAccount(state.high_water, state.high_water) for key, state in index.edges()}
    previous: Prefix | None = None
    for base in found:
        file = disk.open(segment_name(base))
        try:
            data = file.read(0, file.size())
            if previous is not None:
                _check_link(previous, decode_segment_header(data, base), index)
            index.start_changes()
            prefix = sound_prefix(data, base, index)
            _check_head(wanted, base + prefix.header.length, prefix.header.chain, result)
            for end, header, frame in _records(ReadAhead(file, base), prefix):
                _check_head(wanted, end, header.chain, result)
                if header.flags & SEAL:
                    continue
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
    _check_all_found(wanted, found[0] if found else 0, found[-1] + previous.length if previous else 0)
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
            lost = LostRange.of(frame)
            key = EdgeKey(lost.device, lost.incarnation, lost.edge)
            yield LedgerEntry(key, lost.lo, lost.hi, lost.reason, record.received_us)


def _check_link(previous: Prefix, header: SegmentHeader, index: Index) -> None:
    if header.previous != previous.chain or previous.header.base + previous.length != header.base:
        raise DamagedData(
            f"segment {segment_name(header.base)} does not continue the one before it: one of them was replaced; "
            "restore both from a copy with resurge log verify --repair",
            code="log-chain",
        )
    if header.entries != (index.encode() if header.is_whole else index.encode_changes()):
        raise DamagedData(
            f"the index that opens segment {segment_name(header.base)} is not what the records before it add up to",
            code="log-index",
        )


def _check_head(wanted: dict[int, SignedHead], end: int, chain: bytes, result: Verification) -> None:
    head = wanted.pop(end, None)
    if head is None:
        return
    if head.chain != chain:
        raise DamagedData(
            f"the log up to offset {end} is not what it was when this gateway signed it: it was written anew; restore "
            "it from a copy",
            code="log-rewritten",
        )
    result.heads += 1


def _check_all_found(wanted: dict[int, SignedHead], start: int, end: int) -> None:
    """What is left over lies in what was trimmed; anything else should be there."""
    for offset in sorted(wanted, reverse=True):
        if offset > end:
            raise DamagedData(
                f"the log ends at offset {end}, this gateway signed that it reached {offset}: its tail was cut off; "
                "restore it from a copy",
                code="log-cut",
            )
        if offset > start:
            raise DamagedData(
                f"no record ends at offset {offset}, where this gateway signed that the log ended: it was written "
                "anew; restore it from a copy",
                code="log-rewritten",
            )


def _records(ahead: ReadAhead, prefix: Prefix) -> Iterator[tuple[int, RecordHeader, bytes]]:
    """(where it ends, header, frame) of every record, seals too."""
    position = prefix.header.length
    while position < prefix.length and (header := ahead.load(position)) is not None:
        frame = ahead.frame(position, header)
        position += header.length
        yield prefix.header.base + position, header, frame
