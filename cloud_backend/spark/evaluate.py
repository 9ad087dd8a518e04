"""`evaluate(engine="spark")`: a program over columns in memory, through the same vertices, tasks, records and state
files as a job, on a Spark session.

Everything runs on the cloud side here: each source becomes an edge whose rows are recorded as if an ingest vertex had
read them, in EPOCHS epochs so that state crosses an epoch, and time moves at the end as it does in the numpy engine.
Rows of a feedback enter the epoch after: where there is one, further epochs bring nothing new until the cycle has run
dry, and only then time moves. A sensor read on request gives the readings that a device took. Rows of a sink come back
by (time, key, order of emission).
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cloud_backend.spark.control.schedule import ready_steps, specification
from cloud_backend.spark.graph import FEEDBACK, JobGraph, job_graph
from cloud_backend.spark.manifest.entries import Commit, Cut, Entry, PlanChange
from cloud_backend.spark.manifest.lineage import Committed, RecordFile
from cloud_backend.spark.manifest.manifest import ManifestLog
from cloud_backend.spark.manifest.plans import store_plan
from cloud_backend.spark.slots import WHOLE, slots_of
from cloud_backend.spark.storage import records
from cloud_backend.spark.storage.store import Store
from cloud_backend.spark.task.specification import Failed
from shared.batch import END_OF_TIME, NO_FRONTIER
from shared.engine.pipeline import FEEDBACK_ROUNDS_MAX
from shared.errors import BrokenInvariant, ResurgeError, UsageError
from shared.language.registry import registered
from shared.language.schema import Schema, dtype
from shared.plan import operators as op
from shared.plan.graph import Node, Plan
from shared.plan.wellformed import operator_references

if TYPE_CHECKING:
    from cloud_backend.spark.control.driver import Runner

EPOCHS = 2
RANGES = 2
EDGE = "given_"
REQUESTS = "request "  # sinks beside the program's own

Columns = Mapping[str, np.ndarray]


def evaluate(
    plan: Plan, given: Mapping[str, Columns], *, frontier_us: int, runner: Runner | None = None
) -> dict[str, dict[str, np.ndarray]]:
    """What the sinks receive. Without a runner, on the session that is active or on `local[2]`."""
    with tempfile.TemporaryDirectory(prefix="resurge-evaluate-") as directory:
        return _Evaluation(Path(directory), all_on_cloud(plan), runner or _runner(Path(directory), plan)).run(
            given, frontier_us
        )


def _runner(directory: Path, plan: Plan) -> Runner:
    from cloud_backend.spark.cluster.session import SparkRunner, open_session

    modules = _operator_modules(plan)
    return SparkRunner(open_session("local[2]"), directory / "code", modules, check=False)


def _operator_modules(plan: Plan) -> list[str]:
    """The modules of a plan's user operator types: executors import them, so a program's own file will not do."""
    needed = {reference for node in plan.nodes for reference in operator_references(node)}
    modules = set()
    for kind in registered().values():
        if kind.reference in needed:
            module = kind.implementation.__module__
            if module == "__main__" or getattr(sys.modules.get(module), "__file__", None) is None:
                raise UsageError(
                    f"operator type {kind.name!r} is defined in the program itself, where Spark's executors cannot "
                    'import it; move it to a module that resurge.toml lists, or evaluate with engine="numpy"',
                    code="evaluate-operator",
                )
            modules.add(module)
    return sorted(modules)


def all_on_cloud(plan: Plan) -> Plan:
    """The same program with every operator in the cloud: sources sync at once, nothing else crosses."""
    nodes: list[Node] = []
    stands_for: dict[int, int] = {}

    def add(node: Node, operator: op.Operator, inputs: tuple[int, ...]) -> int:
        nodes.append(replace(node, id=len(nodes), operator=operator, inputs=inputs))
        return len(nodes) - 1

    for node in plan.nodes:
        inputs = tuple(stands_for[number] for number in node.inputs)
        if isinstance(node.operator, op.Sync | op.Gather):
            stands_for[node.id] = inputs[0]
        elif isinstance(node.operator, op.SyncBack):
            add(node, op.Subscribe(node.operator.name), inputs)
            stands_for[node.id] = inputs[0]
        elif isinstance(node.operator, op.Sensor | op.Timer | op.Appended):
            source = add(node, node.operator, ())
            stands_for[node.id] = add(node, op.Sync(EDGE + edge_name(node.operator)), (source,))
        elif isinstance(node.operator, op.Request):
            add(node, op.Subscribe(REQUESTS + node.operator.sensor), inputs)  # what a device answered is given
        else:
            stands_for[node.id] = add(node, node.operator, inputs)
    return Plan(tuple(nodes), plan.version, plan.name)


def edge_name(source: op.Sensor | op.Timer | op.Appended) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in source.input_name)


class _Evaluation:
    def __init__(self, directory: Path, plan: Plan, runner: Runner) -> None:
        self.store = Store(directory / "store")
        self.store.create()
        self.runner = runner
        self.graph: JobGraph = job_graph(plan, given=True)
        self.log = ManifestLog(self.store)
        self.epoch = 0
        self.term = self.log.take_over("evaluate")
        number = store_plan(self.store, plan)
        ingests = {name for name in self.graph.order if self.graph.vertices[name].ingest}
        divided = {name: 1 if name in ingests else RANGES for name in self.graph.order}
        self._append(PlanChange(number, divided))
        self.names = {
            EDGE + edge_name(node.operator): node.operator.input_name
            for node in plan.nodes
            if isinstance(node.operator, op.Sensor | op.Timer | op.Appended)
        }

    def run(self, given: Mapping[str, Columns], frontier_us: int) -> dict[str, dict[str, np.ndarray]]:
        cyclic = any(edge.startswith(FEEDBACK) for edge in self.graph.schemas)
        for epoch in range(1, EPOCHS + 1):
            self._cut(given, NO_FRONTIER if cyclic or epoch < EPOCHS else frontier_us)
        self._run_epochs()
        if cyclic:
            self._run_dry()
            self._cut({}, frontier_us)
            self._run_epochs()
            if frontier_us < END_OF_TIME:  # after the end of time nothing enters
                self._run_dry()
        return {
            sink.name: self._sink(name, sink.name, sink.key)
            for name in self.graph.order
            for sink in self.graph.vertices[name].sinks
            if not sink.name.startswith(REQUESTS)
        }

    def _cut(self, given: Mapping[str, Columns], frontier_us: int) -> None:
        """One more epoch, in which the sources' next share of rows and this frontier arrive."""
        self.epoch += 1
        self._append(Cut(self.epoch, {}, {}))
        for name in self.graph.order:
            if self.graph.vertices[name].ingest:
                self._give(name, given, frontier_us)

    def _run_dry(self) -> None:
        for _ in range(FEEDBACK_ROUNDS_MAX):
            if not self._fed_back():
                return
            self._cut({}, NO_FRONTIER)
            self._run_epochs()
        raise UsageError(
            f"rows went round a cycle {FEEDBACK_ROUNDS_MAX} times; let a filter in the cycle end", code="engine-cycle"
        )

    def _fed_back(self) -> int:
        """Rows that the last epoch recorded on feedback edges."""
        return sum(
            record.rows
            for vertex in self.graph.order
            for _, committed in self.log.state.record_at(vertex, self.epoch) or ()
            for (edge, _), record in committed.outputs.items()
            if edge.startswith(FEEDBACK)
        )

    def _run_epochs(self) -> None:
        while steps := ready_steps(self.log.state, self.graph):
            specs = [
                specification(
                    self.log.state, self.graph, step, log="", store=self.store.location, code=self.runner.code,
                    given=True,
                )
                for step in steps
            ]  # fmt: skip
            for step, (outcome,) in zip(steps, self.runner.run(specs), strict=True):
                if isinstance(outcome, Failed):
                    raise ResurgeError(f"{step.vertex}: {outcome.message}", code="evaluate-failed")
                if outcome.committed.quarantined:
                    reason = outcome.committed.quarantined[0].reason
                    raise ResurgeError(f"{step.vertex}: {reason}", code="evaluate-failed")
                self._append(Commit(step.vertex, {step.range: outcome.committed}))

    def _give(self, vertex: str, given: Mapping[str, Columns], frontier_us: int) -> None:
        """Record this epoch's share of a source's rows as its ingest vertex would have."""
        ((edge, readers),) = self.graph.vertices[vertex].readers.items()
        schema = self.graph.schemas[edge]
        columns = given.get(self.names[edge], {"time": np.empty(0, np.int64)} | _empty(schema))
        count = len(columns["time"])
        share = slice(count * (self.epoch - 1) // EPOCHS, count * self.epoch // EPOCHS)
        rows = records.Rows(
            schema, {name: columns[name][share] for name in schema.names}, columns["time"][share],
            np.arange(count, dtype=np.int64)[share], np.zeros(0, np.uint16),
        )  # fmt: skip
        outputs = {}
        for reader, key in readers:
            slotted = replace(rows, slot=slots_of(rows.columns, key, len(rows)))
            data, footer = records.encode(slotted, {"floor": frontier_us, "devices": {}, "complete": None})
            file = self.store.write_file(f"given.e{self.epoch}.t{self.term}", "record", data, durable=False)
            outputs[edge, reader] = RecordFile(file, footer.rows, len(data), footer.digest_of(WHOLE))
        committed = Committed(self.epoch, 0, outputs, (), len(rows), 0, 0.0, self.runner.code, self.log.state.plan)
        self._append(Commit(vertex, {WHOLE: committed}))

    def _sink(self, vertex: str, sink: str, key: tuple[str, ...]) -> dict[str, np.ndarray]:
        schema = self.graph.plan.sink(sink).type.schema
        parts = [
            records.read_slice(self.store, committed.outputs[sink, ""].file, WHOLE)[0].plain()
            for epoch in range(1, self.epoch + 1)
            for _, committed in self.log.state.record_at(vertex, epoch) or ()
        ]
        if not parts:
            return {"time": np.empty(0, np.int64)} | _empty(schema)
        rows = records.Rows.concatenate(schema, parts)
        order = np.arange(len(rows))
        for name in reversed(key):
            order = order[np.argsort(rows.columns[name][order], kind="stable")]
        rows = rows.take(order[np.argsort(rows.time_us[order], kind="stable")])
        return {"time": rows.time_us} | {name: rows.columns[name] for name in schema.names}

    def _append(self, entry: Entry) -> None:
        if self.log.try_append(entry, term=self.term) is None:
            raise BrokenInvariant("somebody else wrote to the store of an evaluation", code="manifest-order")


def _empty(schema: Schema) -> dict[str, np.ndarray]:
    return {column.name: np.empty(0, dtype(column.kind)) for column in schema}
