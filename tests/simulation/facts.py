"""What really happened, noted by the world as it happens; the checkers compare it with what the product believes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from shared.identity import EdgeKey
from shared.wire.frame import FrameType, decode_one
from shared.wire.messages import Data

Told = Callable[[str, str], None]


@dataclass(slots=True)
class Logged:
    """One numbered record of the log."""

    lo: int
    hi: int
    kind: FrameType
    columns: bytes
    reason: str


@dataclass(slots=True)
class EdgeFacts:
    produced: dict[int, tuple[int, bytes]] = field(default_factory=dict)  # lo -> hi, columns; durably numbered
    tentative: dict[int, tuple[int, bytes]] = field(default_factory=dict)  # appended and not yet synced
    head: int = 0  # the highest number ever durable
    acknowledged: int = 0
    logged: list[Logged] = field(default_factory=list)
    wiped: bool = False  # the phone was reinstalled: what was only in its spool went with it


@dataclass(slots=True)
class Facts:
    edges: dict[EdgeKey, EdgeFacts] = field(default_factory=dict)
    crashes: int = 0
    partitions: int = 0
    disk_faults: int = 0
    reopened: int = 0

    def edge(self, key: EdgeKey) -> EdgeFacts:
        facts = self.edges.get(key)
        if facts is None:
            facts = self.edges[key] = EdgeFacts()
        return facts

    def appended(self, key: EdgeKey, lo: int, hi: int, columns: bytes) -> None:
        self.edge(key).tentative[lo] = (hi, columns)

    def durable(self, key: EdgeKey, head: int) -> None:
        """The phone's disk has everything below this number."""
        facts = self.edge(key)
        for lo in [lo for lo, (hi, _) in facts.tentative.items() if hi <= head]:
            facts.produced[lo] = facts.tentative.pop(lo)
        facts.head = max(facts.head, head)

    def lost_tentative(self, key: EdgeKey) -> None:
        self.edge(key).tentative.clear()


def numbered(frame_bytes: bytes) -> tuple[EdgeKey, Logged] | None:
    """A log record as the checkers see it; None for records that cover no elements."""
    frame, _ = decode_one(frame_bytes)
    key = EdgeKey(frame.source, frame.incarnation, frame.edge)
    if frame.type is FrameType.DATA:
        data = Data.of(frame)
        return key, Logged(data.lo, data.hi, frame.type, bytes(data.columns), "")
    if frame.type is FrameType.TOMBSTONE:
        return key, Logged(frame.seq, frame.seq + frame.count, frame.type, b"", frame.payload.decode())
    return None
