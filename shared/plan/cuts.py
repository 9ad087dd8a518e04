"""The region side cut finely: the pieces that nodes host, move and recover one by one.

A vertex is one operator that may keep state, with what stands before it for it alone (filters, projections, a key_by)
and the stateless tail behind it, which would otherwise cost an edge and a copy of every row. So a failed vertex takes
the least with it. What several operators read stands with whoever makes it, else by itself. All users' operators count
as keeping state: a node that does not have one installed must cut the plan like the others.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from shared.plan import operators as op
from shared.plan.fragments import Output, Vertex
from shared.plan.graph import Node, Plan
from shared.plan.placement import ON_REGION
from shared.plan.vertices import cut_side

FEEDBACK = "feedback "


def region_vertices(plan: Plan) -> tuple[Vertex, ...]:
    """The region side's vertices, producers before consumers. Empty where nothing runs in a region."""
    return cut_side(plan, ON_REGION, _groups, "by operator")


def synced_outputs(plan: Plan) -> tuple[Output, ...]:
    """What goes from the region to the cloud."""
    found = (output for vertex in region_vertices(plan) for output in vertex.fragment.outputs)
    return tuple(output for output in found if output.kind == "sync")


def device_streams(plan: Plan) -> frozenset[str]:
    """What devices themselves send to the cloud, by name."""
    return frozenset(edge.name for edge in plan.edges) - {output.name for output in synced_outputs(plan)}


def is_stateless(vertex: Vertex) -> bool:
    """Whether a vertex forgets every row it has passed on: it keeps the numbers of its one input and needs no
    snapshot."""
    types = {entry.node: entry.type for entry in vertex.fragment.inputs}
    types.update((node.id, node.type) for node in vertex.operators)
    return all(
        isinstance(node.operator, op.Where | op.Select)
        or (isinstance(node.operator, op.KeyBy) and node.operator.only_parts(types[node.inputs[0]].key))
        for node in vertex.operators
    )


def cycle_inputs(vertices: Sequence[Vertex]) -> dict[str, frozenset[str]]:
    """For each vertex the inputs that lie on a cycle: what it gives there comes back to it."""
    maker = {name: vertex.name for vertex in vertices for name in vertex.outputs}
    edges = [(maker[name], name, vertex.name) for vertex in vertices for name in vertex.inputs if name in maker]
    found: dict[str, set[str]] = {vertex.name: set() for vertex in vertices}
    # Producers come before consumers but for feedback, so every cycle goes through one.
    for last, closing, first in edges:
        if closing.startswith(FEEDBACK):
            forward = _reached(first, [(source, target) for source, _, target in edges])
            ring = forward & _reached(last, [(target, source) for source, _, target in edges])
            for source, name, target in edges:
                if source in ring and target in ring:
                    found[target].add(name)
    return {name: frozenset(inputs) for name, inputs in found.items()}


def back_edges(vertices: Sequence[Vertex]) -> frozenset[str]:
    """The names of edges that lie on a cycle: "feedback NAME" and the others on its way round."""
    return frozenset().union(*cycle_inputs(vertices).values())


def _reached(start: str, edges: Iterable[tuple[str, str]]) -> set[str]:
    """The vertex and all that can be reached from it."""
    following: dict[str, list[str]] = {}
    for source, target in edges:
        following.setdefault(source, []).append(target)
    seen = {start}
    waiting = [start]
    while waiting:
        for name in following.get(waiting.pop(), ()):
            if name not in seen:
                seen.add(name)
                waiting.append(name)
    return seen


def _groups(_: Plan, computing: list[Node]) -> list[list[Node]]:
    """Each operator that keeps state heads a group; a head's inputs come from earlier heads, so their order serves."""
    targets: dict[int, set[int]] = {node.id: set() for node in computing}  # the heads that a node leads to
    for node in reversed(computing):
        if not _leads(node):
            targets[node.id] = {node.id}
        for source in node.inputs:
            if source in targets and len(targets[source]) < 2:  # one, or several: more need not be known
                targets[source] |= set(itertools.islice(targets[node.id], 2))
    leader: dict[int, int] = {}
    for node in computing:
        source = node.inputs[0]
        if isinstance(node.operator, op.Port):  # reads what only its operator's pipeline has
            leader[node.id] = leader[source]
        elif len(targets[node.id]) == 1:
            (leader[node.id],) = targets[node.id]
        else:
            leader[node.id] = leader.get(source, node.id)
    groups: dict[int, list[Node]] = {}
    for node in computing:
        groups.setdefault(leader[node.id], []).append(node)
    return [groups[head] for head in sorted(groups)]


def _leads(node: Node) -> bool:
    """Whether it goes with the operator that reads it. A key_by that merges keeps rows, for the one that needs them."""
    return isinstance(node.operator, op.Where | op.Select | op.KeyBy)
