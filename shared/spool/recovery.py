"""Reading a spool back after any stop: what the disk holds becomes what the spool contains.

The index is the state at the start of a generation; the journal half of that generation is replayed over it.
Every record says up to which offset its writer knew the journal durable. The highest such offset divides
the half in two:

* below it everything was durable once, so a record that is missing there is damage: it is stepped over, and
  a gap it leaves in an edge's numbers becomes a tombstone;
* above it is the last group, which a crash may have kept in part and in any order: it counts up to the first
  record that is missing, or that leaves a batch without its whole payload, and not beyond. That is the prefix
  a crash leaves.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from shared.errors import BrokenInvariant, DamagedData, UsageError
from shared.identity import EdgeId
from shared.spool.contents import Contents
from shared.spool.disk import Disk, File
from shared.spool.entry import DataEntry, Reason, Tombstone
from shared.spool.extents import FreeExtents
from shared.spool.journal import GIVEN_UP_FILE, INDEX_FILES
from shared.spool.payloads import read_payload
from shared.spool.segment import (
    SUPERBLOCK_STRIDE,
    EdgeHead,
    Item,
    Kind,
    Record,
    Superblock,
    decode_append,
    decode_given_up,
    decode_head,
    decode_index,
    decode_superblock,
    decode_tombstone,
    decode_trim,
    scan_records,
)

# Enough of the other half to see whether a newer generation has begun there: it begins at its start.
NEWER_BYTES = 1 << 16


@dataclass(slots=True)
class Recovered:
    block: Superblock
    generation: int
    contents: Contents
    free: FreeExtents
    tail: bool  # records of the last group were kept; they may be only in the system's memory
    changed: bool  # the journal half cannot simply be continued: the next write starts a new generation
    superblocks_whole: bool
    damage: int  # how many pieces of stored data had to be given up or repaired


def read_superblock(file: File) -> tuple[Superblock, bool]:
    """The superblock, and whether both copies are whole."""
    data = file.read(0, 2 * SUPERBLOCK_STRIDE)
    copies = [decode_superblock(data[at : at + SUPERBLOCK_STRIDE]) for at in (0, SUPERBLOCK_STRIDE)]
    whole = [block for block in copies if block is not None]
    if not whole or len(set(whole)) > 1:
        raise DamagedData(
            "neither copy of the spool's superblock is whole. Keep a copy of the files, remove them and enrol again, "
            "which starts a new incarnation",
            code="spool-damaged",
        )
    return whole[0], len(whole) == 2


def recover(disk: Disk, file: File) -> Recovered:
    block, both = read_superblock(file)
    generation, contents, current, unreadable = _read_index(disk, block)
    half = file.read(block.half_start(generation), block.half_bytes)
    newer = file.read(block.half_start(generation + 1), min(block.half_bytes, NEWER_BYTES))
    if next(scan_records(newer, generation + 1), None) is not None:
        raise DamagedData(
            "the journal is newer than every readable index, so numbers may have been used that it does not show. "
            "Keep a copy of the files, remove them and enrol again, which starts a new incarnation",
            code="spool-damaged",
        )
    recovery = _Replay(file, block, contents)
    records = list(scan_records(half, generation))
    try:
        given_up = _read_given_up(disk, generation)
    except DamagedData:
        recovery.damage += 1
        given_up = (0, [])
    try:
        recovery.replay(records, *given_up)
    except (ValueError, struct.error, BrokenInvariant) as error:
        raise DamagedData(f"a whole record makes no sense: {error}", code="spool-damaged") from error
    free = recovery.claim_units()
    contents.settle()
    for contents_of_edge in contents.edges.values():
        contents_of_edge.frozen = contents_of_edge.head  # any of it may have been sent before the stop
    contents.removed.clear()
    return Recovered(
        block=block,
        generation=generation,
        contents=contents,
        free=free,
        tail=recovery.tail,
        # Also when only the list of what was given up is of this generation: a later life must not meet it again.
        changed=bool(records or given_up[1]) or recovery.damage > 0 or not both or current < len(INDEX_FILES),
        superblocks_whole=both,
        damage=recovery.damage + (not both) + unreadable,
    )


def _read_index(disk: Disk, block: Superblock) -> tuple[int, Contents, int, int]:
    """The newest whole index: generation, contents, how many copies are it, and how many copies are damaged.

    A crash between the two copies leaves one of the generation before; that is no damage.
    """
    best: tuple[int, int, list[Item]] | None = None
    copies = unreadable = 0
    failure: DamagedData | None = None
    names = disk.names()
    for name in INDEX_FILES:
        if name not in names:
            continue
        file = disk.open(name)
        try:
            decoded = decode_index(file.read(0, file.size()))
        except DamagedData as damage:
            failure = damage
            unreadable += 1
            continue
        finally:
            file.close()
        if best is None or decoded[0] > best[0]:
            best, copies = decoded, 1
        elif decoded[0] == best[0]:
            copies += 1
    if best is None:
        raise failure or UsageError("there is no whole spool here; create one first", code="spool-missing")
    generation, next_order, items = best
    contents = Contents()
    try:
        _load(contents, items, block)
    except (ValueError, struct.error, BrokenInvariant) as error:
        raise DamagedData(f"a whole index makes no sense: {error}", code="spool-damaged") from error
    contents.next_order = max(contents.next_order, next_order)
    return generation, contents, copies, unreadable


def _read_given_up(disk: Disk, generation: int) -> tuple[int, list[Item]]:
    """(journal offset, items) of what was made durable beside the journal of this generation."""
    if GIVEN_UP_FILE not in disk.names():
        return 0, []
    file = disk.open(GIVEN_UP_FILE)
    try:
        written_in, offset, items = decode_given_up(file.read(0, file.size()))
    finally:
        file.close()
    return (offset, items) if written_in == generation else (0, [])


def _load(contents: Contents, items: list[Item], block: Superblock) -> None:
    heads: list[EdgeHead] = []
    for kind, stored in items:
        if kind is Kind.HEAD:
            head = decode_head(stored)
            heads.append(head)
            contents.edge(head.edge).begin(head.delivered)
        elif kind is Kind.APPEND:
            contents.append(decode_append(stored, block.data_units))
        elif kind is Kind.TOMBSTONE:
            contents.replace(decode_tombstone(stored))
        elif kind is Kind.LEDGER:
            contents.ledger.add(decode_tombstone(stored))
        else:
            raise ValueError(f"an index holds no {kind.name}")
    for head in heads:
        edge = contents.edge(head.edge)
        if edge.head != head.head:
            raise ValueError(f"edge {head.edge:016x} should reach number {head.head} and reaches {edge.head}")


class _Replay:
    def __init__(self, file: File, block: Superblock, contents: Contents) -> None:
        self._file = file
        self._block = block
        self._contents = contents
        self.damage = 0
        self.tail = False

    def replay(self, records: list[Record], given_up_at: int, given_up: list[Item]) -> None:
        synced = max((record.synced for record in records), default=0)
        expected = 0
        tail: list[Record] = []
        for record in records:
            if record.offset >= synced > expected:
                self.damage += 1  # the end of what was durable is missing
                expected = synced
            if record.offset >= synced:
                if record.offset != expected:
                    break
                tail.append(record)
            else:
                self.damage += record.offset != expected
                self._apply(record)
            expected = record.end
        kept = self._whole_prefix(tail, given_up)
        self.tail = bool(kept)
        for record in kept:
            self._apply(record)
        end = max([synced, *(record.end for record in kept)])
        if end < given_up_at:
            for item in given_up:
                self._apply_given_up(item)
            self.tail = True

    def _apply_given_up(self, item: Item) -> None:
        """A tombstone or trim that was durable before its record; what it covers beyond the prefix never was."""
        kind, stored = item
        if kind is Kind.TRIM:
            self._apply_whole(item)
            return
        tombstone = decode_tombstone(stored)
        contents = self._contents.edge(tombstone.edge)
        lo, hi = max(tombstone.lo, contents.delivered), min(tombstone.hi, contents.head)
        if lo < hi:
            self._contents.replace(Tombstone(tombstone.edge, lo, hi, tombstone.reason))

    def _whole_prefix(self, tail: list[Record], given_up: list[Item]) -> list[Record]:
        """As many records as leave no batch with half its bytes.

        A batch that a later record of the prefix gives up or trims needs none: when this group was durable after
        all, its units may already hold another batch, whose record the crash took.
        """
        items = [(place, item) for place, record in enumerate(tail) for item in record.items]
        torn = [(at, entry) for at, (_, item) in enumerate(items) if (entry := self._torn(item)) is not None]
        end = len(tail)
        while True:
            for at, entry in torn:
                later = [item for place, item in items[at + 1 :] if place < end]
                if items[at][0] < end and not any(_releases(item, entry) for item in (*later, *given_up)):
                    end = items[at][0]
                    break
            else:
                return tail[:end]

    def _torn(self, item: Item) -> DataEntry | None:
        kind, stored = item
        if kind is not Kind.APPEND:
            return None
        entry = decode_append(stored, self._block.data_units)
        return entry if read_payload(self._file, self._block, entry) is None else None

    def _apply(self, record: Record) -> None:
        for item in record.items:
            try:
                self._apply_whole(item)
            except BrokenInvariant:
                # Only where an earlier record was damaged; what it leaves unexplained is given up below.
                if not self.damage:
                    raise
                self.damage += 1

    def _apply_whole(self, item: Item) -> None:
        kind, stored = item
        contents = self._contents
        if kind is Kind.APPEND:
            entry = decode_append(stored, self._block.data_units)
            if self.damage:
                self._fill_gap(entry.edge, entry.lo)
            contents.append(entry)
        elif kind is Kind.TOMBSTONE:
            tombstone = decode_tombstone(stored)
            if self.damage:
                self._fill_gap(tombstone.edge, tombstone.lo)
            contents.replace(tombstone)
        elif kind is Kind.TRIM:
            contents.trim(*decode_trim(stored))
        else:
            raise DamagedData(f"a journal holds no {kind.name}", code="spool-damaged")

    def _fill_gap(self, edge: EdgeId, lo: int) -> None:
        contents = self._contents.edge(edge)
        if lo > contents.head:
            self._contents.replace(Tombstone(contents.edge, contents.head, lo, Reason.DAMAGED))

    def claim_units(self) -> FreeExtents:
        """Give every batch its units; after damage, first give up each batch whose bytes are no longer its own."""
        batches = [entry for entry in self._contents.live() if isinstance(entry, DataEntry)]
        if not self.damage:
            around = FreeExtents.around(self._block.data_units, [piece for e in batches for piece in e.extents])
            if around is not None:
                return around
        free = FreeExtents(self._block.data_units)
        for entry in sorted(batches, key=lambda batch: batch.order, reverse=True):
            whole = not self.damage or read_payload(self._file, self._block, entry) is not None
            if whole and free.claim(entry.extents):
                continue
            self.damage += 1
            self._contents.replace(Tombstone(entry.edge, entry.lo, entry.hi, Reason.DAMAGED))
        return free


def _releases(item: Item, entry: DataEntry) -> bool:
    kind, stored = item
    if kind is Kind.TOMBSTONE:
        tombstone = decode_tombstone(stored)
        return tombstone.edge == entry.edge and tombstone.lo <= entry.lo and entry.hi <= tombstone.hi
    if kind is Kind.TRIM:
        edge, through = decode_trim(stored)
        return edge == entry.edge and entry.hi <= through
    return False
