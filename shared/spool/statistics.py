"""What a spool holds, in numbers, for the screens and the account."""

from __future__ import annotations

from dataclasses import dataclass

from shared.batch import NO_FRONTIER
from shared.identity import EdgeId
from shared.spool.contents import Contents
from shared.spool.entry import Reason


@dataclass(frozen=True, slots=True)
class EdgeStatistics:
    edge: EdgeId
    head: int  # produced: the next sequence number
    delivered: int  # acknowledged by receipts up to here
    batches: int  # spooled and not delivered
    bytes: int
    elements: int  # covered by those batches
    ledgered: int  # elements given up in all
    protected: bool  # never given up to make room
    may_lose: int  # elements that may still be given up within its promise; below 0: it was broken
    oldest_us: int | None  # when its oldest undelivered batch was spooled, if its writer said


@dataclass(frozen=True, slots=True)
class SpoolStatistics:
    capacity_bytes: int
    used_bytes: int
    batches: int
    oldest_us: int | None  # when the oldest undelivered batch was spooled, if its writer said
    edges: tuple[EdgeStatistics, ...]
    ledgered: dict[Reason, int]  # elements by reason
    damage: int  # pieces of stored data found damaged since the spool was opened
    pieces: int  # how many pieces the free space is in


def statistics_of(contents: Contents, *, capacity_bytes: int, damage: int, pieces: int) -> SpoolStatistics:
    ledgered: dict[Reason, int] = {}
    for total in contents.ledger.totals():
        ledgered[total.reason] = ledgered.get(total.reason, 0) + total.elements
    oldest = {edge.edge: entry.spooled_us for edge in contents.edges.values() if (entry := edge.oldest()) is not None}
    known = {edge: spooled_us for edge, spooled_us in oldest.items() if spooled_us != NO_FRONTIER}
    return SpoolStatistics(
        capacity_bytes=capacity_bytes,
        used_bytes=contents.used_bytes,
        batches=sum(edge.batches for edge in contents.edges.values()),
        oldest_us=min(known.values(), default=None),
        edges=tuple(
            EdgeStatistics(
                edge=edge.edge,
                head=edge.head,
                delivered=edge.delivered,
                batches=edge.batches,
                bytes=edge.bytes,
                elements=edge.elements,
                ledgered=contents.ledger.elements(edge.edge),
                protected=edge.protected,
                may_lose=contents.may_lose(edge),
                oldest_us=known.get(edge.edge),
            )
            for edge in contents.edges.values()
        ),
        ledgered=ledgered,
        damage=damage,
        pieces=pieces,
    )
