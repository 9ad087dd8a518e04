"""A deployment as one node sees it: which vertices it runs, which edges it makes, reads and keeps, and who is who.

Edges between nodes are named by their query: "QUERY/OUTPUT". Their origin is a device for a gather, else the query, and
never the node that happens to run a vertex. So a vertex that moves goes on with the same edges.

What a query syncs to the cloud the gateway reads, as if it were one more node. That edge has the name that the program
gave it: the log and Spark take it for a stream like those of devices. Its origin is the query, so whoever carries it
after a move goes on with the same numbers.

A device's rows may come over other nodes. Each of those passes them on under their numbers, on an edge of its own that
is named after it: "GATHER@DEVICE>NODE". Whoever reads them counts by device and number, whichever edge they came on.

Queries that begin alike read one edge of a device (`sharing.py`), each by its own ways: what nodes pass on for one that
shares another's is named after it, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from shared.errors import UsageError
from shared.hosting.sharing import check_shared, in_common
from shared.hosting.stamps import Run, Runs, runs_of, without_run
from shared.identity import DeviceId, EdgeKey, edge_id
from shared.language.schema import Schema
from shared.plan import operators as op
from shared.plan.cuts import back_edges, region_vertices
from shared.plan.deployment import Deployment, Hop, HostedQuery, Placement, Route, query_origin
from shared.plan.fragments import Vertex
from shared.plan.placement import device_fragment
from shared.plan.stream_type import without_device
from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.row import Include
from shared.sync.outbox import Merging
from shared.sync.sharers import Sharers

GATEWAY = "gateway"  # who reads what is synced to the cloud; no node has such an id
PASSED_ON = 1  # the term of edges that only pass rows on: whoever carries them, they are the same
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
    ways: tuple[tuple[str, ...], ...] = ()  # readers that need it all, by path; one path is enough. Not said: all do
    within_s: float | None = None  # that its rows may wait for company; not said: as between nodes
    batch: Merging | None = None  # how large a batch may be that goes to the cloud; not said: as it was made
    to_sink: bool = False  # nobody else reads it, and its marks are no cut's

    @property
    def label(self) -> str:
        """Names it within its query: the wire name, and the device where there is one per device."""
        return f"{self.name}@{self.key.device.hex()}"


@dataclass(frozen=True, slots=True)
class Flow:
    """What a node does to the rows of a gather edge that it sends."""

    runs: Runs
    upto: int
    device: str
    others: tuple[Runs, ...] = ()  # of more queries that read it; `upto` operators are common to all

    def schemas(self) -> dict[int, Schema]:
        """Every form in which its rows may travel, by number."""
        return {number: schema for runs in (*self.others, self.runs) for number, schema in runs.schemas().items()}


@dataclass(frozen=True, slots=True)
class FedSpec:
    """A gather that this node's own device feeds, for one query. Several queries may read one edge."""

    query: HostedQuery
    edge: EdgeSpec  # with the readers of this query alone
    runs: Runs
    upto: int
    ends: tuple[str, ...]  # who reads it in the end


@dataclass(frozen=True, slots=True)
class CarrierSpec:
    """Rows of another node's device that this node passes on."""

    query: str
    reads: EdgeSpec
    makes: EdgeSpec
    flow: Flow
    standby: bool = False  # only where somebody sends them here, which takes no other deployment


@dataclass(frozen=True, slots=True)
class InputSpec:
    edge: EdgeSpec
    input: str
    device: str | None  # whose rows these are, where the column does not travel
    delay_us: int = 0
    runs: Runs | None = None  # of a gather: what rows have met on the way, and what they have not
    legs: tuple[EdgeSpec, ...] = ()  # the edges on which it comes to this node; not said: `edge`

    @property
    def pushed_schema(self) -> Schema:
        return self.edge.schema if self.runs is None else self.runs.run.stages[-1].schema

    @property
    def arriving(self) -> tuple[EdgeSpec, ...]:
        return self.legs or (self.edge,)


