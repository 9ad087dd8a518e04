"""The job's graph: the plan's cloud vertices, who reads whom, and by which key.

A vertex that reads a sync edge takes its rows from the log by device. When its key is another one, rows must first find
their range, so an `ingest` vertex is put before it: it decodes the log and records the rows by that key. So it is where
rows of several devices have met before: the log has them under the query that they met in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import cloud_backend.spark.task.frames  # noqa: F401  frame operators run wherever a job's graph is known
from shared.language.aggregates import AGGREGATES
from shared.language.expressions import Value
from shared.language.schema import Schema
from shared.language.windows import CalendarWindow, SessionWindow, TimeWindow
from shared.plan.fragments import Vertex
from shared.plan.graph import Node, Plan
from shared.plan.operators import (
    DEVICE,
    WINDOW_END,
    WINDOW_START,
    Apply,
    KeyBy,
    Port,
    Select,
    Subscribe,
    Sync,
    SyncBack,
    Where,
    WindowAggregate,
)
from shared.plan.stream_type import with_device
from shared.plan.vertices import vertices
from shared.recovery.run_order import topological

FEEDBACK = "feedback "


@dataclass(frozen=True, slots=True)
class LogInput:
    """A sync edge, read from the log by device."""

    edge: str


@dataclass(frozen=True, slots=True)
class EdgeInput:
    """Another vertex's recorded output; `delay` 1 for feedback, which enters the epoch after."""

    edge: str
    vertex: str
    delay: int = 0


@dataclass(frozen=True, slots=True)
class Sink:
    name: str
    key: tuple[str, ...]
    stable: bool  # hold results until their epoch is STABLE
    down: bool  # rows go to the device they are about; otherwise only to whoever asks
    sessions: bool = False  # late rows may join its windows: a row stands in place of those inside its window
    windows: bool = False  # one row about a key and window, which a later one corrects; else every row counts
    shows_values: bool = True  # False where rows say how many readings there were and nothing of which


@dataclass(frozen=True, slots=True)
class JobVertex:
    name: str
    key: tuple[str, ...]
    inputs: tuple[LogInput | EdgeInput, ...]
    readers: Mapping[str, tuple[tuple[str, tuple[str, ...]], ...]]  # output edge -> (reader, its key)
    sinks: tuple[Sink, ...] = ()
    deterministic: bool = True
    merge: str = "ordered"
    ingest: bool = False

    @property
    def sources(self) -> tuple[str, ...]:
        """The vertices it reads in the same epoch."""
        found = [entry.vertex for entry in self.inputs if isinstance(entry, EdgeInput) and not entry.delay]
        return tuple(dict.fromkeys(found))

    @property
    def feeds(self) -> tuple[str, ...]:
        """The vertices it reads at all, also an epoch later."""
        return tuple(dict.fromkeys(entry.vertex for entry in self.inputs if isinstance(entry, EdgeInput)))


@dataclass(frozen=True, slots=True)
class JobGraph:
    plan: Plan
    vertices: Mapping[str, JobVertex]
    order: tuple[str, ...]  # topological
    wire: Mapping[str, Schema]  # sync edge -> what its batches hold
    schemas: Mapping[str, Schema]  # every edge -> the columns of its rows in the cloud
    met: frozenset[str] = frozenset()  # sync edges with rows of several devices, which a query's region made
    missing: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)  # sync edge -> what older forms lack

    def upstream(self, vertex: str) -> list[str]:
        """The vertex and everything above it."""
        found = [vertex]
        for name in found:
            found.extend(source for source in self.vertices[name].sources if source not in found)
        return found


