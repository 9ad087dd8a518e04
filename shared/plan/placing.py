"""Where each vertex of a query runs: pure functions of the query, the topology and a strategy.

    push-down   along each origin's cheapest way to the sink, every vertex on the first node with room; what is left
                goes to the sink, then to the cloud, then wherever the detour is smallest. Where rows of several origins
                meet is on the first node that their ways have in common.
    bottom-up   every vertex as near as possible to where its rows come from, also beside the cheapest way
    top-down    from the sink backwards, every vertex as near as possible to what reads it
    cloud-only  all of it on the node of the coordinator
    spread      one after the other over all nodes but the coordinator's

Filters and projections right behind a gather can be applied on the way there. Where a query is pushed down or placed
bottom-up, the device applies as many of them as it has room for, then each node that passes its rows on; what is left
is applied where the rows are read. The other strategies leave all of it there.

A vertex is never put where it would leave another one without a place. So a refusal is true: whatever is refused as
full fits in no other way either, and what it says is lacking is lacking.

Why that is cheap to know: only nodes are candidates that the query's origins reach and that reach its sink. They all
reach each other, so nothing but room and operator types counts, and whether the others still fit is a matching.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from shared.errors import BrokenInvariant, UsageError
from shared.plan.cuts import region_vertices
from shared.plan.graph import Plan
from shared.plan.topology import Path, Topology
from shared.plan.wellformed import operator_references

PUSH_DOWN, BOTTOM_UP, TOP_DOWN, CLOUD_ONLY, SPREAD = "push-down", "bottom-up", "top-down", "cloud-only", "spread"
ON_THE_WAY = frozenset({PUSH_DOWN, BOTTOM_UP})  # these have what keeps no state applied before it arrives


@dataclass(frozen=True, slots=True)
class Task:
    """A vertex that needs a place."""

    name: str
    inputs: tuple[str, ...] = ()  # vertices it reads, all of them listed before it
    feeders: tuple[str, ...] = ()  # nodes whose rows it reads directly
    needs: frozenset[str] = frozenset()  # users' operator types


@dataclass(frozen=True, slots=True)
class Placed:
    """A place for every vertex."""

    strategy: str
    hosts: Mapping[str, str]  # vertex -> node
    why: Mapping[str, str]  # vertex -> in words
    paths: Mapping[str, Path]  # origin -> its cheapest way to the sink


@dataclass(frozen=True, slots=True)
class Refused:
    """No placement is possible, and what is lacking."""

    code: str
    why: str

    def error(self, query: str) -> UsageError:
        return UsageError(f"query {query!r} cannot be placed: {self.why}", code=self.code)


def tasks_of(plan: Plan, sources: Sequence[str]) -> tuple[Task, ...]:
    """The vertices of a plan's region. Every source feeds every gather."""
    found: list[Task] = []
    makers: dict[str, str] = {}
    vertices = region_vertices(plan)
    inside = {output.name for vertex in vertices for output in vertex.fragment.outputs}
    for vertex in vertices:
        read = tuple(dict.fromkeys(makers[name] for name in vertex.inputs if name in makers))  # but what is fed back
        feeders = tuple(sources) if any(name not in inside for name in vertex.inputs) else ()
        needs = frozenset(reference for node in vertex.operators for reference in operator_references(node))
        found.append(Task(vertex.name, read, feeders, needs))
        makers.update((output.name, vertex.name) for output in vertex.fragment.outputs)
    return tuple(found)


def place(
    tasks: Sequence[Task],
    topology: Topology,
    origins: Sequence[str],
    sink: str,
    strategy: str = PUSH_DOWN,
    *,
    used: Mapping[str, int] | None = None,
    only: Collection[str] | None = None,
    fixed: Mapping[str, str] | None = None,
) -> Placed | Refused:
    """A place for every task, or why there is none. `used` is what nodes run already, `only` who may run these, `fixed`
    where some of them must run."""
    if strategy not in STRATEGIES:
        return Refused("place-strategy", f"there is no strategy {strategy!r} (there are: {', '.join(STRATEGIES)})")
    if strategy == CLOUD_ONLY and not topology.cloud:
        return Refused(
            "place-path",
            "what coordinates this fleet is none of its nodes, and none runs beside it (resurge node run --cloud)",
        )
    search, name = _Search(tasks, topology, sink, used or {}), topology.name
    paths = {origin: search.ways[origin] for origin in origins if origin in search.ways}
    if sink not in topology.peers:
        return Refused("place-path", f"{name(sink)} is not there, and the query ends on it")
    if not topology.peers[sink].addresses:
        return Refused("place-path", f"nobody can bring results to {name(sink)}, which has no address")
    for origin in origins:
        if origin not in paths:
            gone = "is not there" if origin not in topology.peers else f"has no way to {name(sink)}"
            return Refused("place-path", f"{name(origin)} {gone}, and the query takes rows from it")
    refused = search.allow(strategy, only, fixed or {})
    if refused is not None:
        return refused
    order = reversed(tasks) if strategy == TOP_DOWN else tasks
    for task in order:
        search.settle(task, STRATEGIES[strategy](search, task))
    hosts = {task.name: search.hosts[task.name] for task in tasks}
    return Placed(strategy, hosts, {task.name: search.why[task.name] for task in tasks}, paths)


