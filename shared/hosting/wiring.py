"""A deployment as one node sees it: which vertices it runs, which edges it makes, reads and keeps, and who is who.

Edges between nodes are named by their query: "QUERY/OUTPUT". Their origin is a device for a gather, else the query, and
never the node that happens to run a vertex. So a vertex that moves goes on with the same edges.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.errors import UsageError
from shared.identity import DeviceId, EdgeKey, edge_id
from shared.language.schema import Schema
from shared.plan import operators as op
from shared.plan.cuts import back_edges, region_vertices
from shared.plan.deployment import Deployment, HostedQuery, Placement, query_origin
from shared.plan.fragments import Vertex
from shared.plan.placement import device_fragment
from shared.plan.stream_type import with_device, without_device
from shared.recovery.strategies import STRATEGIES

FEEDBACK_DELAY_US = 1_000_000  # a row that is fed back counts so much later; see `ordered_input`
STATE = Schema.of({"state": "uint8"})  # declared for state edges; their payloads are pieces of a snapshot


@dataclass(frozen=True, slots=True)
class EdgeSpec:
    """A numbered edge between nodes."""

    name: str  # on the wire
    key: EdgeKey
    schema: Schema  # as it travels
    maker: str  # the vertex that makes it, or the node whose device does
    carriers: Mapping[str, int]  # node -> the term under which it makes this edge
    readers: Mapping[str, int]  # node -> sum of the terms of what reads it there; changes when one begins again

    @property
    def label(self) -> str:
        """Names it within its query: the wire name, and the device where there is one per device."""
        return f"{self.name}@{self.key.device.hex()}"


@dataclass(frozen=True, slots=True)
class InputSpec:
    edge: EdgeSpec
    input: str
    device: str | None  # whose rows these are, where the column does not travel
    delay_us: int = 0

    @property
    def pushed_schema(self) -> Schema:
        return with_device(self.edge.schema) if self.device is not None else self.edge.schema


@dataclass(frozen=True, slots=True)
class VertexSpec:
    """A vertex that runs here, with its edges. The sinks of its query read like vertices."""

    query: HostedQuery
    vertex: Vertex
    placement: Placement
    inputs: Mapping[str, InputSpec]  # by label
    outputs: Mapping[str, EdgeSpec]  # by the name under which the pipeline hands rows out
    back: frozenset[str]  # labels of those that lie on a cycle

    @property
    def identity(self) -> tuple[str, int, str]:
        return self.query.name, self.query.incarnation, self.vertex.name


@dataclass(frozen=True, slots=True)
class KeptSpec:
    """A vertex whose snapshots this node keeps."""

    query: str
    incarnation: int
    vertex: str
    term: int
    edge: EdgeSpec

    @property
    def identity(self) -> tuple[str, int, str]:
        return self.query, self.incarnation, self.vertex


@dataclass(slots=True)
class Wiring:
    """What a deployment means for one node."""

    vertices: list[VertexSpec] = field(default_factory=list)
    sources: list[tuple[HostedQuery, EdgeSpec]] = field(default_factory=list)  # gathers that its own device feeds
    sinks: list[tuple[HostedQuery, str, EdgeSpec]] = field(default_factory=list)
    kept: list[KeptSpec] = field(default_factory=list)
    known: set[tuple[str, int, str]] = field(default_factory=set)  # every vertex of every query


def state_edge(query: HostedQuery, placed: Placement) -> EdgeSpec:
    """The edge that carries the snapshots of a vertex to its keepers. Each term has its own: it starts at 0."""
    name = f"{query.name}/state {placed.vertex} {placed.term}"
    key = EdgeKey(query_origin(query.name), query.incarnation, edge_id(name))
    carriers = dict.fromkeys(placed.hosts, placed.term)
    return EdgeSpec(name, key, STATE, placed.vertex, carriers, dict.fromkeys(placed.keepers, 0))


def wire(deployment: Deployment) -> Wiring:
    """What a checked deployment means for its node. UsageError where it cannot be carried out."""
    found = Wiring()
    for query in deployment.queries:
        _check_hosting(query)
        _wire_query(deployment.node, query, found)
    names = [spec.name for _, spec in found.sources]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f"two queries gather {name!r} from the same device; give one of them another name",
                code="deployment-gather",
            )
    return found


def _check_hosting(query: HostedQuery) -> None:
    strategy = STRATEGIES.get(query.row)
    if strategy is None:
        raise UsageError(
            f"query {query.name!r} wants strategy {query.row!r}; there are: {', '.join(STRATEGIES)}",
            code="deployment-strategy",
        )
    if not strategy.row.between_nodes:
        raise UsageError(
            f"query {query.name!r}: strategy {query.row!r} is not for nodes that run alone; choose another",
            code="deployment-strategy",
        )
    for vertex in region_vertices(query.plan):
        for output in vertex.fragment.outputs:
            if output.kind == "sync":
                raise UsageError(
                    f"query {query.name!r} syncs {output.name!r} from the region to the cloud, which nodes do not "
                    "carry yet; end it with .subscribe(), whose rows stay on the query's sink node",
                    code="deployment-sync",
                )


def _wire_query(node: str, query: HostedQuery, found: Wiring) -> None:
    vertices = region_vertices(query.plan)
    sinks = [output for vertex in vertices for output in vertex.fragment.outputs if output.kind == "subscribe"]
    placed = {each.vertex: each for each in query.placements}
    origin = query_origin(query.name)
    readers: dict[str, dict[str, int]] = {}  # input name -> nodes that read it
    for vertex in vertices:
        for name in vertex.inputs:
            for host in placed[vertex.name].hosts:
                terms = readers.setdefault(name, {})
                terms[host] = terms.get(host, 0) + placed[vertex.name].term
    for output in sinks:
        readers.setdefault(output.name, {}).setdefault(query.sink, 0)
    made: dict[str, EdgeSpec] = {}
    for vertex in vertices:
        where = placed[vertex.name]
        for output in vertex.fragment.outputs:
            name = f"{query.name}/{output.name}"
            key = EdgeKey(origin, query.incarnation, edge_id(name))
            carriers = dict.fromkeys(where.hosts, where.term)
            made[output.name] = EdgeSpec(name, key, output.schema, vertex.name, carriers, readers.get(output.name, {}))
    gathered: dict[str, list[EdgeSpec]] = {}
    for output in device_fragment(query.plan).outputs:
        if output.kind != "gather":
            continue
        for source in query.sources:
            # A device's own edges are named by its program, as those to the gateway are.
            name = output.name
            key = EdgeKey(DeviceId(bytes.fromhex(source)), query.incarnation, edge_id(name))
            spec = EdgeSpec(
                name, key, without_device(output.schema), source, {source: 0},
                readers.get(output.name, {}),
            )  # fmt: skip
            gathered.setdefault(output.name, []).append(spec)
            if source == node:
                found.sources.append((query, spec))
    delays = feedback_delays(query)
    back = back_edges(vertices)
    for vertex in vertices:
        where = placed[vertex.name]
        found.known.add((query.name, query.incarnation, vertex.name))
        if node in where.keepers:
            found.kept.append(
                KeptSpec(query.name, query.incarnation, vertex.name, where.term, state_edge(query, where))
            )
        if node not in where.hosts:
            continue
        inputs: dict[str, InputSpec] = {}
        for name in vertex.inputs:
            for edge in gathered.get(name) or [made[name]]:
                device = edge.key.device.hex() if name in gathered else None
                inputs[edge.label] = InputSpec(edge, name, device, delays.get(name, 0))
        outputs = {output.name: made[output.name] for output in vertex.fragment.outputs}
        on_cycle = frozenset(
            [label for label, each in inputs.items() if each.input in back]
            + [edge.label for name, edge in outputs.items() if name in back]
        )
        found.vertices.append(VertexSpec(query, vertex, where, inputs, outputs, on_cycle))
    if node == query.sink:
        found.sinks += [(query, output.name, made[output.name]) for output in sinks]


def feedback_delays(query: HostedQuery) -> dict[str, int]:
    """{input: microseconds} of the feedback edges of a plan."""
    return {
        node.operator.input_name: FEEDBACK_DELAY_US
        for node in query.plan.nodes
        if isinstance(node.operator, op.Feedback)
    }
