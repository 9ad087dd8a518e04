"""The cloud side cut into vertices: the pieces that are scheduled, recorded, rolled back and scaled one by one.

The cut is where rows change their key, because there they change their place. Operators without re-keying between them
are one vertex. A vertex's *level* is the greatest number of re-keyings on any path to it; edges to a higher level are
recorded edges between vertices, so vertices form a graph without cycles (feedback goes by name, into the next epoch).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from shared.plan import operators as op
from shared.plan.fragments import Fragment, Input, Output, Vertex
from shared.plan.graph import Node, Plan
from shared.plan.placement import ON_CLOUD, fragment_input, fragment_outputs, sides

Grouping: TypeAlias = Callable[[Plan, list[Node]], list[list[Node]]]  # computing nodes, as they stand together


def vertices(plan: Plan) -> tuple[Vertex, ...]:
    """The cloud side's vertices, producers before consumers. Empty where nothing runs on the cloud."""
    return cut_side(plan, ON_CLOUD, _groups, "by key")


def cut_side(plan: Plan, side: str, grouping: Grouping, naming: str) -> tuple[Vertex, ...]:
    """The vertices of one side, a group of its operators each, in the grouping's order. Without a sink to be called
    after, a vertex's name goes "by key" or "by operator"."""
    worked = sides(plan)
    here = [node for node in plan.nodes if worked[node.id] == side]
    computing = [node for node in here if not isinstance(node.operator, op.Source | op.End)]
    ends = [node for node in here if isinstance(node.operator, op.End) and not isinstance(node.operator, op.Gather)]
    ending: dict[int, list[Node]] = {}  # by the node whose rows leave
    for end in ends:
        ending.setdefault(end.inputs[0], []).append(end)
    names = _Names()
    owner: dict[int, str] = {}
    built: list[Vertex] = []
    groups = [(group, _ends_of(group, ending)) for group in grouping(plan, computing)]
    for group, own in groups:
        owner.update(dict.fromkeys((node.id for node in group), names.choose(plan, group, own, naming)))
    # What another vertex reads than its own.
    crossing = {number for node in computing for number in node.inputs if owner.get(number) != owner[node.id]}
    for group, own in groups:
        edges = [
            Output(_edge_name(owner, node.id), node.id, "edge", node.schema) for node in group if node.id in crossing
        ]
        built.append(_vertex(plan, side, group, owner, (*fragment_outputs(plan, own), *edges)))
    # An edge or feedback that goes straight to a sink still needs a vertex to carry it there.
    for end in ends:
        if end.inputs[0] not in owner and isinstance(end.operator, op.Sync | op.SyncBack | op.Subscribe | op.Feed):
            built.append(_carrier(plan, side, names.unique(end.operator.output_name), end))
    return tuple(built)


def rekeys(plan: Plan, node: Node) -> bool:
    """True where rows change their place: a KeyBy to other columns than before, in any order."""
    return isinstance(node.operator, op.KeyBy) and set(node.operator.columns) != set(plan.node(node.inputs[0]).type.key)


def _levels(plan: Plan, computing: list[Node]) -> dict[int, int]:
    levels: dict[int, int] = {}
    for node in computing:
        step = 1 if rekeys(plan, node) else 0
        levels[node.id] = step + max((levels.get(number, 0) for number in node.inputs), default=0)
    return levels


def _groups(plan: Plan, computing: list[Node]) -> list[list[Node]]:
    """Nodes of one level that are connected without re-keying, as lists in order of id; lower levels first."""
    levels = _levels(plan, computing)
    leader = {node.id: node.id for node in computing}

    def find(number: int) -> int:
        while leader[number] != number:
            number = leader[number]
        return number

    readers: dict[int, list[Node]] = {}
    for node in computing:
        if rekeys(plan, node):
            continue
        for number in node.inputs:
            if number in leader and levels[number] == levels[node.id]:
                leader[find(node.id)] = find(number)
            elif number not in leader:
                readers.setdefault(number, []).append(node)
    # Readers of one sync edge that keep its key share its slice of the log: one vertex instead of two.
    for sharing in readers.values():
        alike = [node for node in sharing if levels[node.id] == levels[sharing[0].id]]
        for node in alike[1:]:
            leader[find(node.id)] = find(alike[0].id)
    groups: dict[int, list[Node]] = {}
    for node in computing:
        groups.setdefault(find(node.id), []).append(node)
    return sorted(groups.values(), key=lambda group: (levels[group[0].id], group[0].id))