def shares(strategy: str, widens: Sequence[bool], way: Sequence[str], room: Mapping[str, int]) -> tuple[int, ...]:
    """Of a run's operators, how many rows have met when they leave each node of a way, the device first; 0 for a node
    that applies none itself. `widens` says of each operator whether rows are wider behind it: no node ends with one of
    those, what it sends would only grow."""
    found, met = [], 0
    for node in way:
        more = min(len(widens) - met, max(0, room.get(node, 0))) if strategy in ON_THE_WAY else 0
        while more and widens[met + more - 1]:
            more -= 1
        met += more
        found.append(met if more else 0)
    return tuple(found)


class _Search:
    def __init__(self, tasks: Sequence[Task], topology: Topology, sink: str, used: Mapping[str, int]) -> None:
        self.tasks, self.topology, self.sink = tasks, topology, sink
        self.ways = topology.paths_to(sink)
        self.room = {node: max(0, peer.capacity - used.get(node, 0)) for node, peer in topology.peers.items()}
        self.hosts: dict[str, str] = {}
        self.why: dict[str, str] = {}
        self.origins: dict[str, frozenset[str]] = {}  # of each task, all nodes whose rows reach it
        self.allowed: dict[str, list[str]] = {}
        for task in tasks:
            before = (self.origins[name] for name in task.inputs)
            self.origins[task.name] = frozenset(task.feeders).union(*before)
        self.readers = {task.name: [each.name for each in tasks if task.name in each.inputs] for task in tasks}

    def allow(self, strategy: str, only: Collection[str] | None, fixed: Mapping[str, str]) -> Refused | None:
        """Note the nodes that may run each task; a refusal where there is no place for all of them."""
        peers, name = self.topology.peers, self.topology.name
        hosts = [node for node in self.ways if peers[node].addresses]
        for task in self.tasks:
            asked: Collection[str] | None = [self.topology.cloud] if strategy == CLOUD_ONLY else only
            asked = [fixed[task.name]] if task.name in fixed else asked
            wanted = hosts if asked is None else [node for node in hosts if node in asked]
            where = "no node that the query reaches" if asked is None else f"of {', '.join(map(name, asked))} none"
            if not wanted:
                why = f"{where} is there, has an address and a way to {name(self.sink)}"
                return Refused("place-path", f"{why}; vertex {task.name!r} should run there")
            able = [node for node in wanted if task.needs <= {*peers[node].operators}]
            if not able:
                return Refused("place-operator", f"{where} has {_lacking(task, wanted, self.topology)}, which vertex "
                               f"{task.name!r} needs")  # fmt: skip
            self.allowed[task.name] = able
        crowd = self._crowd(self.tasks)
        if not crowd:
            return None
        nodes = [node for node in hosts if any(node in self.allowed[each.name] for each in crowd)]
        rooms = ", ".join(f"{name(node)} has room for {self.room[node]}" for node in nodes)
        needs = f"vertex {crowd[0].name!r} needs a node" if len(crowd) == 1 else f"{len(crowd)} vertices need one"
        names = "" if len(crowd) == 1 else f" ({', '.join(each.name for each in self.tasks if each in crowd)})"
        return Refused("place-capacity", f"{needs}{names}, and of those that could {rooms}")

    # --- choosing ----------------------------------------------------------------------------------------------

    def settle(self, task: Task, candidates: Iterator[tuple[str, str]]) -> None:
        """The first candidate with room that leaves room for all others."""
        left = [each for each in self.tasks if each.name not in self.hosts and each is not task]
        passed: list[str] = []
        seen: set[str] = set()
        for node, why in candidates:
            if node in seen:
                continue
            seen.add(node)
            obstacle = self._obstacle(task, node, left)
            if obstacle is None:
                self.hosts[task.name] = node
                self.room[node] -= 1
                self.why[task.name] = "; ".join([why, *passed])
                return
            passed.append(obstacle)
        raise BrokenInvariant(f"no place for {task.name!r}, though there was one for all", code="placing-search")

    def _obstacle(self, task: Task, node: str, left: Sequence[Task]) -> str | None:
        name = self.topology.name(node)
        if node not in self.allowed[task.name]:
            peer = self.topology.peers[node]
            lacking = sorted(task.needs - {*peer.operators})
            if not peer.addresses or not peer.capacity:
                return f"{name} runs no vertices"
            return f"{name} lacks {lacking[0]}" if lacking else f"{name} is not to run it"
        if not self.room[node]:
            return f"{name} is full" if self.topology.peers[node].capacity else f"{name} runs no vertices"
        self.room[node] -= 1
        crowd = self._crowd(left)
        self.room[node] += 1
        return f"{name} is left for {crowd[0].name!r}" if crowd else None

    # --- whether all have a place --------------------------------------------------------------------------------

    def _crowd(self, tasks: Sequence[Task]) -> list[Task]:
        """Tasks that together want more than there is, first the one that is left over; none when all have a place."""
        taken: dict[str, list[Task]] = {}
        for task in tasks:
            tried: set[str] = set()
            if not self._seat(task, taken, tried):
                return [task, *(other for node in self.ways if node in tried for other in taken.get(node, []))]
        return []

    def _seat(self, task: Task, taken: dict[str, list[Task]], tried: set[str]) -> bool:
        for node in self.allowed[task.name]:
            if node in tried:
                continue
            tried.add(node)
            here = taken.setdefault(node, [])
            if len(here) < self.room[node]:
                here.append(task)
                return True
            for at, other in enumerate(here):
                if self._seat(other, taken, tried):
                    here[at] = task
                    return True
        return False


