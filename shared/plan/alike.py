"""Whether plans do the same, whatever numbers their nodes have."""

from __future__ import annotations

from shared.plan.encoding import operator_identity
from shared.plan.fragments import Fragment
from shared.plan.graph import Plan
from shared.plan.placement import device_fragment


def device_side(plan: Plan) -> list[object]:
    """What devices do for a plan: equal where theirs is the same, with the same names of gathers."""
    sources = [operator_identity(node.operator) for node in plan.nodes if not node.inputs]
    return [sources, graph(device_fragment(plan))]


def graph(fragment: Fragment) -> list[object]:
    """What a fragment does."""
    names: dict[int, object] = {entry.node: (entry.name, entry.schema) for entry in fragment.inputs}
    names |= {node.id: at for at, node in enumerate(fragment.nodes)}
    done: list[object] = [
        (operator_identity(node.operator), [names[each] for each in node.inputs]) for node in fragment.nodes
    ]
    return [done, [(output.name, output.kind, output.schema, names[output.node]) for output in fragment.outputs]]
