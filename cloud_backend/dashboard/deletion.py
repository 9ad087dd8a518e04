"""Deleting what a device delivered: what goes at once, what goes with the log's rewriting, and what is kept on purpose.

At once: results for it or about it, its trail, its status and settings; while it stays deleted, results that Spark
still derives from earlier state are removed as they appear. Then the log: its batches are erased in place. Then
Spark's jobs, which find it in the roster: their state and records (`cloud_backend/spark/control/erasure.py`).
Kept, because the account must still add up: how many elements it delivered and when it was heard, its name and key in
the roster, the audit log. docs/operations.md tells it whole.
"""

from __future__ import annotations

from cloud_backend.coordinator.roster import Deletion
from cloud_backend.dashboard.sources import Sources


def forget_derived(sources: Sources, deletion: Deletion, *, after: int = 0) -> int:
    """Remove results after a change number, and the trail, of a device that is still deleted; one that paired again
    has new ones."""
    entry = next((each for each in sources.roster.entries() if each.device == deletion.device), None)
    if entry is None or entry.incarnation > deletion.incarnation:
        return 0
    with sources.history.lock:
        sources.history.touched.add(deletion.device.hex())
        sources.history.trails.forget(deletion.device.hex())
    return sources.results.forget_device(deletion.device.hex(), after=after)
