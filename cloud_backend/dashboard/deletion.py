"""Deleting what a device delivered: what goes at once, what goes with the log's rewriting, and what is kept on purpose.

At once: results for it or about it, its trail, its status and settings; while it stays deleted, results that Spark
still derives from earlier state are removed as they appear. Then the log: its batches are erased in place. Then
Spark's jobs, which find it in the roster: their state and records (`cloud_backend/spark/control/erasure.py`). Where the
log is in Kafka its copy here is erased; Kafka's own records go when no job needs them any more and they are trimmed.
Kept, because the account must still add up: how many elements it delivered and when it was heard, its name and key in
the roster, the audit log. docs/operations.md tells it whole.
"""

from __future__ import annotations

import json

from cloud_backend.coordinator.roster import Deletion
from cloud_backend.dashboard.sources import Sources
from cloud_backend.log.kafka.copy import LogCopy
from cloud_backend.log.partitions import place_in


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


def held_by(sources: Sources, copy: LogCopy, deletion: Deletion) -> str:
    """What keeps Kafka from forgetting what a device had sent, in words; "" when it has."""
    partition = copy.holds(deletion.device, since_us=deletion.asked_us)
    if partition is None:
        return ""
    reached: dict[str, int] = {}
    for name, store in sources.stores().items():
        try:
            place = place_in(json.loads((store / "stable.json").read_bytes()))
        except (OSError, ValueError):
            place = {}
        reached[name] = place.get(partition, 0)
    whom = f"job {min(reached, key=lambda name: reached[name])!r} needs" if reached else "a job says that it needs"
    return f"partition {partition} of the log in Kafka, until {whom} it no more"
