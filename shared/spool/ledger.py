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


class Ledger:
    """Disjoint ranges per edge in ascending order; neighbours with the same reason are one range."""

    def __init__(self) -> None:
        self._starts: dict[EdgeId, list[int]] = {}
        self._ranges: dict[EdgeId, dict[int, Tombstone]] = {}

    def add(self, given_up: Tombstone) -> None:
        """Enter a range. Entering it again, alone or as part of a longer one, changes nothing."""
        lo, hi, reason = given_up.lo, given_up.hi, given_up.reason
        starts = self._starts.get(given_up.edge)
        if starts is None:
            starts = self._starts[given_up.edge] = []
            self._ranges[given_up.edge] = {}
        ranges = self._ranges[given_up.edge]
        if starts and lo == starts[-1]:  # the last range grew: the usual case
            last = ranges[lo]
            if reason is last.reason:
                if hi > last.hi:
                    ranges[lo] = given_up
                return
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
            del ranges[starts.pop(at)]
        starts.insert(bisect_left(starts, lo), lo)
        ranges[lo] = Tombstone(given_up.edge, lo, hi, reason)

    def __iter__(self) -> Iterator[Tombstone]:
        for edge, starts in self._starts.items():
            yield from (self._ranges[edge][start] for start in starts)

    def of(self, edge: EdgeId) -> list[Tombstone]:
        """This edge's ranges, ascending."""
        return [self._ranges[edge][start] for start in self._starts.get(edge, ())]

    def totals(self) -> list[LedgerTotal]:
        sums: dict[tuple[EdgeId, Reason], tuple[int, int]] = {}
        for given_up in self:
            ranges, elements = sums.get((given_up.edge, given_up.reason), (0, 0))
            sums[given_up.edge, given_up.reason] = (ranges + 1, elements + given_up.hi - given_up.lo)
        return [LedgerTotal(edge, reason, *counts) for (edge, reason), counts in sums.items()]

    def elements(self, edge: EdgeId) -> int:
        return sum(given_up.hi - given_up.lo for given_up in self.of(edge))
