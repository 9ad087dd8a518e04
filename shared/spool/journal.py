"""The journal of one spool: records gathered in memory, written in one piece, durable after one sync.

Small payloads that lie side by side and the records of several changes are held back and go to the file in one
write each, at the latest with the next sync: a system call costs more than a small batch. Held or written,
nothing counts before that sync. Payloads go out in the order they came, because units may change hands.

The payloads and the records that name them are in the same file, so one `sync` makes both durable and costs
one disk flush. When a generation's half is full the whole state goes into a new index (twice: one damaged copy
is then no loss) and the next generation begins in the other half.
"""

from __future__ import annotations

from shared.errors import DiskFailed
from shared.spool.disk import Disk, File
from shared.spool.entry import Extent, Tombstone
from shared.spool.segment import (
    RECORD_ALIGNMENT,
    RECORD_HEADER_BYTES,
    TOMBSTONE_ITEM_BYTES,
    UNIT_BYTES,
    Superblock,
    encode_given_up,
    encode_record,
    tombstone_item,
)

SPOOL_FILE = "spool"
GIVEN_UP_FILE = "spool.given-up"
INDEX_FILES = ("spool.index", "spool.index.copy")
# How much is held back at most, of payloads and of records; less in a small spool, see below.
HELD_PAYLOAD_BYTES = 1 << 16
HELD_RECORD_BYTES = 1 << 14
GIVEN_UP_BYTES = 1 << 14  # room for a list of what was given up: more than five hundred tombstones
GATHERED_BYTES = 1 << 14  # of changes in one record: more than a hundred small batches


