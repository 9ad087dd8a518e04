"""Ranges of sequence numbers: how a batch meets what is there, and sets of covered elements."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from enum import IntEnum


class Meeting(IntEnum):
    """What a numbered range [lo, hi) is to somebody who has everything below a high water."""

    NEXT = 0
    DUPLICATE = 1
    GAP = 2
    OVERLAP = 3


def meet(lo: int, hi: int, high_water: int) -> Meeting:
    """How [lo, hi), lo < hi, meets the high water: exactly one of the four holds."""
    if lo == high_water:
        return Meeting.NEXT
    if hi <= high_water:
        return Meeting.DUPLICATE
    return Meeting.GAP if lo > high_water else Meeting.OVERLAP


class RangeSet:
    """A set of integers as sorted, disjoint, non-touching ranges. Cost follows the ranges, not the elements."""

    __slots__ = ("_his", "_los")

    def __init__(self) -> None:
        self._los: list[int] = []
        self._his: list[int] = []

    def add(self, lo: int, hi: int) -> int:
        """Add [lo, hi); returns how many of its elements were not there before."""
        if lo >= hi:
            return 0
        first = bisect_left(self._his, lo)
        last = bisect_right(self._los, hi)
        before = sum(max(0, min(self._his[at], hi) - max(self._los[at], lo)) for at in range(first, last))
        if first < last:
            low, high = min(lo, self._los[first]), max(hi, self._his[last - 1])
        else:
            low, high = lo, hi
        self._los[first:last] = [low]
        self._his[first:last] = [high]
        return hi - lo - before

    def covers(self, lo: int, hi: int) -> bool:
        """Whether every element of [lo, hi) is in the set."""
        if lo >= hi:
            return True
        at = bisect_right(self._los, lo) - 1
        return at >= 0 and self._his[at] >= hi

    def __contains__(self, element: int) -> bool:
        return self.covers(element, element + 1)

    def missing(self, lo: int, hi: int) -> list[tuple[int, int]]:
        """The parts of [lo, hi) that are not in the set, ascending."""
        gaps: list[tuple[int, int]] = []
        for low, high in self:
            if high <= lo:
                continue
            if low >= hi:
                break
            if low > lo:
                gaps.append((lo, low))
            lo = max(lo, high)
        if lo < hi:
            gaps.append((lo, hi))
        return gaps

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._los, self._his, strict=True)

    def __len__(self) -> int:
        """The number of elements."""
        return sum(self._his) - sum(self._los)
