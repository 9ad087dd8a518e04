"""Policies of a spool: whom to give up when it is full (evict), and how long to retain what was delivered.

`query-aware` is the query-aware FIFO of NebulaStream-MSS (Algorithm 1): the oldest batch of the same edge; when
it has none, the oldest batch of the edge with the most batches. The paper leaves ties open; here the edge whose
oldest batch came first is taken. `query-aware-bytes` counts bytes instead of batches, so that one edge of
many small batches is not made to pay for one of few large ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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


class Retain(IntEnum):
    UNTIL_RECEIPT = 1  # in the log: let go
    UNTIL_STABLE = 2  # let go when the cloud says that what was computed from it is stable
    RING = 3  # keep what was delivered until its space is needed


@dataclass(frozen=True, slots=True)
class Policy:
    evict: Evict = Evict.QUERY_AWARE
    retain: Retain = Retain.UNTIL_RECEIPT

    def encode(self) -> int:
        return self.evict | self.retain << 8

    @staticmethod
    def decode(number: int) -> Policy:
        return Policy(Evict(number & 0xFF), Retain(number >> 8 & 0xFF))

    @staticmethod
    def named(evict: str, retain: str = "until-receipt") -> Policy:
        """A policy from the words used in plans and settings, such as "query-aware"."""
        try:
            return Policy(Evict[_constant(evict)], Retain[_constant(retain)])
        except KeyError as unknown:
            words = ", ".join(_word(policy) for kind in (Evict, Retain) for policy in kind)
            raise UsageError(
                f"no spool policy {_word_of(unknown)}; expected one of {words}", code="spool-policy"
            ) from None


Choice: TypeAlias = Callable[[Contents, EdgeId, int], DataEntry | None]


def choice(policy: Evict) -> Choice:
    """(contents, edge, priority) -> the next batch to give up for a new one of `edge`; None: nothing for that one."""
    return _CHOICES[policy]


def _block(contents: Contents, edge: EdgeId, priority: int) -> DataEntry | None:  # noqa: ARG001
    return None


def _oldest(contents: Contents, edge: EdgeId, priority: int) -> DataEntry | None:  # noqa: ARG001
    return min(_oldest_of_each(contents), key=lambda entry: entry.order, default=None)


def _query_aware(contents: Contents, edge: EdgeId, priority: int) -> DataEntry | None:  # noqa: ARG001
    mine = contents.edges.get(edge)
    return (mine.oldest() if mine else None) or _oldest_of_largest(contents, lambda other: other.batches)


def _query_aware_bytes(contents: Contents, edge: EdgeId, priority: int) -> DataEntry | None:  # noqa: ARG001
    mine = contents.edges.get(edge)
    return (mine.oldest() if mine else None) or _oldest_of_largest(contents, lambda other: other.bytes)


def _priority(contents: Contents, edge: EdgeId, priority: int) -> DataEntry | None:  # noqa: ARG001
    lowest = contents.lowest_priority()
    return lowest if lowest is not None and lowest.priority <= priority else None


def _oldest_of_largest(contents: Contents, weight: Callable[[EdgeContents], int]) -> DataEntry | None:
    return min(
        _oldest_of_each(contents),
        key=lambda entry: (-weight(contents.edges[entry.edge]), entry.order),
        default=None,
    )


def _oldest_of_each(contents: Contents) -> list[DataEntry]:
    return [entry for other in contents.edges.values() if (entry := other.oldest()) is not None]


_CHOICES: dict[Evict, Choice] = {
    Evict.BLOCK: _block,
    Evict.OLDEST: _oldest,
    Evict.QUERY_AWARE: _query_aware,
    Evict.QUERY_AWARE_BYTES: _query_aware_bytes,
    Evict.PRIORITY: _priority,
}


def _constant(word: str) -> str:
    return word.upper().replace("-", "_")


def _word(policy: IntEnum) -> str:
    return policy.name.lower().replace("_", "-")


def _word_of(unknown: KeyError) -> str:
    return repr(str(unknown.args[0]).lower().replace("_", "-"))
