"""Who must go back, who must replay, and to which epoch: one pure function.

Each vertex of a job has a position (the last epoch it committed), the epochs whose snapshots are intact, and a
recorded output per epoch. When the vertices F fail, or an operator wants them undone, `rollback` answers with

* R, the vertices that are restored from a snapshot and run again,
* E, the vertices outside R whose recorded output R reads again,
* the epoch everything in R is restored to.

The rule: d is in R iff d is in F, or some input of d is in R and *changed*. changed(v) = v is nondeterministic,
merges by arrival, runs different code, config or numeric platform than before, or has a changed input in R. So a
crash in a deterministic graph rolls back exactly F. Records lost at a vertex of E put it into R as well, because
its output must be made again; being deterministic it takes nobody with it.

Sonora's own rule (everything downstream) and full rollback are selectable, for comparison. The answer is the
smallest consistent undo: for a given epoch c the set is a least fixed point, a lower c only needs more records and so
a larger set, and therefore the highest c at which the whole set has snapshots wins. The property test checks it
against brute force.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum

from shared.errors import UsageError

BEFORE_ALL = 0  # the epoch before the first: no state, nothing read; intact unless the log was collected
FAILED = "failed"  # why a range goes back that nothing else takes with it


class Merge(Enum):
    """How a vertex with several inputs interleaves them."""

    ORDERED = "ordered"  # by (event time, edge, seq)
    LOGGED = "logged"  # as they came, and the interleaving is recorded
    ARRIVAL = "arrival"  # as they came: a second run may differ


class Rule(Enum):
    """How far a rollback spreads."""

    CHANGED = "changed"
    SONORA = "sonora"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class VertexManifest:
    """What the manifest knows of one vertex (or of one hash range of it).

    Three more conditions need no flag, because nothing else can be built: folds do not depend on batches (conformance
    compares bit for bit), clocks, timers and configuration enter as numbered inputs, results go out by identity."""

    inputs: tuple[str, ...] = ()
    position: int = 0  # the last epoch it committed
    snapshots: frozenset[int] = frozenset({BEFORE_ALL})  # epochs it can be restored to
    deterministic: bool = True
    merge: Merge = Merge.ORDERED
    same_code: bool = True  # and numeric platform: the hash that commits carry covers both
    same_config: bool = True  # the plan it ran had the same operators in it

    @property
    def repeats_itself(self) -> bool:
        """Given the same numbered inputs and snapshot, a second run gives the same output, bit for bit."""
        return self.deterministic and self.merge is not Merge.ARRIVAL and self.same_code and self.same_config


@dataclass(frozen=True, slots=True)
class Move:
    """Where a vertex is from now on."""

    hosts: tuple[str, ...]
    keepers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """The only thing a strategy returns on failure.

    The second half is for vertices on nodes. It says what shall be, not what to do: twice is as once."""

    rollback: frozenset[str]  # R
    replay: Mapping[str, int] = field(default_factory=dict)  # E: vertex -> first epoch, or position, it replays
    epoch: int = BEFORE_ALL
    changed: frozenset[str] = frozenset()  # the part of R whose output may differ from what was recorded
    reasons: Mapping[str, str] = field(default_factory=dict)  # why each vertex of R is in it
    moves: Mapping[str, Move] = field(default_factory=dict)  # vertex -> its new place, or new keepers at the old one
    bypasses: frozenset[str] = frozenset()  # vertices that nobody can run: their readers take what they would have
    forwards: Mapping[tuple[str, str], str] = field(default_factory=dict)  # (node, node) -> node that relays between
    fences: Mapping[str, int] = field(default_factory=dict)  # vertex -> term below which its control messages are void
    forgotten: frozenset[str] = frozenset()  # the part of R that starts from nothing: a loss that must be declared


def rollback(
    failed: Collection[str],
    manifests: Mapping[str, VertexManifest],
    lost_records: Collection[tuple[str, int]] = (),
    *,
    to: int | None = None,
    rule: Rule = Rule.CHANGED,
    recorded_from: Mapping[str, int] | None = None,
) -> RecoveryPlan:
    """R, E and the epoch for these failed vertices. `lost_records` are (vertex, epoch) pairs whose recorded output is
    gone, `recorded_from` the first epoch of each vertex whose record was not collected. `to` is the newest epoch that
    may be kept of the failed vertices; without it, as much as is intact."""
    unknown = sorted(set(failed) - manifests.keys())
    if unknown:
        raise UsageError(
            f"no vertex {unknown[0]!r} (have: {', '.join(sorted(manifests))})", code="rollback-unknown-vertex"
        )
    if not failed:
        return RecoveryPlan(frozenset())
    lost = frozenset(lost_records)
    newest = max(manifests[name].position for name in failed)
    ceiling = newest if to is None else min(to, newest)
    candidates = sorted(
        {epoch for name in failed for epoch in manifests[name].snapshots if epoch <= ceiling}, reverse=True
    )
    for epoch in candidates:
        reasons = _spread(failed, manifests, lost, epoch, rule=rule, recorded_from=recorded_from or {})
        if all(epoch in manifests[name].snapshots for name in reasons):
            members = frozenset(reasons)
            replay = {
                source: epoch + 1
                for name in sorted(members)
                for source in manifests[name].inputs
                if source not in members
            }
            return RecoveryPlan(members, replay, epoch, _changed(members, manifests), reasons)
    raise UsageError(
        f"no epoch up to {ceiling} has intact snapshots and records for {', '.join(sorted(failed))}; "
        "what is older was collected: choose a later epoch, or widen the rollback horizon for next time",
        code="rollback-beyond-horizon",
    )


def _spread(
    failed: Collection[str],
    manifests: Mapping[str, VertexManifest],
    lost: frozenset[tuple[str, int]],
    epoch: int,
    *,
    rule: Rule,
    recorded_from: Mapping[str, int],
) -> dict[str, str]:
    """The least set closed under the rule when everything in it restarts after `epoch`, with a reason for each."""
    if rule is Rule.FULL:
        return {name: FAILED if name in failed else "full rollback" for name in sorted(manifests)}
    reasons = dict.fromkeys(sorted(failed), FAILED)
    while True:
        changed = _changed(frozenset(reasons), manifests)
        added: dict[str, str] = {}
        for name, manifest in sorted(manifests.items()):
            if name in reasons:
                continue
            for source in manifest.inputs:
                if source in reasons and (rule is Rule.SONORA or source in changed):
                    added[name] = f"input {source} " + ("changed" if rule is Rule.CHANGED else "rolls back")
                    break
        for name in sorted(reasons):
            for source in manifests[name].inputs:
                if source in reasons or source in added:
                    continue
                if epoch < manifests[name].position and epoch + 1 < recorded_from.get(source, 0):
                    added[source] = f"records from epoch {epoch + 1} on were collected, needed by {name}"
                    continue
                for needed in range(epoch + 1, manifests[name].position + 1):
                    if (source, needed) in lost:
                        added[source] = f"record of epoch {needed} lost, needed by {name}"
                        break
        if not added:
            return reasons
        reasons.update(added)


def _changed(members: frozenset[str], manifests: Mapping[str, VertexManifest]) -> frozenset[str]:
    changed = {name for name in members if not manifests[name].repeats_itself}
    while True:
        more = {name for name in members - changed if any(source in changed for source in manifests[name].inputs)}
        if not more:
            return frozenset(changed)
        changed |= more
