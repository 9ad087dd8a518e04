"""What a plan's sync edges promise, and what keeps each promise: in lines for a person, or as a refusal."""

from __future__ import annotations

from shared.contracts.costs import Choice, Host, choose, guess, of_lone_device
from shared.contracts.levels import level_of
from shared.errors import UsageError
from shared.plan import operators as op
from shared.plan.graph import Plan
from shared.plan.placement import ON_DEVICE, sides

# Which nodes a region has is known only when it is deployed: what a plan is told is what two of them could do.
TWO_NODES = (Host("one", region="region"), Host("another", region="region"))


def promises(plan: Plan) -> dict[str, Choice]:
    """By edge, what keeps its contract: of a device that sends straight to the gateway, or of a region of two nodes."""
    side_of = sides(plan)
    device = {
        node.operator.name
        for node in plan.nodes
        if isinstance(node.operator, op.Sync) and side_of[node.id] == ON_DEVICE
    }
    return {
        edge.name: of_lone_device(plan, edge)
        if edge.name in device
        else choose(edge.contract, plan, {edge.name: guess(plan, edge)}, TWO_NODES)
        for edge in plan.edges
    }


def contract_lines(plan: Plan) -> tuple[str, ...]:
    """Two lines for each edge: the promise with its levels, and what was picked for it or why nothing was."""
    lines: list[str] = []
    contracts = {edge.name: edge.contract for edge in plan.edges}
    for name, choice in promises(plan).items():
        contract = contracts[name]
        lines.append(f"{name}: {contract.describe()} ({', '.join(level_of(contract).names)})")
        if choice.row is None:
            lines.append(f"    refused: {choice.refused}")
        else:
            snapshots = f", a snapshot at least every {choice.every} elements" if choice.every else ""
            lines.append(f"    {choice.row.name}{snapshots}; {choice.why}")
    return tuple(lines)


def check_kept(plan: Plan) -> None:
    """Raise UsageError when nothing could keep what an edge of the plan promises."""
    for name, choice in promises(plan).items():
        if choice.row is None:
            raise UsageError(f"sync {name!r} promises what cannot be kept: {choice.refused}", code="contract-refused")
