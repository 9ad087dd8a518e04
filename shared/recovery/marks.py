"""Marks, and how a vertex may answer one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, order=True)
class MarkId:
    """Names one coordinated snapshot on all the vertices it reaches. Ordered: a greater one was begun knowing more.

    All nodes must order ids alike, so an initiator is written the same everywhere: where two vertices of a cycle
    disagree which of two ids is older, each may ask the other to extend, and both wait for ever."""

    number: int  # 1 + the greatest its initiator had seen
    initiator: str  # vertex or source, with its term: a restarted one never uses an id twice


@dataclass(frozen=True, slots=True)
class Mark:
    """Travels on an edge between elements: the paper's Check-Request."""

    id: MarkId
    position: int  # all elements of the edge below it came before the mark


@dataclass(frozen=True, slots=True)
class Freeze:
    """Take a snapshot now, before the next element."""

    id: MarkId
    record: tuple[str, ...] = ()  # inputs whose elements go into the snapshot from now to their mark


@dataclass(frozen=True, slots=True)
class Extend:
    """Send back to the mark's sender: no new snapshot here, add to yours what this reader has no receipt for.
    The paper's Ext-Request."""

    id: MarkId
    wait: int  # the sender's snapshot counts as acknowledged on this edge once the receipt has reached this


@dataclass(frozen=True, slots=True)
class Hold:
    """Take nothing more from this edge until the next freeze."""


@dataclass(frozen=True, slots=True)
class Covered:
    """Nothing to do: a snapshot that is there already has all that came before the mark."""


Answer: TypeAlias = Freeze | Extend | Hold | Covered
