"""The graphs that snapshots are tried on: the papers' own, and all small ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations

Edge = tuple[int, int]


@dataclass(frozen=True)
class Graph:
    """Vertices are numbers; an edge is (producer, reader). Vertices without inputs are sources, and `sensors` are too."""

    vertices: int
    edges: tuple[Edge, ...]
    sensors: frozenset[int] = frozenset()  # sources that have inputs: feedback
    one_drives: bool = False  # of a vertex's inputs only one makes it produce: fewer elements

    @cached_property
    def sources(self) -> tuple[int, ...]:
        readers = {reader for _, reader in self.edges}
        return tuple(v for v in range(self.vertices) if v not in readers or v in self.sensors)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{producer}>{reader}" for producer, reader in self.edges)

    @cached_property
    def ins(self) -> tuple[tuple[int, ...], ...]:
        """By vertex the numbers of its input edges."""
        return tuple(tuple(n for n, edge in enumerate(self.edges) if edge[1] == v) for v in range(self.vertices))

    @cached_property
    def outs(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(n for n, edge in enumerate(self.edges) if edge[0] == v) for v in range(self.vertices))

    def reached(self, start: int) -> set[int]:
        seen = {start}
        waiting = [start]
        for vertex in waiting:
            for producer, reader in self.edges:
                if producer == vertex and reader not in seen:
                    seen.add(reader)
                    waiting.append(reader)
        return seen

    @cached_property
    def back(self) -> frozenset[str]:
        """Names of the edges that lie on a cycle."""
        return frozenset(
            name for name, edge in zip(self.names, self.edges, strict=True) if edge[0] in self.reached(edge[1])
        )

    @cached_property
    def silent(self) -> frozenset[int]:
        """Edges whose elements make no new ones at their reader, so that an element does not go round for ever: those into
        sources, and those that lead back in a walk from the sources."""
        found = {n for n, edge in enumerate(self.edges) if edge[1] in self.sources}
        done: set[int] = set()
        path: list[int] = []

        def walk(vertex: int) -> None:
            path.append(vertex)
            for n in self.outs[vertex]:
                reader = self.edges[n][1]
                if reader in path or (self.one_drives and reader in done):
                    found.add(n)
                elif n not in found and reader not in done:
                    walk(reader)
            done.add(path.pop())

        for source in self.sources:
            if source not in done:
                walk(source)
        return frozenset(found)


SP1 = Graph(3, ((0, 1), (1, 2)))
SP2 = Graph(4, ((0, 2), (1, 2), (2, 3)))
SP3 = Graph(4, ((0, 2), (1, 2), (2, 3), (3, 0)), frozenset({0}))
SP4 = Graph(4, ((0, 2), (1, 2), (2, 3), (3, 0), (3, 1)), frozenset({0, 1}))
DIAMOND = Graph(4, ((0, 1), (0, 2), (1, 3), (2, 3)))
TWO_SOURCE_CYCLE = Graph(4, ((0, 2), (1, 3), (2, 3), (3, 2)))
NAMED = {
    "SP1": SP1,
    "SP2": SP2,
    "SP3": SP3,
    "SP4": SP4,
    "diamond": DIAMOND,
    "two-source cycle": TWO_SOURCE_CYCLE,
}


def all_graphs(vertices: int, *, cycles: bool, one_drives: bool = False) -> Iterator[Graph]:
    """Every connected graph of so many vertices, up to renaming, in which every vertex is fed by some source."""
    pairs = [
        (a, b) for a in range(vertices) for b in range(vertices) if a != b and (cycles or a < b)
    ]  # without cycles there is a renaming in which all edges go upwards
    seen: set[tuple[Edge, ...]] = set()
    for size in range(vertices - 1, len(pairs) + 1):
        for edges in combinations(pairs, size):
            graph = Graph(vertices, edges, one_drives=one_drives)
            fed = set().union(*(graph.reached(source) for source in graph.sources)) if graph.sources else set()
            if len(fed) < vertices or not _connected(graph):
                continue
            least = min(
                tuple(sorted((order[a], order[b]) for a, b in edges)) for order in permutations(range(vertices))
            )
            if least not in seen:
                seen.add(least)
                yield graph


def _connected(graph: Graph) -> bool:
    both = Graph(graph.vertices, graph.edges + tuple((b, a) for a, b in graph.edges))
    return len(both.reached(0)) == graph.vertices
