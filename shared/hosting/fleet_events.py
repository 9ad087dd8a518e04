"""What a coordinator tells whoever drives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class StoreFleet:
    """Replace what the coordinator remembers."""

    data: bytes


class Recovered(NamedTuple):
    """Vertices were given new places or terms, and why."""

    at: float
    query: str
    moves: Mapping[str, str]  # vertex -> node
    why: str


class CutComplete(NamedTuple):
    """All of a region have their part of this cut."""

    query: str
    cut: int


class Learned(NamedTuple):
    """A node follows what this coordinator had forgotten; it goes on above that."""

    node: str
    lease: int
    version: int


class Deposed(NamedTuple):
    """Another coordinator rules; this one says nothing more to nodes."""

    why: str


class Unplaced(NamedTuple):
    """No node can run these: they wait."""

    query: str
    vertices: tuple[str, ...]
    why: str
