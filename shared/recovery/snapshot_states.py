"""The life of a snapshot: PENDING -> COMPLETE -> STABLE, and then it may be collected.

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


class Snapshots:
    """The state of every (vertex, epoch) snapshot of one job."""

    def __init__(self, inputs: Mapping[str, Iterable[str]]) -> None:
        self._inputs = {name: tuple(sources) for name, sources in inputs.items()}
        self._outputs: dict[str, list[str]] = {name: [] for name in self._inputs}
        for name, sources in self._inputs.items():
            for source in sources:
                self._outputs[source].append(name)
        self._states: dict[tuple[str, int], SnapshotState] = {}
        self._collected: dict[str, int] = {}  # up to which epoch what is not known was collected

    def state(self, vertex: str, epoch: int) -> SnapshotState | None:
        return self._states.get((vertex, epoch))

    def begin(self, vertex: str, epoch: int) -> None:
        """The vertex starts on this epoch; beginning again after a lost attempt changes nothing."""
        self._states.setdefault((vertex, epoch), SnapshotState.PENDING)

    def complete(self, vertex: str, epoch: int) -> list[str]:
        """The vertex's state and output are durable. Returns every vertex that became STABLE by it, in order."""
        state = self._states.get((vertex, epoch))
        if state is None or state < SnapshotState.COMPLETE:
            self._states[vertex, epoch] = SnapshotState.COMPLETE
        return self._settle(vertex, epoch)

    def roll_back(self, vertex: str, to: int) -> None:
        """Forget the vertex's snapshots after `to`. What is downstream is STABLE again when the vertex is."""
        self._collected[vertex] = min(self._collected.get(vertex, 0), to)
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
        del self._states[vertex, epoch]
        self._collected[vertex] = max(self._collected.get(vertex, 0), epoch)

    def stable(self, vertex: str) -> list[int]:
        """The vertex's stable epochs, ascending."""
        return sorted(
            epoch for (name, epoch), state in self._states.items() if name == vertex and state is SnapshotState.STABLE
        )

    def stable_everywhere(self) -> int:
        """The newest epoch that is STABLE at every vertex; 0 when there is none."""
        settled: dict[str, set[int]] = {vertex: set() for vertex in self._inputs}
        for (vertex, epoch), state in self._states.items():
            if state is SnapshotState.STABLE:
                settled[vertex].add(epoch)
        return max(set.intersection(*settled.values()), default=0) if settled else 0

    def _settle(self, vertex: str, epoch: int) -> list[str]:
        settled: list[str] = []
        waiting = [vertex]
        for name in waiting:
            if self._states.get((name, epoch)) is not SnapshotState.COMPLETE:
                continue
            if all(self._is_settled(source, epoch) for source in self._inputs[name]):
                self._states[name, epoch] = SnapshotState.STABLE
                settled.append(name)
                waiting.extend(self._outputs[name])
        return settled

    def _is_settled(self, vertex: str, epoch: int) -> bool:
        state = self._states.get((vertex, epoch))
        if state is None:
            return epoch <= self._collected.get(vertex, 0)
        return state is SnapshotState.STABLE
