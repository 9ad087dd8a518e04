"""One task: one hash range of a vertex runs one epoch, or several that it has run before, one after the other. Plain
Python over files; Spark only decides where.

It takes its slice of its inputs' records of the epoch and the state of the epoch before, pushes through the shared
engine, writes attempt-unique output and state files, and returns what the manifest should say. It publishes nothing:
if nobody commits its outcome, it never happened.

An exception of an operator is caught here, because outside it would cost the Python worker. The batch that raised is
left out, the state loaded again and the epoch repeated without it: quarantined, named in the outcome, never a crash
loop. Rows from another vertex have no batches of their own, so there the search goes down to the single row. When it
is the state that an operator cannot bear, as a window closes, the keys it belongs to are found and left out (`poison`).
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib import import_module
from itertools import zip_longest
from typing import Any

import numpy as np

from cloud_backend.spark.graph import JobGraph, JobVertex, job_graph
from cloud_backend.spark.manifest.lineage import MISSING_NAMED_MAX, Committed, LeftOut, RecordFile, StatePart
from cloud_backend.spark.manifest.plans import stored_plan
from cloud_backend.spark.slots import WHOLE, Range, slots_of
from cloud_backend.spark.storage import hadoop, records
from cloud_backend.spark.storage.file_names import for_slots, slots_in
from cloud_backend.spark.storage.store import Store
from cloud_backend.spark.task import state
from cloud_backend.spark.task.failing_keys import Keeps, Key, keeping, keys_that_raise
from cloud_backend.spark.task.inputs import Inputs, UnusableFile, common_progress, only_slots, record_rows
from cloud_backend.spark.task.specification import Done, Failed, Outcome, Specification
from cloud_backend.spark.task.unit import Unit
from shared.batch import END_OF_TIME, NO_FRONTIER, Batch
from shared.engine.pipeline import Pipeline
from shared.engine.rows import Progress
from shared.errors import DamagedData, ResurgeError
from shared.language.schema import Schema
from shared.plan.operators import COMPLETE, DEVICE, WINDOW_START
from shared.plan.vertices import vertices

QUARANTINE_ROUNDS_MAX = 64
AWAY = frozenset({"kafka-unreachable", "store-unreachable"})  # what comes back: no range is to blame for it
FRONTIERS_NAMED_MAX = 200
SAID_BYTES_MAX = 64 * 1024  # of a sink's record that goes to the driver with the outcome, and is not asked for again


class Poison(Exception):
    """An operator raised on a unit, or on letting time pass over a part's state (`unit` None)."""

    def __init__(self, unit: Unit | None, error: Exception, part: StatePart | None = None) -> None:
        super().__init__(str(error))
        self.unit = unit
        self.error = error
        self.part = part


_graphs: dict[tuple[str, int], JobGraph] = {}


def run(spec: Specification) -> list[Outcome]:
    """The outcomes of a task's epochs, up to one that failed. Never raises for what a rollback or an operator can
    mend."""
    if len(spec.epochs) == 1:
        return [_run_epoch(spec, lambda: _read(spec))]
    outcomes: list[Outcome] = []
    own = [spec.of_epoch(index, spec.state) for index in range(len(spec.epochs))]
    # The next epoch's inputs are read while one runs: that needs no state, and in a recovery cores are often idle.
    with ThreadPoolExecutor(1) as ahead:
        coming = ahead.submit(_read, own[0])
        before = spec.state
        for this, following in zip_longest(own, own[1:]):
            read = coming.result
            if following is not None:
                coming = ahead.submit(_read, following)
            outcome = _run_epoch(replace(this, state=before), read)
            outcomes.append(outcome)
            if isinstance(outcome, Failed):
                break
            before = outcome.committed.state
    return outcomes


def _run_epoch(spec: Specification, read: Callable[[], tuple[Inputs, list[Unit]]]) -> Outcome:
    started = time.perf_counter()
    try:
        done = _Task(spec, *read()).run()
    except UnusableFile as unusable:
        return Failed(unusable.kind, str(unusable), unusable.code, unusable.file)
    except Poison as poison:
        return Failed("operator", _text_of(poison.error), "task-operator")
    except ResurgeError as error:
        return Failed("cluster" if error.code in AWAY else "other", error.message, error.code)
    return replace(done, committed=replace(done.committed, seconds=time.perf_counter() - started))


