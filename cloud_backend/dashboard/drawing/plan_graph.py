"""A job's graph as SVG, from the phone down to the sinks: what runs where, how far each vertex is, who goes back.

Top to bottom, so that it fits a phone as it is. Each vertex shows its hash ranges as squares; a rollback set is drawn
on the same picture: R with a thick frame and a letter, E dashed and with one. Pure text; the stylesheet colours it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from shared.plan import operators as op
from shared.plan.graph import Plan
from shared.plan.placement import ON_CLOUD, ON_REGION, sides

WIDTH, GAP, SIDE, LINE = 250, 24, 12, 17
SQUARE = 14
LINES_MAX = 7
CHARACTERS = 34


@dataclass(frozen=True, slots=True)
class RollbackSet:
    """A rollback set to draw: physical vertices that go back, and vertices that are read again."""

    rollback: Collection[str] = ()
    replay: Collection[str] = ()


@dataclass(slots=True)
class Box:
    name: str
    kind: str  # phone, vertex, sink
    title: str
    lines: list[str]
    inputs: list[str]
    ranges: list[tuple[str, str]] = field(default_factory=list)  # (class, tooltip)
    letter: str = ""
    link: str = ""
    level: int = 0
    left: float = 0
    top: float = 0

    @property
    def height(self) -> int:
        return SIDE * 2 + LINE * (1 + len(self.lines)) + (SQUARE + 6 if self.ranges else 0)


def plan_graph(plan: Plan, vertices: Sequence[Mapping[str, Any]], rolled: RollbackSet | None = None) -> Markup:
    """The drawing; `vertices` as `job_facts` tells them."""
    boxes = [*_phones(plan), *_vertices(vertices, rolled or RollbackSet()), *_sinks(vertices)]
    if not boxes:
        return Markup("")
    width, height, cut = _place(boxes)
    by_name = {box.name: box for box in boxes}
    parts = [_cut(cut, width)] if cut else []
    parts += [_edge(by_name[source], box) for box in boxes for source in box.inputs if source in by_name]
    parts += [_drawn(box) for box in boxes]
    return Markup(
        '<svg class="graph" viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="group" aria-label="The plan: {2}">'
        "{3}</svg>"
    ).format(width, height, _words(boxes), Markup("").join(parts))


def _phones(plan: Plan) -> list[Box]:
    """One box per sync edge: everything that the device, and the region, does before it."""
    worked = sides(plan)
    found = []
    for node in plan.nodes:
        if not isinstance(node.operator, op.Sync):
            continue
        chain, waiting = [], [node.id]
        while waiting:
            number = waiting.pop()
            if number in chain or worked[number] == ON_CLOUD:
                continue
            chain.append(number)
            waiting += plan.node(number).inputs
        lines = [_short(plan.node(number).operator.describe()) for number in sorted(chain)]
        title = "In the region" if worked[node.id] == ON_REGION else "On each device"
        found.append(Box(f"edge {node.operator.name}", "phone", title, lines[-LINES_MAX:], []))
    return found


def _vertices(vertices: Sequence[Mapping[str, Any]], rolled: RollbackSet) -> list[Box]:
    produced = {vertex["name"] for vertex in vertices}
    found = []
    for vertex in vertices:
        inputs = [f"vertex {source}" for source in vertex["sources"] if source in produced]
        inputs += [f"edge {edge}" for edge in vertex["inputs"]]
        behind = vertex["epochs_behind"]
        lines = [
            _short(f"by {', '.join(vertex['key']) or 'nothing'}"),
            f"epoch {vertex['position']:,}" + (f", {behind} behind" if behind else ""),
        ]
        back = {name for name in rolled.rollback if name.rpartition(" ")[0] == vertex["name"]}
        read = {name for name in rolled.replay if vertex["name"] in (name, name.rpartition(" ")[0])}
        found.append(
            Box(
                f"vertex {vertex['name']}", "vertex", vertex["name"], lines, inputs,
                ranges=[_range(vertex["name"], each, back) for each in vertex["ranges"]],
                letter="R" if back else "E" if read else "", link=f"#{anchor(vertex['name'])}",
            )
        )  # fmt: skip
    return found


def _range(vertex: str, each: Mapping[str, Any], back: Collection[str]) -> tuple[str, str]:
    """How one hash range stands, as a class and in words."""
    words = f"range {each['range']}: epoch {each['position']}"
    if f"{vertex} {each['range']}" in back:
        return "back", f"{words}, in the rollback set"
    if each["parked"]:
        return "parked", f"{words}, cannot go on: {each['parked']}"
    if each["running_again"]:
        return "again", f"{words}, runs again after a rollback"
    if each["epochs_behind"] > 1:
        return "behind", f"{words}, {each['epochs_behind']} epochs behind"
    return "fine", words


def _sinks(vertices: Sequence[Mapping[str, Any]]) -> list[Box]:
    """One box for all sinks of a vertex: a plan is as wide as its vertices."""
    return [
        Box(
            f"sinks of {vertex['name']}", "sink", ", ".join(vertex["sinks"]), [], [f"vertex {vertex['name']}"],
            link=f"/results/{vertex['sinks'][0]}" if len(vertex["sinks"]) == 1 else "/results",
        )
        for vertex in vertices
        if vertex["sinks"]
    ]  # fmt: skip


def anchor(vertex: str) -> str:
    """An id for a vertex's part of the page."""
    return "vertex-" + "".join(letter if letter.isalnum() else "-" for letter in vertex)


