"""Planted bugs: small edits to production source, each of which a named checker must notice.

A harness that catches nothing proves nothing. Each bug is a list of (file, old, new); a test applies it to a copy
of the tree, runs seeds there until a checker fires, and requires one of the expected checkers to be the one.
Where the product guards a promise twice the bug removes both guards: otherwise the second would hide the first.
"""

from __future__ import annotations

from dataclasses import dataclass

EXCHANGE = "shared/sync/exchange.py"
RECEIVER = "shared/sync/receiver.py"
SENDER = "shared/sync/sender.py"
COMPOSER = "shared/sync/composer.py"
SESSION = "shared/sync/session.py"
RING = "shared/spool/ring.py"
LOG = "cloud_backend/log/log.py"
INDEX = "cloud_backend/log/index.py"

# A range that should not be kept is.
TAKEN = "            self.elements += hi - lo\n            self.high_water[slot] = hi\n            return True\n"
NO_GUARD_IN_THE_LOG = (INDEX, "if seq != state.high_water or not count:", "if not count:")


@dataclass(frozen=True, slots=True)
class Bug:
    name: str
    edits: tuple[tuple[str, str, str], ...]
    checkers: tuple[str, ...]  # any of these counts; the first is the one whose promise was broken


BUGS = (
    Bug(
        "acknowledge-before-sync",
        ((LOG, "group.next_header is None:\n                self._syncing = True\n                self._file.sync()\n",
          "group.next_header is None:\n                self._syncing = True\n"),),
        ("AcknowledgedIsDurable", "CommittedIsDurable", "OpensAfterCrash"),
    ),
    Bug(
        "no-duplicate-check",
        ((EXCHANGE, "            self.duplicates += 1\n", TAKEN), NO_GUARD_IN_THE_LOG),
        ("NoElementTwice", "OrderWithinEdge"),
    ),
    Bug(
        "gap-accepted",
        ((EXCHANGE, "            self.gaps += 1\n", TAKEN),
         (COMPOSER, "for entry in edge.store.pending(edge.number):\n",
          "for entry in list(edge.store.pending(edge.number))[outstanding.results_through % 2 :]:\n"),
         NO_GUARD_IN_THE_LOG),
        ("OrderWithinEdge",),
    ),
    Bug(
        "sequence-reset-after-restart",
        ((RING, "for head in contents.heads()]", "for head in contents.heads() if head.delivered < head.head]"),),
        ("SequenceNeverReset", "OpensAfterCrash"),
    ),
    Bug(
        "result-cursor-not-persisted",
        ((SENDER, "StoreResults(self._results_through, tuple(results))", "StoreResults(0, tuple(results))"),),
        ("ResultAppliedOnce",),
    ),
    Bug(
        "result-applied-twice",
        ((SENDER, "                self._results_through = result.seq\n", "                self._results_through = result.seq - 1\n"),),
        ("ResultAppliedOnce",),
    ),
    Bug(
        "receipt-beyond-durable",
        ((RECEIVER, "edge.key.edge, edge.high_water))", "edge.key.edge, edge.high_water + 1))"),
         (RING, "if not contents.is_boundary(through):", "if False:"),
         (SENDER, "if receipt.through > most:", "if False:"),
         (RING, "if contents is None or through > contents.head:", "if contents is None:")),
        ("AcknowledgedIsDurable",),
    ),
    Bug(
        "trim-before-receipt",
        ((COMPOSER, "                edge.store.sent(edge.number, entry.hi)\n", "                edge.store.trim(edge.number, entry.hi)\n"),),
        ("ConservationOfElements",),
    ),
    Bug(
        "tombstone-not-durable-before-overwrite",
        ((RING, "        units = -(-length // UNIT_BYTES)\n", "        units = -(-length // UNIT_BYTES)\n        self._release_removed()\n"),),
        ("LossIsDeclared", "ConservationOfElements", "DeliveredAsProduced", "SequenceNeverReset"),
    ),
    Bug(
        "tombstones-not-sent",
        ((COMPOSER, "for entry in edge.store.pending(edge.number):\n            size = ",
          "for entry in edge.store.pending(edge.number):\n            if isinstance(entry, Tombstone):\n"
          "                continue\n            size = "),),
        ("ConvergesAfterHeal",),
    ),
    Bug(
        "sent-before-durable",
        ((RING, "            if entry.lo >= contents.unsynced:\n                return\n", ""),
         (SENDER, "        elif due:\n", "        if due:\n"),
         (SENDER, "            self._persist.append(SyncSpool())\n            self._unsynced_since = None\n",
          "            if not due:\n                self._persist.append(SyncSpool())\n            self._unsynced_since = None\n")),
        ("SequenceNeverReset", "DeliveredAsProduced"),
    ),
    Bug(
        "partial-overlap-accepted",
        ((EXCHANGE, "        else:\n            raise PeerError(\n                f\"range [", f"        elif True:\n{TAKEN}        else:\n            raise PeerError(\n                f\"range ["),
         (COMPOSER, "                edge.store.sent(edge.number, entry.hi)\n", "                pass\n"),  # so that tombstones grow after they were sent
         NO_GUARD_IN_THE_LOG),
        ("NoElementTwice", "OrderWithinEdge"),
    ),
    Bug(
        "stale-session-accepted",
        ((SESSION, "            self._close(other)\n", "            pass\n"),),
        ("NewestSessionOnly", "StatusNeverGoesBack"),
    ),
    Bug(
        "counter-replay-accepted",
        ((SESSION, "        fresh = counter > session.counter\n", "        fresh = True\n"),),
        ("ExchangeAppliedOnce", "StatusNeverGoesBack"),
    ),
    Bug(
        "high-water-kept-after-a-failed-write",
        ((RECEIVER, "        self._devices.clear()\n", ""),),
        ("AcknowledgedIsDurable", "NothingBreaks"),
    ),
    Bug(
        "backoff-never-ends",
        (("shared/sync/pacing.py", "min(self.backoff_s_max, ", "max(600.0, "),),
        ("ConvergesAfterHeal",),
    ),
    Bug(
        "plan-version-ignored",
        ((SENDER, "elif frame.type is FrameType.PLAN and frame.seq > self._plan_version:", "elif frame.type is FrameType.PLAN:"),
         (SENDER, "        self._plan_version = message.version\n", "        self._plan_version = message.version - 2\n"),
         (SENDER, "StorePlan(message.version, message.plan)", "StorePlan(self._plan_version, message.plan)")),
        ("PlanNeverGoesBack", "ConvergesAfterHeal"),
    ),
)  # fmt: skip
