"""A plan in words: the graph, the cut, the vertices and the reasons. `resurge plan FILE` prints it."""

from __future__ import annotations

from shared.plan import operators as op
from shared.plan.cuts import back_edges, is_stateless, region_vertices
from shared.plan.fragments import Vertex
from shared.plan.graph import Node, Plan, SyncEdge
from shared.plan.placement import ON_CLOUD, ON_DEVICE, ON_REGION, sides
from shared.plan.vertices import rekeys, vertices


def explain(plan: Plan, notes: tuple[str, ...] = (), contracts: tuple[str, ...] = ()) -> str:
    """Several lines for a person: what runs where, in which pieces, and why; `notes` are what `rewrite` changed,
    `contracts` what keeps the promises of its edges."""
    worked = sides(plan)
    lines = [f"plan {plan.name!r}, version {plan.version}, {len(plan.nodes)} operators", ""]
    titles = {ON_DEVICE: "on each device", ON_REGION: "in the region", ON_CLOUD: "on the cloud"}
    for side, title in titles.items():
        nodes = [node for node in plan.nodes if worked[node.id] == side]
        if nodes:
            lines += [f"{title}:", *(f"  {_node_line(node)}" for node in nodes), ""]
    lines += _cut_lines(plan, worked)
    if contracts:
        lines += ["contracts:", *(f"  {line}" for line in contracts), ""]
    lines += _region_lines(plan)
    lines += _vertex_lines(plan)
    if notes:
        lines += ["", "rewritten:", *(f"  {note}" for note in notes)]
    return "\n".join(lines).rstrip() + "\n"


def _node_line(node: Node) -> str:
    reads = ", ".join(map(str, node.inputs))
    return (
        f"{node.id:>3}  {node.operator.describe()}"
        + (f"  <- {reads}" if reads else "")
        + (f"   [{_place(node)}]" if node.line.line else "")
    )


def _place(node: Node) -> str:
    return f"{node.line.file}:{node.line.line}"


def _cut_lines(plan: Plan, worked: dict[int, str]) -> list[str]:
    lines = ["cut:"]
    for edge in plan.gathers:
        lines.append(f"  device -> region  {_edge_words(edge)}: where the region is full, the device waits")
    side_of = {node.operator.name: worked[node.id] for node in plan.nodes if isinstance(node.operator, op.Sync)}
    for edge in plan.edges:
        words = f"{_edge_words(edge)}: spooled until receipt, evict {edge.evict}"
        lines.append(f"  {side_of[edge.name]} -> cloud  {words}")
    for node in plan.sinks:
        if isinstance(node.operator, op.SyncBack):
            why = (
                "held until stable" if node.operator.commit == "stable" else "latest revision, corrected if rolled back"
            )
            lines.append(f"  cloud -> device  {node.operator.name}; {why}")
    return [*lines, ""] if len(lines) > 1 else ["cut: none, everything runs on the device", ""]


def _edge_words(edge: SyncEdge) -> str:
    columns = ", ".join(f"{column.name} {column.kind}" for column in edge.schema)
    return f"{edge.name} ({columns}); {edge.contract.describe()}"


def _region_lines(plan: Plan) -> list[str]:
    found = region_vertices(plan)
    if not found:
        return []
    cycle = back_edges(found)
    lines = ["vertices in the region, placed one by one:"]
    for vertex in found:
        numbers = ", ".join(str(node.id) for node in vertex.operators) or "none"
        kept = "keeps no state" if is_stateless(vertex) else f"keeps state by ({', '.join(vertex.key)})"
        lines.append(f"  {vertex.name!r}: operators {numbers}; {kept}, merges {vertex.merge}")
        lines.append(f"      reads {', '.join(vertex.inputs)}; gives {', '.join(vertex.outputs) or 'nothing'}")
        again = [name for name in vertex.inputs if name in cycle]
        if again:
            lines.append(f"      on a cycle: {', '.join(again)}")
    return [*lines, ""]


def _vertex_lines(plan: Plan) -> list[str]:
    found = vertices(plan)
    if not found:
        return []
    lines = ["vertices on the cloud:"]
    for vertex in found:
        numbers = ", ".join(str(node.id) for node in vertex.operators) or "none"
        lines.append(f"  {vertex.name!r} by ({', '.join(vertex.key)}): operators {numbers}")
        lines.append(f"      reads {', '.join(vertex.inputs)}; gives {', '.join(vertex.outputs) or 'nothing'}")
        lines.append(f"      {_reason(plan, vertex.operators)}")
    return [*lines, "", *_recovery_lines(found)]


def _recovery_lines(found: tuple[Vertex, ...]) -> list[str]:
    """What each vertex takes with it when it fails: a changed output is followed, an unchanged one is not."""
    lines = ["recovery on the cloud, by partial rollback from recorded outputs:"]
    readers = {vertex.name: [one for one in found if set(one.inputs) & set(vertex.outputs)] for vertex in found}
    for vertex in found:
        why = _changes(vertex)
        if why is None:
            lines.append(f"  {vertex.name!r} fails alone: it is deterministic, so its replay gives the same rows")
            continue
        reached: list[str] = []
        waiting = list(readers[vertex.name])
        while waiting:
            one = waiting.pop(0)
            if one.name not in reached:
                reached.append(one.name)
                waiting += readers[one.name]
        taken = ", ".join(map(repr, reached)) or "nothing more"
        lines.append(f"  {vertex.name!r} takes {taken} with it: {why}")
    return lines


def _changes(vertex: Vertex) -> str | None:
    """Why a replay of this vertex may give other rows; None where it cannot."""
    if not vertex.deterministic:
        return "one of its operators is not deterministic"
    return "it merges by arrival" if vertex.merge == "arrival" else None


def _reason(plan: Plan, nodes: tuple[Node, ...]) -> str:
    if nodes and rekeys(plan, nodes[0]):
        return f"starts where rows are keyed anew ({_place(nodes[0])})"
    return "fused: no re-keying between its operators" if len(nodes) > 1 else "reads its edge as it comes"
