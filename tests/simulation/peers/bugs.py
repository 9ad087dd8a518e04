"""Planted bugs of nodes that share a query, each with the program and strategy that shows it and who must notice."""

from __future__ import annotations

from dataclasses import dataclass

INSTANCE, STORE = "shared/hosting/instance.py", "shared/hosting/store.py"
TAKING, HEARING, CUTTING = "shared/hosting/taking.py", "shared/hosting/hearing.py", "shared/hosting/cutting.py"
FOLLOWING, LANES = "shared/hosting/following.py", "shared/hosting/lanes.py"
EXCHANGE, COMPOSER, OUTBOX = "shared/sync/exchange.py", "shared/sync/composer.py", "shared/sync/outbox.py"
CHECKPOINTS, EXECUTOR = "shared/recovery/checkpoints.py", "shared/recovery/executor.py"
COORDINATE, REIGN = "shared/hosting/coordinate.py", "shared/hosting/reign.py"
ANSWERS, KEEPER = "shared/recovery/strategies/answers.py", "shared/hosting/keeper.py"
KEPT = "shared/hosting/kept_snapshot.py"
PLANNED, COPIES = "shared/hosting/planned_moves.py", "shared/hosting/copies.py"
USER_OPERATORS = "shared/engine/user_operators.py"
DOWNLINK = "shared/hosting/fleet_downlink.py"


@dataclass(frozen=True, slots=True)
class PeerBug:
    name: str
    edits: tuple[tuple[str, str, str], ...]
    checkers: tuple[str, ...]  # any of these counts; the first is the one whose promise was broken
    program: str = "chain"
    row: str = "ecoc"
    world: str = "disturbed"