def _ends_of(group: list[Node], ending: dict[int, list[Node]]) -> list[Node]:
    """Where rows of a group leave, in the order of the plan."""
    return sorted((end for node in group for end in ending.get(node.id, ())), key=lambda end: end.id)


def _vertex(plan: Plan, side: str, group: list[Node], owner: dict[int, str], outputs: tuple[Output, ...]) -> Vertex:
    members = {node.id for node in group}
    name = owner[group[0].id]
    inputs: dict[int, Input] = {}
    for node in group:
        for number in node.inputs:
            if number not in members and number not in inputs:
                inputs[number] = _input(plan.node(number), owner)
    fragment = Fragment(name, side, tuple(inputs.values()), tuple(group), outputs)
    return Vertex(fragment, _key(plan, group), _deterministic(group), _merge(group), _idle_after_us(group))


def _carrier(plan: Plan, side: str, name: str, end: Node) -> Vertex:
    source = plan.node(end.inputs[0])
    outputs = tuple(fragment_outputs(plan, [end]))
    fragment = Fragment(name, side, (fragment_input(source),), (), outputs)
    return Vertex(fragment, source.type.key, deterministic=True, merge="ordered")


def _input(source: Node, owner: dict[int, str]) -> Input:
    if source.id in owner:
        return Input(_edge_name(owner, source.id), source.id, source.schema, source.type)
    return fragment_input(source)


def _edge_name(owner: dict[int, str], number: int) -> str:
    return f"{owner[number]}/{number}"  # no user's name has a slash


def _key(plan: Plan, group: list[Node]) -> tuple[str, ...]:
    """The columns whose hash decides which task sees a row on its way in."""
    first = group[0]
    return first.operator.columns if isinstance(first.operator, op.KeyBy) else plan.node(first.inputs[0]).type.key


def _deterministic(group: Iterable[Node]) -> bool:
    return all(node.operator.deterministic for node in group)


def _merge(group: Iterable[Node]) -> str:
    """The least strict of the group's merge modes: it decides what a replay may change."""
    modes = [node.operator.merge for node in group if isinstance(node.operator, op.KeyBy | op.Union | op.Combine)]
    return max(modes, key=op.MERGES.index, default="ordered")


def _idle_after_us(group: Iterable[Node]) -> int | None:
    given = [node.operator.idle_after_us for node in group if isinstance(node.operator, op.KeyBy)]
    return min((length for length in given if length is not None), default=None)


def _operator_name(group: list[Node]) -> str:
    """What the group does, in a word: a user's operator type by its name, else its last operator that keeps state."""
    for node in reversed(group):
        if isinstance(node.operator, op.Apply):
            return node.operator.operator.replace("/", " ")
    heads = [node for node in group if not isinstance(node.operator, op.Where | op.Select | op.KeyBy | op.Port)]
    return (heads or group)[-1].operator.kind.replace("_", " ")


class _Names:
    """A vertex is called like its first sink, else by its key or its operator; names are unique within a side."""

    def __init__(self) -> None:
        self.taken: set[str] = set()
        self.counts: dict[str, int] = {}

    def choose(self, plan: Plan, group: list[Node], ends: list[Node], naming: str) -> str:
        for end in ends:
            if isinstance(end.operator, op.Sync | op.SyncBack | op.Subscribe):
                return self.unique(end.operator.name)
        if naming == "by operator":
            return self.unique(_operator_name(group))
        return self.unique("by " + (" ".join(_key(plan, group)) or "nothing"))

    def unique(self, name: str) -> str:
        chosen, count = name, self.counts.get(name, 1)
        while chosen in self.taken:
            count += 1
            chosen = f"{name} {count}"
        self.counts[name] = count
        self.taken.add(chosen)
        return chosen
