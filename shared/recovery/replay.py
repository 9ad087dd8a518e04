"""What to run next. Normal progress and catching up after a rollback are the same question.

A vertex at position p may run epoch p + 1 once that epoch is cut and every input has a usable record of it. A
vertex that was rolled back simply has a lower position; while it catches up, vertices outside the rollback set
keep reading what is recorded, so they wait only for epochs that nobody has computed yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence


def ready(
    order: Sequence[str],
    positions: Mapping[str, int],
    cut: int,
    readable: Callable[[str, int], bool],
) -> list[tuple[str, int]]:
    """Every (vertex, epoch) that may run now, the oldest epochs first, each vertex at most once. `order` is
    topological; `readable(vertex, epoch)` says that all its inputs of the epoch are recorded."""
    steps = [
        (positions[vertex] + 1, index, vertex)
        for index, vertex in enumerate(order)
        if positions[vertex] < cut and readable(vertex, positions[vertex] + 1)
    ]
    return [(vertex, epoch) for epoch, _, vertex in sorted(steps)]


def topological(inputs: Mapping[str, Sequence[str]]) -> list[str]:
    """Vertices with their inputs before them; among equals in the order given."""
    order: list[str] = []
    placed: set[str] = set()
    remaining = list(inputs)
    while remaining:
        free = [vertex for vertex in remaining if all(source in placed for source in inputs[vertex])]
        if not free:
            raise ValueError(f"cycle through {', '.join(remaining)}")
        order.extend(free)
        placed.update(free)
        remaining = [vertex for vertex in remaining if vertex not in placed]
    return order
