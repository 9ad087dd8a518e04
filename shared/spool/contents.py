"""What is in the spool, in memory: per edge the entries in order, and the numbers that outlive them.

An edge's entries cover [delivered, head) without gaps: a batch or a tombstone ends where the next begins. So the
neighbours of an entry are found by its ends, and nothing has to be kept sorted.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator

from shared.errors import BrokenInvariant
from shared.identity import EdgeId
from shared.spool.entry import NO_DEADLINE, DataEntry, Entry, Extent, Reason, Tombstone
from shared.spool.ledger import Ledger, Range
from shared.spool.segment import CONTROL_BYTES, EdgeHead

NOTHING_UNSYNCED = 1 << 64  # beyond every sequence number


class EdgeContents:
    """What is spooled of one edge."""

    def __init__(self, edge: EdgeId) -> None:
        self.edge = edge
        self.delivered = 0  # entries start here: what is below has a receipt and is gone
        self.head = 0  # the next sequence number; never goes back
        self.frozen = 0  # below this an entry may have been sent, so its boundaries stay
        self.batches = 0  # undelivered ones
        self.bytes = 0  # of those
        self.protected = False  # its batches are never given up to make room
        self.kept_min = 0.0  # promised: at least this share of its numbers is not given up while others can make room
        self.unsynced = NOTHING_UNSYNCED  # entries from here on are not durable yet, or may not be
        self._by_lo: dict[int, Entry] = {}
        self._tombstones: dict[int, Tombstone] = {}  # by their ends
        self._first = 0  # no batch below this is pending
        # The tombstone that giving up the oldest batches one by one makes longer. Its item is gathered for the
        # journal and not written yet, so nobody has seen it; it may cover what was there before its item was.
        self._growing: Tombstone | None = None
        self._grows_to = 0
        self._grows_in = 0  # while the contents' record is this one
        self._ledgered: Range | None = None  # where the ledger has it, and may have more before it

    @property
    def elements(self) -> int:
        """How many the undelivered batches cover."""
        given_up = sum(tombstone.hi - tombstone.lo for tombstone in self._tombstones.values())
        return self.head - self.delivered - given_up

    def begin(self, delivered: int) -> None:
        """Before anything is in it: entries will start here, and bring the head up."""
        self.delivered = self.head = self._first = delivered

    def entries(self, start: int) -> Iterator[Entry]:
        while start < self.head:
            entry = self._by_lo[start]
            yield entry
            start = entry.hi

    def entry_at(self, number: int) -> int:
        """Where the entry that holds this number begins; the first one's begin for a number before it."""
        if number >= self.head:  # who has all that is here asks this all the time
            return self.head
        if number <= self.delivered or number in self._by_lo:
            return max(number, self.delivered)
        return next((entry.lo for entry in self.entries(self.delivered) if number < entry.hi), self.head)

    def get(self, lo: int) -> Entry | None:
        return self._by_lo.get(lo)

    def oldest(self) -> DataEntry | None:
        """The oldest batch not yet delivered."""
        while self._first < self.head:
            entry = self._by_lo[self._first]
            if isinstance(entry, DataEntry):
                return entry
            self._first = entry.hi
        return None

    def is_boundary(self, seq: int) -> bool:
        return seq in (self.delivered, self.head) or seq in self._by_lo

    def _put(self, tombstone: Tombstone) -> None:
        self._by_lo[tombstone.lo] = self._tombstones[tombstone.hi] = tombstone
        self.head = max(self.head, tombstone.hi)
        if tombstone.lo <= self._first:
            self._first = max(self._first, tombstone.hi)

    def _remove(self, entry: Entry) -> None:
        del self._by_lo[entry.lo]
        if isinstance(entry, Tombstone):
            del self._tombstones[entry.hi]
        else:
            self.batches -= 1
            self.bytes -= size_of(entry)


def size_of(entry: DataEntry) -> int:
    """What a batch counts in the account: the paper's control block and batch."""
    return CONTROL_BYTES + entry.payload_bytes