def job_graph(plan: Plan, *, given: bool = False) -> JobGraph:
    """The graph of a plan. `given`: sync edges are not read from a log, their ingest vertices' records are there."""
    parts = {part.name: part for part in vertices(plan)}
    wire = {edge.name: edge.schema for edge in plan.edges}
    met = frozenset(_met(plan))
    schemas: dict[str, Schema] = {name: schema if name in met else with_device(schema) for name, schema in wire.items()}
    producer: dict[str, str] = {}
    for part in parts.values():
        for output in part.fragment.outputs:
            if output.kind in ("edge", "feed"):
                producer[output.name] = part.name
                schemas[output.name] = output.schema
    ingested = {
        entry: _ingest_name(entry)
        for part in parts.values()
        for entry in part.inputs
        if entry in wire and not _by_device(part, entry, met, given=given)
    }
    inputs = {
        part.name: tuple(
            LogInput(entry)
            if entry in wire and _by_device(part, entry, met, given=given)
            else _input(entry, producer, ingested)
            for entry in part.inputs
        )
        for part in parts.values()
    }
    readers: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for part in parts.values():
        for entry in inputs[part.name]:
            if isinstance(entry, EdgeInput):
                readers.setdefault(entry.edge, []).append((part.name, part.key))
    found = {
        name: JobVertex(name, (DEVICE,), (LogInput(edge),), {edge: tuple(readers[edge])}, ingest=True)
        for edge, name in ingested.items()
    }
    for part in parts.values():
        outputs = {
            output.name: tuple(readers.get(output.name, ()))
            for output in part.fragment.outputs
            if output.name in producer
        }
        found[part.name] = JobVertex(
            part.name, part.key, inputs[part.name], outputs, _sinks(part, plan), part.deterministic, part.merge
        )
    order = topological({name: vertex.sources for name, vertex in found.items()})
    missing = {edge.name: dict(edge.missing) for edge in plan.edges if edge.missing}
    return JobGraph(plan, found, tuple(order), wire, schemas, met, missing)


def _met(plan: Plan) -> Iterator[str]:
    for node in plan.nodes:
        if isinstance(node.operator, Sync) and plan.met(node.inputs[0]):
            yield node.operator.name


def _ingest_name(edge: str) -> str:
    return f"ingest {edge}"


def _by_device(part: Vertex, edge: str, met: Collection[str], *, given: bool) -> bool:
    """Whether a vertex reads this sync edge where the log has it: its key is the device, and so are the frames'."""
    return part.key == (DEVICE,) and edge not in met and not given


def _input(entry: str, producer: Mapping[str, str], ingested: Mapping[str, str]) -> EdgeInput:
    if entry in ingested:
        return EdgeInput(entry, ingested[entry])
    return EdgeInput(entry, producer[entry], delay=1 if entry.startswith(FEEDBACK) else 0)


def _sinks(part: Vertex, plan: Plan) -> tuple[Sink, ...]:
    return tuple(
        sink_of(plan, output.name) for output in part.fragment.outputs if output.kind in ("sync_back", "subscribe")
    )


def sink_of(plan: Plan, name: str) -> Sink:
    node = plan.sink(name)
    down = isinstance(node.operator, SyncBack)
    stable = isinstance(node.operator, SyncBack) and node.operator.commit == "stable"
    made_by = _made_by(plan, node)
    return Sink(
        name, node.type.key, stable, down, _late_sessions(made_by), _windows(plan, node), _shows_values(made_by)
    )


def _made_by(plan: Plan, sink: Node) -> Node:
    """The node that made a sink's rows: what lies between drops rows and columns, and makes none."""
    node = sink
    while isinstance(node.operator, SyncBack | Subscribe | Where | Select):
        node = plan.node(node.inputs[0])
    return node


def _late_sessions(node: Node) -> bool:
    """Whether rows are sessions that a late row may still lengthen or join."""
    match node.operator:
        case WindowAggregate(window=SessionWindow(), lateness_us=lateness):
            return lateness > 0
    return False


def _shows_values(node: Node) -> bool:
    match node.operator:
        case WindowAggregate(aggregates=aggregates):
            kinds = [AGGREGATES.get(each.function) for _, each in aggregates]
            return any(kind is None or kind.shows_values for kind in kinds)
    return True


def _windows(plan: Plan, sink: Node) -> bool:
    """Whether there is one row about a key and window. A window that slides has one for each reading, and windows of so
    many readings may begin and end with readings of one time. A user's operator that names a window in each of its rows
    says by it what the row is about."""
    node = _made_by(plan, sink)
    match node.operator:
        case WindowAggregate(window=window) | Apply(window=window):
            if isinstance(window, TimeWindow | CalendarWindow | SessionWindow):
                return True
    while isinstance(node.operator, KeyBy | Where | Select | Port):
        node = plan.node(node.inputs[0])
    bounds = (WINDOW_START, WINDOW_END)
    return isinstance(node.operator, Apply) and all(name in node.schema and name in sink.schema for name in bounds)
