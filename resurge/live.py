"""A program running in this process, one append at a time: callbacks, `append`, and sensors that are read on request.

For trying things out, for small tools and for tests of event-driven code. No network and no disk: a device that must
lose nothing is a node (`resurge node run`), which runs the same plan with the same engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from shared.batch import END_OF_TIME, Batch
from shared.engine.pipeline import Pipeline
from shared.engine.row_code import drops_row
from shared.engine.rows import read_only
from shared.errors import UsageError
from shared.language.expressions import TIME, columns_of
from shared.language.values import column_of
from shared.plan import operators as op
from shared.plan.fragments import Fragment
from shared.plan.placement import ON_CLOUD, near_fragment, sides
from shared.stream.declarations import plan_of
from shared.stream.drafts import Callback
from shared.stream.stream import Sink, Stream

Reading = Mapping[str, object]


class Live:
    """Runs what these sinks describe. Callbacks get rows as columns, `time` included, as soon as they are final."""

    def __init__(
        self, *sinks: Sink | Stream, device: str = "local", sensors: Mapping[str, Callable[[], Reading]] | None = None
    ) -> None:
        plan = plan_of(*sinks)
        if ON_CLOUD in sides(plan).values():
            raise UsageError(
                "a live program runs on one device; leave out .sync(), or start the whole product with `resurge up`",
                code="live-cloud",
            )
        self._callbacks: dict[str, Callback] = {
            sink.draft.operator.name: sink.callback
            for sink in sinks
            if isinstance(sink, Sink) and isinstance(sink.draft.operator, op.Subscribe) and sink.callback is not None
        }
        self._sensors = dict(sensors or {})
        fragment = near_fragment(plan)
        self._pipeline = Pipeline(fragment, device=device)
        self._schemas = {entry.name: entry.schema for entry in fragment.inputs}
        self._names = {name: frozenset(schema.names) for name, schema in self._schemas.items()}
        self._next = dict.fromkeys(self._schemas, 0)
        self._cycles = any(name.startswith("feedback ") for name in self._schemas)
        self._drops = _droppers(fragment)

    def append(self, stream: Stream | str, *, time: int | Sequence[int], **columns: object) -> None:
        """One row (`time=5, lat=47.0`) or several (`time=[5, 6], lat=[47.0, 47.1]`); then no earlier row may follow."""
        name = stream if isinstance(stream, str) else _input_name(stream)
        drops = self._drops.get(name)
        if drops is not None and drops(time, columns):
            self._next[name] += 1
            return
        if name not in self._schemas:
            raise UsageError(f"nothing here reads {name!r} (has: {', '.join(self._schemas)})", code="live-input")
        schema = self._schemas[name]
        if columns.keys() != self._names[name]:
            unknown = sorted(columns.keys() ^ self._names[name])
            raise UsageError(
                f"{name!r} has the columns {', '.join(schema.names)}; look at {unknown[0]!r}", code="live-input"
            )
        one, where = not _several(time), repr(name)
        given = {
            field.name: _column(where, field.name, columns[field.name], field.kind, one=one) for field in schema.fields
        }
        times = _column(where, TIME, time, "int64", one=one)
        uneven = [] if one else [column for column, values in given.items() if len(values) != len(times)]
        if uneven:
            raise UsageError(
                f"column {uneven[0]!r} of {name!r} has {len(given[uneven[0]])} values, time has {len(times)}",
                code="live-input",
            )
        if not self._cycles:
            self._push(name, given, times)
            return
        for row in range(len(times)):  # in a cycle each row goes round before the next one comes
            part = slice(row, row + 1)
            self._push(name, {column: values[part] for column, values in given.items()}, times[part])

    def _push(self, name: str, columns: dict[str, np.ndarray], times: np.ndarray) -> None:
        if not len(times):
            return
        lo = self._next[name]
        hi = self._next[name] = lo + len(times)
        frontier_us = int(times[0] if hi == lo + 1 else times.max())
        numbers = np.arange(lo, hi, dtype=np.int64)
        self._take(self._pipeline.push(name, Batch(self._schemas[name], columns, times, numbers, lo, hi, frontier_us)))

    def advance(self, time: int) -> None:
        """No row before `time` follows on any stream: windows that end by then go out."""
        for name in self._schemas:
            if not name.startswith("feedback "):
                self._take(self._pipeline.advance(name, time))

    def close(self) -> None:
        """The end of every stream: all windows go out."""
        self.advance(END_OF_TIME)

    def _take(self, outputs: list[tuple[str, Batch]]) -> None:
        for name, batch in outputs:
            if name.startswith("request "):
                self._read(name.removeprefix("request "), batch)
            elif len(batch) and name in self._callbacks:
                self._callbacks[name](read_only({TIME: batch.time_us, **batch.columns}))

    def _read(self, sensor: str, requests: Batch) -> None:
        query = self._sensors.get(sensor)
        if query is None:
            raise UsageError(
                f"the program reads the sensor {sensor!r}; hand over sensors={{{sensor!r}: function}}",
                code="live-sensor",
            )
        for time in requests.time_us.tolist():
            self.append(sensor, time=time, **query())


def _droppers(fragment: Fragment) -> dict[str, Callable[[object, Mapping[str, object]], bool]]:
    """By input: a test that drops a row before it becomes columns. Only where filters are all that reads the input and
    nothing waits for time: such a row leaves no trace. The test takes 3 us, the way through the engine 60 to 100."""
    if not all(isinstance(node.operator, op.Where | op.Select) for node in fragment.nodes):
        return {}
    leaving = {output.node for output in fragment.outputs}
    found = {}
    for entry in fragment.inputs:
        readers = [node.operator for node in fragment.nodes if entry.node in node.inputs]
        filters = [reader.predicate for reader in readers if isinstance(reader, op.Where)]
        known = {*entry.schema.names, TIME}
        if entry.node in leaving or len(filters) < len(readers) or not filters:
            continue
        if all(name in known for predicate in filters for name in columns_of(predicate)):
            found[entry.name] = drops_row(filters, entry.schema)
    return found


def _input_name(stream: Stream) -> str:
    operator = stream.draft.operator
    if not isinstance(operator, op.Source):
        raise UsageError("rows are appended to a source: rs.stream(...), rs.sensor(...)", code="live-input")
    return operator.input_name


def _several(time: object) -> bool:
    return type(time) is not int and (isinstance(time, Sequence) or np.ndim(time) > 0)  # type: ignore[arg-type]  # a datetime has no dimension


def _column(where: str, column: str, values: object, kind: str, *, one: bool) -> np.ndarray:
    """The values of one row or of several, as the column's kind."""
    return column_of([values] if one else values, kind, column=column, where=where, code="live-input")
