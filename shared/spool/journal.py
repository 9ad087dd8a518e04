"""The journal of one spool: records gathered in memory, written in one piece, durable after one sync.

The payloads and the records that name them are in the same file, so one `sync` makes both durable and costs
one disk flush. When a generation's half is full the whole state goes into a new index (twice: one damaged copy
is then no loss) and the next generation begins in the other half.
"""

from __future__ import annotations

from shared.errors import DiskFailed
from shared.spool.disk import Disk, File
from shared.spool.entry import Extent
from shared.spool.segment import (
    RECORD_ALIGNMENT,
    RECORD_HEADER_BYTES,
    UNIT_BYTES,
    Superblock,
    encode_given_up,
    encode_record,
)

SPOOL_FILE = "spool"
GIVEN_UP_FILE = "spool.given-up"
INDEX_FILES = ("spool.index", "spool.index.copy")


class Journal:
    """Where records go. After a disk error it refuses everything: what the disk holds is known only by re-reading."""

    def __init__(self, disk: Disk, file: File, block: Superblock, generation: int) -> None:
        self._disk = disk
        self._file = file
        self._block = block
        self.generation = generation
        self._offset = 0  # next record in this generation's half
        self._synced = 0  # records below this are durable
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0
        self._written = False  # something in the file is newer than the last sync
        self._failed: OSError | None = None

    def add(self, item: bytes) -> None:
        self._gathered.append(item)
        self._gathered_bytes += len(item)

    @property
    def used(self) -> bool:
        """Whether this generation has records that opening would have to replay."""
        return self._offset > 0

    @property
    def dirty(self) -> bool:
        return self._written or bool(self._gathered)

    def write_payload(self, extents: tuple[Extent, ...], payload: bytes) -> None:
        start = self._block.data_start
        view = memoryview(payload)
        try:
            for first, units in extents:
                self._file.write(start + first * UNIT_BYTES, view[: units * UNIT_BYTES])
                view = view[units * UNIT_BYTES :]
        except OSError as error:
            raise self._fail(error) from error
        self._written = True

    def flush(self) -> bool:
        """Hand what is gathered to the file as one record: all of it is found again, or none. Not durable yet.

        False when it does not fit this generation any more; then it takes a new index.
        """
        if self._failed is not None:
            raise self._failure()
        if not self._gathered:
            return True
        if self._gathered_bytes > self._block.half_bytes - self._offset - RECORD_HEADER_BYTES - RECORD_ALIGNMENT:
            return False
        record = encode_record(self.generation, self._offset, self._synced, b"".join(self._gathered))
        try:
            self._file.write(self._block.half_start(self.generation) + self._offset, record)
        except OSError as error:
            raise self._fail(error) from error
        self._offset += len(record)
        self._gathered.clear()
        self._gathered_bytes = 0
        self._written = True
        return True

    def sync(self) -> None:
        """Everything written so far is durable when this returns."""
        self.check()
        try:
            self._file.sync()
        except OSError as error:
            raise self._fail(error) from error
        self._synced = self._offset
        self._written = False

    def note_given_up(self, items: list[bytes]) -> None:
        """Make it durable that these were given up, without waiting for the payloads written meanwhile."""
        self.check()
        try:
            self._disk.replace(GIVEN_UP_FILE, encode_given_up(self.generation, self._offset, items))
        except OSError as error:
            raise self._fail(error) from error

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
        self._gathered.clear()
        self._gathered_bytes = 0

    def check(self) -> None:
        if self._failed is not None:
            raise self._failure()

    def _fail(self, error: OSError) -> DiskFailed:
        self._failed = error
        return self._failure()

    def _failure(self) -> DiskFailed:
        return DiskFailed(
            f"the disk refused a write: {self._failed}. Nothing after the last sync is acknowledged. Make room or "
            "replace the disk, then open the spool again: it continues from what the disk really holds",
            code="spool-disk",
        )
