"""The region side cut finely: the pieces that nodes host, move and recover one by one.

A vertex is one operator that may keep state, with what stands before it for it alone (filters, projections, a key_by)
and the stateless tail behind it, which would otherwise cost an edge and a copy of every row. So a failed vertex takes
the least with it. What several operators read stands with whoever makes it, else by itself. All users' operators count
as keeping state: a node that does not have one installed must cut the plan like the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from shared.plan import operators as op
from shared.plan.fragments import Vertex
from shared.plan.graph import Node, Plan
from shared.plan.placement import ON_REGION
from shared.plan.vertices import cut_side


def region_vertices(plan: Plan) -> tuple[Vertex, ...]:
    """The region side's vertices, producers before consumers. Empty where nothing runs in a region."""
    return cut_side(plan, ON_REGION, _groups, "by operator")


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
    reached = _reached(vertices)
    return {
        vertex.name: frozenset(
            name
            for name in vertex.inputs
            if any(name in maker.outputs and maker.name in reached[vertex.name] for maker in vertices)
        )
        for vertex in vertices
    }


def back_edges(vertices: Sequence[Vertex]) -> frozenset[str]:
    """The names of edges that lie on a cycle: "feedback NAME" and the others on its way round."""
    return frozenset().union(*cycle_inputs(vertices).values())


def _reached(vertices: Sequence[Vertex]) -> dict[str, set[str]]:
    """From each vertex the vertices that its rows reach, itself included only by a way round."""
    readers = {
        vertex.name: [other.name for other in vertices if set(other.inputs) & set(vertex.outputs)]
        for vertex in vertices
    }
    found: dict[str, set[str]] = {}
    for vertex in vertices:
        seen: set[str] = set()
        waiting = list(readers[vertex.name])
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting += readers[name]
        found[vertex.name] = seen
    return found


def _groups(plan: Plan, computing: list[Node]) -> list[list[Node]]:
    """Each operator that keeps state heads a group; a head's inputs come from earlier heads, so their order serves."""
    here = {node.id for node in computing}
    targets: dict[int, set[int]] = {}  # of what goes with its reader: the heads that it leads to
    for node in reversed(computing):
        readers = [reader.id for reader in plan.consumers(node.id) if reader.id in here]
        targets[node.id] = set().union(*(targets[reader] for reader in readers)) if _leads(node) else {node.id}
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
