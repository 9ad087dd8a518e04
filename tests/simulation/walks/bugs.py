"""Planted bugs of ways that change, each with the kind of world that shows it and who must notice."""

from __future__ import annotations

from dataclasses import dataclass

STAMPS, ROUTING = "shared/hosting/stamps.py", "shared/hosting/routing.py"
CARRIER, RETURNING = "shared/hosting/carrier.py", "shared/hosting/returning.py"
TAKING, VERTICES = "shared/hosting/taking.py", "shared/hosting/vertices.py"
FOLLOWING = "shared/hosting/following.py"


@dataclass(frozen=True, slots=True)
class WalkBug:
    name: str
    edits: tuple[tuple[str, str, str], ...]
    checkers: tuple[str, ...]  # any of these counts; the first is the one whose promise was broken
    kind: str = "calm"


BUGS = (
    WalkBug(
        "stamp-ignored",
        ((STAMPS, "return run.apply(batch, place, len(run), device)",
          "return run.apply(batch, place - 1 if place == 2 else place, len(run), device)"),),
        ("AppliedOnce", "OutputAsIdeal", "ConvergesAfterHeal"),
    ),
    WalkBug(
        "stamp-not-raised",
        ((STAMPS, "schema_id=rows.schema.id, applied=rows.applied,", "schema_id=rows.schema.id, applied=batch.applied,"),),
        ("AppliedOnce", "NothingBreaks", "OutputAsIdeal", "ConvergesAfterHeal"),
    ),
    WalkBug(
        "operator-applied-twice",
        ((STAMPS, "return run.apply(batch, place, len(run), device)",
          "return run.apply(batch, place, len(run), device) if place < 4 else run.apply(batch, 3, 4, device)"),),
        ("AppliedOnce", "OutputAsIdeal", "ConvergesAfterHeal"),
    ),
    WalkBug(
        "whole-query-redeployed",
        ((ROUTING, "return (replace(query, routes=tuple(routes.values())), events) if events else (query, [])",
          "placed = tuple(replace(one, term=one.term + 1) for one in query.placements)\n"
          "        return (replace(query, routes=tuple(routes.values()), placements=placed), events) if events else (query, [])"),),
        ("OthersUndisturbed",),
    ),
    WalkBug(
        "carrier-receipts-what-it-has",
        ((CARRIER, "return min(self.taken, self._outbox.through(self.edge))", "return self.taken"),),
        ("TrimNeverPassesReader", "NothingLost", "ConvergesAfterHeal"),
    ),
    WalkBug(
        "rerouted-without-need",
        ((RETURNING, "looks = self.looks_until is not None and", "looks = False and"),),
        ("OnlyUnreachable",),
    ),
    WalkBug(
        "alternate-does-not-pass-on",
        ((TAKING, "if key in here.standby:\n            here.roused.add(key)", "if key in here.standby:\n            pass"),),
        ("GoesOnAlone",),
        "alone",
    ),
    WalkBug(
        "coordinator-waited-for",
        ((RETURNING, "return all(sender.disconnected for sender in asked) if asked else self._ungoverned", "return False"),),
        ("GoesOnAlone",),
        "alone",
    ),
    WalkBug(
        "detour-not-taken",
        ((RETURNING, "turned = self._turn_carriers(here.deployed, now)", "turned = False"),),
        ("GoesAround",),
        "detour",
    ),
    WalkBug(
        "taken-way-never-forgotten",
        ((FOLLOWING, "        self._alternates.forget()\n", ""),),
        ("Adopted",),
        "alone",
    ),
    WalkBug(
        "forwarding-ended-before-drained",
        ((RETURNING, "return bool(readers) and all(self._here.outbox.reading(node).taken.get(edge, -1) >= head for node in readers)",
          "return bool(readers)"),),
        ("EndsWhenDrained",),
        "slow",
    ),
    WalkBug(
        "slower-query-ignored",
        (("shared/hosting/wiring.py", "ways = _shortest([one | {*way} for one in ways for way in each.edge.ways])",
          "ways = [frozenset(way) for way in fed[0].edge.ways]"),),
        ("TrimNeverPassesReader", "NothingLost", "ConvergesAfterHeal", "OutputAsIdeal"),
        "shared",
    ),
    WalkBug(
        "receipt-of-another-query",
        (("shared/sync/sender.py", "if speaks_for(edge.read, receipt.term, receipt.readers, receipt.carried):", "if edge.met:"),),
        ("TrimNeverPassesReader", "NothingLost", "ConvergesAfterHeal", "OutputAsIdeal"),
        "shared",
    ),
    WalkBug(
        "applied-what-only-one-wants",
        (("shared/hosting/wiring.py", "in_common([each.runs.run for each in alike])", "len(alike[0].runs)"),),
        ("BacklogDrains", "AppliedOnce", "NothingBreaks", "OutputAsIdeal", "ConvergesAfterHeal"),
        "shared",
    ),
    WalkBug(
        "duplicate-of-second-path",
        ((VERTICES, "if data.hi <= arrived:\n            return None", "if data.hi <= 0:\n            return None"),
         (VERTICES, "batch if batch.lo >= arrived else batch.after(arrived)", "batch"),
         (TAKING, "if len(self._legs[key] & self._live_legs) > 1:", "if not key:")),
        ("AppliedOnce", "OutputAsIdeal", "NothingBreaks", "ConvergesAfterHeal"),
        "slow",
    ),
)  # fmt: skip
