"""What a task reads, in pieces that can be left out: units.

From the log a unit is one device's batch, or all of them joined while nothing is wrong. From another vertex's records
the rows of an epoch are one unit, which may be halved down to the single row. The order is the same at every replay,
however the producer was divided, unless the vertex merges by arrival.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cloud_backend.spark.graph import EdgeInput, JobGraph, JobVertex, LogInput
from cloud_backend.spark.manifest.lineage import LeftOut
from cloud_backend.spark.slots import WHOLE, Range, demand_inside, slots_of
from cloud_backend.spark.storage import records
from cloud_backend.spark.storage.store import Store
from cloud_backend.spark.task import log_input
from cloud_backend.spark.task.decoded_batches import DecodedBatches
from cloud_backend.spark.task.specification import LogBytes, Specification
from cloud_backend.spark.task.unit import Unit
from shared.batch import END_OF_TIME, NO_FRONTIER, Batch
from shared.engine.rows import Progress
from shared.errors import DamagedData
from shared.language.schema import Schema
from shared.plan.operators import DEVICE

_decoded = DecodedBatches()  # by the worker, for all jobs whose tasks it runs


class UnusableFile(Exception):
    """A state file or a record cannot be used: the driver must roll back."""

    def __init__(self, kind: str, file: str, error: DamagedData) -> None:
        super().__init__(error.message)
        self.kind, self.file, self.code = kind, file, error.code


class Inputs:
    """The inputs of one range in one epoch. After `read`, `progress` says how far time has come on each edge,
    `refused` what could not be decoded, `bytes_read` what it cost, and `log_bytes` how much of that was in the log and
    how much had to be decoded."""

    def __init__(
        self,
        spec: Specification,
        graph: JobGraph,
        vertex: JobVertex,
        store: Store,
    ) -> None:
        self.spec = spec
        self.graph = graph
        self.vertex = vertex
        self.store = store
        self.range = spec.range
        self.inputs = spec.first
        self.epoch = spec.first.epoch
        self.progress: dict[str, Progress] = {}
        self.refused: list[LeftOut] = []
        self.bytes_read = 0
        self.log_bytes = LogBytes()
        self.heard: dict[str, int] = {}  # device -> its frontier, of the devices in the log

    def read(self) -> list[Unit]:
        units: list[Unit] = []
        logged = {
            entry.edge: self.graph.wire[entry.edge] for entry in self.vertex.inputs if isinstance(entry, LogInput)
        }
        if logged:
            units += self._from_log(logged)
        for entry in self.vertex.inputs:
            if isinstance(entry, EdgeInput):
                units += self._from_records(entry)
        return units

    def _from_log(self, wire: Mapping[str, Schema]) -> list[Unit]:
        units = []
        found, read = log_input.read_edges(
            self.inputs.log, self.inputs.slices, wire, self.range,
            met=self.graph.met, missing=self.graph.missing, kept=_decoded if self.spec.beside_others else None,
        )  # fmt: skip
        self.bytes_read += read
        self.log_bytes = LogBytes(read, sum(arrivals.decoded_bytes for arrivals in found.values()))
        for edge, arrivals in found.items():
            self.refused += arrivals.refused
            self.progress[edge] = Progress(NO_FRONTIER, arrivals.frontiers)
            if edge in self.graph.met:  # a region's frontier holds for the rows of all its devices
                self.progress[edge] = Progress(min(arrivals.frontiers.values(), default=NO_FRONTIER))
            for device, at in arrivals.frontiers.items():
                self.heard[device] = min(at, self.heard.get(device, at))
            if self.vertex.ingest or self.vertex.merge == "ordered":
                units += self._joined(edge, arrivals.units)
        if not self.vertex.ingest and self.vertex.merge != "ordered":
            came = [unit for arrivals in found.values() for unit in arrivals.units]
            units += sorted(came, key=lambda unit: unit.ordinal)
        return units

    def _joined(self, edge: str, units: list[Unit]) -> list[Unit]:
        """The devices' batches as one, unless a row is earlier than a frontier its device gave before it: whether
        that row is late must not depend on where epochs were cut, so then each batch goes in with its own frontier."""
        if self.vertex.ingest:
            return [
                replace(unit, batch=replace(unit.batch, seq=(unit.ordinal << 24) + np.arange(len(unit.batch))))
                for unit in units
            ]
        if log_input.has_late_rows(units):
            return units
        units = [replace(unit, batch=replace(unit.batch, frontier_us=NO_FRONTIER)) for unit in units]
        if len(units) < 2:
            return units
        lo, hi = min(unit.batch.lo for unit in units), max(unit.batch.hi for unit in units)
        whole = replace(Batch.joined([unit.batch for unit in units]), lo=lo, hi=hi, applied=0)
        return [Unit(edge, whole, parts=tuple(units))]

    def _from_records(self, entry: EdgeInput) -> list[Unit]:
        parts: list[records.Rows] = []
        progresses: list[Progress] = []
        for name in self.inputs.records.get(entry.edge, ()):
            try:
                rows, footer, read = records.read_slice(self.store, name, self.range)
            except DamagedData as error:
                raise UnusableFile("record", name, error) from error
            self.bytes_read += read
            progresses.append(_progress_from_json(footer.progress))
            if self.spec.without and DEVICE in rows.schema.names:
                rows = without_devices(rows, self.spec.without)
            if len(rows):
                parts.append(rows)
        # What is fed back holds nothing up: by the time it enters, its epoch is over.
        if entry.edge in self.graph.met:  # one range of its ingest has all that the region sent
            progresses = [each for each in progresses if each.floor_us > NO_FRONTIER] or progresses[:1]
        self.progress[entry.edge] = Progress(END_OF_TIME) if entry.delay else common_progress(progresses)
        if not parts:
            return []
        schema = self.graph.schemas[entry.edge]
        rows = records.Rows.concatenate(schema, parts)
        rows = rows.take(self._order(rows, parts, self.graph.vertices[entry.vertex])).plain()
        demand_inside(slots_of(rows.columns, self.vertex.key, len(rows)), self.range)
        # Numbered anew, the same at every replay: the producer's ranges may have been divided differently.
        lo = self.epoch << 32
        batch = Batch(schema, rows.columns, rows.time_us, np.arange(lo, lo + len(rows)), lo, lo + len(rows))
        return [Unit(entry.edge, batch, divisible=True)]

    def _order(self, rows: records.Rows, parts: Sequence[records.Rows], producer: JobVertex) -> np.ndarray:
        """The positions in which the rows of the producer's ranges, one after the other, go in."""
        if self.vertex.merge == "ordered":
            return _canonical_order(rows, producer.key)
        if producer.ingest and self.vertex.merge == "logged":
            return np.argsort(rows.seq, kind="stable")
        starts = np.cumsum([0, *map(len, parts)])
        return np.concatenate(
            [start + np.argsort(part.seq, kind="stable") for start, part in zip(starts, parts, strict=False)]
        )


