"""What can fail between nodes, and what is known of the nodes when it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from shared.plan.deployment import Placement
from shared.recovery.rollback import VertexManifest

RESTARTS_MAX = 1  # where it is, before a failing vertex is tried elsewhere


@dataclass(frozen=True, slots=True)
class OperatorFailed:
    """One vertex raised or hangs; its host and the others on it are well."""

    vertex: str
    restarts: int = 0  # how often it was started again since it last worked
    host: str = ""  # where, if other copies of it run elsewhere


@dataclass(frozen=True, slots=True)
class StreamFailed:
    """Two nodes that are well do not reach each other."""

    writer: str
    reader: str


@dataclass(frozen=True, slots=True)
class HostsFailed:
    """These nodes are gone, with all they ran and kept."""

    nodes: frozenset[str]


Failure: TypeAlias = OperatorFailed | StreamFailed | HostsFailed


@dataclass(frozen=True, slots=True)
class View:
    """Of one query."""

    placements: Mapping[str, Placement]  # by vertex
    inputs: Mapping[str, tuple[str, ...]]  # vertex -> vertices it reads
    alive: frozenset[str]  # nodes that may host
    hosting: Mapping[str, int] = field(default_factory=dict)  # node -> vertices it runs, of all queries
    room: Mapping[str, int] = field(default_factory=dict)  # node -> how many it can; not said: any number
    having: Mapping[str, frozenset[str]] = field(default_factory=dict)  # vertex -> nodes with its newest snapshot
    too_old: frozenset[str] = frozenset()  # vertices of which even that one lacks what its inputs no longer have
    able: Mapping[str, frozenset[str]] = field(default_factory=dict)  # vertex -> nodes with its operator types
    stateless: frozenset[str] = frozenset()  # vertices that can start from nothing without loss
    fed_by: Mapping[str, frozenset[str]] = field(default_factory=dict)  # vertex -> all nodes whose sensors feed it
    ends: Mapping[str, frozenset[str]] = field(default_factory=dict)  # vertex -> devices and sinks beside it
    apart: frozenset[tuple[str, str]] = frozenset()  # pairs of nodes that do not reach each other, smaller first
    gone: frozenset[str] = frozenset()  # nodes that never come back
    cost: Callable[[str, str], int] = lambda _one, _other: 0  # of the cheapest way between two nodes
    relays: bool = True  # nodes pass on what is for others
    threshold: int = 1  # nodes that a region needs
    # Of a job in the cloud:
    manifests: Mapping[str, VertexManifest] = field(default_factory=dict)
    lost_records: frozenset[tuple[str, int]] = frozenset()

    def reach(self, one: str, other: str) -> bool:
        return one == other or (min(one, other), max(one, other)) not in self.apart