@dataclass(frozen=True, slots=True)
class VertexSpec:
    """A vertex that runs here, with its edges. The sinks of its query read like vertices."""

    query: HostedQuery
    vertex: Vertex
    placement: Placement
    inputs: Mapping[str, InputSpec]  # by label
    outputs: Mapping[str, EdgeSpec]  # by the name under which the pipeline hands rows out
    back: frozenset[str]  # labels of those that lie on a cycle
    rest: Vertex  # without what is applied to rows of its gathers before it reads them
    sinks: frozenset[str] = frozenset()  # outputs that leave the region

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


@dataclass(frozen=True, slots=True)
class CopySpec:
    """Rows that come into a region, of which each of its nodes keeps a copy until the next cut is complete."""

    query: str
    incarnation: int
    edge: EdgeSpec
    runs: Runs
    legs: tuple[EdgeSpec, ...]  # the edges on which it comes to this node


@dataclass(slots=True)
class Wiring:
    """What a deployment means for one node."""

    vertices: list[VertexSpec] = field(default_factory=list)
    fed: list[FedSpec] = field(default_factory=list)  # what its own device feeds, query by query
    gathers: dict[EdgeKey, EdgeSpec] = field(default_factory=dict)  # the edges of these, with all their readers
    sinks: list[tuple[HostedQuery, str, EdgeSpec]] = field(default_factory=list)
    flows: dict[EdgeKey, Flow] = field(default_factory=dict)  # of the same
    gathering: dict[EdgeKey, list[tuple[str, int]]] = field(default_factory=dict)  # by edge of any device, who reads it
    sharers: dict[EdgeKey, Sharers] = field(default_factory=dict)  # of those that several queries read
    carriers: list[CarrierSpec] = field(default_factory=list)
    kept: list[KeptSpec] = field(default_factory=list)
    copies: list[CopySpec] = field(default_factory=list)
    members: dict[str, HostedQuery] = field(default_factory=dict)  # whose regions go back together: it hears of cuts
    feeding: dict[str, list[EdgeSpec]] = field(default_factory=dict)  # what its vertices make for a query's region
    known: set[tuple[str, int, str]] = field(default_factory=set)  # every vertex of every query
    passed: set[tuple[str, int, str]] = field(default_factory=set)  # those whose handed-over state is no more use here


def state_edge(query: HostedQuery, placed: Placement) -> EdgeSpec:
    """The edge that carries the snapshots of a vertex to its keepers, and to where it moves. Each term has its own: it
    starts at 0."""
    name = f"{query.name}/state {placed.vertex} {placed.term}"
    key = EdgeKey(query_origin(query.name), query.incarnation, edge_id(name))
    carriers = dict.fromkeys(placed.hosts, placed.term)
    return EdgeSpec(name, key, STATE, placed.vertex, carriers, dict.fromkeys(placed.state_readers, 0))


def wire(deployment: Deployment) -> Wiring:
    """What a checked deployment means for its node. UsageError where it cannot be carried out."""
    found = Wiring()
    fed: dict[tuple[str, str], dict[str, int]] = {}  # (query, sink) -> nodes of other regions that read it
    for query in deployment.queries:
        _check_hosting(query)
        for feed in query.feeds:
            readers = fed.setdefault((feed.query, feed.sink), {})
            for node, terms in _entry_readers(query).get(feed.gather, {}).items():
                readers[node] = readers.get(node, 0) + terms
    made: dict[str, dict[str, EdgeSpec]] = {}  # by query, the edges that its vertices make
    for query in deployment.queries:
        made[query.name] = _edges_made(query, fed)
    for query in deployment.queries:
        _wire_query(deployment.node, query, made, found)
    for key, gathering in found.gathering.items():
        if len(gathering) > 1:
            found.sharers[key] = Sharers(tuple(sorted(gathering)))
    by_name: dict[str, list[FedSpec]] = {}
    for each in found.fed:
        by_name.setdefault(each.edge.name, []).append(each)
    for alike in by_name.values():
        check_shared([each.query for each in alike], alike[0].edge.name)
        edge = together(alike, found.sharers.get(alike[0].edge.key))
        found.gathers[edge.key] = edge
        upto = min(*(each.upto for each in alike), in_common([each.runs.run for each in alike]))
        found.flows[edge.key] = Flow(alike[0].runs, upto, deployment.node, tuple(each.runs for each in alike[1:]))
    return found