def _read(spec: Specification) -> tuple[Inputs, list[Unit]]:
    for name in spec.modules:
        import_module(name)
    if spec.hadoop:
        hadoop.configure(dict(spec.hadoop))
    store = Store(spec.store)
    graph = _graph(store, spec.plan, given=spec.given)
    inputs = Inputs(spec, graph, graph.vertices[spec.vertex], store)
    return inputs, inputs.read()


class _Task:
    def __init__(self, spec: Specification, inputs: Inputs, units: list[Unit]) -> None:
        self.spec = spec
        self.graph: JobGraph = inputs.graph
        self.vertex: JobVertex = inputs.vertex
        self.range = spec.range
        self.epoch = spec.first.epoch
        self.store = inputs.store
        self.prefix = f"{_file_name(self.vertex.name)}.{self.range}.e{self.epoch}.g{spec.term}.t{spec.driver_term}"
        self.inputs = inputs
        self.units = units
        self.progress = inputs.progress
        self.state_bytes_read = 0
        self.quarantined: list[LeftOut] = []
        self.left_out: dict[Range, set[Key]] = {}  # keys whose state is taken out before time moves, by part
        self.cache: list[str] = []
        self.missing: set[str] = set()
        self.late: Counter[int] = Counter()
        self.said: dict[str, bytes] = {}

    def run(self) -> Done:
        with self.store.bundled(self.prefix):
            return self._run()

    def _run(self) -> Done:
        units = self.units
        self.quarantined += self.inputs.refused
        rows_in = sum(len(unit.batch) for unit in units)
        parts: tuple[StatePart, ...] = ()
        if self.vertex.ingest:
            outputs = self._ingest(units)
        else:
            outputs, parts = self._through_quarantine(units)
        written: dict[tuple[str, str], RecordFile] = {}
        for name, (rows, progress) in outputs.items():
            written.update(self._record(name, rows, progress))
        frontiers, frontiers_file = self._frontiers()
        committed = Committed(
            self.epoch, self.spec.term, written, parts, rows_in, self.inputs.bytes_read, 0.0, self.spec.code,
            self.spec.plan, tuple(self.quarantined), attempt=self.spec.attempt,
            state_bytes_read=self.state_bytes_read, frontier_us=_frontier(self.progress.values()),
            frontiers=frontiers, frontiers_file=frontiers_file, missing=tuple(sorted(self.missing))[:MISSING_NAMED_MAX],
            late=dict(sorted(self.late.items())),
        )  # fmt: skip
        return Done(committed, tuple(self.cache), self.inputs.log_bytes, self.said)

    def _frontiers(self) -> tuple[Mapping[str, int], str]:
        """How far the devices heard in the log are believed to have come: in the manifest, or in a file it names."""
        if not self.inputs.heard:
            return {}, ""
        if len(self.inputs.heard) <= FRONTIERS_NAMED_MAX:
            return self.inputs.heard, ""
        data = json.dumps(self.inputs.heard, separators=(",", ":")).encode()
        return {}, self.store.write_file(self.prefix, "frontiers", data)

    # -- running ---------------------------------------------------------------------------------------------------

    def _ingest(self, units: Sequence[Unit]) -> dict[str, tuple[records.Rows, Progress]]:
        """Decoded rows as they are, numbered by the order of the log, which is the recorded interleaving."""
        (edge,) = self.vertex.readers
        schema = self.graph.schemas[edge]
        return {edge: (record_rows(schema, [unit.batch for unit in units]), self.progress[edge])}

    def _through_quarantine(
        self, units: list[Unit]
    ) -> tuple[dict[str, tuple[records.Rows, Progress]], tuple[StatePart, ...]]:
        suspected: list[Unit | StatePart | None] = []
        for _ in range(QUARANTINE_ROUNDS_MAX):
            try:
                return self._through_engine(units)
            except Poison as poison:
                suspect = poison.unit or poison.part
                if not any(suspect is each or suspect == each for each in suspected):
                    suspected.append(suspect)  # once may be the machine; the second time it is the batch or the state
                elif poison.unit is not None:
                    index = next(place for place, unit in enumerate(units) if unit is poison.unit)
                    units[index : index + 1] = self._narrowed(poison.unit, poison.error)
                elif poison.part is None or not self._leave_out(poison.part, units, poison.error):
                    raise
        raise Poison(None, RuntimeError(f"more than {QUARANTINE_ROUNDS_MAX} batches of one epoch raise"))

    def _leave_out(self, part: StatePart, units: Sequence[Unit], error: Exception) -> bool:
        """Find the keys whose state an operator cannot bear, and leave them out from here on. False: it raises without
        any of them too."""
        left_out = self.left_out.setdefault(part.range, set())

        def raises(keys: Sequence[Key]) -> bool:
            try:
                self._push(self._load(part)[0], part, units, only=set(keys) - left_out)
            except Poison:
                return True
            return False

        pipeline, _ = self._load(part)
        for unit in units:
            own = only_slots(unit.batch, self.vertex.key, part.range)
            pipeline.push(unit.edge, replace(own, frontier_us=NO_FRONTIER))
        known = [key for key in pipeline.distinct_keys(self.vertex.key) if key not in left_out]
        if not known or raises(()):
            return False
        found = keys_that_raise(known, raises)
        left_out.update(found)
        devices = [dict(zip(self.vertex.key, key, strict=True)).get(DEVICE, "") for key in found]
        self.quarantined += [
            LeftOut(
                f"state of {self.vertex.name}", 0, 0, _text_of(error), "task-state", str(device), rows=0,
                key=tuple(map(str, key)),
            )
            for key, device in zip(found, devices, strict=True)
        ]  # fmt: skip
        return True

    def _narrowed(self, unit: Unit, error: Exception) -> list[Unit]:
        """What to try instead of a unit that raised: its parts, or nothing, once it is as small as it gets."""
        if unit.parts:
            return list(unit.parts)
        if unit.divisible and len(unit.batch) > 1:
            middle = len(unit.batch) // 2
            return [
                replace(unit, batch=unit.batch.slice(0, middle)),
                replace(unit, batch=unit.batch.slice(middle)),
            ]
        lo, hi = unit.batch.lo, unit.batch.hi
        if unit.divisible:
            lo, hi = int(unit.batch.seq[0]), int(unit.batch.seq[0]) + 1
        self.quarantined.append(
            LeftOut(unit.edge, lo, hi, _text_of(error), "task-operator", unit.device, unit.incarnation, len(unit.batch))
        )
        return []

    def _through_engine(
        self, units: Sequence[Unit]
    ) -> tuple[dict[str, tuple[records.Rows, Progress]], tuple[StatePart, ...]]:
        emitted: dict[str, list[Batch]] = {}
        progress: dict[str, list[Progress]] = {}
        self.late.clear()  # of a run that an exception ended
        saved: list[StatePart] = []
        running = []
        for part in self.spec.state:
            pipeline, key = self._load(part)
            for name, batch in self._push(pipeline, part, units):
                # After a split both halves hold every key's state; each says only what belongs to its own slots.
                own = only_slots(batch, self.vertex.key, part.range)
                before_us = self.spec.incomplete_before_us
                emitted.setdefault(name, []).append(own if before_us is None else self._incomplete(own, before_us))
            for name in self.vertex.readers:
                progress.setdefault(name, []).append(pipeline.take_progress(name))
            self.missing |= set(pipeline.missing(MISSING_NAMED_MAX))
            self.late.update(pipeline.late())
            running.append((part, pipeline, key))
        for part, pipeline, key in running:
            chain, sizes = state.save(
                self.store,
                for_slots(self.prefix, part.range),
                pipeline,
                part.chain,
                part.sizes,
                chain_max=self.spec.chain_max,
                whole=part.range in self.left_out,
            )
            state.keep(key, chain, pipeline)
            saved.append(StatePart(part.range, chain, sizes))
        names = [*self.vertex.readers, *(sink.name for sink in self.vertex.sinks)]
        outputs = {
            name: (
                record_rows(self._schema(name), emitted.get(name, [])),
                common_progress(progress[name]) if name in progress else Progress(NO_FRONTIER),
            )
            for name in names
        }
        return outputs, tuple(saved)

    def _load(self, part: StatePart) -> tuple[Pipeline, state.CacheKey]:
        key = (self.store.location, f"{self.spec.plan} {self.spec.code} {self.vertex.name}", str(part.range))
        vertex = next(each for each in vertices(self.graph.plan) if each.name == self.vertex.name)
        try:
            loaded = state.load(self.store, key, part.chain, lambda: Pipeline(vertex))
        except DamagedData as error:
            raise UnusableFile(
                "state", next((name for name in part.chain if name in error.message), ""), error
            ) from error
        self.state_bytes_read += loaded.bytes_read
        self.cache.append(loaded.how)
        slots = slots_in(part.chain[0]) if part.chain else None
        if slots not in (None, (part.range.lo, part.range.hi)):
            self._drop_foreign_keys(loaded.pipeline, part.range, slots[0])
        return loaded.pipeline, key

    def _drop_foreign_keys(self, pipeline: Pipeline, range_: Range, first_slot: int) -> None:
        """After a split both halves start from the whole state; each keeps its own keys only."""

        def inside(columns: Mapping[str, np.ndarray], rows: int) -> np.ndarray:
            slots = slots_of(columns, self.vertex.key, rows)
            return (slots >= range_.lo) & (slots < range_.hi)

        pipeline.retain(self.vertex.key, inside)
        if range_.lo != first_slot:  # what was late before the split is counted by the first part
            pipeline.forget_late()

    def _push(
        self, pipeline: Pipeline, part: StatePart, units: Sequence[Unit], only: set[Key] | None = None
    ) -> list[tuple[str, Batch]]:
        """Rows, then time. Before time moves, keys that are left out are forgotten; with `only`, which is for finding
        them, all others too."""
        emitted: list[tuple[str, Batch]] = []
        left_out = self.left_out.get(part.range, set())
        keep = keeping(self.vertex.key, only=only, without=left_out) if only is not None or left_out else None
        pipeline.leave(self.spec.first.left, self.spec.first.returned)
        is_whole = part.range.same_slots(self.range)
        for unit in units:
            batch = unit.batch if is_whole else only_slots(unit.batch, self.vertex.key, part.range)
            try:
                emitted += pipeline.push(unit.edge, replace(batch, frontier_us=NO_FRONTIER))
            except Exception as error:
                raise Poison(unit, error) from error
            if batch.frontier_us > NO_FRONTIER:
                emitted += self._advance(pipeline, part, unit.edge, _own_progress(batch), keep)
        for edge, progress in self.progress.items():
            # Every input's time moves, also without rows; in plan order, so that a replay does the same.
            emitted += self._advance(pipeline, part, edge, progress, keep)
        return emitted

    def _advance(
        self, pipeline: Pipeline, part: StatePart, edge: str, progress: Progress, keep: Keeps | None
    ) -> list[tuple[str, Batch]]:
        if keep is not None:
            pipeline.retain(self.vertex.key, keep)
        try:
            return pipeline.advance_by(edge, progress)
        except Exception as error:
            raise Poison(None, error, part) from error

    # -- outputs ---------------------------------------------------------------------------------------------------

    @staticmethod
    def _incomplete(batch: Batch, before_us: int) -> Batch:
        """Windows that lost rows to an erasure say that they are incomplete."""
        if not {COMPLETE, WINDOW_START} <= batch.columns.keys():
            return batch
        whole = batch.columns[COMPLETE] & (batch.columns[WINDOW_START] >= before_us)
        return replace(batch, columns={**batch.columns, COMPLETE: whole})

    def _schema(self, name: str) -> Schema:
        if name in self.graph.schemas:
            return self.graph.schemas[name]
        return self.graph.plan.sink(name).type.schema

    def _record(self, name: str, rows: records.Rows, progress: Progress) -> dict[tuple[str, str], RecordFile]:
        written = {}
        readers = self.vertex.readers.get(name)
        for reader, key in readers if readers is not None else (("", ()),):
            slotted = replace(rows, slot=slots_of(rows.columns, key, len(rows)))
            data, footer = records.encode(slotted, _progress_to_json(progress) if reader else None)
            file = self.store.write_file(f"{self.prefix}.{_file_name(name)}", "record", data)
            written[name, reader] = RecordFile(file, footer.rows, len(data), footer.digest_of(WHOLE))
            if not reader and footer.rows and self.store.counts_requests and len(data) <= SAID_BYTES_MAX:
                self.said[file] = data
        return written


def _graph(store: Store, plan: int, *, given: bool) -> JobGraph:
    key = (store.location, plan)
    if key not in _graphs:
        _graphs[key] = job_graph(stored_plan(store, plan), given=given)
    return _graphs[key]


def _own_progress(batch: Batch) -> Progress:
    """What a batch's own frontier says: of the devices it has rows of."""
    return Progress(NO_FRONTIER, dict.fromkeys(batch.columns[DEVICE].tolist(), batch.frontier_us))


def _frontier(several: Iterable[Progress]) -> int | None:
    """How far time has come on all inputs: the slowest device that was heard, or what holds for all. For display."""
    found = [max(one.floor_us, min(one.devices.values(), default=one.floor_us)) for one in several]
    least = min((at for at in found if at != END_OF_TIME), default=NO_FRONTIER)
    return None if least == NO_FRONTIER else least


def _progress_to_json(progress: Progress) -> dict[str, Any]:
    return {"floor": progress.floor_us, "devices": dict(progress.devices), "complete": progress.complete_us}


def _file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in name)[:60]


def _text_of(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:500]
