"""Planted bugs of nodes that share a query, each with the program and strategy that shows it and who must notice."""

from __future__ import annotations

from dataclasses import dataclass

HOST, INSTANCE, STORE = "shared/hosting/host.py", "shared/hosting/instance.py", "shared/hosting/store.py"
EXCHANGE, COMPOSER, OUTBOX = "shared/sync/exchange.py", "shared/sync/composer.py", "shared/sync/outbox.py"
CHECKPOINTS, EXECUTOR = "shared/recovery/checkpoints.py", "shared/recovery/executor.py"


@dataclass(frozen=True, slots=True)
class PeerBug:
    name: str
    edits: tuple[tuple[str, str, str], ...]
    checkers: tuple[str, ...]  # any of these counts; the first is the one whose promise was broken
    program: str = "chain"
    row: str = "ecoc"


BUGS = (
    PeerBug(
        "receipt-plus-one",
        ((HOST, "min(through, instance.checkpoints.through(label))", "min(through, instance.checkpoints.through(label) + 1)"),),
        ("TrimNeverPassesReader",),
    ),
    PeerBug(
        "receipt-is-taken",
        ((HOST, "key.edge, through, taken, term, credit, load)", "key.edge, taken, taken, term, credit, load)"),),
        ("TrimNeverPassesReader",),
    ),
    PeerBug(
        "commit-before-readers",
        ((CHECKPOINTS, "return all(self._is_acknowledged(pending, edge) for edge in self.outputs)", "return True"),),
        ("RelaxedConsistency", "TrimNeverPassesReader"),
    ),
    PeerBug(
        "extension-not-copied",
        ((INSTANCE, "for label, (lo, hi) in store.extension.items()}\n        whole", "for label, (lo, hi) in ()}\n        whole"),),
        ("TrimNeverPassesReader", "NothingLost", "OutputAsIdeal"),
        row="uncoordinated",
    ),
    PeerBug(
        "marks-not-sent-again",
        ((HOST, "for mark in maker.checkpoints.marks_to_send(spec.label):", "for mark in ():"),),
        ("PendingDrains",),
    ),
    PeerBug(
        "mark-overtakes-data",
        ((COMPOSER, "while mark is not None and mark.position <= entry.lo:", "while mark is not None:"),
         (EXCHANGE, "if position <= high_water:  # behind", "if True:  # behind")),
        ("PendingDrains", "RelaxedConsistency"),
    ),
    PeerBug(
        "term-not-bumped",
        ((EXECUTOR, "term=max(placed.term, plan.fences.get(vertex, 0))", "term=placed.term"),),
        ("ConvergesAfterHeal", "OneOutputPerNumber"),
    ),
    PeerBug(
        "fence-ignored",
        ((EXCHANGE, "return header.term == term\n", "return True\n"),),
        ("StaleTermChangesNothing", "OneOutputPerNumber"),
    ),
    PeerBug(
        "keeper-answers-before-sync",
        ((STORE, "        case KeepSnapshot(name, data):\n            disk.replace(name, data)\n",
          "        case KeepSnapshot(name, data):\n            disk.open(name, create=True).write(0, data)\n"),),
        ("KeptIsDurable",),
    ),
    PeerBug(
        "index-by-session",
        ((EXCHANGE, "incoming = self._incoming.get(key) or IncomingEdge(", "incoming = IncomingEdge("),),
        ("OneOutputPerNumber",),
        row="rep-2",
    ),
    PeerBug(
        "straddling-batch-not-cut",
        ((OUTBOX, "return cut(batch, entry.lo, batch.hi, self._outbox.schema(batch.edge, batch.schema_id))", "return batch"),),
        ("ConvergesAfterHeal", "PendingDrains"),
    ),
)  # fmt: skip