class Journal:
    """Where records go. After a disk error it refuses everything: what the disk holds is known only by re-reading."""

    def __init__(self, disk: Disk, file: File, block: Superblock, generation: int) -> None:
        self._disk = disk
        self._file = file
        self._block = block
        self.generation = generation
        self._offset = 0  # next record in this generation's half, after those held back
        self._synced = 0  # records below this are durable
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0
        self._growing: list[tuple[int, Tombstone]] = []  # their places among the gathered
        self._written = False  # something in the file, or held back, is newer than the last sync
        self._payloads: list[bytes] = []  # held back, for the units from the first to before the last
        self._first_unit = self._end_unit = 0
        self._payload_limit = min(HELD_PAYLOAD_BYTES, block.data_units * UNIT_BYTES // 8) // UNIT_BYTES
        self._records: list[bytes] = []  # held back, the last of them ends at the offset
        self._record_bytes = 0
        self._record_limit = min(HELD_RECORD_BYTES, block.half_bytes // 8)
        self._gather_limit = min(GATHERED_BYTES, block.half_bytes // 16)
        self._given_up: File | None = None  # once this life has made one
        self._given_up_bytes = 0  # half of it
        self.failed: OSError | None = None

    def add(self, item: bytes) -> bool:
        """Gather a change; True when enough has come together for a record."""
        self._gathered.append(item)
        self._gathered_bytes += len(item)
        return self._gathered_bytes >= self._gather_limit

    def add_tombstone(self, tombstone: Tombstone) -> None:
        """Gather a tombstone that may grow until its record is made; what it is then will be written."""
        self._growing.append((len(self._gathered), tombstone))
        self.add(bytes(TOMBSTONE_ITEM_BYTES))

    @property
    def used(self) -> bool:
        """Whether this generation has records that opening would have to replay."""
        return self._offset > 0

    @property
    def dirty(self) -> bool:
        return self._written or bool(self._gathered)

    def write_payload(self, extents: tuple[Extent, ...], payload: bytes) -> None:
        self._written = True
        if len(extents) == 1 and extents[0][1] <= self._payload_limit:
            first, units = extents[0]
            end, held = first + units, self._payloads
            if not held or first != self._end_unit or end - self._first_unit > self._payload_limit:
                self._write_payloads()
                self._first_unit = first
            elif padding := -len(held[-1]) % UNIT_BYTES:
                held.append(bytes(padding))
            held.append(payload)
            self._end_unit = end
            return
        self._write_payloads()
        view = memoryview(payload)
        for first, units in extents:
            self._write(self._block.data_start + first * UNIT_BYTES, view[: units * UNIT_BYTES])
            view = view[units * UNIT_BYTES :]

    def flush(self, *, whole: bool = False) -> bool:
        """Take what is gathered into this generation. Not durable yet.

        False when it does not fit any more; then it takes a new index. Several changes share a record, whose making
        costs as much as a change: so it is made only when enough came together, or with `whole`.
        """
        if self.failed is not None:
            raise self._failure()
        if not self._gathered:
            return True
        if self._gathered_bytes > self._block.half_bytes - self._offset - RECORD_HEADER_BYTES - RECORD_ALIGNMENT:
            return False
        self._written = True
        if whole or self._gathered_bytes >= self._gather_limit:
            self._make_record()
            if self._record_bytes > self._record_limit:
                self.write_out()
        return True

    def _make_record(self) -> None:
        """What is gathered as one record: all of it is found again, or none."""
        for place, tombstone in self._growing:
            self._gathered[place] = tombstone_item(tombstone)
        record = encode_record(self.generation, self._offset, self._synced, b"".join(self._gathered))
        self._records.append(record)
        self._record_bytes += len(record)
        self._offset += len(record)
        self._clear()

    def write_out(self) -> None:
        """Hand what is held back to the file: the payloads, then the records that name them. Not durable yet.

        What is only gathered stays: a batch without its record is as if it had not been written.
        """
        self._write_payloads()
        if self._records:
            begin = self._block.half_start(self.generation) + self._offset - self._record_bytes
            records = b"".join(self._records)
            self._records.clear()
            self._record_bytes = 0
            self._write(begin, records)

    def _write_payloads(self) -> None:
        if self._payloads:
            payloads = self._payloads[0] if len(self._payloads) == 1 else b"".join(self._payloads)
            self._payloads.clear()
            self._write(self._block.data_start + self._first_unit * UNIT_BYTES, payloads)

    def _write(self, offset: int, data: bytes | memoryview) -> None:
        try:
            self._file.write(offset, data)
        except OSError as error:
            raise self._fail(error) from error

    def sync(self) -> None:
        """Everything written so far is durable when this returns."""
        self.check()
        self.write_out()
        try:
            self._file.sync()
        except OSError as error:
            raise self._fail(error) from error
        self._synced = self._offset
        self._written = False

    def note_given_up(self, items: list[bytes]) -> None:
        """Make it durable that these were given up, without waiting for the payloads written meanwhile."""
        self.check()
        copy = encode_given_up(self.generation, self._offset, items)
        try:
            if self._given_up is None or len(copy) > self._given_up_bytes:
                self._make_given_up(copy)
                return
            for offset in (0, self._given_up_bytes):  # one after the other: one is always whole
                self._given_up.write(offset, copy)
                self._given_up.sync()
        except OSError as error:
            raise self._fail(error) from error

    def _make_given_up(self, copy: bytes) -> None:
        """A new file for these lists, with room to write the next ones in place: that costs no entry in a directory."""
        self.close()
        self._given_up_bytes = max(GIVEN_UP_BYTES, 2 * len(copy))
        self._disk.replace(GIVEN_UP_FILE, copy.ljust(self._given_up_bytes, b"\0") * 2)
        self._given_up = self._disk.open(GIVEN_UP_FILE)

    def close(self) -> None:
        if self._given_up is not None:
            self._given_up.close()
            self._given_up = None

    def begin_generation(self, index: bytes) -> None:
        """Put a new index in place, which covers everything gathered, and go on in the other half."""
        self.sync()  # the index calls its batches durable, so their bytes come first
        try:
            for name in INDEX_FILES:
                self._disk.replace(name, index)
        except OSError as error:
            raise self._fail(error) from error
        self.generation += 1
        self._offset = self._synced = 0
        self._clear()

    def _clear(self) -> None:
        self._gathered.clear()
        self._gathered_bytes = 0
        self._growing.clear()

    def check(self) -> None:
        if self.failed is not None:
            raise self._failure()

    def _fail(self, error: OSError) -> DiskFailed:
        self.failed = error
        return self._failure()

    def _failure(self) -> DiskFailed:
        return DiskFailed(
            f"the disk refused a write: {self.failed}. Nothing after the last sync is acknowledged. Make room or "
            "replace the disk, then open the spool again: it continues from what the disk really holds",
            code="spool-disk",
        )