def together(fed: Sequence[FedSpec], sharers: Sharers | None) -> EdgeSpec:
    """One edge that several queries read, each by ways of its own: one way of every query is enough."""
    if sharers is None:
        return fed[0].edge
    ways: list[frozenset[str]] = [frozenset()]
    for each in fed:
        ways = _shortest([one | {*way} for one in ways for way in each.edge.ways])
    readers: dict[str, int] = {}
    for node in dict.fromkeys(node for each in fed for node in each.edge.readers):
        met = [each for each in fed if node in each.edge.readers]
        terms = {each.query.name: each.edge.readers[node] for each in met if node in each.ends}
        readers[node] = sharers.expected(terms, [each.query.name for each in met if node not in each.ends])
    return replace(fed[0].edge, readers=readers, ways=tuple(tuple(sorted(way)) for way in ways))


def _shortest(ways: Iterable[frozenset[str]]) -> list[frozenset[str]]:
    """These without the ways that lead to all the nodes of another one as well: they never say more than that."""
    found: list[frozenset[str]] = []
    for way in sorted(dict.fromkeys(ways), key=len):
        if not any(shorter <= way for shorter in found):
            found.append(way)
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


def _readers(query: HostedQuery) -> dict[str, dict[str, int]]:
    """By input, the nodes that read it, with the sum of the terms of what reads it there."""
    readers: dict[str, dict[str, int]] = {}
    placed = {each.vertex: each for each in query.placements}
    for vertex in region_vertices(query.plan):
        for name in vertex.inputs:
            for host in placed[vertex.name].hosts:
                terms = readers.setdefault(name, {})
                terms[host] = terms.get(host, 0) + placed[vertex.name].term
    return readers


def _entry_readers(query: HostedQuery) -> dict[str, dict[str, int]]:
    """The same, of its gathers. Where a region goes back together all its nodes keep a copy, so all read them."""
    readers = _readers(query)
    kept = query.members if STRATEGIES[query.row].row.of_region else ()
    return {edge.name: {**dict.fromkeys(kept, 0), **readers.get(edge.name, {})} for edge in query.plan.gathers}


def _edges_made(query: HostedQuery, fed: Mapping[tuple[str, str], Mapping[str, int]]) -> dict[str, EdgeSpec]:
    vertices = region_vertices(query.plan)
    placed = {each.vertex: each for each in query.placements}
    origin = query_origin(query.name)
    readers = _readers(query)
    to_sink: set[str] = set()
    of_region = STRATEGIES[query.row].row.of_region
    for vertex in vertices:
        for output in vertex.fragment.outputs:
            if output.kind == "sync":
                readers[output.name] = {GATEWAY: 0}
            elif output.kind == "subscribe":
                if not of_region and output.name not in readers and (query.name, output.name) not in fed:
                    to_sink.add(output.name)
                readers.setdefault(output.name, {}).setdefault(query.sink, 0)
                for node, terms in fed.get((query.name, output.name), {}).items():
                    readers[output.name][node] = readers[output.name].get(node, 0) + terms
    synced = {edge.name: edge for edge in query.plan.edges}
    made: dict[str, EdgeSpec] = {}
    for vertex in vertices:
        where = placed[vertex.name]
        for output in vertex.fragment.outputs:
            sync = synced[output.name] if output.kind == "sync" else None
            name = f"{query.name}/{output.name}" if sync is None else output.name
            key = EdgeKey(origin, query.incarnation, edge_id(name))
            carriers = dict.fromkeys(where.hosts, where.term)
            made[output.name] = EdgeSpec(
                name, key, output.schema, vertex.name, carriers, readers.get(output.name, {}),
                within_s=None if sync is None else sync.within_us / 1e6,
                batch=None if sync is None else Merging(sync.batch_rows, sync.batch_bytes),
                to_sink=output.name in to_sink,
            )  # fmt: skip
    return made