BUGS = (
    PeerBug(
        "receipt-plus-one",
        ((TAKING, "min(through, instance.checkpoints.through(label))", "min(through, instance.checkpoints.through(label) + 1)"),),
        ("TrimNeverPassesReader",),
    ),
    PeerBug(
        "receipt-is-taken",
        ((TAKING, "key.edge, through, taken, term, credit, load, readers, carried", "key.edge, taken, taken, term, credit, load, readers, carried"),),
        ("TrimNeverPassesReader",),
    ),
    PeerBug(
        "commit-before-readers",
        ((CHECKPOINTS, "return all(self._is_acknowledged(pending, edge) for edge in self.outputs)", "return True"),),
        ("RelaxedConsistency", "TrimNeverPassesReader"),
    ),
    PeerBug(
        "extension-not-copied",
        ((INSTANCE, "for label, (lo, hi) in store.extension.items()}\n        batches", "for label, (lo, hi) in ()}\n        batches"),),
        ("TrimNeverPassesReader", "NothingLost", "OutputAsIdeal"),
        row="uncoordinated",
    ),
    PeerBug(
        "marks-not-sent-again",
        ((HEARING, "for mark in maker.checkpoints.marks_to_send(spec.label):", "for mark in ():"),),
        ("PendingDrains",),
    ),
    PeerBug(
        "mark-overtakes-data",
        ((COMPOSER, "while mark is not None and mark.position <= entry.lo:", "while mark is not None:"),
         (EXCHANGE, "if position <= high_water:  # behind", "if True:  # behind")),
        ("PendingDrains", "RelaxedConsistency"),
        world="narrow",
    ),
    PeerBug(
        "term-not-bumped",
        ((EXECUTOR, "term = max(placed.term, plan.fences.get(vertex, 0))", "term = placed.term"),),
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
        ((OUTBOX, "return self._outbox.leave(cut(batch, entry.lo, batch.hi, self._outbox.schema(batch.edge, batch.schema_id)))", "return self._outbox.leave(batch)"),),
        ("ConvergesAfterHeal", "PendingDrains"),
        "merging", world="narrow",
    ),
    PeerBug(
        "same-id-wait-on-a-cycle",
        ((ANSWERS, "if pending is not None and edge in mine.back:", "if False:"),),
        ("PendingDrains",),
        "sp3", "extended-ecoc",
    ),
    PeerBug(
        "unordered-extension",
        ((CHECKPOINTS, "for pending in reversed(self._pending) if pending.id < id)", "for pending in reversed(self._pending))"),),
        ("PendingDrains", "ConvergesAfterHeal"),  # what waits for ever is never trimmed, and fills its node
        "sp4", "extended-ecoc",
    ),
    PeerBug(
        "time-passes-held-rows",
        ((USER_OPERATORS, "return min(frontier_us, min(since, default=frontier_us))", "return frontier_us"),),
        ("NothingBehindTheFrontier",),
        "sp3", "extended-ecoc",
    ),
    PeerBug(
        "order-follows-the-steps-of-time",
        ((INSTANCE, 'self._moment_by_moment = spec.vertex.merge != "ordered"', "self._moment_by_moment = False"),),
        ("OneOutputPerNumber",),
        "sp3", "ecoc-region",
    ),
    PeerBug(
        "vertex-waits-for-its-readers",
        ((TAKING, "in here.readers_of.get(key, ()) if not instance.failed]\n        if key in here.sinks",
          "in here.readers_of.get(key, ()) if not instance.failed and (instance.term == 1 or all(edge.key.edge in "
          "here.outbox.reading(node).taken for edge in instance.spec.outputs.values() for node in edge.readers))]\n"
          "        if key in here.sinks"),),
        ("ConvergesAfterHeal",),
        "sp3", "extended-ecoc",
    ),
    PeerBug(
        "changes-put-to-another-snapshot",
        ((KEEPER, "if newest != snapshot.after:", "if not newest:"),),
        ("KeptIsDurable", "OneOutputPerNumber", "OutputAsIdeal"),
        "many", world="older",
    ),
    PeerBug(
        "changes-before-the-last-dropped",
        ((KEPT, "onto=(*before.states, *self.onto)", "onto=(*before.states[:1], *self.onto)"),),
        ("KeptIsDurable", "OneOutputPerNumber", "OutputAsIdeal"),
        "many", "extended-ecoc",
    ),
    PeerBug(
        "changes-that-were-passed-over-not-sent",
        ((KEPT, "return replace(self, onto=self.onto[known:], after=after)", "return replace(self, onto=(), after=after)"),),
        ("OneOutputPerNumber", "OutputAsIdeal"),
        "many", "uncoordinated", "eager",
    ),
    PeerBug(
        "keeper-forgets-its-place",
        ((KEEPER, "stays = {*self._read_last.values()}", "stays = {*self._specs}"),),
        ("PendingDrains", "ConvergesAfterHeal"),
        "sp3", "dist-3",
    ),
    PeerBug(
        "handed-over-before-the-final-state",
        ((PLANNED, "if not any(number >= offered for number in numbers):", "if False:"),),
        ("NothingLost", "ConvergesAfterHeal", "OneOutputPerNumber"),
        row="none", world="moving",
    ),
    PeerBug(
        "inputs-of-a-moving-vertex-are-given-up",
        ((CHECKPOINTS, "return self._taken[edge] if self._held is None else self._held[edge]", "return self._taken[edge]"),),
        ("NothingLost", "ConvergesAfterHeal", "OneOutputPerNumber"),
        row="none", world="moving",
    ),
    PeerBug(
        "term-not-bumped-at-a-move",
        ((PLANNED, "keepers=keepers, term=placed.term + 1,", "keepers=keepers, term=placed.term,"),),
        ("AMoveBeginsATerm",),
        world="moving",
    ),
    PeerBug(
        "fence-ignored-at-a-move",
        ((EXCHANGE, "return header.term == term\n", "return True\n"),),
        ("StaleTermChangesNothing", "OneOutputPerNumber"),
        world="moving",
    ),
    PeerBug(
        "hold-ignored",
        ((INSTANCE, "if isinstance(answer, Hold):  # those", "if False:  # those"),),
        ("RegionCutConsistent",),
        "meeting", "token", "halved",
    ),
    PeerBug(
        "complete-before-all-sinks",
        ((CUTTING, "return number if reached else 0", "return number"),),
        ("WhatLeftHasArrived", "RegionCutConsistent"),
        "regions", "token",
    ),
    PeerBug(
        "urgent-lane-not-taken",
        ((HEARING, "if event.code in BROKEN and self._calling.lanes.turn(node, now):", "if False:"),),
        ("NobodyGoesBack",),
        "regions", "token", "wifi",
    ),
    PeerBug(
        "urgent-answer-ends-urgent-mode",
        ((LANES, "return not urgent and self._lanes.pop(node, None) is not None", "return self._lanes.pop(node, None) is not None"),),
        ("NobodyGoesBack", "OnlyStraysHandOver"),
        "regions", "token", "wifi",
    ),
    PeerBug(
        "catch-up-discarded",
        ((TAKING, "            if data is not None:\n                lo = max(record.lo, sink.taken)\n",
          "            seen, sink.seen = getattr(sink, 'seen', 1), decode_one(record.frame)[0].term\n"
          "            if data is not None and sink.seen > seen:\n                sink.taken = record.hi\n"
          "            elif data is not None:\n                lo = max(record.lo, sink.taken)\n"),),
        ("OneOutputPerNumber", "NothingBreaks"),
        row="token", world="halved",
    ),
    PeerBug(
        "copies-trimmed-at-the-mark",
        ((COPIES, "*self.collect(self._complete)]", "*self.collect(cut)]"),),
        ("CopiesEverywhere",),
        row="token", world="halved",
    ),
    PeerBug(
        "mark-behind-broadcast-rows",
        (("shared/hosting/rows_lane.py", "while marks and marks[0].position <= hi:", "while False:"),),
        ("CopiesEverywhere", "RegionCutConsistent"),
        "wide", "token", "large",
    ),
    PeerBug(
        "lease-not-raised",
        ((COORDINATE, "lease=fleet.lease + lease_step)", "lease=fleet.lease)"),),
        ("OneRules", "OneWordPerVersion", "FollowsNothingOlder", "ConvergesAfterHeal"),
        "governed", "standby",
    ),
    PeerBug(
        "restored-coordinator-learns-nothing",
        ((REIGN, "return follows <= self._before or (follows[0] == own.lease and follows[1] <= own.version)", "return True"),),
        ("OneRules", "OneWordPerVersion", "ConvergesAfterHeal"),
        "governed", "restore",
    ),
    PeerBug(
        "stale-deployment-accepted",
        ((REIGN, "return follows <= self._before or (follows[0] == own.lease and follows[1] <= own.version)", "return True"),
         (FOLLOWING, "if deployment.version < memory.version:", "if False:")),
        ("FollowsNothingOlder",),
        "governed", "restore",
    ),
    PeerBug(
        "deposed-coordinator-goes-on",
        ((REIGN, "        if shown.lease >= own.lease and self._ruled:\n", "        if False:\n"),
         ("tests/simulation/peers/governed.py", "        if lease < self.lease:\n", "        if False:\n")),
        ("OneRules",),
        "governed", "standby",
    ),
    PeerBug(
        "never-the-whole-after-a-refusal",
        ((DOWNLINK, "before = self._before.get(follows)", "before = self._before.get(follows) and next(iter(self._before.values()))"),
         (DOWNLINK, 'return encoded if base_digest(encoded).hex() == said else b""', "return encoded"),
         (DOWNLINK, "if before is None or count > SHORTENED:", "if before is None:")),
        ("OneRules", "ConvergesAfterHeal"),
        "governed", "gateway",
    ),
)  # fmt: skip
