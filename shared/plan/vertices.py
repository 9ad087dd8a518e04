"""The cloud side cut into vertices: the pieces that are scheduled, recorded, rolled back and scaled one by one.

The cut is where rows change their key, because there they change their place. Operators without re-keying between them
are one vertex. A vertex's *level* is the greatest number of re-keyings on any path to it; edges to a higher level are
recorded edges between vertices, so vertices form a graph without cycles (feedback goes by name, into the next epoch).
"""

from __future__ import annotations

from collections.abc import Iterable

from shared.plan import operators as op
from shared.plan.fragments import Fragment, Input, Output, Vertex
from shared.plan.graph import Node, Plan
from shared.plan.placement import ON_CLOUD, fragment_input, fragment_outputs, sides


def vertices(plan: Plan) -> tuple[Vertex, ...]:
    """The cloud side's vertices, producers before consumers. Empty where nothing runs on the cloud."""
    worked = sides(plan)
    cloud = [node for node in plan.nodes if worked[node.id] == ON_CLOUD]
    computing = [node for node in cloud if not isinstance(node.operator, (*op.SINKS, op.Source, op.SyncBack))]
    levels = _levels(plan, computing)
    groups = _groups(plan, computing, levels)
    ends = [node for node in cloud if isinstance(node.operator, (*op.SINKS, op.SyncBack))]
    # A sync edge or feedback that goes straight to a sink still needs a vertex to carry it there.
    direct = [end for end in ends if end.inputs[0] not in levels]
    names = _Names()
    named = [(names.choose(plan, group, ends), group) for group in groups]
    owner = {node.id: name for name, group in named for node in group}
    built = [_vertex(plan, name, group, owner, ends) for name, group in named]
    for end in direct:
        if isinstance(end.operator, op.SyncBack | op.Subscribe | op.Feed):
            built.append(_carrier(plan, names.unique(end.operator.output_name), end))
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


def _groups(plan: Plan, computing: list[Node], levels: dict[int, int]) -> list[list[Node]]:
    """Nodes of one level that are connected without re-keying, as lists in order of id; lower levels first."""
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


def _vertex(plan: Plan, name: str, group: list[Node], owner: dict[int, str], ends: list[Node]) -> Vertex:
    members = {node.id for node in group}
    inputs: dict[int, Input] = {}
    for node in group:
        for number in node.inputs:
            if number not in members and number not in inputs:
                inputs[number] = _input(plan.node(number), owner)
    outputs = fragment_outputs(plan, (end for end in ends if end.inputs[0] in members))
    outputs += [
        Output(_edge_name(owner, node.id), node.id, "edge", node.schema)
        for node in group
        if any(reader.id in owner and reader.id not in members for reader in plan.consumers(node.id))
    ]
    fragment = Fragment(name, ON_CLOUD, tuple(inputs.values()), tuple(group), tuple(outputs))
    return Vertex(fragment, _key(plan, group), _deterministic(group), _merge(group), _idle_after_us(group))


def _carrier(plan: Plan, name: str, end: Node) -> Vertex:
    source = plan.node(end.inputs[0])
    outputs = tuple(fragment_outputs(plan, [end]))
    fragment = Fragment(name, ON_CLOUD, (fragment_input(source),), (), outputs)
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


class _Names:
    """A vertex is called like its first sink, else by its key; names are unique within a plan."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def choose(self, plan: Plan, group: list[Node], ends: list[Node]) -> str:
        members = {node.id for node in group}
        for end in ends:
            if end.inputs[0] in members and isinstance(end.operator, op.SyncBack | op.Subscribe):
                return self.unique(end.operator.name)
        return self.unique("by " + (" ".join(_key(plan, group)) or "nothing"))

    def unique(self, name: str) -> str:
        chosen, count = name, 1
        while chosen in self.taken:
            count += 1
            chosen = f"{name} {count}"
        self.taken.add(chosen)
        return chosen
