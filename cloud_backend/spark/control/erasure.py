"""Erasing what a device delivered from a job's store: its keys' state, its rows in records, and all that is older.

The log is erased by the gateway. A store holds more: snapshots with the state of the device's keys, records with its
rows, former runs that an undo could return to, and manifest entries that quote what could not be used. When every
vertex has worked off what was cut, each range's state is written anew without the device's keys and each record without
its rows; one manifest entry makes these files count, and forgets everything before them. Then the files that nobody
names are deleted, and what the manifest's entries said so far. So no rollback, undo or restart finds the device again;
what that costs is that nobody can go back beyond it.

State in which devices meet, as a count by place, has been derived without the device before (`shared_state`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from cloud_backend.spark.graph import JobGraph
from cloud_backend.spark.manifest.entries import Erasure
from cloud_backend.spark.manifest.lineage import Committed, RecordFile, StatePart
from cloud_backend.spark.manifest.manifest import Manifest, ManifestLog
from cloud_backend.spark.slots import WHOLE, Range
from cloud_backend.spark.storage import records
from cloud_backend.spark.storage.file_names import for_slots, place_in_bundle
from cloud_backend.spark.storage.store import Store
from cloud_backend.spark.task import state
from cloud_backend.spark.task.inputs import without_devices
from shared.engine.pipeline import Pipeline
from shared.plan.operators import DEVICE
from shared.plan.vertices import vertices


def is_level(manifest: Manifest) -> bool:
    """Whether every range has worked off every epoch, and has nothing more to correct."""
    return all(
        not lineage.superseded
        and (
            lineage.last is not None
            or (
                lineage.position == manifest.last_cut
                and lineage.position in lineage.commits
                and not lineage.commits[lineage.position].stale
            )
        )
        for lineages in manifest.vertices.values()
        for lineage in lineages.values()
    )


def erasure(manifest: Manifest, graph: JobGraph, store: Store, devices: Mapping[str, int], *, term: int) -> Erasure:
    """Write what counts now without these devices, and say so as an entry. The manifest must be level."""
    at = manifest.last_cut
    clean = _Clean(store, set(devices), term)
    plans = {vertex.name: Pipeline(vertex) for vertex in vertices(graph.plan)}
    ranges: dict[tuple[str, Range], tuple[tuple[StatePart, ...], Mapping[tuple[str, str], RecordFile]]] = {}
    for vertex in graph.order:
        for range_, lineage in manifest.vertices[vertex].items():
            if lineage.last is None:
                committed = lineage.commits[at]
                parts = tuple(clean.part(plans[vertex], part, committed) for part in committed.state)
                outputs = {name: clean.record(record) for name, record in committed.outputs.items()}
                ranges[vertex, range_] = (parts, outputs)
    store.sync_files()
    return Erasure(devices, at, ranges)


def forget_what_was_erased(log: ManifestLog) -> None:
    """Empty the manifest's history up to now, whose entries may quote readings. Their numbers stay taken: a driver that
    slept through it must not believe that it is the first to write one."""
    log.summarise()
    log.store.empty_history(log.state.n)


class _Clean:
    def __init__(self, store: Store, devices: Collection[str], term: int) -> None:
        self._store = store
        self._devices = devices
        self._prefix = f"erased.t{term}"

    def part(self, pipeline: Pipeline, part: StatePart, committed: Committed) -> StatePart:
        """The state of these slots, without the devices' keys, as a base of its own."""
        if not part.chain:
            return part
        prefix = for_slots(f"{self._prefix}.e{committed.epoch}", part.range)
        state.restore(self._store, pipeline, part.chain)
        pipeline.retain((DEVICE,), self._stays)
        chain, sizes = state.save(self._store, prefix, pipeline, part.chain, part.sizes, whole=True)
        return StatePart(part.range, chain, sizes)

    def record(self, record: RecordFile) -> RecordFile:
        """The record without the devices' rows: the same file where it has none of them."""
        rows, footer, _ = records.read_slice(self._store, record.file, WHOLE)
        others = without_devices(rows, self._devices) if DEVICE in rows.schema.names else rows
        if others is rows and place_in_bundle(record.file) is None:
            return record  # in a bundle it would keep what else is in there, the devices' state for one
        data, kept = records.encode(others.plain(), footer.progress)
        file = self._store.write_file(self._prefix, "record", data)
        return replace(record, file=file, rows=kept.rows, bytes=len(data), digest=kept.digest_of(WHOLE))

    def _stays(self, columns: Mapping[str, np.ndarray], rows: int) -> np.ndarray:
        names = columns[DEVICE].tolist()
        return np.fromiter((device not in self._devices for device in names), np.bool_, rows)
