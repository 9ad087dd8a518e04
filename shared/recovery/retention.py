"""What may be forgotten, and what a rollback could still need.

A vertex keeps its newest STABLE snapshots: at least `keep` of them, and every one within `horizon` epochs of the
newest. Its oldest kept snapshot is where a rollback may restart it, so each input must still hold the records after
that epoch: an edge is trimmed at c only when every consumer has a kept STABLE snapshot >= c. The log is an edge too,
with the source vertices as its consumers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retention:
    """The stated rollback horizon."""

    keep: int = 2
    horizon: int = 50


@dataclass(frozen=True, slots=True)
class Trims:
    snapshots: Mapping[str, frozenset[int]]  # vertex -> snapshot epochs to collect
    records: Mapping[str, int]  # vertex -> records of epochs <= this may go
    log: int  # log records of epochs <= this may go


def snapshots_to_keep(stable: Collection[int], retention: Retention) -> list[int]:
    """The stable snapshots to keep, ascending."""
    ordered = sorted(stable)
    if not ordered:
        return []
    floor = ordered[-1] - retention.horizon
    return [epoch for index, epoch in enumerate(ordered) if epoch >= floor or index >= len(ordered) - retention.keep]


def trims(inputs: Mapping[str, Collection[str]], stable: Mapping[str, Collection[int]], retention: Retention) -> Trims:
    """What to collect. A vertex with no stable snapshot may still restart from nothing, so all its input stays."""
    keeping = {vertex: snapshots_to_keep(stable.get(vertex, ()), retention) for vertex in inputs}
    oldest = {vertex: epochs[0] if epochs else 0 for vertex, epochs in keeping.items()}
    consumers: dict[str, list[str]] = {vertex: [] for vertex in inputs}
    for vertex, sources in inputs.items():
        for source in sources:
            consumers[source].append(vertex)
    readers_of_log = [vertex for vertex, sources in inputs.items() if not sources]
    return Trims(
        snapshots={vertex: frozenset(stable.get(vertex, ())) - frozenset(epochs) for vertex, epochs in keeping.items()},
        # A vertex nobody reads feeds results; its records serve corrections back to its own oldest snapshot.
        records={
            vertex: min((oldest[reader] for reader in readers), default=oldest[vertex])
            for vertex, readers in consumers.items()
        },
        log=min((oldest[vertex] for vertex in readers_of_log), default=0),
    )
