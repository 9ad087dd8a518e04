"""The order in which vertices may run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def topological(inputs: Mapping[str, Sequence[str]]) -> list[str]:
    """Vertices with their inputs before them; among equals in the order given."""
    order: list[str] = []
    before: set[str] = set()
    remaining = list(inputs)
    while remaining:
        free = [vertex for vertex in remaining if all(source in before for source in inputs[vertex])]
        if not free:
            raise ValueError(f"cycle through {', '.join(remaining)}")
        order.extend(free)
        before.update(free)
        remaining = [vertex for vertex in remaining if vertex not in before]
    return order
