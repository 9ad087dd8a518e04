"""What there is to know of a job, as plain JSON: for the dashboard, the CLI and whoever asks.

A pure reader of the store: the manifest says what happened, `status.json` what the running driver last wrote beside it
(parked ranges, exceptions, load, backlog), the lease whether one runs. No JVM, no writing, and right also when no
driver runs.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cloud_backend.lease import Lease
from cloud_backend.log.partitions import distance
from cloud_backend.spark.control.collection import kept_files
from cloud_backend.spark.control.schedule import physical_name
from cloud_backend.spark.graph import JobGraph, JobVertex, job_graph
from cloud_backend.spark.manifest.entries import PastRollback
from cloud_backend.spark.manifest.lineage import Lineage
from cloud_backend.spark.manifest.manifest import Manifest, ManifestLog
from cloud_backend.spark.manifest.plans import stored_plan
from cloud_backend.spark.manifest.quarantine import quarantine, quarantined_count
from cloud_backend.spark.rollback.undo import undoable
from cloud_backend.spark.slots import Range
from cloud_backend.spark.storage.store import Store
from shared.errors import UsageError
from shared.plan.late_account import late_account
from shared.recovery.snapshot_states import Snapshots


def job_facts(store_dir: Path | str, *, epochs: int = 20, clock: Callable[[], float] = time.time) -> dict[str, Any]:
    """Everything a page about a job shows; `epochs` is how many of the newest are told one by one."""
    store = Store(store_dir)
    if not store.exists():
        raise UsageError(
            f"there is no job store at {store.location!r}; give its place with --store", code="job-no-store"
        )
    log = ManifestLog(store)
    manifest = log.state
    status = store.note("status")
    holder = Lease(store, owner="", duration_s=0, now=clock).holder()
    graph = job_graph(stored_plan(store, manifest.plan)) if manifest.plan else None
    snapshots = counted_snapshots(manifest, graph) if graph else None
    newest = range(max(1, manifest.last_cut - epochs + 1), manifest.last_cut + 1)
    return {
        "epoch": manifest.last_cut, "term": manifest.term, "owner": manifest.owner, "alive": holder is not None,
        "plan": manifest.plan, "entries": manifest.n, "code": status.get("code", ""), "at": status.get("at"),
        "stable": snapshots.stable_everywhere() if snapshots else 0,
        "lag_s": lag_s(manifest, clock()),
        "backlog_bytes": status.get("backlog_bytes", 0), "sampling_rate": status.get("sampling_rate", 1.0),
        "cache": status.get("cache", {}), "log_bytes": status.get("log_bytes", {}),
        "vertices": [_vertex(manifest, graph.vertices[name], snapshots, newest, status) for name in graph.order]
        if graph and snapshots else [],
        "epochs": [_epoch(manifest, graph, epoch) for epoch in reversed(newest) if epoch in manifest.cuts]
        if graph else [],
        "parked": status.get("parked", {}), "exceptions": status.get("exceptions", []),
        "divisions": [{"n": n, **division.to_json()} for n, division in manifest.divisions[-100:]],
        "rollbacks": [_rollback(manifest, each) for each in manifest.rollbacks[-100:]],
        "late": _late(manifest, graph) if graph else [],
        "quarantined": quarantine(manifest, newest=100), "quarantined_count": quarantined_count(manifest),
        "kept": _kept(manifest, status.get("retention", {})),
        "torn_entries": [*store.set_aside(), *([manifest.n + 1] if log.torn else [])],
    }  # fmt: skip


def lag_s(manifest: Manifest, now_s: float) -> float:
    """How long the oldest epoch has been cut that some vertex has not worked off; 0 when none is. For lack of a turn or
    of a cluster it grows, and the backlog with it."""
    waiting = manifest.cuts.get(1 + min(map(manifest.position, manifest.vertices), default=manifest.last_cut))
    return max(0.0, now_s - waiting.at_ms / 1000) if waiting is not None and waiting.at_ms else 0.0


def _kept(manifest: Manifest, retention: Mapping[str, Any]) -> dict[str, Any]:
    """How far back a rollback can go, and what that costs: `points` are the epochs before `every_from` that everything
    can return to."""
    files = kept_files(manifest)
    cuts = manifest.cuts
    every_from = max(manifest.collected.snapshots.values(), default=cuts.first)
    points = sorted(epoch for epoch in manifest.points() if epoch in cuts)
    oldest = min((*points, every_from))
    return {
        "every_from": every_from, "oldest": oldest,
        "oldest_us": cuts[oldest].at_ms * 1000 if oldest in cuts else 0,
        "points": [{"epoch": epoch, "at_us": cuts[epoch].at_ms * 1000} for epoch in points],
        "savepoints": [
            {"name": each.name, "epoch": each.epoch, "at_us": each.at_ms * 1000}
            for each in sorted(manifest.savepoints.values(), key=lambda each: (each.epoch or 0, each.name))
        ],
        "files": len(files), "file_bytes": sum(files.values()),
        "log_bytes": distance(cuts[cuts.first].starts, cuts[cuts.last].ends) if cuts else 0,
        "every_s": retention.get("every_s"), "hours": retention.get("hours"), "bytes_max": retention.get("bytes_max"),
    }  # fmt: skip


def _late(manifest: Manifest, graph: JobGraph) -> list[dict[str, Any]]:
    """The account of late rows. A range goes on with the counts of the ranges it came from, and of two halves of a
    range the first one does; until it has run, theirs stand."""
    counted: Counter[int] = Counter()
    for name in graph.order:
        ranges = manifest.vertices[name]
        for range_, lineage in ranges.items():
            if lineage.last is not None and lineage.position >= lineage.last:
                continue
            found = [lineage.commits.get(lineage.position)]
            if lineage.position < lineage.first:
                origins = [each for each in lineage.parents if each.lo >= range_.lo and each in ranges]
                found = [ranges[each].commits.get(lineage.first - 1) for each in origins]
            for committed in found:
                counted.update({} if committed is None else committed.late)
    return late_account(graph.plan.nodes, counted)


def counted_snapshots(manifest: Manifest, graph: JobGraph) -> Snapshots:
    """The state of every snapshot that the manifest still names."""
    snapshots = Snapshots({name: graph.vertices[name].sources for name in graph.order})
    for name in graph.order:
        epochs = {epoch for lineage in manifest.vertices[name].values() for epoch in lineage.commits}
        for epoch in sorted(epochs):
            if epoch <= manifest.position(name):
                snapshots.complete(name, epoch)
    return snapshots


def _vertex(
    manifest: Manifest, vertex: JobVertex, snapshots: Snapshots, newest: range, status: Mapping[str, Any]
) -> dict[str, Any]:
    position = manifest.position(vertex.name)
    ranges = [
        _range(manifest, vertex.name, range_, lineage, status)
        for range_, lineage in sorted(manifest.vertices[vertex.name].items())
        if lineage.last is None or lineage.position < lineage.last
    ]
    times = [each["frontier_us"] for each in ranges if each["frontier_us"] is not None]
    return {
        "name": vertex.name, "key": list(vertex.key), "inputs": [entry.edge for entry in vertex.inputs],
        "sources": list(vertex.feeds), "sinks": [sink.name for sink in vertex.sinks],
        "readers": sorted({reader for several in vertex.readers.values() for reader, _ in several}),
        "deterministic": vertex.deterministic, "merge": vertex.merge,
        "position": position, "epochs_behind": manifest.last_cut - position,
        "frontier_us": min(times, default=None),
        "oldest": min((epoch for each in manifest.vertices[vertex.name].values() for epoch in each.commits), default=0),
        "state_bytes": sum(each["state_bytes"] for each in ranges),
        "snapshots": {epoch: _snapshot(manifest, vertex.name, snapshots, epoch) for epoch in newest},
        "ranges": ranges,
    }  # fmt: skip


def _range(
    manifest: Manifest, vertex: str, range_: Range, lineage: Lineage, status: Mapping[str, Any]
) -> dict[str, Any]:
    last = lineage.commits.get(lineage.position)
    name = physical_name((vertex, range_))
    return {
        "range": str(range_), "position": lineage.position, "epochs_behind": manifest.last_cut - lineage.position,
        "generation": lineage.term, "running_again": bool(lineage.superseded),
        "seconds": last.seconds if last else 0.0, "rows_in": last.rows_in if last else 0,
        "bytes_read": last.bytes_read if last else 0, "state_bytes": last.state_bytes if last else 0,
        "frontier_us": last.frontier_us if last else None, "attempt": last.attempt if last else 0,
        "load": status.get("loads", {}).get(name), "parked": status.get("parked", {}).get(name, ""),
        "parents": [str(each) for each in lineage.parents], "missing": list(last.missing) if last else [],
    }  # fmt: skip


def _snapshot(manifest: Manifest, vertex: str, snapshots: Snapshots, epoch: int) -> str:
    if epoch <= manifest.collected.snapshots.get(vertex, 0) - 1:
        return "COLLECTED"
    state = snapshots.state(vertex, epoch)
    return state.name if state is not None else "PENDING"


def _epoch(manifest: Manifest, graph: JobGraph, epoch: int) -> dict[str, Any]:
    cut = manifest.cuts[epoch]
    done = {}
    for vertex in graph.order:
        ranges = manifest.ranges_at(vertex, epoch)
        behind = [range_ for range_ in ranges if manifest.vertices[vertex][range_].position < epoch]
        done[vertex] = 1.0 - len(behind) / len(ranges) if ranges else 1.0
    return {
        "epoch": epoch, "bytes": sum(end - cut.starts[name] for name, end in cut.ends.items()),
        "committed_by": done,
    }  # fmt: skip


def _rollback(manifest: Manifest, each: PastRollback) -> dict[str, Any]:
    entry = each.entry
    return {
        "n": each.n, "vertex": entry.vertex, "to": entry.to, "reason": entry.reason,
        "R": list(entry.predicted), "E": dict(entry.replay),
        "moved": [[vertex, str(range_)] for vertex, range_ in entry.rollback],
        "cost": entry.cost, "undone": each.undone, "undoable": undoable(manifest, each),
    }  # fmt: skip