def cloud_carriers(queries: Iterable[HostedQuery]) -> dict[EdgeKey, Mapping[str, int]]:
    """By edge that goes from a region to the cloud, the nodes that carry it, each with the term under which it does."""
    edges = [edge for query in queries for edge in _edges_made(query, {}).values() if GATEWAY in edge.readers]
    return {edge.key: edge.carriers for edge in edges}


def _wire_query(node: str, query: HostedQuery, edges: Mapping[str, Mapping[str, EdgeSpec]], found: Wiring) -> None:
    vertices = region_vertices(query.plan)
    sinks = [output for vertex in vertices for output in vertex.fragment.outputs if output.kind == "subscribe"]
    placed = {each.vertex: each for each in query.placements}
    made, readers = edges[query.name], _entry_readers(query)
    together = STRATEGIES[query.row].row.of_region
    if together and node in {*query.members, *query.sources, query.sink}:
        found.members[query.name] = query
    entering: dict[str, InputSpec] = {}  # by gather, what comes from another region
    gathered: dict[str, list[_Gathered]] = {}
    runs: dict[str, Run] = {}
    for output in device_fragment(query.plan).outputs:
        if output.kind != "gather":
            continue
        behind = runs_of(query.plan, output.name, query.retired)
        if behind is None:
            continue
        runs[output.name] = behind.run
        feed = query.feed(output.name)
        if feed is not None:
            edge = edges[feed.query][feed.sink]
            if edge.schema != without_device(output.schema):
                raise UsageError(
                    f"gather {output.name!r} of query {query.name!r} has other columns than {feed.sink!r} of "
                    f"{feed.query!r}, which feeds it",
                    code="deployment-feed",
                )
            entering[output.name] = InputSpec(edge, output.name, query_origin(feed.query).hex(), runs=behind)
            if together and node in edge.carriers:
                found.members[query.name] = query
                found.feeding.setdefault(query.name, []).append(edge)
            if together and node in query.members:
                found.copies.append(CopySpec(query.name, query.incarnation, edge, behind, (edge,)))
            continue
        for source in query.sources:
            route = _Gathered(query, without_device(output.schema), source, readers[output.name], behind)
            gathered.setdefault(output.name, []).append(route)
            found.gathering.setdefault(route.edge.key, []).append((query.name, query.incarnation))
            if together and node in query.members:
                found.copies.append(CopySpec(query.name, query.incarnation, route.edge, behind, route.legs(node)))
            if source == node:
                found.fed.append(FedSpec(query, route.edge, behind, route.upto, tuple(readers[output.name])))
            found.carriers += route.carriers(node)
    delays = feedback_delays(query)
    back = back_edges(vertices)
    for vertex in vertices:
        where = placed[vertex.name]
        found.known.add((query.name, query.incarnation, vertex.name))
        if node not in where.state_readers and STRATEGIES[query.row].row.include is Include.NOTHING:
            found.passed.add((query.name, query.incarnation, vertex.name))
        if node in where.state_readers:
            found.kept.append(
                KeptSpec(query.name, query.incarnation, vertex.name, where.term, state_edge(query, where))
            )
        if node not in where.hosts:
            continue
        inputs: dict[str, InputSpec] = {}
        for name in vertex.inputs:
            for route in gathered.get(name, ()):
                inputs[route.edge.label] = InputSpec(
                    route.edge, name, route.source, delays.get(name, 0), route.runs, route.legs(node)
                )
            if name in entering:
                inputs[entering[name].edge.label] = entering[name]
            if name in made:
                inputs[made[name].label] = InputSpec(made[name], name, None, delays.get(name, 0))
        outputs = {output.name: made[output.name] for output in vertex.fragment.outputs}
        on_cycle = frozenset(
            [label for label, each in inputs.items() if each.input in back]
            + [edge.label for name, edge in outputs.items() if name in back]
        )
        rest = without_run(vertex, [runs[name] for name in vertex.inputs if name in runs])
        left = frozenset(output.name for output in vertex.fragment.outputs if output.kind in ("subscribe", "sync"))
        found.vertices.append(VertexSpec(query, vertex, where, inputs, outputs, on_cycle, rest, left))
    if node == query.sink:
        found.sinks += [(query, output.name, made[output.name]) for output in sinks]


