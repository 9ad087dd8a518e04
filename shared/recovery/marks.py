"""Marks: how one vertex of a flowing graph takes part in snapshot c.

A coordinator injects mark c into every source. At its first mark c a vertex records its state and forwards the
mark on every output; until the mark has come on an input too, it records that input's messages as part of the
snapshot. When all inputs have brought the mark the snapshot is COMPLETE here.

The one rule that must not break: the first mark counts as received. Sonora's text says "first mark do (a), otherwise
(b)", and only (b) notes the mark as received, so no vertex would ever complete; here a first mark does (a), then (b).

Epoch jobs need none of this: an epoch is a vector of log offsets, a consistent cut by construction. Graphs whose
edges flow freely (regions of phones) do.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class MarkedSnapshot:
    """What a vertex keeps of one snapshot: its state, and per input what was on the way."""

    state: bytes
    waiting: set[str]
    in_flight: dict[str, list[bytes]] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return not self.waiting


class MarkedVertex:
    """One vertex's part. It does no processing itself: the driver hands in the state when a mark asks for it."""

    def __init__(self, inputs: tuple[str, ...]) -> None:
        self._inputs = inputs
        self.snapshots: dict[int, MarkedSnapshot] = {}

    def mark(self, version: int, source: str, state: bytes) -> bool:
        """Mark `version` came from `source` while the vertex holds `state`. True: first mark, forward it now."""
        first = version not in self.snapshots
        if first:
            self.snapshots[version] = MarkedSnapshot(state, set(self._inputs))
        self.snapshots[version].waiting.discard(source)
        return first

    def message(self, source: str, payload: bytes) -> None:
        """A data message came; it belongs to every snapshot still waiting for this input's mark."""
        for snapshot in self.snapshots.values():
            if source in snapshot.waiting:
                snapshot.in_flight.setdefault(source, []).append(payload)

    def complete(self, version: int) -> bool:
        return version in self.snapshots and self.snapshots[version].complete