class Contents:
    """All edges, the account of bytes, and the ledger. `removed` collects the pieces that became free."""

    def __init__(self) -> None:
        self.edges: dict[EdgeId, EdgeContents] = {}
        self.ledger = Ledger()
        self.used_bytes = 0
        self.next_order = 0
        self.record = 0  # counts the journal's records: no tombstone grows over the end of one
        self.removed: list[Extent] = []
        self._by_deadline: list[tuple[int, int, DataEntry]] = []
        self._by_priority: list[tuple[int, int, int, DataEntry]] | None = None

    def edge(self, edge: EdgeId) -> EdgeContents:
        contents = self.edges.get(edge)
        if contents is None:
            contents = self.edges[edge] = EdgeContents(edge)
        return contents

    def append(self, entry: DataEntry) -> None:
        contents = self.edges.get(entry.edge) or self.edge(entry.edge)
        lo, hi = entry.lo, entry.hi
        if lo != contents.head or hi <= lo:
            raise BrokenInvariant(f"a batch [{lo}, {hi}) cannot follow number {contents.head}", code="spool-numbering")
        size = CONTROL_BYTES + entry.payload_bytes
        contents._by_lo[lo] = entry
        contents.head = hi  # and so beyond `delivered`, which the head never is
        contents.batches += 1
        contents.bytes += size
        if lo < contents.unsynced:  # noqa: PLR1730 - a call would cost more than everything else here
            contents.unsynced = lo
        self.used_bytes += size
        if entry.order >= self.next_order:
            self.next_order = entry.order + 1
        if entry.deadline != NO_DEADLINE:
            heapq.heappush(self._by_deadline, (entry.deadline, entry.order, entry))
        if self._by_priority is not None and not contents.protected:
            heapq.heappush(self._by_priority, _rank(entry))

    def evict(self, entry: DataEntry) -> Tombstone | None:
        """Give up a pending batch for room: as `bury`, by the short way that a full spool takes all the time.

        None: an earlier tombstone whose item waits for the journal grew over it, and needs no other.
        """
        contents = self.edges[entry.edge]
        lo, hi = entry.lo, entry.hi
        by_lo, tombstones, ledgered = contents._by_lo, contents._tombstones, contents._ledgered
        before = tombstones.pop(lo, None)
        if (
            before is None
            or ledgered is None
            or ledgered.hi != lo
            or before.lo < contents.frozen
            or type(by_lo.get(hi)) is Tombstone
        ):
            if before is not None:
                tombstones[lo] = before
            joined = self.bury(Tombstone(entry.edge, lo, hi, Reason.EVICTED))
            contents._ledgered = self.ledger.ending(joined)
            contents._growing, contents._grows_to, contents._grows_in = joined, contents.head, self.record
            return joined
        anew: Tombstone | None = None
        if before is not contents._growing or hi > contents._grows_to or contents._grows_in != self.record:
            before = anew = Tombstone(entry.edge, before.lo, lo, Reason.EVICTED)
            by_lo[before.lo] = before
            contents._growing, contents._grows_to, contents._grows_in = before, contents.head, self.record
            contents.unsynced = min(contents.unsynced, before.lo)
        del by_lo[lo]
        tombstones[hi] = before
        before.hi = hi
        self.ledger.extend(entry.edge, ledgered, hi)
        if lo == contents._first:
            contents._first = hi
        size = CONTROL_BYTES + entry.payload_bytes
        contents.batches -= 1
        contents.bytes -= size
        self.used_bytes -= size
        self.removed += entry.extents
        return anew

    def bury(self, tombstone: Tombstone) -> Tombstone:
        """Put a tombstone over whole entries, or after the last; joins it to unsent neighbours with its reason."""
        contents = self.edge(tombstone.edge)
        lo, hi = tombstone.lo, tombstone.hi
        before = contents._tombstones.get(lo) if lo > contents.delivered else None
        if before is not None and self._joins(contents, before, tombstone.reason):
            lo = before.lo
        after = contents.get(hi)
        if after is not None and tombstone.lo >= contents.frozen and self._joins(contents, after, tombstone.reason):
            hi = after.hi
        joined = tombstone if (lo, hi) == (tombstone.lo, tombstone.hi) else Tombstone(
            tombstone.edge, lo, hi, tombstone.reason
        )  # fmt: skip
        self.replace(joined)
        return joined

    def _joins(self, contents: EdgeContents, neighbour: Entry, reason: Reason) -> bool:
        return (
            neighbour.lo >= contents.frozen  # which is never below `delivered`
            and isinstance(neighbour, Tombstone)
            and neighbour.reason == reason
        )

    def replace(self, tombstone: Tombstone) -> None:
        """Exactly this tombstone in place of everything in its range; what replaying its record does."""
        contents = self.edge(tombstone.edge)
        if tombstone.lo > contents.head or tombstone.hi <= tombstone.lo or not contents.is_boundary(tombstone.lo):
            raise BrokenInvariant(
                f"a tombstone [{tombstone.lo}, {tombstone.hi}) does not fit whole entries", code="spool-numbering"
            )
        lo, hi, head = tombstone.lo, tombstone.hi, contents.head
        covered: list[Entry] = []
        while lo < hi and lo < head:
            entry = contents._by_lo[lo]
            covered.append(entry)
            lo = entry.hi
        if lo > hi:
            raise BrokenInvariant(
                f"a tombstone [{tombstone.lo}, {tombstone.hi}) ends inside a batch", code="spool-numbering"
            )
        contents._growing = contents._ledgered = None  # it may be covered, the ledger may join it to another
        for entry in covered:
            self._drop(contents, entry)
        contents._put(tombstone)
        contents.unsynced = min(contents.unsynced, tombstone.lo)
        self.ledger.add(tombstone)

    def settle(self) -> None:
        """Everything so far is durable."""
        for contents in self.edges.values():
            contents.unsynced = NOTHING_UNSYNCED

    def trim(self, edge: EdgeId, through: int) -> None:
        """Entries that end at or below `through` are delivered: they go."""
        contents = self.edge(edge)
        for entry in contents.entries(contents.delivered):
            if entry.hi > through:
                break
            self._drop(contents, entry)
            contents.delivered = entry.hi
        contents.frozen = max(contents.frozen, contents.delivered)
        contents._first = max(contents._first, contents.delivered)

    def restart(self, edge: EdgeId, at: int) -> None:
        """Forget what is spooled of an edge; its next number is `at`."""
        contents = self.edge(edge)
        for entry in list(contents.entries(contents.delivered)):
            self._drop(contents, entry)
        anew = self.edges[edge] = EdgeContents(edge)
        anew.begin(at)
        anew.protected = contents.protected
        self._by_priority = None

    def protect(self, edge: EdgeId, protected: bool) -> None:
        """Whether this edge's batches are kept whatever else needs room."""
        contents = self.edge(edge)
        if contents.protected != protected:
            contents.protected = protected
            self._by_priority = None

    def promise(self, edge: EdgeId, kept_min: float) -> None:
        """Which share of this edge's numbers is kept as long as others can make room."""
        self.edge(edge).kept_min = kept_min

    def may_lose(self, contents: EdgeContents, head: int | None = None) -> int:
        """How many numbers of the edge may still be given up within its promise, when it has reached `head`."""
        head = contents.head if head is None else head
        if contents.kept_min <= 0.0:
            return head
        # A share such as 0.9 is not exact in binary: what it asks for is rounded before it is rounded up.
        return head - math.ceil(round(contents.kept_min * head, 6)) - self.ledger.elements(contents.edge)

    def may_go(self, entry: DataEntry) -> bool:
        """Whether giving this batch up breaks no promise."""
        contents = self.edges[entry.edge]
        return not contents.protected and entry.hi - entry.lo <= self.may_lose(contents)

    def bytes_within_promises(self, wanted: int, priority: int | None = None) -> int:
        """What giving up batches, of at most this priority, would free without breaking a promise; counted no further
        than `wanted`."""
        found = 0
        for contents in self.edges.values():
            if contents.protected or contents.kept_min >= 1.0:
                continue
            if contents.kept_min <= 0.0 and priority is None:
                found += contents.bytes
                continue
            left = self.may_lose(contents)
            for entry in contents.entries(contents._first):
                if found >= wanted or left <= 0:
                    break
                if isinstance(entry, DataEntry) and (priority is None or entry.priority <= priority):
                    left -= entry.hi - entry.lo
                    found += size_of(entry) if left >= 0 else 0
        return found

    def bytes_to_give_up(self) -> int:
        """What giving up every batch that may go would free."""
        return sum(contents.bytes for contents in self.edges.values() if not contents.protected)

    def late(self, now_us: int) -> Iterator[DataEntry]:
        """Pending batches whose deadline has passed; each is told once, so give it up."""
        while self._by_deadline and self._by_deadline[0][0] < now_us:
            entry = heapq.heappop(self._by_deadline)[2]
            if self._is_pending(entry):
                yield entry

    def lowest_priority(self) -> DataEntry | None:
        """The batch to give up first by (priority, deadline, age)."""
        if self._by_priority is None:
            edges = [contents for contents in self.edges.values() if not contents.protected]
            live = (e for c in edges for e in c.entries(c.delivered) if isinstance(e, DataEntry))
            self._by_priority = [_rank(entry) for entry in live]
            heapq.heapify(self._by_priority)
        while self._by_priority:
            entry = self._by_priority[0][3]
            if self._is_pending(entry):
                return entry
            heapq.heappop(self._by_priority)
        return None

    def lowest_within_promises(self) -> DataEntry | None:
        """The batch to give up first by (priority, deadline, age) among those that may go."""
        live = (
            entry
            for contents in self.edges.values()
            if not contents.protected and self.may_lose(contents) > 0
            for entry in contents.entries(contents._first)
            if isinstance(entry, DataEntry) and self.may_go(entry)
        )
        return min(live, key=_rank, default=None)

    def bytes_up_to(self, priority: int) -> int:
        """What giving up every batch of at most this priority would free."""
        self.lowest_priority()
        ranked = self._by_priority or []
        return sum(size_of(e) for rank, _, _, e in ranked if rank <= priority and self._is_pending(e))

    def _is_pending(self, entry: DataEntry) -> bool:
        contents = self.edges[entry.edge]
        return contents.get(entry.lo) is entry

    def heads(self) -> list[EdgeHead]:
        return [EdgeHead(c.edge, c.delivered, c.head) for c in self.edges.values()]

    def live(self) -> Iterator[Entry]:
        for contents in self.edges.values():
            at, head, by_lo = contents.delivered, contents.head, contents._by_lo
            while at < head:  # as `entries`, of which there may be many
                entry = by_lo[at]
                yield entry
                at = entry.hi

    def _drop(self, contents: EdgeContents, entry: Entry) -> None:
        contents._remove(entry)
        if isinstance(entry, DataEntry):
            self.used_bytes -= size_of(entry)
            self.removed += entry.extents


def _rank(entry: DataEntry) -> tuple[int, int, int, DataEntry]:
    return entry.priority, entry.deadline, entry.order, entry
