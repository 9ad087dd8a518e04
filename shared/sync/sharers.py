"""Who reads an edge that several queries share, in numbers that a receipt answers.

A node may read such an edge for one query and pass it on for another, and either may begin or end while receipts are
under way. What a node said for one of them must not be taken for both: what the other still needs would be given up.
So whoever makes the edge expects a node to speak for these readers and these that pass it on, and takes no other word.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

QUERIES_MAX = 32  # that share an edge: each has a bit of a receipt


class Sharers(NamedTuple):
    """The queries that share an edge, by name and incarnation, in the order of their names."""

    queries: tuple[tuple[str, int], ...]

    def readers(self, terms: Mapping[str, int]) -> int:
        """That a node reads the edge under these terms, by query; never 0, which is said of other edges."""
        said = [[name, incarnation, terms.get(name, 0)] for name, incarnation in self.queries]
        return zlib.crc32(json.dumps(said).encode()) or 1

    def carried(self, queries: Iterable[str]) -> int:
        """That a node passes the edge on for these queries."""
        places = {name: place for place, (name, _) in enumerate(self.queries)}
        return sum(1 << places[name] for name in {*queries})

    def expected(self, terms: Mapping[str, int], carried: Iterable[str]) -> int:
        """What a receipt of the node is held against. Beyond all terms, which is what other edges expect."""
        return _SHARED | self.readers(terms) << 32 | self.carried(carried)


_SHARED = 1 << 64


def speaks_for(expected: int, term: int, readers: int, carried: int) -> bool:
    """Whether a receipt speaks for all that are expected to read there. One that also speaks for more may say less."""
    if expected < _SHARED:
        return not expected or term == expected
    return readers == expected >> 32 & 0xFFFFFFFF and not expected & 0xFFFFFFFF & ~carried
