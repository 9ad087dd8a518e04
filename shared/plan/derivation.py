"""Which columns show what others said: what a plan's operators pass on, compute or fold, followed from the sources."""

from __future__ import annotations

from collections.abc import Callable

from shared.plan.graph import Plan
from shared.plan.operators import Origins


def telling_columns(plan: Plan, tells: Callable[[str], bool]) -> dict[int, frozenset[str]]:
    """For each node, the columns that may show values of a column whose name `tells`, or are called so themselves.

    A column of which its operator does not say where it comes from is taken to show everything that came in.
    """
    found: dict[int, frozenset[str]] = {}
    for node in plan.nodes:
        inputs = tuple(plan.node(number).type for number in node.inputs)
        incoming = [found[number] for number in node.inputs]
        found[node.id] = frozenset(
            name for name in node.schema.names if tells(name) or _shows(name, node.operator.derives(inputs), incoming)
        )
    return found


def _shows(name: str, origins: Origins, incoming: list[frozenset[str]]) -> bool:
    if name not in origins:
        return any(incoming)
    return any(column in incoming[port] for port, column in origins[name])
