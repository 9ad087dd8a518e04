"""What changes between two plans: on phones, on edges, and vertex by vertex on Spark. It decides whose state is kept.

State belongs to a computation, so it is kept only where the computation is the same and reads the same. A vertex below
one that starts anew starts anew as well: what it has collected came from something else. Lines of source do not count,
nor does the version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from shared.language.schema import Field
from shared.language.widening import MISSING_ITSELF, widens
from shared.plan.fragments import Fragment, Vertex
from shared.plan.graph import Plan, SyncEdge
from shared.plan.operators import Subscribe, SyncBack
from shared.plan.placement import device_fragment
from shared.plan.vertices import vertices

KEPT, ANEW, NEW, GONE = "kept", "anew", "new", "gone"


@dataclass(frozen=True, slots=True)
class VertexChange:
    name: str
    how: str  # kept | anew | new | gone
    why: str = ""


@dataclass(frozen=True, slots=True)
class EdgeChange:
    """What becomes of the columns of an edge that stays."""

    name: str
    added: tuple[Field, ...]
    widened: tuple[tuple[Field, str], ...]  # the column as it was, and its kind now
    gone: tuple[Field, ...]
    other: tuple[tuple[Field, str], ...]  # of a kind that does not hold every value of the former one
    unstated: tuple[Field, ...]  # added, without a value for rows of phones that do not have them yet


@dataclass(frozen=True, slots=True)
class PlanChanges:
    same: bool  # nothing but lines of source and the version
    device_kept: bool  # whether phones go on with the windows and states they have
    sensors_new: tuple[str, ...]
    sensors_gone: tuple[str, ...]
    edges_new: tuple[str, ...]
    edges_gone: tuple[str, ...]
    edge_changes: tuple[EdgeChange, ...]  # of those that keep their name and have other columns now
    sinks_new: tuple[str, ...]
    sinks_gone: tuple[str, ...]
    vertices: tuple[VertexChange, ...]

    @property
    def edges_reshaped(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.edge_changes)

    def of(self, how: str) -> tuple[str, ...]:
        """The names of the vertices that this happens to."""
        return tuple(each.name for each in self.vertices if each.how == how)


def same_program(before: Plan, after: Plan) -> bool:
    """Whether two plans mean the same, whatever their versions and wherever they were written."""
    return [(node.operator, node.inputs, node.type) for node in before.nodes] == [
        (node.operator, node.inputs, node.type) for node in after.nodes
    ]


def changes(before: Plan, after: Plan) -> PlanChanges:
    """What happens to phones and vertices that run `before` when `after` takes its place."""
    edges = [{edge.name: edge for edge in plan.edges} for plan in (before, after)]
    sinks = [dict.fromkeys(_sinks(plan)) for plan in (before, after)]
    sensors = [{sensor.name: None for sensor in plan.sensors} for plan in (before, after)]
    both = [(edges[0][name], edge) for name, edge in edges[1].items() if name in edges[0]]
    reshaped = tuple(_edge_change(was, now) for was, now in both if was.schema != now.schema)
    return PlanChanges(
        same=same_program(before, after),
        device_kept=_on_device(before) == _on_device(after),
        sensors_new=_missing(sensors[1], sensors[0]),
        sensors_gone=_missing(sensors[0], sensors[1]),
        edges_new=_missing(edges[1], edges[0]),
        edges_gone=_missing(edges[0], edges[1]),
        edge_changes=reshaped,
        sinks_new=_missing(sinks[1], sinks[0]),
        sinks_gone=_missing(sinks[0], sinks[1]),
        vertices=_vertex_changes(before, after, tuple(each.name for each in reshaped)),
    )


def _edge_change(before: SyncEdge, after: SyncEdge) -> EdgeChange:
    was, now, stated = before.schema, after.schema, dict(after.missing)
    added = tuple(field for field in now if field.name not in was)
    other = [(field, now.kind(field.name)) for field in was if field.name in now and now.kind(field.name) != field.kind]
    return EdgeChange(
        after.name,
        added,
        widened=tuple(each for each in other if widens(each[0].kind, each[1])),
        gone=tuple(field for field in was if field.name not in now),
        other=tuple(each for each in other if not widens(each[0].kind, each[1])),
        unstated=tuple(field for field in added if field.kind not in MISSING_ITSELF and field.name not in stated),
    )


def _sinks(plan: Plan) -> list[str]:
    return [node.operator.name for node in plan.sinks if isinstance(node.operator, SyncBack | Subscribe)]


def _missing(names: Mapping[str, object], among: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in among)


def _vertex_changes(before: Plan, after: Plan, reshaped: tuple[str, ...]) -> tuple[VertexChange, ...]:
    former = {vertex.name: vertex for vertex in vertices(before)}
    found: dict[str, VertexChange] = {}
    maker: dict[str, str] = {}  # edge between vertices -> who makes it; producers come first
    for vertex in vertices(after):
        found[vertex.name] = _vertex_change(vertex, former.get(vertex.name), found, maker, reshaped)
        maker.update((output, vertex.name) for output in vertex.outputs)
    gone = [VertexChange(name, GONE) for name in former if name not in found]
    return (*found.values(), *gone)


def _vertex_change(
    vertex: Vertex,
    former: Vertex | None,
    found: Mapping[str, VertexChange],
    maker: Mapping[str, str],
    reshaped: tuple[str, ...],
) -> VertexChange:
    if former is None:
        return VertexChange(vertex.name, NEW)
    for name in vertex.inputs:
        if name in reshaped:
            return VertexChange(vertex.name, ANEW, f"edge {name!r} has other columns")
        if name in maker and found[maker[name]].how != KEPT:
            return VertexChange(vertex.name, ANEW, f"it reads {maker[name]!r}, which starts anew")
    if _meaning(vertex) != _meaning(former):
        return VertexChange(vertex.name, ANEW, "it computes something else")
    return VertexChange(vertex.name, KEPT)


def _meaning(vertex: Vertex) -> object:
    """All that decides what a vertex's state means. Ids of nodes do not: an operator that was added elsewhere moves
    them. Names of edges do, because records lie under them."""
    fragment = vertex.fragment
    place: dict[int, object] = {entry.node: entry.name for entry in fragment.inputs}
    place.update((node.id, index) for index, node in enumerate(fragment.nodes))
    return (
        vertex.key, vertex.deterministic, vertex.merge, vertex.idle_after_us,
        [(entry.name, entry.schema, entry.type) for entry in fragment.inputs],
        [(node.operator, [place[number] for number in node.inputs], node.type) for node in fragment.nodes],
        [(output.name, output.kind, output.schema, place[output.node]) for output in fragment.outputs],
    )  # fmt: skip


def _on_device(plan: Plan) -> object:
    """What a phone compares before it goes on with its state."""
    fragment: Fragment = device_fragment(plan)
    return (
        [(node.id, node.operator, node.inputs, node.type) for node in fragment.nodes],
        [(entry.name, entry.node, entry.schema) for entry in fragment.inputs],
        [(output.name, output.node, output.kind, output.schema) for output in fragment.outputs],
    )
