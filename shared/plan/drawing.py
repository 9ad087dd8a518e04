"""A plan as an SVG picture: devices on the left, the region, the cloud on the right, and the cuts between them.

Boxes are operators, frames are vertices, arrows are edges; a dashed arrow is a feedback, or asks for a reading.
Hand-made SVG: no library on the phone draws graphs. `shared.plan.layout` says where everything stands.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from shared.plan import operators as op
from shared.plan.cuts import region_vertices
from shared.plan.graph import Node, Plan
from shared.plan.layout import Arrow, Cell, Layout, layout
from shared.plan.placement import sides
from shared.plan.vertices import vertices

BOX_WIDTH, BOX_HEIGHT, GAP_X, GAP_Y, MARGIN = 250, 46, 46, 44, 40
TEXT_MAX = 33

STYLE = """
.box { fill: #ffffff; stroke: #31576b; rx: 6 } .cloud .box { stroke: #7a5195 } .region .box { stroke: #2f7d4f }
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
    found = layout(plan)
    places = {number: _place(cell) for number, cell in found.cells.items()}
    width = max(place.x for place in places.values()) + BOX_WIDTH + MARGIN
    height = _place((0, found.rows - 1)).y + BOX_HEIGHT + MARGIN
    worked = sides(plan)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f"<title>plan {escape(plan.name)}, version {plan.version}</title><style>{STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z" fill="#56707d"/></marker></defs>',
        *_frames(plan, places),
        *_cut(found, height),
        *(_arrow(arrow, places) for arrow in found.arrows),
        *_feedbacks(plan, places, height - MARGIN // 2),
        *(_box(node, places[node.id], worked[node.id]) for node in plan.nodes),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _place(cell: Cell) -> _Place:
    return _Place(MARGIN + cell[0] * (BOX_WIDTH + GAP_X), MARGIN + 30 + cell[1] * (BOX_HEIGHT + GAP_Y))


def _box(node: Node, place: _Place, side: str) -> str:
    text = node.operator.describe()
    shown = text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"
    return (
        f'<g class="{side}"><title>{escape(text)}</title>'
        f'<rect class="box" x="{place.x}" y="{place.y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}"/>'
        f'<text x="{place.x + 8}" y="{place.y + 19}">{escape(shown)}</text>'
        f'<text class="small" x="{place.x + 8}" y="{place.y + 36}">'
        f"{node.id} · {escape(node.line.file)}:{node.line.line}"
        "</text></g>"
    )


def _arrow(arrow: Arrow, places: dict[int, _Place]) -> str:
    """A curve in each gap between columns, straight lines across the columns between."""
    path: list[str] = []
    at = places[arrow.source]
    for place in (*map(_place, arrow.waypoints), places[arrow.target]):
        x1, y1, x2, y2 = at.x + BOX_WIDTH, at.y + BOX_HEIGHT // 2, place.x, place.y + BOX_HEIGHT // 2
        path.append(f"{'L' if path else 'M'}{x1} {y1} C{x1 + GAP_X // 2} {y1} {x2 - GAP_X // 2} {y2} {x2} {y2}")
        at = place
    return f'<path class="{"edge back" if arrow.asks else "edge"}" d="{" ".join(path)}"/>'


def _feedbacks(plan: Plan, places: dict[int, _Place], bottom: int) -> list[str]:
    """Back to the start of each cycle, below everything else."""
    starts = {node.operator.name: places[node.id] for node in plan.nodes if isinstance(node.operator, op.Feedback)}
    lines = []
    for node in plan.nodes:
        if isinstance(node.operator, op.Feed) and node.operator.name in starts:
            start, end = places[node.id], starts[node.operator.name]
            right, left = start.x + BOX_WIDTH + GAP_X // 2, end.x - GAP_X // 2
            middle = BOX_HEIGHT // 2
            lines.append(
                f'<path class="edge back" d="M{start.x + BOX_WIDTH} {start.y + middle} H{right} V{bottom} H{left} '
                f'V{end.y + middle} H{end.x}"/>'
            )
    return lines


def _frames(plan: Plan, places: dict[int, _Place]) -> list[str]:
    frames = []
    for vertex in (*region_vertices(plan), *vertices(plan)):
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


def _cut(found: Layout, height: int) -> list[str]:
    parts = []
    for column, left, right in found.cuts:
        x = _place((column, 0)).x - GAP_X // 2
        parts.append(f'<path class="cut" d="M{x} 8 V{height - 8}"/>')
        parts += [
            f'<text class="small" x="{at}" y="20">{side}</text>' for at, side in ((x - 58, left), (x + 12, right))
        ]
    return parts
