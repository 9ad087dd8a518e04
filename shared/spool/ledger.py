"""The ledger: every range this device gave up, and why. Append-only; it outlives the tombstones it sent."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from shared.errors import BrokenInvariant
from shared.identity import EdgeId
from shared.spool.entry import Reason, Tombstone


@dataclass(frozen=True, slots=True)
class LedgerTotal:
    """What one edge gave up for one reason."""

    edge: EdgeId
    reason: Reason
    ranges: int
    elements: int


@dataclass(slots=True)
class Range:
    """A range given up. Its end may move up: the next batch of the same edge was given up for the same reason."""

    lo: int
    hi: int
    reason: Reason


class Ledger:
    """Disjoint ranges per edge in ascending order; neighbours with the same reason are one range."""

    def __init__(self) -> None:
        self._starts: dict[EdgeId, list[int]] = {}
        self._ranges: dict[EdgeId, dict[int, Range]] = {}
        self._elements: dict[EdgeId, int] = {}

    def add(self, given_up: Tombstone) -> None:
        """Enter a range. Entering it again, alone or as part of a longer one, changes nothing."""
        lo, hi, reason = given_up.lo, given_up.hi, given_up.reason
        starts = self._starts.setdefault(given_up.edge, [])
        ranges = self._ranges.setdefault(given_up.edge, {})
        elements = self._elements.get(given_up.edge, 0)
        at = bisect_left(starts, lo)
        if at > 0 and ranges[starts[at - 1]].hi >= lo:
            at -= 1
        while at < len(starts) and starts[at] <= hi:
            other = ranges[starts[at]]
            touching = other.hi == lo or other.lo == hi
            if other.reason != reason:
                if not touching:
                    raise BrokenInvariant(
                        f"[{lo}, {hi}) given up as {reason.name.lower()}, part of it already as "
                        f"{other.reason.name.lower()}",
                        code="ledger-overlap",
                    )
                at += 1
                continue
            lo, hi = min(lo, other.lo), max(hi, other.hi)
            elements -= other.hi - other.lo
            del ranges[starts.pop(at)]
        starts.insert(bisect_left(starts, lo), lo)
        ranges[lo] = Range(lo, hi, reason)
        self._elements[given_up.edge] = elements + hi - lo

    def extend(self, edge: EdgeId, given_up: Range, hi: int) -> None:
        """Move the end of an edge's range up: the next batch was given up for the same reason."""
        self._elements[edge] += hi - given_up.hi
        given_up.hi = hi

    def ending(self, given_up: Tombstone) -> Range | None:
        """The range that ends as this one does and is for the same reason."""
        starts = self._starts[given_up.edge]
        found = self._ranges[given_up.edge][starts[bisect_left(starts, given_up.hi) - 1]]
        return found if (found.hi, found.reason) == (given_up.hi, given_up.reason) else None

    def __iter__(self) -> Iterator[Tombstone]:
        for edge in self._starts:
            yield from self.of(edge)

    def of(self, edge: EdgeId) -> list[Tombstone]:
        """This edge's ranges, ascending."""
        ranges = self._ranges.get(edge, {})
        return [Tombstone(edge, lo, ranges[lo].hi, ranges[lo].reason) for lo in self._starts.get(edge, ())]

    def totals(self) -> list[LedgerTotal]:
        sums: dict[tuple[EdgeId, Reason], tuple[int, int]] = {}
        for given_up in self:
            ranges, elements = sums.get((given_up.edge, given_up.reason), (0, 0))
            sums[given_up.edge, given_up.reason] = (ranges + 1, elements + given_up.hi - given_up.lo)
        return [LedgerTotal(edge, reason, *counts) for (edge, reason), counts in sums.items()]

    def elements(self, edge: EdgeId) -> int:
        return self._elements.get(edge, 0)
