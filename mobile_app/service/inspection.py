"""Look at a home from outside: a running node's own words, or a stopped node's files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mobile_app.home.files import HomeLock, read_json
from mobile_app.node.plans import Edges, Plans
from mobile_app.node.results import RESULTS_FILE, KeptResult, Results
from mobile_app.node.view_state import STATUS_FILE, account, edge_states
from mobile_app.service.connection import ServiceClient
from mobile_app.spool.opening import SPOOL, spool_cipher
from shared.errors import ResurgeError, UsageError
from shared.plan.encoding import decode_plan
from shared.plan.operators import SyncBack
from shared.spool.disk import PosixDisk
from shared.spool.ring import Spool


def inspect(home: Path) -> dict[str, Any]:
    """The node's view state; the account of a stopped node is read from its spool, not from its last words."""
    view: dict[str, Any] = read_json(home / STATUS_FILE) or {}
    if not view:
        raise UsageError(f"no node has run in {str(home)!r}; start one with `resurge node run`", code="home-empty")
    try:
        lock = HomeLock(home)
    except UsageError:
        return (_ask(home) or view) | {"running": True}
    try:
        spool = Spool.open(PosixDisk(home / SPOOL), spool_cipher(home))
        try:
            spool.verify()  # a batch that its disk has lost is no longer spooled
            statistics = spool.statistics()
            view |= account(statistics)
            view["edges"] = edge_states(statistics, Edges(home).names())
        finally:
            spool.close()
    finally:
        lock.release()
    return view | {"running": False, "connected": False}


def _ask(home: Path) -> dict[str, Any] | None:
    """The running node's view of now; None when it does not answer."""
    try:
        client = ServiceClient.open(home)
    except ResurgeError:
        return None
    try:
        return client.view()
    except ResurgeError:
        return None
    finally:
        client.close()


def key_names(home: Path) -> dict[str, tuple[str, ...]]:
    """By sink: what the parts of its results' keys are called in the plan that this device has."""
    kept = Plans(home).load()
    if kept is None:
        return {}
    try:
        plan = decode_plan(kept[1])
    except UsageError:  # of a newer version
        return {}
    return {node.operator.name: node.type.key for node in plan.nodes if isinstance(node.operator, SyncBack)}


def named_key(names: Sequence[str], key: Sequence[object]) -> str:
    """`device=… mode=bus`; a part whose name is not known stands alone."""
    padded = [*names, *[""] * (len(key) - len(names))]
    return " ".join(f"{name}={part}" if name else str(part) for name, part in zip(padded, key, strict=False))


def kept_results(home: Path, sink: str | None, limit: int) -> list[KeptResult]:
    if not (home / RESULTS_FILE).exists():
        return []
    results = Results(home)
    try:
        return results.latest(sink, limit=limit)
    finally:
        results.close()