def _canonical_order(rows: records.Rows, producer_key: tuple[str, ...]) -> np.ndarray:
    """By (producer's key, producer's number): the same however the producer was divided, and each key's rows in stream
    order. Where keys meet, the engine's own merge brings them into order of time."""
    keys = [
        rows.texts[name].ranks() if name in rows.texts else rows.columns[name]
        for name in producer_key
        if name in rows.schema.names
    ]
    return np.lexsort((rows.seq, *reversed(keys)))


def record_rows(schema: Schema, batches: Sequence[Batch]) -> records.Rows:
    """These batches one after the other, as a record has them."""
    if not batches:
        return no_rows(schema)
    whole = Batch.joined(batches)
    columns = {name: whole.columns[name] for name in schema.names}
    return records.Rows(schema, columns, whole.time_us, whole.seq, np.zeros(len(whole), np.uint16))


def no_rows(schema: Schema) -> records.Rows:
    empty = Batch.of(schema, {name: [] for name in schema.names}, [])
    return records.Rows(schema, empty.columns, empty.time_us, empty.seq, np.zeros(0, np.uint16))


def without_devices(rows: records.Rows, devices: Collection[str]) -> records.Rows:
    """The rows of all others; the same object where none of them is theirs."""
    said = rows.plain().columns[DEVICE].tolist()
    stays = np.fromiter((device not in devices for device in said), np.bool_, len(said))
    return rows if bool(stays.all()) else rows.take(np.flatnonzero(stays))


def only_slots(batch: Batch, key: tuple[str, ...], range_: Range) -> Batch:
    """The batch's rows whose keys are in this range."""
    if range_.same_slots(WHOLE) or not len(batch):
        return batch
    slots = slots_of(batch.columns, key, len(batch))
    inside = (slots >= range_.lo) & (slots < range_.hi)
    return batch if bool(inside.all()) else batch.take(np.flatnonzero(inside))


def common_progress(several: Sequence[Progress]) -> Progress:
    """The progress of an edge whose producer is divided: devices are disjoint, the floor holds for all."""
    floor = min(one.floor_us for one in several)
    devices: dict[str, int] = {}
    for one in several:
        for name, at in one.devices.items():
            devices[name] = min(at, devices.get(name, at))
    completes = [one.complete_us for one in several if one.complete_us is not None]
    return Progress(floor, devices, min(completes) if completes else None)


def _progress_from_json(value: Mapping[str, Any]) -> Progress:
    return Progress(value["floor"], value["devices"], value["complete"])
