"""Collection: forget what no rollback inside the horizon could need, and then delete the files nobody names."""

from __future__ import annotations

from cloud_backend.spark.graph import JobGraph
from cloud_backend.spark.manifest.entries import Collect
from cloud_backend.spark.manifest.manifest import Manifest, ManifestLog
from cloud_backend.spark.storage.file_names import driver_term
from cloud_backend.spark.storage.store import Store
from shared.recovery.retention import Retention, snapshots_to_keep, trims
from shared.recovery.snapshots import Snapshots

BASES_MIN = 2
HISTORY_ENTRIES_MAX = 10_000  # manifest entries kept for reading back; opening needs only those after a summary


def collect(log: ManifestLog, term: int, graph: JobGraph, snapshots: Snapshots, retention: Retention) -> int:
    """Append what may go and delete its files; returns how many were deleted."""
    inputs = {name: graph.vertices[name].sources for name in graph.order}
    stable = {name: _spared(log.state, name, snapshots.stable(name), retention) for name in graph.order}
    answer = trims(inputs, stable, retention)
    oldest = {name: min(set(stable[name]) - answer.snapshots[name], default=0) for name in graph.order}
    log_epoch = min((oldest[name] for name in graph.order if not inputs[name]), default=0)
    entry = Collect(answer.records, oldest, log_epoch, log.state.last_cut)
    if log.try_append(entry, term=term) is None:
        return 0
    for name, epochs in answer.snapshots.items():
        for epoch in epochs:
            snapshots.collect(name, epoch)
    forget_history(log)
    return delete_unnamed(log.store, log.state, term)


def forget_history(log: ManifestLog, entries_max: int = HISTORY_ENTRIES_MAX) -> None:
    """Delete manifest entries that two summaries cover, that were published, and that are many entries old."""
    summaries = log.store.summaries()
    published = int(log.store.note("published").get("n", 0))
    if len(summaries) >= BASES_MIN:
        log.store.remove_history(min(summaries[-BASES_MIN], published, log.state.n - entries_max))


def log_offsets(manifest: Manifest) -> dict[str, int]:
    """What the gateway may know of this job: "0", below which partition 0 of the log may go because no rollback inside
    the horizon reads it again, and "read", below which every vertex has committed its work."""
    if not manifest.cuts:
        return {}
    oldest = manifest.cuts[min(manifest.cuts)].starts["0"]
    done = min((manifest.position(vertex) for vertex in manifest.vertices), default=0)
    return {"0": oldest, "read": manifest.cuts[done].ends["0"] if done in manifest.cuts else oldest}


def _spared(manifest: Manifest, vertex: str, stable: list[int], retention: Retention) -> list[int]:
    """The stable epochs that retention may judge: none until what it would keep stands on two bases, so that one
    damaged base never takes every snapshot with it."""
    newest = snapshots_to_keep(stable, retention)
    oldest = newest[0] if newest else 0
    for lineage in manifest.vertices[vertex].values():
        if lineage.last is not None:
            continue
        bases = {
            part.chain[0]: epoch
            for epoch, committed in sorted(lineage.commits.items())
            for part in committed.state
            if epoch >= oldest and part.chain
        }
        if lineage.commits and any(each.state for each in lineage.commits.values()) and len(bases) < BASES_MIN:
            return []
    return stable


def delete_unnamed(store: Store, manifest: Manifest, term: int) -> int:
    """Delete files that no commit names. A later driver's files (a higher term in the name) may be about to be
    committed and stay; ours are all decided, because a driver collects only between its own jobs."""
    named = {
        file
        for lineages in manifest.vertices.values()
        for lineage in lineages.values()
        for committed in lineage.runs()
        for file in committed.files()
    }
    removed = 0
    for name in store.file_names():
        if name not in named and driver_term(name) <= term:
            store.remove_file(name)
            removed += 1
    return removed
