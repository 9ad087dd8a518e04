"""A vertex that was given another place: what a fleet remembers of it, and tells those who ask why something runs where
it does."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Move:
    """A vertex began again, elsewhere or where it was. Nodes are named as people call them: one may be gone when
    somebody reads this."""

    at_us: int
    query: str
    vertex: str
    term: int  # the one it began with
    before: tuple[str, ...]
    after: tuple[str, ...]
    why: str
