"""What Spark left out, as entries of the ledger.

A batch that an operator cannot bear had been delivered before: its records are in the log, the first writer has decided
its range, and the account counts it as delivered for good. So quarantine is no fifth disposition and no tombstone is
written for it, which would be a second one. It is an entry beside the dispositions: this vertex did not use these
elements, and why. A rollback that runs the epoch again replaces it: a corrected operator takes the batch back in.

Where no batch is to blame, because an operator raises on state that was fine when its rows came, the entry names the
key whose state was left out instead ("state of VERTEX", no elements counted: they had been used).
"""

from __future__ import annotations

from cloud_backend.spark.manifest.entries import Json
from cloud_backend.spark.manifest.manifest import Manifest


def quarantine(manifest: Manifest) -> list[Json]:
    """Every batch or row that counts as left out now, by epoch. Rows between vertices have no device of their own."""
    return [
        {
            "kind": "quarantined", "vertex": vertex, "range": str(range_), "epoch": epoch,
            "device": each.device or "", "incarnation": each.incarnation or 0, "edge": each.edge,
            "lo": each.lo, "hi": each.hi, "elements": each.hi - each.lo, "key": list(each.key or ()),
            "reason": each.reason, "code": each.code,
        }
        for (vertex, range_, epoch), left_out in sorted(manifest.quarantined.items(), key=lambda item: item[0][2])
        for each in left_out
    ]  # fmt: skip
