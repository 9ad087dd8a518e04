"""What a node shows of itself: to `resurge node status`, to the fleet page, and later to the screens.

Plain data made from the spool and the counters; a screen holds no other objects of the node.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shared.identity import edge_id
from shared.spool.statistics import SpoolStatistics


def account(statistics: SpoolStatistics) -> dict[str, int]:
    """Where every element of the spool stands, as this device knows it: delivered means a receipt came for it."""
    edges = statistics.edges
    produced = sum(edge.head for edge in edges)
    spooled = sum(edge.elements for edge in edges)
    ledgered = sum(edge.ledgered for edge in edges)
    return {
        "produced": produced, "delivered": produced - spooled - ledgered, "spooled": spooled, "ledgered": ledgered,
    }  # fmt: skip


def edge_states(statistics: SpoolStatistics, names: Iterable[str]) -> dict[str, dict[str, int]]:
    """The account by edge, with what each holds on the disk."""
    known = {edge.edge: edge for edge in statistics.edges}
    states: dict[str, dict[str, int]] = {}
    for name in names:
        edge = known.get(edge_id(name))
        if edge is not None:
            states[name] = {
                "produced": edge.head, "delivered": edge.head - edge.elements - edge.ledgered,
                "spooled": edge.elements, "ledgered": edge.ledgered, "batches": edge.batches, "bytes": edge.bytes,
            }  # fmt: skip
    return states


def spool_state(statistics: SpoolStatistics, *, now_us: int, full_in_s: float | None) -> dict[str, Any]:
    """How full the spool is, how old its oldest batch, how long until something must be given up."""
    oldest_us = statistics.oldest_us
    return {
        "capacity_bytes": statistics.capacity_bytes,
        "used_bytes": statistics.used_bytes,
        "batches": statistics.batches,
        "oldest_s": None if oldest_us is None else max(0.0, (now_us - oldest_us) / 1e6),
        "full_in_s": full_in_s,
        "ledger": {reason.name.lower(): elements for reason, elements in sorted(statistics.ledgered.items())},
        "damage": statistics.damage,
    }
