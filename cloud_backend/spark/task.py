"""One task: one hash range of a vertex runs one epoch. Plain Python over files; Spark only decides where.

It takes its slice of its inputs' records of the epoch and the state of the epoch before, pushes through the shared
engine, writes attempt-unique output and state files, and returns what the manifest should say. It publishes nothing:
if nobody commits its outcome, it never happened.

An exception of an operator is caught here, because outside it would cost the Python worker. The batch that raised is
left out, the state loaded again and the epoch repeated without it: quarantined, named in the outcome, never a crash
loop. Rows from another vertex have no batches of their own, so there the search goes down to the single row.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from cloud_backend.spark import ingest, records, state
from cloud_backend.spark.graph import EdgeInput, JobGraph, JobVertex, LogInput, job_graph
from cloud_backend.spark.lineage import RecordFile, StatePart
from cloud_backend.spark.slots import WHOLE, Range, demand_inside, slots_of
from cloud_backend.spark.store import Store
from shared.batch import END_OF_TIME, NO_FRONTIER, Batch
from shared.engine.pipeline import Pipeline
from shared.engine.rows import Progress
from shared.errors import DamagedData, ResurgeError
from shared.plan.encoding import decode_plan
from shared.plan.vertices import vertices
from shared.stream.schema import Schema

Spec = Mapping[str, Any]

QUARANTINE_ROUNDS_MAX = 64


@dataclass(frozen=True, slots=True)
class Unit:
    """What is left out together when an operator cannot bear it."""

    edge: str
    batch: Batch
    label: Mapping[str, object]
    divisible: bool = False  # rows of another vertex: search for the single row
    parts: tuple[Unit, ...] = ()  # the devices' batches that were joined into this one


class Poison(Exception):
    """An operator raised on a unit, or on letting time pass (`unit` None)."""

    def __init__(self, unit: Unit | None, error: Exception) -> None:
        super().__init__(str(error))
        self.unit = unit
        self.error = error


_graphs: dict[tuple[str, int], JobGraph] = {}


def run(spec: Spec, *, pieces: Mapping[str, bytes] | None = None) -> dict[str, Any]:
    """The outcome of a task: {"ok": what to commit} or {"failed": kind, ...}. Never raises for what a rollback or an
    operator can mend."""
    started = time.perf_counter()
    try:
        for name in spec.get("modules", ()):
            import_module(name)
        graph = _graph(Path(spec["store"]), spec["plan"], given=spec.get("given", False))
        outcome = _Task(spec, graph, pieces).run()
    except _Lost as lost:
        return {"failed": lost.kind, "file": lost.file, "message": str(lost), "code": lost.code}
    except Poison as poison:
        return {"failed": "operator", "message": _said(poison.error), "code": "task-operator"}
    except ResurgeError as error:
        return {"failed": "other", "message": error.message, "code": error.code}
    return {"ok": outcome | {"seconds": time.perf_counter() - started}}


class _Lost(Exception):
    """A state file or a record cannot be used: the driver must roll back."""

    def __init__(self, kind: str, file: str, error: DamagedData) -> None:
        super().__init__(error.message)
        self.kind, self.file, self.code = kind, file, error.code


class _Task:
    def __init__(self, spec: Spec, graph: JobGraph, pieces: Mapping[str, bytes] | None) -> None:
        self.spec = spec
        self.pieces = pieces  # what the shuffle brought of each record, where files are not read directly
        self.graph = graph
        self.vertex: JobVertex = graph.vertices[spec["vertex"]]
        self.range = Range.parse(spec["range"])
        self.epoch: int = spec["epoch"]
        self.store = Store(spec["store"])
        self.prefix = f"{_file_name(self.vertex.name)}.{self.range}.e{self.epoch}.g{spec['generation']}.t{spec['term']}"
        self.bytes_read = 0
        self.state_bytes_read = 0
        self.quarantined: list[dict[str, object]] = []
        self.progress: dict[str, Progress] = {}
        self.cache: list[str] = []

    def run(self) -> dict[str, Any]:
        units = self._inputs()
        rows_in = sum(len(unit.batch) for unit in units)
        parts: tuple[StatePart, ...] = ()
        if self.vertex.ingest:
            outputs = self._ingest(units)
        else:
            outputs, parts = self._through_quarantine(units)
        written = {}
        for name, (rows, progress) in outputs.items():
            written.update(self._record(name, rows, progress))
        return {
            "epoch": self.epoch, "generation": self.spec["generation"],
            "outputs": [[name, reader, *record.to_json()] for (name, reader), record in written.items()],
            "state": [part.to_json() for part in parts], "rows_in": rows_in, "bytes_read": self.bytes_read,
            "code": self.spec["code"], "plan": self.spec["plan"], "quarantined": self.quarantined, "stale": False,
            "attempt": self.spec.get("attempt", 0), "cache": self.cache, "state_bytes_read": self.state_bytes_read,
            "frontier_us": _frontier(self.progress.values()),
        }  # fmt: skip

    # -- inputs ----------------------------------------------------------------------------------------------------

    def _inputs(self) -> list[Unit]:
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
        for start, end in self.spec["log"]["slices"]:
            found, read = ingest.read_edges(Path(self.spec["log"]["directory"]), start, end, wire, self.range)
            self.bytes_read += read
            for edge, arrivals in found.items():
                self.quarantined += [{"edge": edge, **refused} for refused in arrivals.refused]
                self.progress[edge] = Progress(NO_FRONTIER, arrivals.frontiers)
                if self.vertex.ingest or self.vertex.merge == "ordered":
                    units += self._joined(edge, arrivals.batches)
            if not self.vertex.ingest and self.vertex.merge != "ordered":
                came = [(each.ordinal, edge, each) for edge, arrivals in found.items() for each in arrivals.batches]
                units += [_unit(edge, each) for _, edge, each in sorted(came, key=lambda each: each[0])]
        return units

    def _joined(self, edge: str, arrivals: Sequence[ingest.Arrival]) -> list[Unit]:
        """The devices' batches as one, unless a row is earlier than a frontier its device gave before it: whether
        that row is late must not depend on where epochs were cut, so then each batch goes in with its own frontier."""
        units = [_unit(edge, each) for each in arrivals]
        if self.vertex.ingest:
            return [
                replace(unit, batch=replace(unit.batch, seq=(each.ordinal << 24) + np.arange(len(unit.batch))))
                for unit, each in zip(units, arrivals, strict=True)
            ]
        if ingest.has_late_rows(arrivals):
            return units
        units = [replace(unit, batch=replace(unit.batch, frontier_us=NO_FRONTIER)) for unit in units]
        if len(units) < 2:
            return units
        rows = _gathered(self.graph.schemas[edge], [unit.batch for unit in units])
        lo, hi = min(unit.batch.lo for unit in units), max(unit.batch.hi for unit in units)
        whole = Batch(rows.schema, rows.columns, rows.time_us, rows.seq, lo, hi)
        return [Unit(edge, whole, {"edge": edge}, parts=tuple(units))]

    def _from_records(self, entry: EdgeInput) -> list[Unit]:
        parts: list[records.Rows] = []
        progresses: list[Progress] = []
        for name in self.spec["records"].get(entry.edge, ()):
            try:
                rows, footer, read = self._slice(name)
            except DamagedData as error:
                raise _Lost("record", name, error) from error
            self.bytes_read += read
            progresses.append(_progress_from_json(footer.progress))
            if len(rows):
                parts.append(rows.take(np.argsort(rows.seq, kind="stable")))
        # What is fed back holds nothing up: by the time it enters, its epoch is over.
        self.progress[entry.edge] = Progress(END_OF_TIME) if entry.delay else _together(progresses)
        if not parts:
            return []
        schema = self.graph.schemas[entry.edge]
        rows = records.Rows.concatenate(schema, parts)
        demand_inside(slots_of(rows.columns, self.vertex.key, len(rows)), self.range)
        producer = self.graph.vertices[entry.vertex]
        if self.vertex.merge == "ordered":
            rows = rows.take(_canonical_order(rows, producer.key))
        elif producer.ingest and self.vertex.merge == "logged":
            rows = rows.take(np.argsort(rows.seq, kind="stable"))
        # Numbered anew, the same at every replay: the producer's ranges may have been divided differently.
        lo = self.epoch << 32
        batch = Batch(schema, rows.columns, rows.time_us, np.arange(lo, lo + len(rows)), lo, lo + len(rows))
        return [Unit(entry.edge, batch, {"edge": entry.edge}, divisible=True)]

    def _slice(self, name: str) -> tuple[records.Rows, records.Footer, int]:
        if self.pieces is None:
            return records.read_slice(self.store.files / name, self.range)
        if name not in self.pieces:
            raise DamagedData(f"record {name} is gone; its producer must run again", code="record-missing")
        return records.decode(self.pieces[name], name, self.range)

    # -- running ---------------------------------------------------------------------------------------------------

    def _ingest(self, units: Sequence[Unit]) -> dict[str, tuple[records.Rows, Progress]]:
        """Decoded rows as they are, numbered by the order of the log, which is the recorded interleaving."""
        (edge,) = self.vertex.readers
        schema = self.graph.schemas[edge]
        return {edge: (_gathered(schema, [unit.batch for unit in units]), self.progress[edge])}

    def _through_quarantine(
        self, units: list[Unit]
    ) -> tuple[dict[str, tuple[records.Rows, Progress]], tuple[StatePart, ...]]:
        suspected: list[Unit | None] = []
        for _ in range(QUARANTINE_ROUNDS_MAX):
            try:
                return self._through_engine(units)
            except Poison as poison:
                if not any(poison.unit is each for each in suspected):
                    suspected.append(poison.unit)  # once may be the machine; the second time it is the batch
                    continue
                if poison.unit is None:
                    raise
                index = next(place for place, unit in enumerate(units) if unit is poison.unit)
                units[index : index + 1] = self._narrowed(poison.unit, poison.error)
        raise Poison(None, RuntimeError(f"more than {QUARANTINE_ROUNDS_MAX} batches of one epoch raise"))

    def _narrowed(self, unit: Unit, error: Exception) -> list[Unit]:
        """What to try instead of a unit that raised: its parts, or nothing, once it is as small as it gets."""
        if unit.parts:
            return list(unit.parts)
        if unit.divisible and len(unit.batch) > 1:
            middle = len(unit.batch) // 2
            return [
                replace(unit, batch=_cut(unit.batch, 0, middle)),
                replace(unit, batch=_cut(unit.batch, middle, None)),
            ]
        label = dict(unit.label)
        if unit.divisible:
            label |= {"lo": int(unit.batch.seq[0]), "hi": int(unit.batch.seq[0]) + 1}
        self.quarantined.append({**label, "rows": len(unit.batch), "reason": _said(error), "code": "task-operator"})
        return []

    def _through_engine(
        self, units: Sequence[Unit]
    ) -> tuple[dict[str, tuple[records.Rows, Progress]], tuple[StatePart, ...]]:
        emitted: dict[str, list[records.Rows]] = {}
        progress: dict[str, list[Progress]] = {}
        saved: list[StatePart] = []
        running = []
        for part in map(StatePart.from_json, self.spec["state"]):
            pipeline, key = self._load(part)
            for name, batch in self._push(pipeline, part, units):
                emitted.setdefault(name, []).append(self._owned(name, batch, part))
            for name in self.vertex.readers:
                progress.setdefault(name, []).append(pipeline.take_progress(name))
            running.append((part, pipeline, key))
        for part, pipeline, key in running:
            chain, sizes = state.save(
                self.store,
                f"{self.prefix}.{state.mark(part.range)}",
                pipeline,
                part.chain,
                part.sizes,
                chain_max=self.spec["chain_max"],
            )
            state.keep(key, chain, pipeline)
            saved.append(StatePart(part.range, chain, sizes))
        names = [*self.vertex.readers, *(sink.name for sink in self.vertex.sinks)]
        outputs = {
            name: (
                records.Rows.concatenate(self._schema(name), emitted.get(name) or [_no_rows(self._schema(name))]),
                _together(progress[name]) if name in progress else Progress(NO_FRONTIER),
            )
            for name in names
        }
        return outputs, tuple(saved)

    def _load(self, part: StatePart) -> tuple[Pipeline, state.CacheKey]:
        key = (str(self.store.root), f"{self.spec['plan']} {self.spec['code']} {self.vertex.name}", str(part.range))
        vertex = next(each for each in vertices(self.graph.plan) if each.name == self.vertex.name)
        try:
            loaded = state.load(self.store, key, part.chain, lambda: Pipeline(vertex))
        except DamagedData as error:
            raise _Lost("state", next((name for name in part.chain if name in error.message), ""), error) from error
        self.state_bytes_read += loaded.bytes_read
        self.cache.append(loaded.how)
        assert isinstance(loaded.pipeline, Pipeline)
        if state.written_for(part.chain) not in (None, (part.range.lo, part.range.hi)):
            self._drop_foreign_keys(loaded.pipeline, part.range)
        return loaded.pipeline, key

    def _drop_foreign_keys(self, pipeline: Pipeline, range_: Range) -> None:
        """After a split both halves start from the whole state; each keeps its own keys only."""

        def inside(columns: Mapping[str, np.ndarray], rows: int) -> np.ndarray:
            slots = slots_of(columns, self.vertex.key, rows)
            return (slots >= range_.lo) & (slots < range_.hi)

        pipeline.retain(self.vertex.key, inside)

    def _push(self, pipeline: Pipeline, part: StatePart, units: Sequence[Unit]) -> list[tuple[str, Batch]]:
        emitted: list[tuple[str, Batch]] = []
        whole = part.range.same_slots(self.range)
        for unit in units:
            batch = unit.batch if whole else _only_slots(unit.batch, self.vertex.key, part.range)
            try:
                emitted += pipeline.push(unit.edge, batch)
            except Exception as error:
                raise Poison(unit, error) from error
        for edge, progress in self.progress.items():
            # Every input's time moves, also without rows; in plan order, so that a replay does the same.
            try:
                emitted += pipeline.advance_by(edge, progress)
            except Exception as error:
                raise Poison(None, error) from error
        return emitted

    # -- outputs ---------------------------------------------------------------------------------------------------

    def _owned(self, name: str, batch: Batch, part: StatePart) -> records.Rows:
        """The batch's rows that this part of the state may speak for: after a split both halves hold every key's state,
        and each says only what belongs to its own slots."""
        rows = _gathered(self._schema(name), [batch])
        if part.range.same_slots(WHOLE) or len(rows) == 0:
            return rows
        slots = slots_of(rows.columns, self.vertex.key, len(rows))
        inside = (slots >= part.range.lo) & (slots < part.range.hi)
        return rows if bool(inside.all()) else rows.take(np.flatnonzero(inside))

    def _schema(self, name: str) -> Schema:
        if name in self.graph.schemas:
            return self.graph.schemas[name]
        return self.graph.plan.sink(name).type.schema

    def _record(self, name: str, rows: records.Rows, progress: Progress) -> dict[tuple[str, str], RecordFile]:
        written = {}
        readers = self.vertex.readers.get(name)
        for reader, key in readers if readers is not None else (("", ()),):
            placed = replace(rows, slot=slots_of(rows.columns, key, len(rows)))
            data, footer = records.encode(placed, _progress_to_json(progress) if reader else None)
            file = self.store.write_file(f"{self.prefix}.{_file_name(name)}", "record", data)
            written[name, reader] = RecordFile(file, footer.rows, len(data), footer.digest_of(WHOLE))
        return written


def _graph(store: Path, plan: int, *, given: bool) -> JobGraph:
    key = (str(store), plan)
    if key not in _graphs:
        _graphs[key] = job_graph(decode_plan((store / "plans" / f"{plan}.plan").read_bytes()), given=given)
    return _graphs[key]


def _unit(edge: str, arrival: ingest.Arrival) -> Unit:
    return Unit(edge, arrival.batch, {"edge": edge, **arrival.label})


def _canonical_order(rows: records.Rows, producer_key: tuple[str, ...]) -> np.ndarray:
    """By (producer's key, producer's number): the same however the producer was divided, and each key's rows in stream
    order. Where keys meet, the engine's own merge brings them into order of time."""
    order = np.argsort(rows.seq, kind="stable")
    for name in reversed(producer_key):
        if name in rows.columns:
            order = order[np.argsort(rows.columns[name][order], kind="stable")]
    return order


