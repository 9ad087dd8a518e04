"""Which units of the data area are free.

Batches leave from the middle of the ring, so free space comes in pieces and a batch may be chained over
several of them: nothing is ever moved. Pieces are kept sorted and joined with their neighbours, but for the one
that batches are just being taken from. What was freed since the last sync is not handed in here before it is durably
free: until then a crash may bring its old owner back, and that owner's bytes must still be there.
"""

from __future__ import annotations

from bisect import bisect_left

from shared.errors import BrokenInvariant
from shared.spool.entry import Extent

# How many pieces to look at for one that holds the whole batch, before chaining over small ones.
SEARCHED_PIECES = 16


class FreeExtents:
    """Free pieces of [0, units); `allocate` walks around them like a ring so that old bytes last longest."""

    def __init__(self, units: int) -> None:
        self._starts: list[int] = [0] if units else []
        self._lengths: dict[int, int] = {0: units} if units else {}
        self._cursor = 0
        self._left = 0  # units of the current piece, which begins at the cursor and is not among the others
        self.units = units
        self.free_units = units  # ready to be written over

    @staticmethod
    def around(units: int, used: list[Extent]) -> FreeExtents | None:
        """What is free beside all these pieces, found in one pass; None when they overlap or make no sense."""
        free = FreeExtents(0)
        free.units = units
        end = 0
        for start, length in sorted(used):
            if start < end or length == 0:
                return None
            if start > end:
                free._starts.append(end)
                free._lengths[end] = start - end
            end = start + length
        if end > units:
            return None
        if end < units:
            free._starts.append(end)
            free._lengths[end] = units - end
        free.free_units = sum(free._lengths.values())
        return free

    def allocate(self, units: int) -> tuple[Extent, ...]:
        """Pieces of `units` in all. The caller has checked `free_units`."""
        if 0 < units < self._left:  # the current piece holds it and stays a piece: the usual case
            first = self._cursor
            self._cursor = first + units
            self._left -= units
            self.free_units -= units
            return ((first, units),)
        if units > self.free_units:
            raise BrokenInvariant(f"{units} units wanted, {self.free_units} free", code="spool-allocation")
        if units == 0:
            return ()
        self._leave_current()
        at = self._whole_piece(units)
        taken: list[Extent] = []
        while units:
            start = self._starts[at % len(self._starts)]
            length = min(units, self._lengths[start])
            self._take(start, length)
            taken.append((start, length))
            units -= length
            self._cursor = start + length
            at = bisect_left(self._starts, self._cursor) if units else 0
        left = self._lengths.pop(self._cursor, 0)
        if left:
            del self._starts[bisect_left(self._starts, self._cursor)]
            self._left = left
        return tuple(taken)

    def claim(self, extents: tuple[Extent, ...]) -> bool:
        """Take these pieces, as a recovered batch's; False, taking nothing, when one is not free."""
        for done, (start, length) in enumerate(extents):
            if not self._claim_one(start, length):
                for first, units in extents[:done]:
                    self._free(first, first + units)
                return False
        return True

    def release(self, pieces: list[Extent]) -> None:
        """These pieces are durably free."""
        self._leave_current()
        begin = end = 0  # most were written one after the other, and are given up so
        for start, length in sorted(pieces):
            if start != end:
                self._free(begin, end)
                begin = start
            end = start + length
        self._free(begin, end)

    @property
    def pieces(self) -> int:
        return len(self._starts) + (self._left > 0)

    def _leave_current(self) -> None:
        left, self._left = self._left, 0
        self._put(self._cursor, left)

    def _whole_piece(self, units: int) -> int:
        """Where to start: the first of the next pieces that holds it all, else simply the next piece."""
        first = bisect_left(self._starts, self._cursor)
        for at in range(first, first + min(SEARCHED_PIECES, len(self._starts))):
            if self._lengths[self._starts[at % len(self._starts)]] >= units:
                return at
        return first

    def _take(self, start: int, length: int) -> None:
        """The first `length` units of the piece that begins at `start`."""
        whole = self._lengths.pop(start)
        at = bisect_left(self._starts, start)
        if whole == length:
            del self._starts[at]
        else:
            self._starts[at] = start + length
            self._lengths[start + length] = whole - length
        self.free_units -= length

    def _claim_one(self, start: int, length: int) -> bool:
        at = bisect_left(self._starts, start + 1) - 1
        if at < 0 or length == 0:
            return False
        piece = self._starts[at]
        end = piece + self._lengths[piece]
        if start + length > end:
            return False
        if start > piece:
            self._lengths[piece] = start - piece
            self._starts.insert(at + 1, start)
            self._lengths[start] = end - start
        self._take(start, length)
        return True

    def _free(self, begin: int, end: int) -> None:
        self.free_units += end - begin
        self._put(begin, end - begin)

    def _put(self, start: int, length: int) -> None:
        """Put a piece among the others, joined with its neighbours."""
        if length == 0:
            return
        at = bisect_left(self._starts, start)
        if at < len(self._starts) and start + length >= self._starts[at]:
            following = self._starts.pop(at)
            if start + length > following:
                raise BrokenInvariant("units freed twice", code="spool-allocation")
            length += self._lengths.pop(following)
        if at > 0:
            before = self._starts[at - 1]
            before_end = before + self._lengths[before]
            if before_end > start:
                raise BrokenInvariant("units freed twice", code="spool-allocation")
            if before_end == start:
                self._lengths[before] += length
                return
        self._starts.insert(at, start)
        self._lengths[start] = length
