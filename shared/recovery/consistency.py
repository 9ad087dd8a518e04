"""Whether what is left after a failure fits together, edge by edge, on positions alone (EC-13).

On an edge the producer stands at output position `produced`, the reader at input position `consumed`, and the elements
[start, end) between them are retained. Exact consistency: both stand at its ends. Relaxed consistency: the producer
stands at or before the end, so what it makes again is there already or follows without a gap; and the reader stands at
or after the start, so nothing it still needs is gone. A deterministic producer makes the same elements under the same
numbers again, and numbers drop duplicates: relaxed consistency and determinism give a lossless stream.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EdgeCut:
    """One edge after a failure, before anything runs again."""

    edge: str
    produced: int  # the producer's next number
    start: int  # retained from here
    end: int  # up to here
    consumed: int  # the reader's next number
    deterministic: bool = True  # the producer, given the same inputs

    @property
    def exact(self) -> bool:
        return self.produced == self.end and self.consumed == self.start

    @property
    def relaxed(self) -> bool:
        return self.produced <= self.end and self.consumed >= self.start

    @property
    def lossless(self) -> bool:
        """Whether the reader gets every element once: relaxed, and what is made again is the same."""
        return self.relaxed and (self.deterministic or self.produced == self.end)


def inconsistencies(cuts: Iterable[EdgeCut]) -> list[str]:
    """What is missing or may differ, in words, one line for each edge that is not lossless."""
    found: list[str] = []
    for cut in cuts:
        if cut.consumed < cut.start:
            found.append(f"{cut.edge}: the reader needs [{cut.consumed}, {cut.start}), which nobody retains")
        elif cut.produced > cut.end:
            found.append(f"{cut.edge}: [{cut.end}, {cut.produced}) was produced and is not retained")
        elif not cut.lossless:
            found.append(f"{cut.edge}: [{cut.produced}, {cut.end}) is made again and may differ")
    return found
