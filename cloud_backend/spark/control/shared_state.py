"""State in which devices meet: what a deleted device added to it has no name on it, so it is derived again without it.

The log holds nothing of the device any more. So the vertices in which devices meet, and everything that reads them, go
back to the oldest epoch they can go back to and run again, without the device's rows in the records they read. If the
device had added nothing by then, all that comes out is what would have come out without it. Otherwise these vertices
start from nothing there: windows that were open then lost what others had added too, and say that they are incomplete;
results of windows that had closed before and show values are removed, those that only count stay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cloud_backend.results.store import Results
from cloud_backend.spark.graph import EdgeInput, JobGraph
from cloud_backend.spark.manifest.entries import Rollback
from cloud_backend.spark.manifest.lineage import Physical
from cloud_backend.spark.manifest.manifest import Manifest
from cloud_backend.spark.storage.store import Store
from cloud_backend.spark.task import state
from shared.batch import END_OF_TIME
from shared.engine.pipeline import Pipeline
from shared.engine.rows import Progress
from shared.plan.operators import DEVICE, WINDOW_START
from shared.plan.vertices import vertices


@dataclass(frozen=True, slots=True)
class Before:
    """What state held at the epoch to go back to: a device's first row, and which time its open windows reached."""

    first_row_us: int | None
    reached_us: int


def meetings(graph: JobGraph) -> tuple[str, ...]:
    """The vertices in which devices meet, and everything that reads them."""
    found = {name for name in graph.order if DEVICE not in graph.vertices[name].key}
    while more := {name for name in graph.order if found & {*graph.vertices[name].feeds}} - found:
        found |= more
    return tuple(name for name in graph.order if name in found)


def meeting_sinks(graph: JobGraph) -> list[str]:
    return [sink.name for name in meetings(graph) for sink in graph.vertices[name].sinks]


def run_without(
    manifest: Manifest, graph: JobGraph, store: Store, results: Results, devices: Mapping[str, int]
) -> Rollback | None:
    """The rollback after which shared state is derived without these devices; None where devices never meet. Results
    that nobody can derive again are removed at once. The manifest must be level."""
    names = meetings(graph)
    if not names:
        return None
    to = _restart(manifest, graph, names)
    before = _before(_pipelines(manifest, graph, store, names, to), devices)
    emptied: dict[str, int] = {}
    if before.first_row_us is not None:
        emptied = dict.fromkeys(names, before.reached_us)
        showing = [sink.name for name in names for sink in graph.vertices[name].sinks if sink.shows_values]
        results.forget_said(showing, through_epoch=to, after_us=before.first_row_us)
    moved = [(name, range_) for name in names for range_, each in manifest.vertices[name].items() if each.position > to]
    return Rollback(
        tuple(moved), to, changed=True, reason="data of a device is deleted", erases=devices, emptied=emptied
    )


def _restart(manifest: Manifest, graph: JobGraph, names: Sequence[str]) -> int:
    """The oldest epoch that all of these can go back to; the last one where phones may have used what they said."""
    at = manifest.last_cut
    if any(sink.stable for name in names for sink in graph.vertices[name].sinks):
        return at
    collected = manifest.collected
    oldest = max(collected.log, *(collected.snapshots.get(name, 0) for name in names))
    return next((epoch for epoch in range(oldest, at) if _can_start(manifest, graph, names, epoch)), at)


def _can_start(manifest: Manifest, graph: JobGraph, names: Sequence[str], epoch: int) -> bool:
    read = {
        entry.vertex: entry.delay
        for name in names
        for entry in graph.vertices[name].inputs
        if isinstance(entry, EdgeInput) and entry.vertex not in names
    }
    return all(manifest.snapshot(physical, epoch) is not None for physical in _at(manifest, names, epoch)) and all(
        manifest.record_at(vertex, each) is not None
        for vertex, delay in read.items()
        for each in range(max(1, epoch + 1 - delay), manifest.last_cut + 1)
    )


def _at(manifest: Manifest, names: Sequence[str], epoch: int) -> list[Physical]:
    """The ranges that have a state after the epoch."""
    return [
        (name, range_)
        for name in names
        for range_, each in manifest.vertices[name].items()
        if each.first <= epoch and (each.last is None or epoch <= each.last)
    ]


def _pipelines(
    manifest: Manifest, graph: JobGraph, store: Store, names: Sequence[str], epoch: int
) -> Iterator[Pipeline]:
    """Every state after the epoch."""
    parts = {vertex.name: vertex for vertex in vertices(graph.plan)}
    for physical in _at(manifest, names, epoch):
        for part in manifest.snapshot(physical, epoch) or ():
            if part.chain:
                pipeline = Pipeline(parts[physical[0]])
                state.restore(store, pipeline, part.chain)
                yield pipeline


def _before(pipelines: Iterable[Pipeline], devices: Collection[str]) -> Before:
    rows: list[int] = []
    reached = 0
    for pipeline in pipelines:
        rows += [at for device in devices if (at := pipeline.first_row_us(device)) is not None]
        reached = max(reached, _reached_us(pipeline))
    return Before(min(rows, default=None), reached + 1)


def _reached_us(pipeline: Pipeline) -> int:
    """Where the last of the windows begins that are open, or the last row is that waits: what comes out at the end of
    time. The pipeline cannot be used any more."""
    reached = 0
    for entry in pipeline.fragment.inputs:
        try:
            outputs = pipeline.advance_by(entry.name, Progress(END_OF_TIME))
        except Exception:  # noqa: S112 - a user's operator that raises on its state says nothing about its windows
            continue
        for _, batch in outputs:
            if len(batch):
                reached = max(reached, int(batch.columns.get(WINDOW_START, batch.time_us).max()))
    return reached
