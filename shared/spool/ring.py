"""The spool on disk: a preallocated ring of batches, crash-safe at every write.

Theory of operation. A batch's payload goes into free units of the data area and a record naming it into the
journal; one `sync` makes both durable (group commit: many appends, one sync). To make room the policy gives up
batches anywhere in the ring: each leaves a tombstone record, and its units are written over only after that
tombstone is durable, so a crash finds either the batch or its tombstone, never neither. To keep that from costing
a sync per append the data area is an eighth larger than the capacity: freed units wait there until the next
sync, or until they are needed, when the tombstones alone are made durable. Nothing is ever moved.

Numbers: an edge's head is in the index and moves with each record, so it survives when the spool is empty or
trimmed. A trim may be forgotten by a crash: the batches are sent again and the log drops duplicates. What a
caller may send is only what `pending` yields, and `pending` yields only what is durable.

The account is exact: a batch counts its payload and 96 bytes of control block, in bytes, not in pages.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator

from shared.errors import BrokenInvariant, DamagedData, PeerError, ResurgeError, UsageError
from shared.identity import DEVICE_ID_BYTES, DeviceId, EdgeId
from shared.spool.cipher import IN_THE_CLEAR, Cipher
from shared.spool.contents import Contents
from shared.spool.disk import Disk, File
from shared.spool.entry import PRIORITY_MAX, DataEntry, Entry, Reason, SpooledBatch, Tombstone
from shared.spool.evict import Evict, choice
from shared.spool.fresh import Fresh
from shared.spool.journal import INDEX_FILES, SPOOL_FILE, Journal
from shared.spool.ledger import Ledger
from shared.spool.payloads import damaged, read_payload
from shared.spool.recovery import Recovered, recover
from shared.spool.segment import (
    CONTROL_BYTES,
    RECORD_ALIGNMENT,
    UNIT_BYTES,
    Kind,
    Superblock,
    append_item,
    encode_control,
    encode_index,
    encode_superblock,
    head_item,
    tombstone_item,
    trim_item,
    units_of,
)
from shared.spool.statistics import SpoolStatistics, statistics_of

CAPACITY_BYTES_MIN = 4096
_FILL_BYTES = 1 << 20
FRESH_BYTES = 8 << 20  # of what waits here, in memory as well


class SpoolFull(ResurgeError):
    """The `block` policy: no room until a receipt; the batch was not numbered, keep it and try again."""


class Spool:
    """A durable, bounded, numbered queue per edge, in one file. Not thread-safe: the node's loop owns it."""

    def __init__(self, disk: Disk, file: File, recovered: Recovered, cipher: Cipher | None) -> None:
        self._disk = disk
        self._file = file
        self._block = recovered.block
        self.evict = Evict(recovered.block.evict)
        self._capacity = recovered.block.capacity_bytes
        self._cipher = cipher
        self._contents = recovered.contents
        self._free = recovered.free
        self._journal = Journal(disk, file, recovered.block, recovered.generation)
        self._start_generation = recovered.changed
        self._repair_superblock = not recovered.superblocks_whole
        self._damage = recovered.damage
        self._unsynced_tombstones: set[tuple[EdgeId, int]] = set()  # and some that were joined to others
        self._fresh = Fresh(FRESH_BYTES)

    @classmethod
    def create(
        cls,
        disk: Disk,
        *,
        capacity_bytes: int,
        device: DeviceId,
        incarnation: int,
        evict: Evict = Evict.QUERY_AWARE,
        cipher: Cipher | None = None,
        journal_bytes: int | None = None,
    ) -> Spool:
        """A new, empty spool. Its whole space is taken now, so that a full disk is met here and not while recording.

        `journal_bytes` is the room for records before the index is written anew; by default a 32nd of the capacity.
        """
        if INDEX_FILES[0] in disk.names():
            raise UsageError("there is a spool here already; open it", code="spool-exists")
        if capacity_bytes < CAPACITY_BYTES_MIN or len(device) != DEVICE_ID_BYTES:
            raise UsageError(
                f"a spool has at least {CAPACITY_BYTES_MIN} bytes and a device id of {DEVICE_ID_BYTES}",
                code="spool-capacity",
            )
        half = max(1 << 12, journal_bytes) if journal_bytes else max(1 << 16, capacity_bytes // 32)
        block = Superblock(
            device=device,
            incarnation=incarnation,
            evict=evict,
            capacity_bytes=capacity_bytes,
            half_bytes=half + -half % RECORD_ALIGNMENT,
            data_units=units_of(capacity_bytes + capacity_bytes // 8),
            cipher=cipher.fingerprint() if cipher else IN_THE_CLEAR,
        )
        file = disk.open(SPOOL_FILE, create=True)
        try:
            file.truncate(0)  # an earlier creation may have stopped half way
            zeros = bytes(_FILL_BYTES)
            for offset in range(0, block.file_bytes, _FILL_BYTES):
                file.write(offset, memoryview(zeros)[: min(_FILL_BYTES, block.file_bytes - offset)])
            file.write(0, encode_superblock(block) * 2)
            file.sync()
            disk.sync()
            # The index makes it a spool; until it is in place there is none.
            for name in INDEX_FILES:
                disk.replace(name, encode_index(0, 0, []))
        finally:
            file.close()
        return cls.open(disk, cipher)

    @classmethod
    def open(cls, disk: Disk, cipher: Cipher | None = None) -> Spool:
        """The spool that is here, after any kind of stop. Writes nothing until the first change."""
        if SPOOL_FILE not in disk.names():
            raise UsageError("there is no spool here; create one first", code="spool-missing")
        file = disk.open(SPOOL_FILE)
        try:
            recovered = recover(disk, file)
            if recovered.block.cipher != (cipher.fingerprint() if cipher else IN_THE_CLEAR):
                raise UsageError(
                    "this spool was written with another key, or without one; open it with the key it was made with",
                    code="spool-key",
                )
            if recovered.tail:
                file.sync()  # the last group may be only in the system's memory; `pending` will call it durable
        except BaseException:
            file.close()
            raise
        return cls(disk, file, recovered, cipher)

    @property
    def device(self) -> DeviceId:
        return self._block.device

    @property
    def incarnation(self) -> int:
        return self._block.incarnation

    @property
    def capacity_bytes(self) -> int:
        return self._block.capacity_bytes

    @property
    def ledger(self) -> Ledger:
        """Every range given up so far, also those whose tombstones were delivered."""
        return self._contents.ledger

    @property
    def dirty(self) -> bool:
        """Whether something is not durable yet."""
        return self._journal.dirty

    def edges(self) -> list[EdgeId]:
        return list(self._contents.edges)

    def head(self, edge: EdgeId) -> int:
        """The next sequence number of this edge. It never goes back for what was ever durable."""
        contents = self._contents.edges.get(edge)
        return contents.head if contents else 0

    def first(self, edge: EdgeId) -> int:
        """The first number of this edge that is still here, durable or not yet; its head where nothing is."""
        contents = self._contents.edges.get(edge)
        return contents.delivered if contents else 0

    def used_by(self, edge: EdgeId) -> int:
        """Bytes of an edge's batches that are here."""
        contents = self._contents.edges.get(edge)
        return contents.bytes if contents else 0

    def protect(self, edge: EdgeId, protected: bool = True) -> None:
        """Never give this edge's batches up to make room for others. Not stored: say it again after opening."""
        self._contents.protect(edge, protected)

    def promise(self, edge: EdgeId, kept_min: float) -> None:
        """Give up at most 1 - kept_min of this edge's numbers as long as other edges can make room within theirs.

        Not stored: say it again after opening. Without a promise all of an edge may go.
        """
        self._contents.promise(edge, kept_min)

    def append(self, batch: SpooledBatch, evict: Evict | None = None) -> Entry:
        """Take a batch whose `lo` is the edge's head; durable after `sync`.

        Gives up other batches as the policy says: the edge's, else the spool's. Returns a Tombstone instead, with the
        numbers used up, when the batch is larger than the whole spool, or when what may be given up for it would not
        be enough. Under the `block` policy it raises SpoolFull instead, with the numbers not used; an edge that
        blocks in a spool that does not is one to `protect`, and others make room for it.

        Promises come first: what can go within them does, or else the new batch itself if its edge can spare it. Only
        when neither is enough is a promise broken, as the policy says and in the ledger.
        """
        if self._start_generation:
            self._begin()
        journal, contents, edge, lo, hi = self._journal, self._contents, batch.edge, batch.lo, batch.hi
        if journal.failed is not None:
            journal.check()
        mine = contents.edges.get(edge)
        head = 0 if mine is None else mine.head
        if lo != head or not lo < hi:
            raise BrokenInvariant(
                f"a batch [{lo}, {hi}) cannot follow number {head}; numbers are taken from head() and never skipped",
                code="spool-numbering",
            )
        if not 0 <= batch.priority <= PRIORITY_MAX:
            raise UsageError(f"priority {batch.priority}; expected 0 to {PRIORITY_MAX}", code="spool-priority")
        control = encode_control(batch)
        sealed = batch.payload if self._cipher is None else self._cipher.seal(batch.payload, control)
        length = len(sealed)
        room = self._capacity - CONTROL_BYTES - length
        if contents.used_bytes > room:
            if room < 0:
                return self._bury(Tombstone(edge, lo, hi, Reason.REJECTED))
            if not self._make_room(batch, room, evict or self.evict):
                return self._bury(Tombstone(edge, lo, hi, Reason.EVICTED))
        units = -(-length // UNIT_BYTES)
        if units > self._free.free_units:
            self._free_what_was_given_up()
        extents, order, checksum = self._free.allocate(units), contents.next_order, zlib.crc32(sealed)
        item = append_item(control, order, length, checksum, extents)
        entry = DataEntry(edge, lo, hi, batch.priority, batch.deadline, order, length, extents, item)
        journal.write_payload(extents, sealed)
        self._fresh.add(extents, batch.payload)
        contents.append(entry)
        if journal.add(item):
            self._flush()
        return entry

    def sync(self) -> None:
        """Make everything so far durable. On an error nothing since the last good sync counts: open again."""
        self._journal.check()
        if not self._journal.dirty:
            return
        self._begin()
        if self._flush(whole=True):
            self._journal.sync()
            self._settle()

    def pending(self, edge: EdgeId, after: int = 0) -> Iterator[Entry]:
        """What is durable and not yet delivered, ascending: batches, and tombstones in their places. `after` leaves out
        what ends there or before."""
        contents = self._contents.edges.get(edge)
        if contents is None:
            return
        for entry in contents.entries(contents.entry_at(after)):
            if entry.lo >= contents.unsynced:
                return
            yield entry

    def read(self, entry: DataEntry) -> SpooledBatch:
        """The batch with its payload, checked.

        A batch that fails its check becomes a tombstone (damaged) and DamagedData is raised; ask `pending` again.
        """
        contents = self._contents.edges.get(entry.edge)
        if contents is None or contents.get(entry.lo) is not entry:
            raise BrokenInvariant(
                f"batch [{entry.lo}, {entry.hi}) is no longer in the spool; ask pending() again", code="spool-gone"
            )
        if (fresh := self._fresh.get(entry.extents)) is not None:
            return entry.batch(fresh)
        self._journal.write_out()  # a batch younger than the last sync may be held back
        stored = read_payload(self._file, self._block, entry)
        payload: bytes | None
        try:
            payload = self._cipher.open(stored, entry.control) if self._cipher and stored is not None else stored
        except DamagedData:
            payload = None
        if payload is None:
            self._give_up_damaged(entry)
            raise DamagedData(
                f"batch [{entry.lo}, {entry.hi}) fails its checksum; it was given up and entered in the ledger",
                code="spool-payload",
            )
        return entry.batch(payload)

    def verify(self) -> int:
        """Check the payload of every batch here and give up those that fail, as `read` does; how many there are.

        The checksums say whether the disk gave back what was written; only `read` also asks the cipher.
        """
        self._journal.write_out()
        batches = [entry for entry in self._contents.live() if isinstance(entry, DataEntry)]
        for entry in damaged(self._file, self._block, batches):
            self._give_up_damaged(entry)
        return len(batches)

    def _give_up_damaged(self, entry: DataEntry) -> None:
        self._begin()
        self._damage += 1
        self._bury(Tombstone(entry.edge, entry.lo, entry.hi, Reason.DAMAGED))

    def sent(self, edge: EdgeId, through: int) -> None:
        """Entries below `through` have been handed to a link: from now on their boundaries stay as they are.

        A tombstone never sent may still grow by its neighbours. After a restart everything counts as sent.
        """
        contents = self._contents.edge(edge)
        contents.frozen = max(contents.frozen, through)

    def trim(self, edge: EdgeId, through: int) -> None:
        """A receipt: the log has everything below `through`.

        Whole entries only. Durable with the next sync; forgotten by a crash it costs a resend, nothing more.
        """
        contents = self._contents.edges.get(edge)
        if contents is None or through > contents.head:
            raise PeerError(
                f"a receipt up to {through} for an edge that has reached {self.head(edge)}: this spool is older than "
                "what was sent from it. Enrol again, which starts a new incarnation",
                code="spool-trim-ahead",
            )
        if through <= contents.delivered:
            return
        if not contents.is_boundary(through):
            raise PeerError(f"a receipt up to {through} ends inside a batch", code="spool-trim-partial")
        self._begin()
        self._contents.trim(edge, through)
        self._journal.add(trim_item(edge, through))

    def restart(self, edge: EdgeId, at: int) -> None:
        """This edge's numbers go on from `at`, as somebody else left them; what is here of it goes. Durable at once."""
        self._begin()
        self._contents.restart(edge, at)
        self._checkpoint()

    def give_up(self, edge: EdgeId, lo: int, hi: int, reason: Reason) -> Tombstone:
        """Put a tombstone over whole entries of [lo, hi), or over new numbers when `lo` is the head."""
        self._begin()
        contents = self._contents.edge(edge)
        if lo < contents.delivered:
            raise BrokenInvariant(f"[{lo}, {hi}) was delivered; it cannot be given up", code="spool-numbering")
        return self._bury(Tombstone(edge, lo, hi, reason))

    def expire(self, now_us: int) -> list[Tombstone]:
        """Give up every batch whose deadline has passed."""
        late = list(self._contents.late(now_us))
        return [self.give_up(entry.edge, entry.lo, entry.hi, Reason.EXPIRED) for entry in late]

    @property
    def used_bytes(self) -> int:
        return self._contents.used_bytes

    def statistics(self) -> SpoolStatistics:
        return statistics_of(
            self._contents, capacity_bytes=self.capacity_bytes, damage=self._damage, pieces=self._free.pieces
        )

    def time_until_overwrite(self, bytes_per_second: float) -> float:
        """Seconds until something must be given up at this rate."""
        room = self.capacity_bytes - self._contents.used_bytes
        return room / bytes_per_second if bytes_per_second > 0 else math.inf

    def close(self) -> None:
        """Sync and leave an index that needs no replay. A spool that failed is only closed."""
        try:
            self.sync()
            if self._journal.used or self._start_generation:
                self._checkpoint()
        finally:
            self._journal.close()
            self._file.close()

    def _begin(self) -> None:
        """Before the first change after opening: never continue a half that recovery had to interpret."""
        self._journal.check()
        if not self._start_generation:
            return
        if self._repair_superblock:
            for place, copy in enumerate((encode_superblock(self._block),) * 2):
                self._file.write(place * len(copy), copy)
        self._start_generation = self._repair_superblock = False
        self._checkpoint()

    def _make_room(self, batch: SpooledBatch, room: int, evict: Evict) -> bool:
        """Algorithm 1's loop: until what is here fits into `room`, give up what the policy says."""
        contents = self._contents
        wanted = contents.used_bytes - room
        ranked = batch.priority if evict is Evict.PRIORITY else None
        most = within = 0 if self.evict is Evict.BLOCK else contents.bytes_within_promises(wanted, ranked)
        if most < wanted and evict is not Evict.BLOCK and self._can_spare(batch):
            return False
        if most < wanted:
            if evict is Evict.PRIORITY:
                most = contents.bytes_up_to(batch.priority)
            else:
                most = 0 if self.evict is Evict.BLOCK else contents.bytes_to_give_up()
        if most < wanted:
            if evict is not Evict.BLOCK:
                return False
            raise SpoolFull(
                f"{self._capacity - room} bytes do not fit beside {contents.used_bytes} of {self._capacity}; the block "
                "policy keeps what is there. Try again after the next receipt",
                code="spool-full",
            )
        evict = self.evict if evict is Evict.BLOCK else evict
        choose = choice(evict)
        while contents.used_bytes > room:
            # Most spools have promises on all edges, and then nothing can go within them: do not look for it.
            chosen = choose(contents, batch.edge, batch.priority, True) if within else None
            if chosen is None:
                chosen = choose(contents, batch.edge, batch.priority, False)
            if chosen is None:
                raise BrokenInvariant("the account says full and there is nothing to give up", code="spool-account")
            tombstone = contents.evict(chosen)
            if tombstone is not None:
                self._note_tombstone(tombstone)
        return True

    def _can_spare(self, batch: SpooledBatch) -> bool:
        """Whether giving the new batch up breaks no promise of its edge."""
        mine = self._contents.edge(batch.edge)
        return batch.hi - batch.lo <= self._contents.may_lose(mine, batch.hi)

    def _bury(self, tombstone: Tombstone) -> Tombstone:
        joined = self._contents.bury(tombstone)
        self._note_tombstone(joined)
        self._flush()
        return joined

    def _free_what_was_given_up(self) -> None:
        """Freed units are needed before the next sync: first make durable that their batches were given up.

        Only that, in a small file of its own. A sync would do, but it waits for every payload written meanwhile.
        """
        if not self._flush(whole=True):
            return  # it took a new index, which settled everything
        items = [trim_item(edge.edge, edge.delivered) for edge in self._contents.edges.values()]
        for edge_number, lo in self._unsynced_tombstones:
            entry = self._contents.edges[edge_number].get(lo)
            if isinstance(entry, Tombstone):
                items.append(tombstone_item(entry))
        self._journal.note_given_up(items)
        self._release_removed()

    def _note_tombstone(self, tombstone: Tombstone) -> None:
        self._unsynced_tombstones.add((tombstone.edge, tombstone.lo))
        self._journal.add_tombstone(tombstone)

    def _release_removed(self) -> None:
        """It is durable that these were given up or delivered: their units may be written over."""
        self._free.release(self._contents.removed)
        self._fresh.forget(self._contents.removed)
        self._contents.removed.clear()

    def _flush(self, *, whole: bool = False) -> bool:
        """Take what is gathered into the journal; False when it went into a new index instead, durable at once."""
        self._contents.record += 1
        if self._journal.flush(whole=whole):
            return True
        self._checkpoint()
        return False

    def _checkpoint(self) -> None:
        self._journal.begin_generation(self._index(self._journal.generation + 1))
        self._settle()

    def _settle(self) -> None:
        self._release_removed()
        self._contents.settle()
        self._unsynced_tombstones.clear()

    def _index(self, generation: int) -> bytes:
        contents: Contents = self._contents
        items = [tombstone_item(given_up, Kind.LEDGER) for given_up in contents.ledger]
        items += [head_item(head) for head in contents.heads()]
        items += [entry.item if isinstance(entry, DataEntry) else tombstone_item(entry) for entry in contents.live()]
        return encode_index(generation, contents.next_order, items)
