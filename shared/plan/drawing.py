"""A plan as an SVG picture: devices on the left, the cloud on the right, the cut between them.

Boxes are operators, frames are vertices, arrows are edges; a dashed arrow is a feedback. Hand-made SVG: no library on
the phone draws graphs, and a plan has few enough operators for columns by depth.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from shared.plan import operators as op
from shared.plan.explain import describe_operator
from shared.plan.graph import Node, Plan
from shared.plan.placement import ON_CLOUD, sides
from shared.plan.vertices import vertices

BOX_WIDTH, BOX_HEIGHT, GAP_X, GAP_Y, MARGIN = 250, 46, 46, 22, 40
TEXT_MAX = 33

STYLE = """
.box { fill: #ffffff; stroke: #31576b; rx: 6 } .cloud .box { stroke: #7a5195 }
.frame { fill: #f3eef7; stroke: #c9b8d8; rx: 10 } .cut { stroke: #d45b4b; stroke-width: 2; stroke-dasharray: 8 5 }
.edge { stroke: #56707d; fill: none; marker-end: url(#tip) } .back { stroke-dasharray: 4 4 }
text { font: 13px system-ui, sans-serif; fill: #1d2b33 } .small { font-size: 11px; fill: #56707d }
"""


@dataclass(frozen=True, slots=True)
class _Place:
    x: int
    y: int


def svg(plan: Plan) -> str:
    """The plan as a standalone SVG document."""
    worked = sides(plan)
    places = _places(plan, worked)
    width = max(place.x for place in places.values()) + BOX_WIDTH + MARGIN
    height = max(place.y for place in places.values()) + BOX_HEIGHT + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f"<title>plan {escape(plan.name)}, version {plan.version}</title><style>{STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z" fill="#56707d"/></marker></defs>',
        *_frames(plan, places),
        *_cut(places, worked, height),
        *_edges(plan, places),
        *(_box(node, places[node.id], worked[node.id]) for node in plan.nodes),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _places(plan: Plan, worked: dict[int, str]) -> dict[int, _Place]:
    """Columns by depth; the cloud's begin right of the device's, and what came back to the device after those."""
    depth: dict[int, int] = {}
    for node in plan.nodes:
        depth[node.id] = 1 + max((depth[number] for number in node.inputs), default=-1)
    for node in plan.nodes:  # a source stands right before its first reader, so that no arrow runs under a box
        if not node.inputs:
            depth[node.id] = max(0, min((depth[reader.id] for reader in plan.consumers(node.id)), default=1) - 1)
    device_depth = max((depth[node.id] for node in plan.nodes if worked[node.id] != ON_CLOUD), default=0)
    first_cloud = min((depth[node.id] for node in plan.nodes if worked[node.id] == ON_CLOUD), default=0)
    shift = max(0, device_depth + 1 - first_cloud) if not _returns(plan) else 0
    rows: dict[int, int] = {}
    places: dict[int, _Place] = {}
    for node in plan.nodes:
        column = depth[node.id] + (shift if worked[node.id] == ON_CLOUD else 0)
        row = rows.get(column, 0)
        rows[column] = row + 1
        places[node.id] = _Place(MARGIN + column * (BOX_WIDTH + GAP_X), MARGIN + 30 + row * (BOX_HEIGHT + GAP_Y))
    return places


def _returns(plan: Plan) -> bool:
    return any(isinstance(node.operator, op.SyncBack) and plan.consumers(node.id) for node in plan.nodes)


def _box(node: Node, place: _Place, side: str) -> str:
    text = describe_operator(node.operator)
    shown = text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"
    return (
        f'<g class="{side}"><title>{escape(text)}</title>'
        f'<rect class="box" x="{place.x}" y="{place.y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}"/>'
        f'<text x="{place.x + 8}" y="{place.y + 19}">{escape(shown)}</text>'
        f'<text class="small" x="{place.x + 8}" y="{place.y + 36}">'
        f"{node.id} · {escape(node.line.file)}:{node.line.line}"
        "</text></g>"
    )


def _edges(plan: Plan, places: dict[int, _Place]) -> list[str]:
    lines = [_edge(places[number], places[node.id]) for node in plan.nodes for number in node.inputs]
    feedbacks = {node.operator.name: node.id for node in plan.nodes if isinstance(node.operator, op.Feedback)}
    for node in plan.nodes:
        if isinstance(node.operator, op.Feed) and node.operator.name in feedbacks:
            lines.append(_edge(places[node.id], places[feedbacks[node.operator.name]], back=True))
    return lines


def _edge(start: _Place, end: _Place, *, back: bool = False) -> str:
    x1, y1 = start.x + BOX_WIDTH, start.y + BOX_HEIGHT // 2
    x2, y2 = end.x, end.y + BOX_HEIGHT // 2
    bend = GAP_X // 2
    kind = "edge back" if back else "edge"
    return f'<path class="{kind}" d="M{x1} {y1} C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"/>'


def _frames(plan: Plan, places: dict[int, _Place]) -> list[str]:
    frames = []
    for vertex in vertices(plan):
        inside = [places[node.id] for node in vertex.operators]
        if not inside:
            continue
        x, y = min(place.x for place in inside) - 12, min(place.y for place in inside) - 26
        width = max(place.x for place in inside) + BOX_WIDTH + 12 - x
        height = max(place.y for place in inside) + BOX_HEIGHT + 12 - y
        title = f"vertex {vertex.name} by {', '.join(vertex.key) or 'nothing'}"
        frames.append(
            f'<rect class="frame" x="{x}" y="{y}" width="{width}" height="{height}"/>'
            f'<text class="small" x="{x + 8}" y="{y + 15}">{escape(title)}</text>'
        )
    return frames


def _cut(places: dict[int, _Place], worked: dict[int, str], height: int) -> list[str]:
    cloud = [places[number].x for number, side in worked.items() if side == ON_CLOUD]
    if not cloud:
        return []
    x = min(cloud) - GAP_X // 2
    return [
        f'<path class="cut" d="M{x} 8 V{height - 8}"/>',
        f'<text class="small" x="{x - 58}" y="20">device</text><text class="small" x="{x + 12}" y="20">cloud</text>',
    ]
