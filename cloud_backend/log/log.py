"""The ingest log: every acknowledged batch and tombstone, once, in the order it was made durable.

One process appends. `append` only decides: it checks each frame against the index, gives it an offset and its place in
the chain, and keeps it in memory. `sync` writes everything appended since the last sync as one group and returns when
the disk has it: the price of a sync is shared by all who wait for it. A driver that wants to go on deciding while the
disk works calls the two halves itself: `take` in the deciding thread, `commit` in another. All that is left for
`commit` are system calls: a thread that computed there would take turns with the deciding one.

The rule that must never break: an acknowledgement leaves only after the commit of its group returned. After a
commit that failed nobody knows what the disk holds, and asking it again may answer "fine" for pages it has
dropped; so the log stops for good and whoever owns it opens it anew, which reads what is really there.

Opening reads the last segment whole. What follows its last sound record is cut off if it can be a torn write,
that is, if no record written after a later sync follows; otherwise acknowledged data is damaged and opening says
so instead of cutting. One case cannot be told apart: damage in the very last group of a log that was not closed.
`close` leaves a seal so that a log at rest has no such group, and a device that is told a mark below what it
already trimmed reports it.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from cloud_backend.log.format import (
    AFTER_SYNC,
    GENESIS,
    RECORD_HEADER_BYTES,
    SEAL,
    Record,
    decode_segment_header,
    encode_record,
    encode_segment_header,
    segment_chain,
    segment_name,
    synced_record_after,
)
from cloud_backend.log.index import EdgeState, Index
from cloud_backend.log.segments import bases, index_at, read_records, read_segment_header, sound_prefix
from cloud_backend.log.trimmed_index import TrimmedIndex, add_trimmed_index, read_trimmed_index
from shared.errors import BrokenInvariant, DamagedData, DiskFailed
from shared.identity import DeviceId, EdgeId, EdgeKey
from shared.spool.disk import Disk, File

SEGMENT_BYTES = 64 * 1024 * 1024
_FULL = (errno.ENOSPC, errno.EDQUOT)
_NO_FILES = (errno.EMFILE, errno.ENFILE)


@dataclass(frozen=True, slots=True)
class Group:
    """Records that become durable together, and the segment that follows them if theirs is full."""

    start: int
    end: int
    records: tuple[Record, ...]
    parts: tuple[bytes | memoryview, ...]  # what is written from `start` on: the header and frame of each record
    chain: bytes  # after them, and after that header
    next_header: bytes | None = None  # the whole header of the segment that starts at `end`

    def __bool__(self) -> bool:
        return bool(self.parts) or self.next_header is not None


class Log:
    """Use `Log.open`. Not for two threads at once, except one in `commit` while another appends."""

    def __init__(
        self, disk: Disk, *, base: int, file: File, index: Index, chain: bytes, end: int, segment_bytes: int
    ) -> None:
        self._disk = disk
        self._base = base
        self._decided_base = base  # of the segment in which the next record goes; ahead of `base` while one is made
        self._file = file
        self._index = index
        self._chain = chain
        self._end = end
        self._durable_end = end
        self._head = (end, chain)
        self._segment_bytes = segment_bytes
        self._reserved = file.size()  # bytes of the file already written, as zeros if not as records
        self._pending: list[Record] = []
        self._parts: list[bytes | memoryview] = []  # what is written for them
        self._pending_start = end
        self._committing = False
        self._stopped = False
        self._syncing = False  # a sync that fails may have dropped what it should have written, a write has not
        self.cut_bytes = 0  # of a torn write, which opening cut off

    @staticmethod
    def open(disk: Disk, *, segment_bytes: int = SEGMENT_BYTES) -> Log:
        """The log on this disk, or a new one. Cuts a torn tail off, raises DamagedData for anything worse."""
        found = bases(disk)
        if found and _is_unfinished(disk, found[-1]):
            disk.remove(segment_name(found.pop()))
            disk.sync()
        if not found:
            header = encode_segment_header(0, GENESIS, b"")
            return Log(
                disk, base=0, file=_create_segment(disk, 0, header), index=Index(), chain=segment_chain(header),
                end=len(header), segment_bytes=segment_bytes,
            )  # fmt: skip
        trimmed_files = read_trimmed_index(disk)
        for base in [base for base in found[:-1] if trimmed_files and base < trimmed_files[-1].end]:
            disk.remove(segment_name(base))  # trimming was decided and a crash cut it short
            disk.sync()
            found.remove(base)
        _check_joined(disk, found)
        base = found[-1]
        index = index_at(disk, base, trimmed_files)
        file = disk.open(segment_name(base))
        prefix = sound_prefix(file.read(0, file.size()), base, index)
        if prefix.torn_bytes:
            file.truncate(prefix.length)
        file.sync()  # what was read may be in the page cache only, and answers will rest on it
        disk.sync()
        log = Log(
            disk, base=base, file=file, index=index, chain=prefix.chain, end=base + prefix.length,
            segment_bytes=segment_bytes,
        )  # fmt: skip
        log.cut_bytes = prefix.torn_bytes
        return log

    def reopen(self) -> None:
        """Read again what the disk holds, after it refused a write: this log then goes on from there."""
        self._file.close()
        self.__dict__.update(Log.open(self._disk, segment_bytes=self._segment_bytes).__dict__)

    @property
    def start(self) -> int:
        """The first offset that is still kept."""
        return bases(self._disk)[0]

    def segment_starts(self) -> list[int]:
        """Offsets at which the kept segments start, ascending: the places one may start to read at."""
        return bases(self._disk)

    @property
    def end(self) -> int:
        """The offset after the last appended record, durable or not."""
        return self._end

    @property
    def durable_end(self) -> int:
        return self._durable_end

    @property
    def head(self) -> tuple[int, bytes]:
        """The durable end and the chain there: what nobody can change in front of it."""
        return self._head

    takes_marks = False  # they are for vertices; what is in the log is safe as it is
    commits_at_once = True  # a small group may be committed by the thread that decides

    def producer_term(self, carrier: DeviceId, key: EdgeKey) -> int | None:  # noqa: ARG002 - as a vertex answers it
        """None: a device sends its own elements here, nobody else's."""
        return None

    def high_water(self, key: EdgeKey) -> int:
        """What must come next on this edge. Counts what is appended and not yet durable: hold answers until a sync."""
        return self._index.high_water(key)

    def edges_of(self, device: DeviceId, incarnation: int) -> dict[EdgeId, int]:
        return self._index.edges_of(device, incarnation)

    def edges(self) -> Iterator[tuple[EdgeKey, EdgeState]]:
        return self._index.edges()

    def marks(self) -> dict[bytes, tuple[int, int]]:
        return self._index.marks()

    def declarations(self) -> dict[bytes, bytes]:
        return self._index.declarations()

    def totals_of(self, device: DeviceId, incarnation: int) -> tuple[int, int]:
        return self._index.totals_of(device, incarnation)

    def sums(self) -> dict[EdgeId, tuple[int, int]]:
        return self._index.sums()

    def append(self, records: Sequence[Record]) -> list[int]:
        """Decide where these records go. None is durable before the next `sync` returns."""
        self._check_running()
        offsets: list[int] = []
        for record in records:
            self._index.apply(record.frame)
            offsets.append(self._end)
            self._add(record, 0)
        return offsets

    def sync(self) -> None:
        """Make everything appended so far durable. A crash before it returns keeps a prefix of it, or none."""
        self.commit(self.take())

    def take(self, *, roll: bool = False) -> Group:
        """Everything appended since the last group. Commit it before the next one is taken. `roll`: a new segment
        starts after it, however short this one is."""
        self._check_running()
        if self._committing:
            raise BrokenInvariant("a group is still being committed", code="log-group-open")
        end, next_header = self._end, None
        if roll or end - self._decided_base >= self._segment_bytes:
            # What changed up to now: what is appended while this group commits comes after it.
            next_header = encode_segment_header(end, self._chain, self._index.encode_changes())
            self._index.start_changes()
            self._chain = segment_chain(next_header)
            self._decided_base = end
            self._end += len(next_header)
        group = Group(
            self._pending_start, end, tuple(self._pending), tuple(self._parts), self._chain, next_header
        )  # fmt: skip
        self._pending, self._parts = [], []
        self._pending_start = self._end
        self._committing = bool(group)
        return group

    def _add(self, record: Record, flags: int) -> None:
        if not self._parts:
            flags |= AFTER_SYNC  # the group before this one is synced before this one is taken
        frame = record.frame
        header, self._chain = encode_record(record, self._end, self._chain, flags)
        self._pending.append(record)
        self._parts += (header, frame)
        self._end += RECORD_HEADER_BYTES + len(frame)

    def commit(self, group: Group) -> None:
        """Write and sync a group; on any failure the log stops, see the head of this file."""
        if not group:
            return
        try:
            if group.parts:
                self._file.write_parts(group.start - self._base, group.parts)
                self._reserved = max(self._reserved, group.end - self._base)
            if group.next_header is None:
                self._syncing = True
                self._file.sync()
                self._syncing = False
            end = group.end if group.next_header is None else self._roll(group.end, group.next_header)
        except OSError as error:
            raise self._refused(error) from error
        except BaseException:
            self._stopped = True
            raise
        self._durable_end = end
        self._head = (end, group.chain)
        self._committing = False

    def read(self, start: int, end: int, *, erased: bool = False) -> Iterator[tuple[int, Record]]:
        """Durable records that start in [start, end), with their offsets. Raises DamagedData where one is not whole."""
        return read_records(self._disk, start, min(end, self._durable_end), erased=erased)

    def keep_trimmed_index(self, before: int) -> None:
        """Make durable what trimming up to this offset must not forget. Reads closed segments only: it may run in a
        thread of its own while groups are committed, but not beside `trim` or another of its kind."""
        new_start = self._start_after(before)
        trimmed_files = read_trimmed_index(self._disk)
        covered = trimmed_files[-1].end if trimmed_files else 0
        if new_start <= max(covered, self.start):
            return
        whole = index_at(self._disk, new_start, ()) if self._holds_whole_index(new_start, covered) else None
        if whole is not None:
            entries, covered = whole.encode(), 0
        else:
            changes = Index()
            for base in bases(self._disk):
                if covered < base <= new_start:
                    changes.add_entries(read_segment_header(self._disk, base).entries)
            entries = changes.encode()
        add_trimmed_index(self._disk, TrimmedIndex(covered, new_start, entries))

    def _holds_whole_index(self, new_start: int, covered: int) -> bool:
        """Whether a segment of an older version opens with all entries: then the files start over with it."""
        between = [base for base in bases(self._disk) if covered < base <= new_start]
        return any(read_segment_header(self._disk, base).is_whole for base in between)

    def _start_after(self, before: int) -> int:
        """Where the log would start once it is trimmed up to this offset."""
        return max((base for base in bases(self._disk) if base <= min(before, self._base)), default=0)

    def trim(self, before: int) -> int:
        """Remove whole segments that end at or before this offset; returns how many bytes. The index stays."""
        self.keep_trimmed_index(before)
        freed = 0
        found = bases(self._disk)
        for base, following in pairwise(found):
            if following > before or following > self._base:
                break
            self._disk.remove(segment_name(base))
            self._disk.sync()  # one by one from the oldest: a crash must never leave a hole between two segments
            freed += following - base
        return freed

    def closed_segments(self) -> list[int]:
        """Where the segments start that nothing is appended to any more."""
        return [base for base in bases(self._disk) if base < self._base]

    def closed_segment(self, base: int) -> bytes:
        file = self._disk.open(segment_name(base))
        try:
            return file.read(0, file.size())
        finally:
            file.close()

    def replace_closed(self, base: int, data: bytes) -> None:
        """Put other bytes in the place of a closed segment, durably: old or new after a crash. Lengths cannot change:
        offsets name records for as long as they are kept."""
        if base not in self.closed_segments() or len(data) != len(self.closed_segment(base)):
            raise BrokenInvariant("only a closed segment is replaced, by one as long", code="log-replace")
        self._disk.replace(segment_name(base), data)

    def unreserved(self, length: int) -> bool:
        """Whether less than this is left of what was reserved, in a segment that has room for more."""
        used = self._durable_end - self._base
        return self._reserved < min(used + length, self._segment_bytes)

    def reserve(self, length: int) -> None:
        """Fill the segment with zeros this far past its end, so that a sync need not also move the file's end.

        Worth it for small groups where a sync of a growing file is slow (ext4: half the speed at 100 KB); writing
        large groups twice costs more than it saves. Zeros after the last record
        mean nothing, and a disk too full for them may still hold records. Call it while no group is being committed.
        """
        self._check_running()
        wanted = min(self._durable_end - self._base + length, self._segment_bytes)
        if wanted <= self._reserved:
            return
        try:
            self._file.write(self._reserved, bytes(wanted - self._reserved))
            self._syncing = True
            self._file.sync()
            self._syncing = False
        except OSError as error:
            if error.errno in _FULL and not self._syncing:
                return
            raise self._refused(error) from error
        self._reserved = wanted

    def close(self) -> None:
        """Make what is left durable and put a seal behind it; a stopped log is only closed."""
        if not self._stopped:
            self.sync()
            self._add(Record(0, b""), SEAL)
            self.sync()
        self._file.close()

    def _roll(self, end: int, header: bytes) -> int:
        """Close the segment at this end and start the next; the old one is whole on disk before the new one exists."""
        self._file.truncate(end - self._base)
        self._syncing = True
        self._file.sync()
        self._syncing = False
        full, self._file = self._file, _create_segment(self._disk, end, header)  # which may fail: `reopen` closes one
        full.close()
        self._base = end
        self._reserved = len(header)
        return end + len(header)

    def _refused(self, error: OSError) -> DiskFailed:
        """Stop, and say why: nobody knows any more what the disk holds."""
        self._stopped = True
        code, remedy = "log-disk-failed", "Check the disk, then start the gateway again"
        if error.errno in _FULL:
            remedy = "Free some space, or add a disk"
            code = code if self._syncing else "log-disk-full"
        elif error.errno in _NO_FILES and not self._syncing:
            code, remedy = "log-no-descriptors", "Allow this process more open files (ulimit -n)"
        return DiskFailed(
            f"the disk refused the log: {error.strerror}; nothing after the last group was acknowledged. {remedy}",
            code=code,
        )

    def _check_running(self) -> None:
        if self._stopped:
            raise BrokenInvariant(
                "the log stopped because the disk refused a write or a sync; open it again to see what it holds",
                code="log-stopped",
            )


def _create_segment(disk: Disk, base: int, header: bytes) -> File:
    file = disk.open(segment_name(base), create=True)
    try:
        file.truncate(0)
        file.write(0, header)
        file.sync()
        disk.sync()
    except BaseException:
        file.close()
        raise
    return file


def _is_unfinished(disk: Disk, base: int) -> bool:
    """Whether a segment's creation was cut short.

    Its header is durable before anything in it is acknowledged, so one that is torn and has no record written
    after a sync behind it was never used.
    """
    file = disk.open(segment_name(base))
    data = file.read(0, file.size())
    file.close()
    try:
        decode_segment_header(data, base)
    except DamagedData as error:
        return error.code == "log-segment-header" and synced_record_after(data, 0, base) is None
    return False


def _check_joined(disk: Disk, found: list[int]) -> None:
    """No bytes may be missing between two segments; `verify` also follows the hashes from one to the next."""
    for base, following in pairwise(found):
        file = disk.open(segment_name(base))
        size = file.size()
        file.close()
        if base + size != following:
            raise DamagedData(
                f"segment {segment_name(base)} has {size} bytes, the next one starts {following - base} bytes later; "
                "restore it from a copy with resurge log verify --repair",
                code="log-segment-length",
            )
