"""A fleet as SVG: its nodes with the vertices on them, from where readings begin down to where results end.

Top to bottom, so that it fits a phone as it is. A line is a stream between two nodes; what does not get through is
dashed. Where a device's rows go over nodes that pass them on, the line is theirs, and dotted. A vertex can be dragged
to another node where a script runs and the person may; the table has the same as forms.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

WIDTH, GAP, SIDE, LEVEL = 190, 20, 12, 52
TITLE, LINE, CHIP, CHIP_GAP = 18, 15, 26, 6
ROW_MAX = 4  # nodes side by side
THIN, ORDERINGS = 24, 2  # a gap for a line; how often rows are ordered by their neighbours, down and up
CHARACTERS, CHIP_CHARACTERS = 27, 24
LIGHTS = {"running": "fine", "starting": "again", "failed": "wrong"}


@dataclass(slots=True)
class _Node:
    name: str
    silent: bool
    lines: list[str]
    chips: Sequence[Mapping[str, Any]]
    busy: bool = True  # it has anything to do
    level: float = 0
    left: float = 0.0
    top: float = 0.0

    @property
    def height(self) -> float:
        chips = len(self.chips) * (CHIP + CHIP_GAP)
        return SIDE * 2 + TITLE + LINE * len(self.lines) + chips + (4 if self.chips else 0)


def topology(fleet: Mapping[str, Any], *, movable: bool = False) -> Markup:
    """The drawing of a fleet as `views.fleets` tells it."""
    nodes = {each["name"]: _node(each, fleet) for each in fleet["nodes"]}
    streams = _streams(fleet)
    streams = {pair: passed for pair, passed in streams.items() if pair[0] in nodes and pair[1] in nodes}
    _levels(nodes, fleet)
    width, height, bends = _place(nodes, sorted(streams))
    lanes = {frozenset(link[:2]): link[2] for link in fleet["links"]}
    apart = {(each["name"], other) for each in fleet["nodes"] for other in each["apart"]}
    parts = [
        _line(
            nodes[one], nodes[other], bends[one, other], lane=lanes.get(frozenset((one, other)), ""),
            apart=(one, other) in apart, passed=passed,
        )
        for (one, other), passed in sorted(streams.items())
    ]  # fmt: skip
    parts += [_drawn(node, movable=movable) for node in nodes.values()]
    words = "; ".join(f"{node.name} runs {_listed(node.chips)}" for node in nodes.values())
    return Markup(
        '<svg class="graph topology" viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="group" '
        'aria-label="Nodes and what they run: {2}">{3}</svg>'
    ).format(width, height, words, Markup("").join(parts))


def _node(node: Mapping[str, Any], fleet: Mapping[str, Any]) -> _Node:
    several = len(fleet["queries"]) > 1
    chips = [
        {
            "query": query["name"], "vertex": each["vertex"], "state": each["state"], "to": each["to"],
            "title": f"{query['name']}: {each['vertex']}" if several else each["vertex"],
        }
        for query in fleet["queries"] for each in query["vertices"] if node["name"] in each["hosts"]
    ]  # fmt: skip
    lines = ["silent"] if node["silent_us"] is not None else []
    lines += [_short(f"feeds {', '.join(node['feeds'])}")] if node["feeds"] else []
    lines += [_short(f"passes on for {', '.join(node['passes_on'])}")] if node["passes_on"] else []
    if node["ends"]:
        every = len(node["ends"]) == len(fleet["queries"]) > 1
        lines.append(_short(f"has results of {'all queries' if every else ', '.join(node['ends'])}"))
    return _Node(node["name"], node["silent_us"] is not None, lines, chips)


def _streams(fleet: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """(node, node) between which rows go, and the devices whose rows are only passed on there."""
    direct: set[tuple[str, str]] = set()
    passed: dict[tuple[str, str], set[str]] = {}
    for query in fleet["queries"]:
        hosts = {each["vertex"]: each["hosts"] for each in query["vertices"]}
        ways: dict[str, list[list[str]]] = {}
        for way in query["ways"]:
            ways.setdefault(way["source"], []).append(way["nodes"])
        for each in query["vertices"]:
            writers = [host for read in each["reads"] for host in hosts.get(read, ())]
            writers += [source for source in query["sources"] if source not in ways] if each["begins"] else []
            direct |= {(writer, host) for writer in writers for host in each["hosts"]}
            direct |= {(host, query["sink"]) for host in each["hosts"] if each["ends"]}
            for source, paths in ways.items() if each["begins"] else ():
                direct |= {(source, host) for host in each["hosts"] if [] in paths}
                for path in filter(None, paths):
                    for pair in itertools.pairwise([source, *path]):
                        passed.setdefault(pair, set()).add(source)
                    for host in each["hosts"]:
                        passed.setdefault((path[-1], host), set()).add(source)
    found = {pair: ", ".join(sorted(sources)) for pair, sources in passed.items() if pair not in direct}
    return {pair: devices for pair, devices in (dict.fromkeys(direct, "") | found).items() if pair[0] != pair[1]}


def _levels(nodes: Mapping[str, _Node], fleet: Mapping[str, Any]) -> None:
    """Where readings begin is above, where results end below; what runs a vertex stands by how many are before it."""
    depth: dict[tuple[str, str], int] = {}
    for query in fleet["queries"]:
        known = {each["vertex"]: each for each in query["vertices"]}
        for _ in known:  # longest path; a cycle ends with the rounds
            for name, each in known.items():
                before = [
                    depth.get((query["name"], read), 0) for read in each["reads"] if read in known and read != name
                ]
                depth[query["name"], name] = min(len(known), 1 + max(before, default=0))
    last = max(depth.values(), default=0) + 1
    for node in nodes.values():
        runs = [depth[chip["query"], chip["vertex"]] for chip in node.chips]
        feeds = any(node.name in query["sources"] for query in fleet["queries"])
        ends = any(node.name == query["sink"] for query in fleet["queries"])
        passes = any(node.name in way["nodes"] for query in fleet["queries"] for way in query["ways"])
        # Who only passes rows on stands between those who send them and those who read them.
        node.busy = bool(ends or runs or feeds or passes)
        node.level = last if ends else min(runs) if runs else 0 if feeds else 0.5 if passes else -1
        if node.level < 0:  # it does nothing: beside the last, where no line passes
            node.level = last


@dataclass(slots=True, eq=False)
class _Gap:
    """Where a line passes between the nodes of a row."""

    left: float = 0.0
    top: float = 0.0


_Slot = _Node | _Gap


def _place(
    nodes: Mapping[str, _Node], pairs: Sequence[tuple[str, str]]
) -> tuple[float, float, dict[tuple[str, str], list[_Gap]]]:
    """Lay the nodes out in rows. A line that passes a row has a gap in it; rows are ordered so that few lines cross."""
    rows = _rows(nodes)
    at = {node.name: number for number, row in enumerate(rows) for node in row}
    slots: list[list[_Slot]] = [[*row] for row in rows]
    bends: dict[tuple[str, str], list[_Gap]] = {}
    near: dict[int, list[_Slot]] = {}
    for one, other in pairs:
        step = 1 if at[other] > at[one] else -1
        between = range(at[one] + step, at[other], step)  # none within a row
        gaps = bends[one, other] = [_Gap() for _ in between]
        for number, gap in zip(between, gaps, strict=True):
            slots[number].append(gap)
        way: list[_Slot] = [nodes[one], *gaps, nodes[other]]
        for above, below in itertools.pairwise(way):
            near.setdefault(id(above), []).append(below)
            near.setdefault(id(below), []).append(above)
    for _ in range(ORDERINGS):
        for row in slots:
            _arrange(row, near)
        for row in reversed(slots):
            _arrange(row, near)
    width = max((_width(row) for row in slots), default=WIDTH) + 2
    top = 2.0
    for number, row in enumerate(slots):
        top += 0 if number == 0 else LEVEL
        _lay_out(row, width / 2)
        high = max((slot.height for slot in row if isinstance(slot, _Node)), default=0.0)
        for slot in row:
            slot.top = top if isinstance(slot, _Node) else top + high / 2
        top += high
    return width, top + 2, bends


def _rows(nodes: Mapping[str, _Node]) -> list[list[_Node]]:
    rows: list[list[_Node]] = []
    for level in sorted({node.level for node in nodes.values()}):
        here = [node for node in nodes.values() if node.level == level]
        here.sort(key=lambda node: not node.busy)
        count = -(-len(here) // ROW_MAX)
        each = -(-len(here) // count)
        rows += [here[first : first + each] for first in range(0, len(here), each)]
    return rows


def _wide(slot: _Slot) -> float:
    return WIDTH if isinstance(slot, _Node) else THIN


def _width(row: Sequence[_Slot]) -> float:
    return sum(map(_wide, row)) + GAP * (len(row) - 1)


def _lay_out(row: Sequence[_Slot], middle: float = 0.0) -> None:
    left = middle - _width(row) / 2
    for slot in row:
        slot.left = left
        left += _wide(slot) + GAP


def _arrange(row: list[_Slot], near: Mapping[int, Sequence[_Slot]]) -> None:
    """Each where its neighbours in other rows are on average."""
    _lay_out(row)
    middle = {id(slot): _middle(slot) for slot in row}

    def wanted(slot: _Slot) -> float:
        others = [_middle(each) for each in near.get(id(slot), ()) if id(each) not in middle]
        return sum(others) / len(others) if others else middle[id(slot)]

    row.sort(key=wanted)
    _lay_out(row)


def _middle(slot: _Slot) -> float:
    return slot.left + _wide(slot) / 2


def _line(one: _Node, other: _Node, bends: Sequence[_Gap], *, lane: str, apart: bool, passed: str) -> Markup:
    """`passed` are the devices whose rows alone go there."""
    kind = "edge apart" if apart else "edge passed" if passed else "edge"
    if other.top != one.top:
        down = other.top > one.top
        shift = 0.0 if down else WIDTH / 2 - 22
        first = (one.left + WIDTH / 2 + shift, one.top + one.height if down else one.top)
        last = (other.left + WIDTH / 2 + shift, other.top if down else other.top + other.height)
        points = [first, *((_middle(gap), gap.top) for gap in bends), last]
        path = f"M{first[0]} {first[1]}"
        for (x1, y1), (x2, y2) in itertools.pairwise(points):
            bend = max(20.0, abs(y2 - y1) / 2) * (1 if down else -1)
            path += f"C{x1} {y1 + bend} {x2} {y2 - bend} {x2} {y2}"
        tip = f"M{last[0]} {last[1]}l-4 {-7 if down else 7}h8z"
        (x1, y1), (x2, y2) = points[-2:]
    else:
        right = other.left > one.left
        x1, x2 = (one.left + WIDTH, other.left) if right else (one.left, other.left + WIDTH)
        y1 = y2 = min(one.top + one.height, other.top + other.height) - SIDE - (0 if right else 10)
        path, tip = f"M{x1} {y1}L{x2} {y2}", f"M{x2} {y2}l{-7 if right else 7} -4v8z"
    label = Markup("")
    if lane:
        label = Markup('<text class="lane" x="{}" y="{}">{}</text>').format((x1 + x2) / 2 + 7, (y1 + y2) / 2 + 4, lane)
    words = f"{one.name} to {other.name}" + (f" over {lane}" if lane else "") + (": not reached" if apart else "")
    words += f", rows of {passed} that are passed on" if passed else ""
    return Markup('<g><title>{}</title><path class="{}" d="{}"/><path class="{}" d="{}"/>{}</g>').format(
        words, kind, path, kind.replace("edge", "tip"), tip, label
    )


def _drawn(node: _Node, *, movable: bool) -> Markup:
    left, top = node.left + SIDE, node.top + SIDE + 12
    parts = [
        Markup('<rect class="box" x="{}" y="{}" width="{}" height="{}" rx="10"/>').format(
            node.left, node.top, WIDTH, node.height
        ),
        Markup('<text class="title" x="{}" y="{}">{}</text>').format(left, top, _short(node.name)),
    ]
    for number, line in enumerate(node.lines, start=1):
        parts.append(Markup('<text x="{}" y="{}">{}</text>').format(left, top + 2 + LINE * number, line))
    at = node.top + SIDE + TITLE + LINE * len(node.lines) + 6
    for chip in node.chips:
        parts.append(_chip(chip, node, at, movable=movable and not node.silent and not chip["to"]))
        at += CHIP + CHIP_GAP
    kind = "node silent" if node.silent else "node"
    return Markup('<g class="{}" data-node="{}">{}</g>').format(kind, node.name, Markup("").join(parts))


def _chip(chip: Mapping[str, Any], node: _Node, top: float, *, movable: bool) -> Markup:
    x, wide = node.left + SIDE - 4, WIDTH - 2 * SIDE + 8
    moving = f", on its way to {chip['to']}" if chip["to"] else ""
    words = f"{chip['title']}, {chip['state']}{moving}" + (". Drag it to another node" if movable else "")
    return Markup(
        '<g class="chip {kind}{movable}" data-query="{query}" data-vertex="{vertex}" data-leaving="{leaving}">'
        '<title>{words}</title><rect x="{x}" y="{y}" width="{wide}" height="{high}" rx="7"/>'
        '<circle cx="{dot}" cy="{middle}" r="3.5"/><text x="{text}" y="{base}">{title}</text></g>'
    ).format(
        kind=LIGHTS.get(chip["state"], "idle"), movable=" movable" if movable else "", query=chip["query"],
        vertex=chip["vertex"], leaving=node.name, words=words, x=x, y=top, wide=wide, high=CHIP, dot=x + 12,
        middle=top + CHIP / 2, text=x + 22, base=top + CHIP / 2 + 4, title=_short(chip["title"], CHIP_CHARACTERS),
    )  # fmt: skip


def _short(text: str, most: int = CHARACTERS) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _listed(chips: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(chip["title"] for chip in chips) or "nothing"