class _Gathered:
    """A gather of one device: its edge, and those of the nodes that pass it on."""

    def __init__(self, query: HostedQuery, schema: Schema, source: str, readers: Mapping[str, int], runs: Runs) -> None:
        name = runs.run.gather
        self.source, self.runs = source, runs
        self._query, self._schema, self._readers = query, schema, readers
        given = query.route(name, source)
        self._check(given)
        self.upto = given.upto
        self._paths, alternates = (
            [_shortened(path, readers) for path in paths]
            for paths in (given.paths, (*given.alternates, *given.detours))
        )
        # Who reads it directly does not pass it on as well: a receipt would speak for both.
        if () in self._paths:
            self._paths = [path for path in self._paths if not path or path[0].node not in readers]
        self._all = [*self._paths, *(path for path in alternates if path not in self._paths)]
        if () in self._all:
            self._all = [path for path in self._all if path in self._paths or not path or path[0].node not in readers]
        # A device's own edges are named by its program, as those to the gateway are.
        self.edge = self._spec(name, source, 0, [self._next(path, 0) for path in dict.fromkeys(self._paths)])
        self._passed: dict[str, EdgeSpec] = {}
        for path in self._all:
            for at, hop in enumerate(path):
                if hop.node not in self._passed:  # a detour begins like the path that it leaves
                    passed_on = f"{name}@{source}>{hop.node}{'' if query.shared is None else f' {query.name}'}"
                    self._passed[hop.node] = self._spec(passed_on, hop.node, PASSED_ON, [self._next(path, at + 1)])

    def _check(self, given: Route) -> None:
        every = (*given.paths, *given.alternates, *given.detours)
        for upto in (given.upto, *(hop.upto for path in every for hop in path)):
            if upto > len(self.runs):
                raise UsageError(
                    f"query {self._query.name!r} applies {upto} operators behind gather {given.gather!r} on the way; "
                    f"there are {len(self.runs)} that keep no state",
                    code="deployment-route",
                )

    def _next(self, path: tuple[Hop, ...], at: int) -> Mapping[str, int]:
        return {path[at].node: 0} if at < len(path) else self._readers

    def _spec(self, name: str, maker: str, term: int, ways: list[Mapping[str, int]]) -> EdgeSpec:
        key = EdgeKey(DeviceId(bytes.fromhex(self.source)), self._query.spooling.incarnation, edge_id(name))
        readers = {node: terms for way in ways for node, terms in way.items()}
        return EdgeSpec(name, key, self._schema, maker, {maker: term}, readers, tuple(map(tuple, ways)))

    def legs(self, node: str) -> tuple[EdgeSpec, ...]:
        """The edges on which it comes to those who read it on this node, or would come."""
        if node not in self._readers:
            return ()
        return tuple(self._passed[path[-1].node] if path else self.edge for path in dict.fromkeys(self._all))

    def carriers(self, node: str) -> list[CarrierSpec]:
        found = []
        for path in self._all:
            for at, hop in enumerate(path):
                if hop.node == node:
                    reads = self._passed[path[at - 1].node] if at else self.edge
                    flow, standby = Flow(self.runs, hop.upto, self.source), path not in self._paths
                    found.append(CarrierSpec(self._query.name, reads, self._passed[node], flow, standby))
        return found[:1]  # a detour has the nodes of the path that it leaves, too


def _shortened(path: tuple[Hop, ...], readers: Mapping[str, int]) -> tuple[Hop, ...]:
    """Without a last node that alone reads it: there is nobody left to pass it on to."""
    while path and {path[-1].node} == {*readers}:
        path = path[:-1]
    return path


def feedback_delays(query: HostedQuery) -> dict[str, int]:
    """{input: microseconds} of the feedback edges of a plan."""
    return {
        node.operator.input_name: FEEDBACK_DELAY_US
        for node in query.plan.nodes
        if isinstance(node.operator, op.Feedback)
    }