def _gathered(schema: Schema, batches: Sequence[Batch]) -> records.Rows:
    if not batches:
        return _no_rows(schema)
    return records.Rows.concatenate(
        schema,
        [
            records.Rows(
                schema, {name: batch.columns[name] for name in schema.names}, batch.time_us, batch.seq,
                np.zeros(len(batch), np.uint16),
            )
            for batch in batches
        ],
    )  # fmt: skip


def _no_rows(schema: Schema) -> records.Rows:
    empty = Batch.of(schema, {name: [] for name in schema.names}, [])
    return records.Rows(schema, empty.columns, empty.time_us, empty.seq, np.zeros(0, np.uint16))


def _cut(batch: Batch, start: int, stop: int | None) -> Batch:
    seq = batch.seq[start:stop]
    return replace(
        batch,
        columns={name: column[start:stop] for name, column in batch.columns.items()},
        time_us=batch.time_us[start:stop],
        seq=seq,
        lo=batch.lo if start == 0 else int(seq[0]),
        hi=batch.hi if stop is None else int(batch.seq[stop]),
    )


def _only_slots(batch: Batch, key: tuple[str, ...], range_: Range) -> Batch:
    slots = slots_of(batch.columns, key, len(batch))
    index = np.flatnonzero((slots >= range_.lo) & (slots < range_.hi))
    return replace(
        batch,
        columns={name: column[index] for name, column in batch.columns.items()},
        time_us=batch.time_us[index],
        seq=batch.seq[index],
    )


def _together(several: Sequence[Progress]) -> Progress:
    """The progress of an edge whose producer is divided: devices are disjoint, the floor holds for all."""
    floor = min(one.floor_us for one in several)
    devices: dict[str, int] = {}
    for one in several:
        for name, at in one.devices.items():
            devices[name] = min(at, devices.get(name, at))
    completes = [one.complete_us for one in several if one.complete_us is not None]
    return Progress(floor, devices, min(completes) if completes else None)


def _frontier(several: Iterable[Progress]) -> int | None:
    """How far time has come on all inputs: the slowest device that was heard, or what holds for all. For display."""
    found = [max(one.floor_us, min(one.devices.values(), default=one.floor_us)) for one in several]
    least = min((at for at in found if at != END_OF_TIME), default=NO_FRONTIER)
    return None if least == NO_FRONTIER else least


def _progress_to_json(progress: Progress) -> dict[str, Any]:
    return {"floor": progress.floor_us, "devices": dict(progress.devices), "complete": progress.complete_us}


def _progress_from_json(value: Mapping[str, Any]) -> Progress:
    return Progress(value["floor"], value["devices"], value["complete"])


def _file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in name)[:60]


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:500]
