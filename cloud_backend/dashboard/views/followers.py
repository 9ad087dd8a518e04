"""Who is sent results, and how that goes."""

from __future__ import annotations

from typing import Any

from cloud_backend.coordinator.followers import Follower
from cloud_backend.dashboard.sources import Sources


def followers(sources: Sources, *, exact: bool, sink: str = "") -> list[dict[str, Any]]:
    """All of them, or those of a sink. `exact`: whole addresses, which only admins see."""
    change = sources.results.change()
    return [
        _shown(each, change, exact=exact) for each in sources.followers.all() if not sink or each.sink == sink
    ]  # fmt: skip


def _shown(each: Follower, change: int, *, exact: bool) -> dict[str, Any]:
    state = "failing" if each.failures else "level" if each.place == change else "behind"
    return {
        "name": each.name, "sink": each.sink, "url": each.url if exact else each.url.partition("://")[0],
        "private": each.private, "retained": each.retained, "state": state, "problem": each.problem,
        "failing_us": each.failing_us, "failures": each.failures, "retry_us": each.retry_us or None,
        "delivered": each.delivered, "delivered_us": each.delivered_us, "behind": max(0, change - each.place),
        "added_us": each.added_us,
    }  # fmt: skip
