"""From a fragment's nodes to running operators: what fuses, what is needed, what runs where.

Filters followed by at most one projection become one `StatelessRun`, as long as nobody else reads what is between them.
Working backwards from the outputs finds the columns that anybody reads; the others are never touched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from shared.engine import (
    forgetting,
    joins,
    keyed_state,
    late_rows,
    left_join,
    merge,
    sequences,
    user_operators,
    windows,
)
from shared.engine.operator import Operator, Use
from shared.engine.stateless import StatelessRun
from shared.errors import UsageError
from shared.language.expressions import Column, Expression
from shared.plan import operators as op
from shared.plan.fragments import Fragment
from shared.plan.graph import Node
from shared.plan.stream_type import StreamType

# Operator type -> what makes its running form; `Where` and `Select` fuse into runs, below.
RUNNING: dict[type[op.Operator], Callable[[Use, Any], Operator]] = {
    op.KeyBy: merge.key_by_of,
    op.Union: merge.union_of,
    op.Zip: joins.zip_of,
    op.Combine: joins.combine_of,
    op.Join: left_join.join_of,
    op.Latest: joins.latest_of,
    op.WindowAggregate: windows.window_of,
    op.Late: late_rows.late_of,
    op.Apply: user_operators.apply_of,
    op.Port: user_operators.port_of,
    op.State: forgetting.state_of,
    op.Significant: keyed_state.significant_of,
    op.Distinct: forgetting.distinct_of,
    op.FollowedBy: sequences.followed_by_of,
}


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
    replaced_by: dict[int, int] = {}
    pending: dict[int, tuple[int, list[Expression]]] = {}  # a filter nobody else reads: its input, its predicates
    for node in fragment.nodes:
        sources = tuple(replaced_by.get(number, number) for number in node.inputs)
        if sources and sources[0] not in pending and _changes_nothing(fragment, node, types):
            replaced_by[node.id] = sources[0]
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
            use = Use(node, [types[number] for number in node.inputs], needed[node.id])
            found.append(Stage(node.id, sources, lowered(use)))
    return found, needed, replaced_by


def _changes_nothing(fragment: Fragment, node: Node, types: Mapping[int, StreamType]) -> bool:
    """A key that has the device and all of the key before only parts rows further; a sync's edge is the driver's
    business."""
    if isinstance(node.operator, op.KeyBy):
        return node.operator.only_parts(types[node.inputs[0]].key)
    if isinstance(
        node.operator, op.Select
    ):  # fewer columns, none computed, only handed out: outputs take theirs by name
        return node.operator.only_drops and not any(node.id in other.inputs for other in fragment.nodes)
    return isinstance(node.operator, op.Sync | op.Gather | op.SyncBack)


def _only_stateless_reads(fragment: Fragment, number: int) -> bool:
    return all(isinstance(node.operator, op.Where | op.Select) for node in fragment.nodes if number in node.inputs)


def needed_columns(fragment: Fragment, types: Mapping[int, StreamType]) -> dict[int, frozenset[str]]:
    """For each node and input, the columns that somebody downstream reads."""
    needed: dict[int, set[str]] = {number: set() for number in types}
    for output in fragment.outputs:
        needed[output.node].update(output.schema.names)
    for node in reversed(fragment.nodes):
        for port, number in enumerate(node.inputs):
            read = node.operator.reads(needed[node.id], types[number], port)
            needed[number].update(name for name in read if name in types[number].schema)
    return {number: frozenset(names) for number, names in needed.items()}


def lowered(use: Use) -> Operator:
    """The running operator of a node that is not stateless."""
    made = RUNNING.get(type(use.node.operator))
    if made is None:
        raise UsageError(
            f"this engine has no operator {use.node.operator.kind!r}, at {use.node.line}", code="engine-operator"
        )
    return made(use, use.node.operator)
