"""What a node shows of itself: to `resurge node status`, to the fleet page, and later to the screens.

Plain data made from the spool and the counters; a screen holds no other objects of the node.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shared.identity import edge_id
from shared.spool.ring import Spool


def account(spool: Spool) -> dict[str, int]:
    """Where every element of this spool stands, as this device knows it: delivered means a receipt came for it."""
    edges = spool.statistics().edges
    produced = sum(edge.head for edge in edges)
    spooled = sum(edge.elements for edge in edges)
    ledgered = sum(edge.ledgered for edge in edges)
    return {
        "produced": produced, "delivered": produced - spooled - ledgered, "spooled": spooled, "ledgered": ledgered,
    }  # fmt: skip


def edge_states(spool: Spool, names: Iterable[str]) -> dict[str, dict[str, int]]:
    """The account by edge, with what each holds on the disk."""
    known = {edge.edge: edge for edge in spool.statistics().edges}
    states: dict[str, dict[str, int]] = {}
    for name in names:
        edge = known.get(edge_id(name))
        if edge is not None:
            states[name] = {
                "produced": edge.head, "delivered": edge.head - edge.elements - edge.ledgered,
                "spooled": edge.elements, "ledgered": edge.ledgered, "batches": edge.batches, "bytes": edge.bytes,
            }  # fmt: skip
    return states


def spool_state(spool: Spool, *, now_us: int, bytes_per_second: float) -> dict[str, Any]:
    """How full the spool is, how old its oldest batch, how long until something must be given up."""
    statistics = spool.statistics()
    until_s = spool.time_until_overwrite(bytes_per_second) if bytes_per_second > 0 else None
    oldest_us = statistics.oldest_us
    return {
        "capacity_bytes": statistics.capacity_bytes,
        "used_bytes": statistics.used_bytes,
        "batches": statistics.batches,
        "oldest_s": None if oldest_us is None else max(0.0, (now_us - oldest_us) / 1e6),
        "full_in_s": until_s,
        "ledger": {reason.name.lower(): elements for reason, elements in sorted(statistics.ledgered.items())},
        "damage": statistics.damage,
    }