# --- strategies: the nodes to try for a task, the most wanted first, each with why ----------------------------------


def _push_down(search: _Search, task: Task) -> Iterator[tuple[str, str]]:
    name = search.topology.name
    paths = [search.ways[origin] for origin in sorted(search.origins[task.name])]
    ends = ", ".join(name(path.nodes[0]) for path in paths)
    common = [node for node in (paths[0].nodes if paths else (search.sink,)) if all(node in p.nodes for p in paths)]
    before = [common.index(host) for read in task.inputs if (host := search.hosts[read]) in common]
    for place, node in enumerate(common[max(before, default=0) :], max(before, default=0)):
        if node == search.sink:
            yield node, "where the query ends"
        elif place == 0 and len(paths) == 1:
            yield node, "where its rows come from"
        else:
            way = "the way" if len(paths) == 1 else "all ways"
            yield node, f"the first node with room on {way} of {ends} to {name(search.sink)}"
    if search.topology.cloud in search.ways:
        yield search.topology.cloud, "no room on the way: where the coordinator is"
    yield from _by_cost(search, task, "no room on the way: the smallest detour", toward_sink=True)


def _bottom_up(search: _Search, task: Task) -> Iterator[tuple[str, str]]:
    yield from _by_cost(search, task, "as near as possible to what it reads")


def _top_down(search: _Search, task: Task) -> Iterator[tuple[str, str]]:
    readers = [search.hosts[name] for name in search.readers[task.name]] or [search.sink]
    origins, cost = sorted(search.origins[task.name]), search.topology.cost
    costs = {
        node: (sum(cost(node, reader) for reader in readers), sum(cost(each, node) for each in origins))
        for node in search.ways
    }
    for node in sorted(costs, key=costs.__getitem__):
        yield node, "where the query ends" if node == search.sink else "as near as possible to what reads it"


def _cloud_only(search: _Search, task: Task) -> Iterator[tuple[str, str]]:  # noqa: ARG001 - as all strategies
    yield search.topology.cloud, "all of it is wanted there"


def _spread(search: _Search, task: Task) -> Iterator[tuple[str, str]]:
    peers = search.topology.peers
    able = [node for node, peer in peers.items() if peer.capacity and peer.addresses and node in search.ways]
    near = [node for node in able if node != search.topology.cloud] or able
    first = [each.name for each in search.tasks].index(task.name) % len(near) if near else 0
    for node in (*near[first:], *near[:first], *able):
        yield node, "one vertex after the other over all nodes"
    yield from ((node, "where it is wanted") for node in search.allowed[task.name])


def _by_cost(search: _Search, task: Task, why: str, *, toward_sink: bool = False) -> Iterator[tuple[str, str]]:
    """All nodes, by what it costs to bring the task's rows there, and then to the sink."""
    read = [*task.feeders, *(search.hosts[name] for name in task.inputs)]
    costs = {}
    for node, way in search.ways.items():
        there = sum(search.topology.cost(start, node) for start in read)
        costs[node] = (there + way.cost, there) if toward_sink else (there, way.cost)
    for node in sorted(costs, key=costs.__getitem__):
        yield node, why


STRATEGIES: Mapping[str, Callable[[_Search, Task], Iterator[tuple[str, str]]]] = {
    PUSH_DOWN: _push_down, BOTTOM_UP: _bottom_up, TOP_DOWN: _top_down, CLOUD_ONLY: _cloud_only, SPREAD: _spread,
}  # fmt: skip


def _lacking(task: Task, nodes: Sequence[str], topology: Topology) -> str:
    """The operator type that fewest of these nodes have."""
    having = {need: sum(need in topology.peers[node].operators for node in nodes) for need in task.needs}
    return min(sorted(having), key=having.__getitem__)
