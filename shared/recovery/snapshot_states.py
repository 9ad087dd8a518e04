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
        self._states: dict[str, dict[int, SnapshotState]] = {name: {} for name in self._inputs}
        self._collected: dict[str, int] = {}  # up to which epoch what is not known was collected
        self._stable_at: dict[int, int] = {}  # epoch -> at how many vertices it is STABLE
        self._everywhere = 0  # the newest that is so at all of them

    def state(self, vertex: str, epoch: int) -> SnapshotState | None:
        return self._states.get(vertex, {}).get(epoch)

    def begin(self, vertex: str, epoch: int) -> None:
        """The vertex starts on this epoch; beginning again after a lost attempt changes nothing."""
        self._states[vertex].setdefault(epoch, SnapshotState.PENDING)

    def complete(self, vertex: str, epoch: int) -> list[str]:
        """The vertex's state and output are durable. Returns every vertex that became STABLE by it, in order."""
        state = self._states[vertex].get(epoch)
        if state is None or state < SnapshotState.COMPLETE:
            self._states[vertex][epoch] = SnapshotState.COMPLETE
        return self._settle(vertex, epoch)

    def roll_back(self, vertex: str, to: int) -> None:
        """Forget the vertex's snapshots after `to`. What is downstream is STABLE again when the vertex is."""
        self._collected[vertex] = min(self._collected.get(vertex, 0), to)
        reached = [vertex]
        for name in reached:
            reached.extend(output for output in self._outputs[name] if output not in reached)
        for name in reached:
            for epoch in [each for each in self._states[name] if each > to]:
                was_stable = self._states[name][epoch] is SnapshotState.STABLE
                if name == vertex:
                    del self._states[name][epoch]
                elif was_stable:
                    self._states[name][epoch] = SnapshotState.COMPLETE
                if was_stable:
                    self._no_longer_stable(epoch)

    def collect(self, vertex: str, epoch: int) -> None:
        if self._states[vertex].get(epoch) is not SnapshotState.STABLE:
            raise BrokenInvariant(
                f"snapshot {epoch} of {vertex} is not stable; only stable ones are collected",
                code="snapshot-not-stable",
            )
        del self._states[vertex][epoch]
        self._no_longer_stable(epoch)
        self._collected[vertex] = max(self._collected.get(vertex, 0), epoch)

    def stable(self, vertex: str) -> list[int]:
        """The vertex's stable epochs, ascending."""
        return sorted(epoch for epoch, state in self._states[vertex].items() if state is SnapshotState.STABLE)

    def stable_everywhere(self) -> int:
        """The newest epoch that is STABLE at every vertex; 0 when there is none. Asked for every round, so it is kept
        and not looked for."""
        return self._everywhere

    def _settle(self, vertex: str, epoch: int) -> list[str]:
        settled: list[str] = []
        waiting = [vertex]
        for name in waiting:
            if self._states[name].get(epoch) is not SnapshotState.COMPLETE:
                continue
            if all(self._is_settled(source, epoch) for source in self._inputs[name]):
                self._states[name][epoch] = SnapshotState.STABLE
                self._stable_at[epoch] = self._stable_at.get(epoch, 0) + 1
                if self._stable_at[epoch] == len(self._inputs):
                    self._everywhere = max(self._everywhere, epoch)
                settled.append(name)
                waiting.extend(self._outputs[name])
        return settled

    def _no_longer_stable(self, epoch: int) -> None:
        self._stable_at[epoch] -= 1
        if not self._stable_at[epoch]:
            del self._stable_at[epoch]
        if epoch == self._everywhere:
            everywhere = (each for each, vertices in self._stable_at.items() if vertices == len(self._inputs))
            self._everywhere = max(everywhere, default=0)

    def _is_settled(self, vertex: str, epoch: int) -> bool:
        state = self._states[vertex].get(epoch)
        if state is None:
            return epoch <= self._collected.get(vertex, 0)
        return state is SnapshotState.STABLE
