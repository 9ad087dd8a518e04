"""From a fragment's nodes to running operators: what fuses, what is needed, what runs where.

Filters followed by at most one projection become one `StatelessRun`, as long as nobody else reads what is between them.
Working backwards from the outputs finds the columns that anybody reads; the others are never touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from shared.engine.applying import Machines, PortFilter, RowsFunction, window_function
from shared.engine.counting import CountWindows
from shared.engine.joining import Beside, Join, Zip
from shared.engine.keyed_state import SignificantChanges, StatefulStream
from shared.engine.keys import KeyIndex
from shared.engine.merging import Rekey, Union
from shared.engine.operator import Operator
from shared.engine.pools import GREATEST_TIME, LEAST_TIME, Aggregation, Applied, Part
from shared.engine.sessions import Sessions
from shared.engine.sliding import SlidingWindows
from shared.engine.stateless import StatelessRun
from shared.engine.windowing import TimeWindows
from shared.errors import UsageError
from shared.plan import operators as op
from shared.plan.fragments import Fragment
from shared.plan.graph import Node, StreamType
from shared.stream.aggregates import Aggregate, result_fields
from shared.stream.expressions import Column, Expression, columns_of
from shared.stream.registry import operator_type
from shared.stream.schema import Field
from shared.stream.windows import CountWindow, SessionWindow, TimeWindow, Window


@dataclass(frozen=True, slots=True)
class Stage:
    """A running operator: it stands for the output of node `node` and reads these nodes, port by port."""

    node: int
    inputs: tuple[int, ...]
    operator: Operator


def stages(fragment: Fragment) -> tuple[list[Stage], dict[int, frozenset[str]], dict[int, int]]:
    """The running operators in topological order, the columns that anybody reads of each node or input, and for nodes
    that change no row the node whose output stands for theirs."""
    types: dict[int, StreamType] = {entry.node: entry.type for entry in fragment.inputs}
    types.update((node.id, node.type) for node in fragment.nodes)
    needed = needed_columns(fragment, types)
    readers: dict[int, int] = {}
    for node in fragment.nodes:
        for number in node.inputs:
            readers[number] = readers.get(number, 0) + 1
    for output in fragment.outputs:
        readers[output.node] = readers.get(output.node, 0) + 2  # an output's rows must exist, whoever else reads
    found: list[Stage] = []
    standing: dict[int, int] = {}
    pending: dict[int, tuple[int, list[Expression]]] = {}  # a filter nobody else reads: its input, its predicates
    for node in fragment.nodes:
        sources = tuple(standing.get(number, number) for number in node.inputs)
        if sources and sources[0] not in pending and _changes_nothing(fragment, node):
            standing[node.id] = sources[0]
        elif isinstance(node.operator, op.Where | op.Select):
            origin, predicates = pending.pop(sources[0], (sources[0], []))
            if isinstance(node.operator, op.Where):
                predicates = [*predicates, node.operator.predicate]
                if readers.get(node.id) == 1 and _only_stateless_reads(fragment, node.id):
                    pending[node.id] = (origin, predicates)
                    continue
                columns: list[tuple[str, Expression]] = [(name, Column(name)) for name in node.schema.names]
            else:
                columns = list(node.operator.columns)
            columns = [pair for pair in columns if pair[0] in needed[node.id]]
            run = StatelessRun(predicates, columns, types[origin].schema)
            found.append(Stage(node.id, (origin,), run))
        else:
            found.append(Stage(node.id, sources, lowered(node, [types[number] for number in node.inputs], needed)))
    return found, needed, standing


def _changes_nothing(fragment: Fragment, node: Node) -> bool:
    """Keys that include the device keep rows where they are; a sync's edge is the driver's business."""
    if isinstance(node.operator, op.KeyBy):
        return op.DEVICE in node.operator.columns
    if isinstance(
        node.operator, op.Select
    ):  # fewer columns, none computed, only handed out: outputs take theirs by name
        plain = all(expression == Column(name) for name, expression in node.operator.columns)
        return plain and not any(node.id in other.inputs for other in fragment.nodes)
    return isinstance(node.operator, op.Sync | op.SyncBack)


def _only_stateless_reads(fragment: Fragment, number: int) -> bool:
    return all(isinstance(node.operator, op.Where | op.Select) for node in fragment.nodes if number in node.inputs)


def needed_columns(fragment: Fragment, types: Mapping[int, StreamType]) -> dict[int, frozenset[str]]:
    """For each node and input, the columns that somebody downstream reads."""
    needed: dict[int, set[str]] = {number: set() for number in types}
    for output in fragment.outputs:
        needed[output.node].update(output.schema.names)
    for node in reversed(fragment.nodes):
        for number in node.inputs:
            needed[number].update(_reads(node, needed[node.id], types[number]))
    return {number: frozenset(names) for number, names in needed.items()}


def _reads(node: Node, wanted: Iterable[str], source: StreamType) -> Iterable[str]:
    """The columns a node reads of one input, given those that are wanted of its output."""
    match node.operator:
        case op.Where(predicate):
            names = {*wanted, *columns_of(predicate)}
        case op.Select(columns):
            names = {name for label, expression in columns if label in wanted for name in columns_of(expression)}
        case op.KeyBy():
            names = {*wanted, *source.key, op.DEVICE}
        case op.Significant(columns):
            names = {*wanted, *source.key, *columns}
        case op.WindowAggregate(aggregates=aggregates):
            names = {*source.key, *(name for _, aggregate in aggregates for name in aggregate.columns)}
        case _:
            names = set(source.schema.names)
    return (name for name in names if name in source.schema)


def lowered(node: Node, inputs: list[StreamType], needed: Mapping[int, frozenset[str]]) -> Operator:
    """The running operator of a node that is not stateless."""
    names = tuple(name for name in node.schema.names if name in needed[node.id])
    match node.operator:
        case op.KeyBy(columns, merge, idle_after_us):
            kept = tuple(dict.fromkeys((*columns, *names)))
            return Rekey(kept, merge, idle_after_us)
        case op.Union(merge):
            return Union(len(inputs), node.schema.names, merge)
        case op.WindowAggregate():
            return _windows(node, inputs[0], needed)
        case op.Zip():
            return Zip(inputs[0], inputs[1], node.schema)
        case op.Join(before_us, after_us):
            return Join(inputs[0], inputs[1], node.schema, before_us=before_us, after_us=after_us)
        case op.Combine(merge=merge):
            return Beside(inputs[0], inputs[1], node.schema, both=True, ordered=merge == "ordered")
        case op.Latest(defaults):
            return Beside(inputs[0], inputs[1], node.schema, both=False, defaults=defaults)
        case op.State(columns, config):
            return StatefulStream(columns, inputs[0], key_of(inputs[0]), config=config)
        case op.Significant():
            return SignificantChanges(node.operator, key_of(inputs[0]))
        case op.Apply():
            return _applied(node.operator, inputs)
        case op.Port(name):
            return PortFilter(name)
    raise UsageError(
        f"this engine has no operator {op.operator_name(node.operator)!r}, at {node.line}", code="engine-operator"
    )


def _windows(node: Node, source: StreamType, needed: Mapping[int, frozenset[str]]) -> Operator:
    operator = node.operator
    if not isinstance(operator, op.WindowAggregate):
        raise TypeError(operator)
    fields = {column.name: column for column in node.schema}
    parts = [(aggregate, _fields(name, aggregate, source, fields)) for name, aggregate in operator.aggregates]
    made = windows_over(operator.window, parts, None, source, lateness_us=operator.lateness_us, complete=True)
    if isinstance(made, SlidingWindows):
        made.wanted = needed[node.id]
    return made


def _applied(operator: op.Apply, inputs: list[StreamType]) -> Operator:
    if operator.window is not None:
        function = window_function(operator)
        return windows_over(operator.window, (), function, inputs[0], lateness_us=0, complete=False)
    kind = operator_type(operator.operator, operator.operator_version)
    if kind.form == "rows":
        return RowsFunction(operator, key_of(inputs[0]))
    return Machines(operator, key_of(inputs[0]), len(inputs))


def key_of(source: StreamType) -> KeyIndex:
    return KeyIndex(source.key, tuple(source.schema.kind(name) for name in source.key))


def _fields(name: str, aggregate: Aggregate, source: StreamType, known: Mapping[str, Field]) -> tuple[Field, ...]:
    if aggregate.function == "user":
        return (known[name],)
    return result_fields(name, aggregate, source.schema)


def windows_over(
    window: Window,
    parts: Sequence[Part],
    applied: Applied | None,
    source: StreamType,
    *,
    lateness_us: int,
    complete: bool,
) -> Operator:
    """The operator that keeps windows of this kind."""
    key = key_of(source)
    match window:
        case TimeWindow():
            whole = Aggregation(parts, source.schema, applied)
            return TimeWindows(window, whole, key, lateness_us=lateness_us, complete=complete)
        case SessionWindow():
            bounded = Aggregation((*parts, LEAST_TIME, GREATEST_TIME), source.schema, applied)
            return Sessions(window, bounded, key, lateness_us=lateness_us, complete=complete)
        case CountWindow(size, hop) if size == hop:
            bounded = Aggregation((*parts, LEAST_TIME, GREATEST_TIME), source.schema, applied)
            return CountWindows(window, bounded, key, complete=complete)
    return SlidingWindows(window, parts, applied, source, key, complete=complete)
