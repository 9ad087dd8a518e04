"""Bugs to plant into the production machine, each of which a named checker must notice."""

from __future__ import annotations

from dataclasses import dataclass

MACHINE = "shared/recovery/checkpoints.py"
ANSWERS = "shared/recovery/strategies/answers.py"


@dataclass(frozen=True, slots=True)
class Bug:
    name: str
    file: str
    old: str
    new: str
    checkers: tuple[str, ...]  # any of them; the first is the one whose promise was broken


BUGS = (
    Bug(
        "commit-before-readers", MACHINE,
        "return all(self._is_acknowledged(pending, edge) for edge in self.outputs)", "return True",
        ("RelaxedConsistency",),
    ),
    Bug(
        "extension-not-copied", MACHINE,
        "if start < pending.heads[edge]\n", "if False\n",
        ("RelaxedConsistency", "PermanentRestores"),
    ),
    Bug(
        "same-id-wait-on-a-cycle", ANSWERS,
        "if pending is not None and edge in mine.back:", "if False:",
        ("PendingDrains",),
    ),
    Bug(
        "unordered-extension", MACHINE,
        "for pending in reversed(self._pending) if pending.id < id)", "for pending in reversed(self._pending))",
        ("PendingDrains",),
    ),
    Bug(
        "ids-ordered-differently-at-each-vertex", MACHINE,
        "for pending in reversed(self._pending) if pending.id < id)",
        "for pending in reversed(self._pending)\n"
        "            if (pending.id.number, hash((self._initiator, pending.id.initiator)))\n"
        "            < (id.number, hash((self._initiator, id.initiator))))",
        ("PendingDrains",),
    ),
    Bug(
        "marks-not-sent-again", MACHINE,
        "if not pending.alone and pending is not self._storing and not self._is_acknowledged(pending, edge)\n", "if False\n",
        ("PendingDrains",),
    ),
    Bug(
        "receipt-plus-one", MACHINE,
        "            return self.permanent.inputs[edge]\n", "            return self.permanent.inputs[edge] + 1\n",
        ("TrimNeverPassesAReader",),
    ),
    Bug(
        "permanent-forgotten", MACHINE,
        "return self.find(id) is None and id.number > self._done.get(id.initiator, 0)", "return self.find(id) is None",
        ("OneSnapshotPerMark",),
    ),
    Bug(
        "permanent-before-stored", MACHINE,
        "            self._events.append(Store(pending.id, extension, dict(pending.recorded)))\n",
        "            self._events.append(Store(pending.id, extension, dict(pending.recorded)))\n"
        "            self.permanent = Permanent(pending.id, pending.inputs, pending.heads, pending.starts)\n",
        ("PermanentRestores", "TrimNeverPassesAReader"),
    ),
    Bug(
        "extension-begins-too-late", MACHINE,
        "return {edge: min(self._through[edge], head) for edge, head in pending.heads.items()}",
        "return {edge: min(pending.waits.get(edge, head), head) + 1 for edge, head in pending.heads.items()}",
        ("RelaxedConsistency", "PermanentRestores"),
    ),
)  # fmt: skip
