"""What Spark left out, as entries of the ledger.

A batch that an operator cannot bear had been delivered before: its records are in the log, the first writer has decided
its range, and the account counts it as delivered for good. So quarantine is no fifth disposition and no tombstone is
written for it, which would be a second one. It is an entry beside the dispositions: this vertex did not use these
elements, and why. A rollback that runs the epoch again replaces it: a corrected operator takes the batch back in.

Where no batch is to blame, because an operator raises on state that was fine when its rows came, the entry names the
key whose state was left out instead ("state of VERTEX", no elements counted: they had been used).
"""

from __future__ import annotations

import heapq

from cloud_backend.spark.manifest.entries import Json
from cloud_backend.spark.manifest.manifest import Manifest


def quarantine(manifest: Manifest, newest: int | None = None) -> list[Json]:
    """Every batch or row that counts as left out now, by epoch, or the newest ones. Rows between vertices have no
    device of their own."""
    places = heapq.nlargest(newest or len(manifest.quarantined), manifest.quarantined, key=lambda place: place[2])
    found = [
        {
            "kind": "quarantined", "vertex": vertex, "range": str(range_), "epoch": epoch,
            "device": each.device or "", "incarnation": each.incarnation or 0, "edge": each.edge,
            "lo": each.lo, "hi": each.hi, "elements": each.hi - each.lo, "key": list(each.key or ()),
            "reason": each.reason, "code": each.code,
        }
        for vertex, range_, epoch in reversed(places)
        for each in manifest.quarantined[vertex, range_, epoch]
    ]  # fmt: skip
    return found if newest is None else found[-newest:]


def quarantined_count(manifest: Manifest) -> int:
    return sum(map(len, manifest.quarantined.values()))


def quarantined_elements(manifest: Manifest) -> int:
    return sum(each.hi - each.lo for left_out in manifest.quarantined.values() for each in left_out)
