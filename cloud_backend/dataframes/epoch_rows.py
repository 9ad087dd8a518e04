"""What a job recorded, epoch by epoch: the rows that a vertex handed on, as they count now.

After a rollback an epoch that ran again has other files, and those are read: an epoch that was given up is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from cloud_backend.dataframes import arrow
from cloud_backend.spark.graph import JobGraph, job_graph
from cloud_backend.spark.manifest.manifest import Manifest, ManifestLog
from cloud_backend.spark.manifest.plans import stored_plan
from cloud_backend.spark.slots import WHOLE
from cloud_backend.spark.storage import records
from cloud_backend.spark.storage.store import Store
from shared.errors import UsageError
from shared.plan.vertices import vertices

ADDED = {"_epoch": "int64", "_time": arrow.TIME, "_seq": "int64"}
EPOCHS = {
    "epoch": "int64", "cut": arrow.TIME, "log_start": "int64", "log_end": "int64", "vertices": "int64",
    "committed": "int64",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RecordPiece:
    """One range's record of one epoch."""

    epoch: int
    file: str


@dataclass(frozen=True, slots=True)
class EpochRows:
    """One edge of one job's store. Travels to Spark's workers, so it holds no open file."""

    store: str
    edge: str
    columns: Mapping[str, str]

    @property
    def all_columns(self) -> dict[str, str]:
        return {**self.columns, **ADDED}

    def read(self, piece: RecordPiece) -> Iterator[pa.RecordBatch]:
        rows, _, _ = records.read_slice(Store(self.store), piece.file, WHOLE)
        rows = rows.plain()
        values = {
            name: arrow.column(kind, rows.schema, name, [rows.columns], len(rows))
            for name, kind in self.columns.items()
        }
        values |= {
            "_epoch": arrow.repeated([piece.epoch], [len(rows)], "int64"),
            "_time": arrow.array(arrow.TIME, rows.time_us),
            "_seq": arrow.array("int64", rows.seq),
        }
        yield arrow.batch(self.all_columns, values)


def opened(location: str) -> tuple[Manifest, JobGraph]:
    """A job's manifest and graph. UsageError where there is no job."""
    store = Store(location)
    if not store.exists():
        raise UsageError(f"there is no job store at {store.location!r}", code="job-no-store")
    manifest = ManifestLog(store).state
    if not manifest.plan:
        raise UsageError(f"the job at {store.location!r} has not begun yet", code="dataframe-edge")
    return manifest, job_graph(stored_plan(store, manifest.plan))


def edge_columns(graph: JobGraph, edge: str) -> dict[str, str]:
    """The columns of an edge between vertices, or of a sink. UsageError names those that are recorded."""
    recorded = _recorded(graph)
    if edge not in recorded:
        raise UsageError(f"the job records no edge {edge!r}; it has {', '.join(recorded)}", code="dataframe-edge")
    schemas = {output.name: output.schema for part in vertices(graph.plan) for output in part.fragment.outputs}
    return {column.name: column.kind for column in {**graph.schemas, **schemas}[edge]}


def pieces(manifest: Manifest, graph: JobGraph, edge: str, first: int, last: int) -> list[RecordPiece]:
    """The records of the epochs first..last, both included, as far as every range has committed them."""
    vertex, found = _recorded(graph)[edge], []
    for epoch in range(max(first, 1), min(last, manifest.last_cut) + 1):
        for _, committed in manifest.record_at(vertex, epoch) or ():
            # The same rows are recorded once for each reader, in the reader's order: any one of them will do.
            files = [record.file for (name, _), record in sorted(committed.outputs.items()) if name == edge]
            found += [RecordPiece(epoch, file) for file in files[:1]]
    return found


def _recorded(graph: JobGraph) -> dict[str, str]:
    """By edge or sink, the vertex that records it."""
    edges = {
        edge: vertex.name for vertex in graph.vertices.values() for edge, readers in vertex.readers.items() if readers
    }
    return edges | {sink.name: vertex.name for vertex in graph.vertices.values() for sink in vertex.sinks}


def key_names(stores: Iterable[Path | str], sink: str) -> tuple[str, ...]:
    """What the parts of a sink's key are called in the job that writes it; empty where none of these stores has it."""
    for store in map(Store, stores):
        plan = ManifestLog(store).state.plan if store.exists() else 0
        sinks = job_graph(stored_plan(store, plan)).vertices.values() if plan else ()
        for found in (each for vertex in sinks for each in vertex.sinks if each.name == sink):
            return found.key
    return ()


def epoch_list(manifest: Manifest, graph: JobGraph) -> Iterator[pa.RecordBatch]:
    """One row for each epoch that the manifest still tells of."""
    values: dict[str, list[object]] = {name: [] for name in EPOCHS}
    for epoch in sorted(manifest.cuts):
        cut = manifest.cuts[epoch]
        done = sum(manifest.position(vertex) >= epoch for vertex in graph.order)
        at_us = cut.at_ms * 1000 or None
        row = (epoch, at_us, sum(cut.starts.values()), sum(cut.ends.values()), len(graph.order), done)
        for name, value in zip(EPOCHS, row, strict=True):
            values[name].append(value)
    yield arrow.batch(EPOCHS, {name: arrow.array(kind, values[name]) for name, kind in EPOCHS.items()})
