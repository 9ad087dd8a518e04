"""Run a program over columns in memory: no network, no clock, the same meaning as in production.

Device, region and cloud parts run as one. It is how programs are tested and how the engines are proved equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, overload

import numpy as np

from resurge.frames import Frame, columns_of, framed
from shared.batch import END_OF_TIME, Batch
from shared.engine.pipeline import Pipeline
from shared.engine.rows import constant
from shared.errors import UsageError
from shared.language.expressions import FLOATS, TIME
from shared.language.registry import FRAME
from shared.language.schema import Schema, dtype
from shared.language.values import column_of
from shared.plan import operators as op
from shared.plan.fragments import Fragment, Input
from shared.plan.graph import Plan
from shared.plan.placement import check_placement, fragment_input, fragment_outputs
from shared.plan.wellformed import check_cycles
from shared.stream.drafts import Draft, assemble, located, user_line
from shared.stream.stream import Sink, Stream

ENGINES = ("numpy", "spark")
OUT = "out"  # the sink of a stream that was given without one

Columns: TypeAlias = Mapping[str, object]
Given: TypeAlias = Mapping[str, dict[str, np.ndarray]]
Results: TypeAlias = dict[str, dict[str, np.ndarray]]


@overload
def evaluate(
    program: Stream | Sink | Plan,
    inputs: Mapping[str, Columns | Frame],
    *,
    engine: str = ...,
    frontier_us: int = ...,
    frames: None = None,
) -> Results: ...


@overload
def evaluate(
    program: Stream | Sink | Plan,
    inputs: Mapping[str, Columns | Frame],
    *,
    engine: str = ...,
    frontier_us: int = ...,
    frames: str,
) -> dict[str, Frame]: ...


@located
def evaluate(
    program: Stream | Sink | Plan,
    inputs: Mapping[str, Columns | Frame],
    *,
    engine: str = "numpy",
    frontier_us: int = END_OF_TIME,
    frames: str | None = None,
) -> Results | dict[str, Frame]:
    """What a program's sinks receive, by name: {sink: {column: values}}, `time` included.

    `program` is a plan, a sink, or a stream, whose rows are the sink "out". `inputs` are the columns of each source
    by name (a timer's is "timer NAME"): `time` in microseconds, the schema's columns (floats left out are missing,
    NaN), and `device` where there are several. Rows stand in stream order. At the end every window closes, unless
    `frontier_us` says that time has come less far. An input may also be a DataFrame of pandas, polars or Arrow, its
    times datetimes; `frames="pandas"`, "polars" or "arrow" gives such ones back (resurge.frames).

    >>> rs.evaluate(gps.where(col.accuracy < 50), {"gps": {"time": [0, 1], "accuracy": [9.0, 80.0], ...}})
    """
    plan = plan_of(program)
    check_placement(plan)  # a part of a program may leave outputs unread, but stands where it can work
    check_cycles(plan)
    given = {name: as_columns(plan, name, columns_of(name, columns)) for name, columns in inputs.items()}
    results = _results(plan, given, engine, frontier_us)
    return results if frames is None else {sink: framed(columns, frames) for sink, columns in results.items()}


def _results(plan: Plan, given: Given, engine: str, frontier_us: int) -> Results:
    if engine == "spark":
        from cloud_backend.spark.evaluate import evaluate as evaluate_on_spark

        results: Results = evaluate_on_spark(plan, with_readings(plan, given, frontier_us), frontier_us=frontier_us)
        return results
    if engine != "numpy":
        raise UsageError(f"engine {engine!r} is not one of {', '.join(ENGINES)}", code="evaluate-engine")
    return _Evaluation(plan, given).run(frontier_us)


def with_readings(plan: Plan, given: Given, frontier_us: int) -> Given:
    """What is given, with the readings that a device took where a sensor is read on request: only a device can."""
    if not any(isinstance(node.operator, op.Request) for node in plan.nodes):
        return given
    device = _Evaluation(plan, given)
    device.run(frontier_us)
    schemas = {entry.name: entry.schema for entry in device.fragment.inputs}
    return {**given, **{name: _concatenated(schemas[name], device.taken.get(name, [])) for name in device.on_request}}


def plan_of(program: Stream | Sink | Plan) -> Plan:
    """The plan of a program; a bare stream becomes one with the sink "out"."""
    if isinstance(program, Plan):
        return program
    if isinstance(program, Sink):
        return assemble([program.draft])
    if not isinstance(program, Stream):
        raise UsageError(
            f"evaluate takes a stream, a sink or a plan, not {type(program).__name__}", code="evaluate-program"
        )
    sink = Draft(op.Subscribe(OUT), (program.draft,), program.draft.type, user_line())
    return assemble([sink])


def whole_fragment(plan: Plan) -> Fragment:
    """Device, region and cloud as one fragment: sources in, results out, edges between them passed through."""
    sources = [node for node in plan.nodes if isinstance(node.operator, op.Source)]
    inputs = []
    for node in sources:
        entry = fragment_input(node)
        inputs.append(Input(entry.name, entry.node, node.schema, entry.type))
    computing = tuple(node for node in plan.nodes if not isinstance(node.operator, (op.Source, *op.SINKS)))
    outputs = [output for output in fragment_outputs(plan, plan.nodes) if output.kind not in ("sync", "gather")]
    return Fragment(plan.name, "cloud", tuple(inputs), computing, tuple(outputs))


def as_columns(plan: Plan, name: str, columns: Columns) -> dict[str, np.ndarray]:
    """The given columns as arrays of the source's kinds, `time` and `device` among them."""
    known = {node.operator.input_name: node for node in plan.nodes if isinstance(node.operator, op.Source)}
    if name not in known:
        raise UsageError(f"the program has no source {name!r} (has: {', '.join(known)})", code="evaluate-input")
    schema = known[name].schema
    wanted = {TIME: "int64", **{column.name: column.kind for column in schema}}
    absent = [
        column for column, kind in wanted.items() if not (column in columns or column == op.DEVICE or kind in FLOATS)
    ]
    if absent:
        raise UsageError(
            f"input {name!r} lacks the column {absent[0]!r} (needs: {', '.join(wanted)})", code="evaluate-input"
        )
    unknown = [column for column in columns if column not in wanted]
    if unknown:
        raise UsageError(
            f"input {name!r} has no column {unknown[0]!r} (has: {', '.join(wanted)})", code="evaluate-input"
        )
    arrays = {
        column: column_of(columns[column], kind, column=column, where=f"input {name!r}", code="evaluate-input")
        for column, kind in wanted.items()
        if column in columns
    }
    rows = len(arrays[TIME])
    if op.DEVICE not in arrays:
        arrays[op.DEVICE] = constant("", "str", rows)
    for column, kind in wanted.items():
        if column not in arrays:  # a missing float is NaN
            arrays[column] = np.full(rows, np.nan, dtype(kind))
    uneven = [column for column, values in arrays.items() if len(values) != rows]
    if uneven:
        raise UsageError(
            f"column {uneven[0]!r} of input {name!r} has {len(arrays[uneven[0]])} values, time has {rows}",
            code="evaluate-input",
        )
    return {column: arrays[column] for column in wanted}


class _Evaluation:
    def __init__(self, plan: Plan, given: Given) -> None:
        if any(isinstance(node.operator, op.Apply) and node.operator.type.form == FRAME for node in plan.nodes):
            import cloud_backend.spark.task.frames  # noqa: F401  which knows how they are called
        self.fragment = whole_fragment(plan)
        self.pipeline = Pipeline(self.fragment)
        self.given = given
        # In the order of their requests: one sensor's readings may lead to requests for another.
        self.on_request = list(
            dict.fromkeys(node.operator.sensor for node in plan.nodes if isinstance(node.operator, op.Request))
        )
        self.received: dict[str, list[Batch]] = {}
        self.taken: dict[str, list[Batch]] = {}  # the readings of sensors read on request

    def run(self, frontier_us: int) -> Results:
        given = [entry for entry in self.fragment.inputs if entry.name in self.given]
        given = [entry for entry in given if entry.name not in self.on_request]
        if any(entry.name.startswith("feedback ") for entry in self.fragment.inputs):
            self._push_by_time(given, frontier_us)
        else:
            for entry in given:
                columns = self.given[entry.name]
                self._take(self.pipeline.push(entry.name, Batch.of(entry.schema, columns, columns[TIME])))
        names = [entry.name for entry in self.fragment.inputs if not entry.name.startswith("feedback ")]
        for name in [*(name for name in names if name not in self.on_request), *self.on_request]:
            self._take(self.pipeline.advance(name, frontier_us))
        return {
            output.name: _concatenated(output.schema, self.received.get(output.name, []))
            for output in self.fragment.outputs
            if output.kind in ("subscribe", "sync_back")
        }

    def _push_by_time(self, given: list[Input], frontier_us: int) -> None:
        """Rows one after the other, each moving time on its input, as `Live` and a device take them: what a cycle feeds
        back depends on it."""
        times = [self.given[entry.name][TIME] for entry in given]
        order = np.argsort(np.concatenate(times), kind="stable") if times else np.empty(0, np.int64)
        sources = np.repeat(np.arange(len(given)), [len(one) for one in times])
        places = np.concatenate([np.arange(len(one)) for one in times]) if times else order
        for at in order.tolist():
            entry, place = given[sources[at]], int(places[at])
            row = {name: column[place : place + 1] for name, column in self.given[entry.name].items()}
            moved = min(int(row[TIME][0]), frontier_us)
            batch = Batch.of(entry.schema, row, row[TIME], lo=place, frontier_us=moved)
            self._take(self.pipeline.push(entry.name, batch))

    def _take(self, outputs: list[tuple[str, Batch]]) -> None:
        for name, batch in outputs:
            if name.startswith("request "):
                self._read(name.removeprefix("request "), batch)
            else:
                self.received.setdefault(name, []).append(batch)

    def _read(self, sensor: str, requests: Batch) -> None:
        """The readings that a device would have taken: the sensor's last given row at or before each request."""
        given = self.given.get(sensor)
        if given is None:
            return
        rows = np.full(len(requests), -1, np.int64)
        devices = requests.columns[op.DEVICE]
        for device in dict.fromkeys(devices.tolist()):  # each asks its own sensor
            own = np.flatnonzero(given[op.DEVICE] == device)
            order = own[np.argsort(given[TIME][own], kind="stable")]
            asked = np.flatnonzero(devices == device)
            places = np.searchsorted(given[TIME][order], requests.time_us[asked], side="right") - 1
            rows[asked[places >= 0]] = order[places[places >= 0]]
        answered = np.flatnonzero(rows >= 0)
        rows = rows[answered]
        entry = self.fragment.input(sensor)
        taken = self.taken.setdefault(sensor, [])
        columns = {column.name: given[column.name][rows] for column in entry.schema}
        reading = Batch.of(entry.schema, columns, requests.time_us[answered], lo=taken[-1].hi if taken else 0)
        taken.append(reading)
        self._take(self.pipeline.push(sensor, reading))


def _concatenated(schema: Schema, batches: list[Batch]) -> dict[str, np.ndarray]:
    whole = Batch.joined(batches or [Batch.of(schema, {name: [] for name in schema.names}, [])])
    # Copies: what goes out may be rows that came in, and those are the caller's.
    return {TIME: whole.time_us.copy(), **{name: whole.columns[name].copy() for name in schema.names}}


__all__ = ["evaluate", "plan_of", "whole_fragment"]
