"""What a full spool gives up to make room.

`query-aware` is the query-aware FIFO of NebulaStream-MSS (Algorithm 1): the oldest batch of the same edge; when
it has none, the oldest batch of the edge with the most batches. The paper leaves ties open; here the edge whose
oldest batch came first is taken. `query-aware-bytes` counts bytes instead of batches, so that one edge of
many small batches is not made to pay for one of few large ones.

Edges may have a promise (`Contents.promise`): while any batch can go within the promises, the choice is among those
only. When none can, the policy chooses among all edges that are not protected, and the ledger says what was lost.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import TypeAlias

from shared.errors import UsageError
from shared.identity import EdgeId
from shared.spool.contents import Contents, EdgeContents
from shared.spool.entry import DataEntry


class Evict(IntEnum):
    BLOCK = 1  # give up nothing: refuse the new batch until a receipt makes room
    OLDEST = 2  # plain FIFO over all edges
    QUERY_AWARE = 3
    QUERY_AWARE_BYTES = 4
    PRIORITY = 5  # lowest priority, then nearest deadline, then oldest; never for a batch of lower priority

    @property
    def word(self) -> str:
        """As plans and settings write it."""
        return self.name.lower().replace("_", "-")

    @staticmethod
    def of_word(word: str) -> Evict:
        """The policy for a word of plans and settings, such as "query-aware"."""
        for policy in Evict:
            if policy.word == word:
                return policy
        words = ", ".join(policy.word for policy in Evict)
        raise UsageError(f"no spool policy {word!r}; expected one of {words}", code="spool-policy")


# What a plan says of an edge, where it is more than the device's own policy.
_OF_EDGES = {"oldest": Evict.OLDEST, "priority": Evict.PRIORITY, "block": Evict.BLOCK}


def edge_policy(word: str, own: Evict) -> Evict:
    """What makes room for an edge of a plan. `query` leaves it to the device, whose `block` is the last word."""
    return own if own is Evict.BLOCK else _OF_EDGES.get(word, own)


Choice: TypeAlias = Callable[[Contents, EdgeId, int, bool], DataEntry | None]


def choice(policy: Evict) -> Choice:
    """(contents, edge, priority, whether promises hold) -> the next batch to give up for a new one of `edge`; None:
    nothing for that one."""
    return _CHOICES[policy]


def _block(contents: Contents, edge: EdgeId, priority: int, promised: bool) -> DataEntry | None:  # noqa: ARG001
    return None


def _oldest(contents: Contents, edge: EdgeId, priority: int, promised: bool) -> DataEntry | None:  # noqa: ARG001
    return min(_oldest_of_each(contents, promised), key=lambda entry: entry.order, default=None)


def _query_aware(contents: Contents, edge: EdgeId, priority: int, promised: bool) -> DataEntry | None:  # noqa: ARG001
    return _own_oldest(contents, edge, promised) or _oldest_of_largest(contents, promised, lambda other: other.batches)


def _query_aware_bytes(contents: Contents, edge: EdgeId, priority: int, promised: bool) -> DataEntry | None:  # noqa: ARG001
    return _own_oldest(contents, edge, promised) or _oldest_of_largest(contents, promised, lambda other: other.bytes)


def _priority(contents: Contents, edge: EdgeId, priority: int, promised: bool) -> DataEntry | None:  # noqa: ARG001
    lowest = contents.lowest_within_promises() if promised else contents.lowest_priority()
    return lowest if lowest is not None and lowest.priority <= priority else None


def _own_oldest(contents: Contents, edge: EdgeId, promised: bool) -> DataEntry | None:
    mine = contents.edges.get(edge)
    own = mine.oldest() if mine and not mine.protected else None
    return own if own is not None and (not promised or contents.may_go(own)) else None


def _oldest_of_largest(contents: Contents, promised: bool, weight: Callable[[EdgeContents], int]) -> DataEntry | None:
    return min(
        _oldest_of_each(contents, promised),
        key=lambda entry: (-weight(contents.edges[entry.edge]), entry.order),
        default=None,
    )


def _oldest_of_each(contents: Contents, promised: bool) -> list[DataEntry]:
    return [
        entry
        for other in contents.edges.values()
        if not other.protected and (entry := other.oldest()) is not None and (not promised or contents.may_go(entry))
    ]


_CHOICES: dict[Evict, Choice] = {
    Evict.BLOCK: _block,
    Evict.OLDEST: _oldest,
    Evict.QUERY_AWARE: _query_aware,
    Evict.QUERY_AWARE_BYTES: _query_aware_bytes,
    Evict.PRIORITY: _priority,
}