def _place(boxes: Sequence[Box]) -> tuple[float, float, float]:
    """Give every box its place, level by level; returns width, height and where the cut is."""
    by_name = {box.name: box for box in boxes}
    for _ in boxes:  # longest path; at most as many rounds as boxes, cycles go by feedback and end here too
        changed = False
        for box in boxes:
            level = max((by_name[name].level + 1 for name in box.inputs if name in by_name), default=0)
            if box.kind != "phone":
                level = max(level, 1)
            if level > box.level and level <= len(boxes):
                box.level, changed = level, True
        if not changed:
            break
    rows = [[box for box in boxes if box.level == level] for level in range(max(box.level for box in boxes) + 1)]
    widest = max(len(row) for row in rows)
    width = widest * (WIDTH + GAP) - GAP + 2
    top, cut = 2.0, 0.0
    for number, row in enumerate(rows):
        left = (width - (len(row) * (WIDTH + GAP) - GAP)) / 2
        for index, box in enumerate(row):
            box.left, box.top = left + index * (WIDTH + GAP), top
        top += max((box.height for box in row), default=0) + 44
        if number == 0 and row:
            cut = top - 20
    return width, top - 42, cut


def _cut(top: float, width: float) -> Markup:
    return Markup(
        '<g class="cut"><line x1="0" x2="{0}" y1="{1}" y2="{1}"/>'
        '<text x="{0}" y="{2}" text-anchor="end">the cut</text></g>'
    ).format(width, top, top - 4)


def _edge(source: Box, box: Box) -> Markup:
    x1, y1 = source.left + WIDTH / 2, source.top + source.height
    x2, y2 = box.left + WIDTH / 2, box.top
    return Markup(
        '<path class="edge" d="M{0} {1}C{0} {2} {3} {4} {3} {5}"/><path class="tip" d="M{3} {5}l-4 -7h8z"/>'
    ).format(x1, y1, y1 + 20, x2, y2 - 20, y2)


def _drawn(box: Box) -> Markup:
    parts = [
        Markup('<rect class="box" x="{}" y="{}" width="{}" height="{}" rx="8"/>').format(
            box.left, box.top, WIDTH, box.height
        ),
        Markup('<text class="title" x="{}" y="{}">{}</text>').format(
            box.left + SIDE, box.top + SIDE + 12, _short(box.title)
        ),
    ]
    parts += [
        Markup('<text x="{}" y="{}">{}</text>').format(box.left + SIDE, box.top + SIDE + 12 + LINE * number, line)
        for number, line in enumerate(box.lines, start=1)
    ]
    top = box.top + SIDE + LINE * (1 + len(box.lines)) + 4
    shown = box.ranges[:12]
    parts += [
        Markup('<g><title>{}</title><rect class="range {}" x="{}" y="{}" width="{}" height="{}" rx="3"/></g>').format(
            words, kind, box.left + SIDE + index * (SQUARE + 4), top, SQUARE, SQUARE
        )
        for index, (kind, words) in enumerate(shown)
    ]
    if box.letter:
        parts.append(
            Markup(
                '<g class="letter"><circle cx="{0}" cy="{1}" r="11"/>'
                '<text x="{0}" y="{2}" text-anchor="middle">{3}</text></g>'
            ).format(box.left + WIDTH - 18, box.top + 18, box.top + 22, box.letter)
        )  # fmt: skip
    drawn = Markup('<g class="{} {}">{}</g>').format(
        box.kind, f"in-{box.letter}" if box.letter else "", Markup("").join(parts)
    )
    return (
        Markup('<a href="{}" aria-label="{}">{}</a>').format(box.link, f"{box.kind} {box.title}", drawn)
        if box.link
        else drawn
    )


def _words(boxes: Sequence[Box]) -> str:
    states = {"R": ", goes back", "E": ", is read again"}
    return "; ".join(
        f"vertex {box.title} at {box.lines[1]}{states.get(box.letter, '')}" for box in boxes if box.kind == "vertex"
    )


def _short(text: str) -> str:
    return text if len(text) <= CHARACTERS else f"{text[: CHARACTERS - 1]}…"
