"""The life of a snapshot: PENDING -> COMPLETE -> STABLE -> COLLECTED.

PENDING: the vertex has begun epoch c. COMPLETE: its state and output of c are durable. STABLE: it is COMPLETE and
c is STABLE at every input, so STABLE anywhere means STABLE everywhere upstream, and what is older may go. Sources
read the durable log: for them COMPLETE is STABLE.

Sonora's text notifies on COMPLETED and turns STABLE on the inputs' COMPLETED; then a vertex can be STABLE while one
above it still waits for a mark, and collection deletes what that one needs. Here STABLE follows STABLE only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum

from shared.errors import BrokenInvariant


class SnapshotState(IntEnum):
    PENDING = 1
    COMPLETE = 2
    STABLE = 3
    COLLECTED = 4


class Snapshots:
    """The state of every (vertex, epoch) snapshot of one job."""

    def __init__(self, inputs: Mapping[str, Iterable[str]]) -> None:
        self._inputs = {name: tuple(sources) for name, sources in inputs.items()}
        self._outputs: dict[str, list[str]] = {name: [] for name in self._inputs}
        for name, sources in self._inputs.items():
            for source in sources:
                self._outputs[source].append(name)
        self._states: dict[tuple[str, int], SnapshotState] = {}

    def state(self, vertex: str, epoch: int) -> SnapshotState | None:
        return self._states.get((vertex, epoch))

    def begin(self, vertex: str, epoch: int) -> None:
        """The vertex starts on this epoch; beginning again after a lost attempt changes nothing."""
        self._states.setdefault((vertex, epoch), SnapshotState.PENDING)

    def complete(self, vertex: str, epoch: int) -> list[str]:
        """The vertex's state and output are durable. Returns every vertex that became STABLE by it, in order."""
        state = self._states.get((vertex, epoch))
        if state is SnapshotState.COLLECTED:
            raise BrokenInvariant(f"snapshot {epoch} of {vertex} was collected", code="snapshot-collected")
        if state is None or state < SnapshotState.COMPLETE:
            self._states[vertex, epoch] = SnapshotState.COMPLETE
        return self._settle(vertex, epoch)

    def roll_back(self, vertex: str, to: int) -> None:
        """Forget the vertex's snapshots after `to`. Below it, STABLE no longer holds for them either: collection never
        passed them, because they are inside the horizon."""
        reached = [vertex]
        for name in reached:
            reached.extend(output for output in self._outputs[name] if output not in reached)
        for name, epoch in list(self._states):
            if epoch <= to or name not in reached:
                continue
            if name == vertex:
                del self._states[name, epoch]
            elif self._states[name, epoch] is SnapshotState.STABLE:
                self._states[name, epoch] = SnapshotState.COMPLETE

    def collect(self, vertex: str, epoch: int) -> None:
        if self._states.get((vertex, epoch)) is not SnapshotState.STABLE:
            raise BrokenInvariant(
                f"snapshot {epoch} of {vertex} is not stable; only stable ones are collected",
                code="snapshot-not-stable",
            )
        self._states[vertex, epoch] = SnapshotState.COLLECTED

    def stable(self, vertex: str) -> list[int]:
        """The vertex's stable epochs, ascending."""
        return sorted(
            epoch for (name, epoch), state in self._states.items() if name == vertex and state is SnapshotState.STABLE
        )

    def stable_everywhere(self) -> int:
        """The newest epoch that is STABLE (or already COLLECTED) at every vertex; 0 when there is none."""
        common: set[int] | None = None
        for vertex in self._inputs:
            settled = {
                epoch
                for (name, epoch), state in self._states.items()
                if name == vertex and state >= SnapshotState.STABLE
            }
            common = settled if common is None else common & settled
        return max(common or {0})

    def _settle(self, vertex: str, epoch: int) -> list[str]:
        settled: list[str] = []
        waiting = [vertex]
        for name in waiting:
            if self._states.get((name, epoch)) is not SnapshotState.COMPLETE:
                continue
            sources = (self._states.get((source, epoch)) for source in self._inputs[name])
            if all(state is not None and state >= SnapshotState.STABLE for state in sources):
                self._states[name, epoch] = SnapshotState.STABLE
                settled.append(name)
                waiting.extend(self._outputs[name])
        return settled
