"""What a plan's sync and gather edges promise, and what keeps each promise: in lines for a person, or as a refusal."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from shared.contracts.costs import Choice, Host, Load, choose, guess, of_lone_device
from shared.contracts.levels import level_of
from shared.errors import UsageError
from shared.plan import operators as op
from shared.plan.contracts import strictest
from shared.plan.graph import Plan
from shared.plan.placement import ON_DEVICE, sides
from shared.recovery.delays import SILENCE_S_MAX
from shared.recovery.strategies import STRATEGIES

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


def of_fleet(plan: Plan, hosts: Collection[Host] = TWO_NODES) -> Choice:
    """The cheapest strategy by which these nodes keep what every gather of the plan promises. Each of them may stay
    away: what it has on its own disk is then of no use. A row that takes all of a region back is picked by hand: how
    often it takes a cut is the region's affair, not the elements'."""
    hosts = [replace(host, returns=False) for host in hosts]
    rows = [each.row for each in STRATEGIES.values() if each.row.between_nodes and not each.row.of_region]
    loads = {edge.name: _of_vertex(guess(plan, edge)) for edge in plan.gathers}
    return choose(strictest(edge.contract for edge in plan.gathers), plan, loads, hosts, rows=rows)


def _of_vertex(load: Load) -> Load:
    """Of a vertex that sends on to another node as much as it takes: the most that is likely. Where the region is full
    the device waits and gives nothing up, so that only the time counts until a silent node's vertices are elsewhere."""
    return replace(load, vertex=replace(load.vertex, outputs=(load.element_bytes,)), outage_s=SILENCE_S_MAX)


def contract_lines(plan: Plan) -> tuple[str, ...]:
    """Two lines for each edge: the promise with its levels, and what was picked for it or why nothing was."""
    lines: list[str] = []
    contracts = {edge.name: edge.contract for edge in (*plan.edges, *plan.gathers)}
    region = of_fleet(plan) if plan.gathers else None
    chosen = promises(plan) | ({} if region is None else {edge.name: region for edge in plan.gathers})
    for name, choice in chosen.items():
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
    if plan.gathers and (region := of_fleet(plan)).row is None:
        raise UsageError(
            f"gather {plan.gathers[0].name!r} promises what cannot be kept: {region.refused}", code="contract-refused"
        )
    for name, choice in promises(plan).items():
        if choice.row is None:
            raise UsageError(f"sync {name!r} promises what cannot be kept: {choice.refused}", code="contract-refused")
