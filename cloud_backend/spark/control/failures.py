"""Steps that failed: what is remembered of them, and which rollback mends them. Decisions only; the driver acts.

A damaged state file takes its range back to the newest snapshot without that file. A lost record takes its producer's
range back by that epoch. Both are rollbacks of exactly what broke: whether readers follow is found out at run time, by
digests. What no rollback mends is *parked*: that range waits, everything that does not need it goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cloud_backend.spark.control.schedule import (
    RangeEpoch,
    cost,
    is_from_log,
    parse_physical,
    physical_name,
    recorded_from,
    recovery_manifests,
)
from cloud_backend.spark.graph import JobGraph
from cloud_backend.spark.manifest.entries import Rollback
from cloud_backend.spark.manifest.lineage import Physical
from cloud_backend.spark.manifest.manifest import Manifest
from cloud_backend.spark.manifest.plans import Configurations
from cloud_backend.spark.slots import Range
from shared.recovery.rollback import rollback

ATTEMPTS_MAX = 3
EXCEPTIONS_MAX = 100
CLUSTER = "cluster"  # how the reason begins of what the cluster is to blame for
CLUSTER_PAUSE_S_FIRST = 2.0
CLUSTER_PAUSE_S_MAX = 60.0


@dataclass(slots=True)
class Parked:
    """A range that cannot go on by itself: its task hangs or dies every time, or nothing intact is left to start from.
    Visible, and lifted by a rollback or a restart. What the cluster is to blame for only waits, longer each time."""

    reason: str
    attempts: int = 0
    cluster_faults: int = 0
    until: float | None = None  # when it is tried again by itself


@dataclass(slots=True)
class Failures:
    """What went wrong since the job began, and what waits because of it."""

    parked: dict[Physical, Parked] = field(default_factory=dict)
    exceptions: list[dict[str, Any]] = field(default_factory=list)

    def note(self, step: RangeEpoch, kind: str, message: str, at: float) -> None:
        """Remember an exception; the same one of the same range counts up instead of filling the list."""
        last = next((each for each in reversed(self.exceptions) if _same(each, step, kind, message)), None)
        if last is not None:
            last.update(times=last["times"] + 1, at=at, epoch=step.epoch)
            return
        self.exceptions.append(
            {
                "at": at, "vertex": step.vertex, "range": str(step.range), "epoch": step.epoch, "kind": kind,
                "message": message, "times": 1,
            }
        )  # fmt: skip
        del self.exceptions[:-EXCEPTIONS_MAX]

    def count(self, physical: Physical) -> int:
        """One more attempt of this range failed; how many that makes."""
        parked = self.parked.setdefault(physical, Parked(""))
        parked.attempts += 1
        return parked.attempts

    def park(self, physical: Physical, reason: str) -> None:
        self.parked.setdefault(physical, Parked("")).reason = reason

    def wait(self, physical: Physical, reason: str, now: float) -> None:
        """The cluster did not run this range: it is tried again by itself after a pause."""
        parked = self.parked.setdefault(physical, Parked(""))
        pause_s = min(CLUSTER_PAUSE_S_MAX, CLUSTER_PAUSE_S_FIRST * 2**parked.cluster_faults)
        parked.cluster_faults += 1
        parked.until = now + pause_s
        parked.reason = f"{CLUSTER}: {reason}; tried again by itself every {pause_s:g} s"

    def lift(self, now: float) -> None:
        """Let those go on whose pause is over."""
        for parked in self.parked.values():
            if parked.until is not None and parked.until <= now:
                parked.reason, parked.until = "", None

    def waiting(self) -> dict[Physical, str]:
        return {physical: each.reason for physical, each in self.parked.items() if each.reason}


def _same(entry: dict[str, Any], step: RangeEpoch, kind: str, message: str) -> bool:
    return (entry["vertex"], entry["range"], entry["kind"], entry["message"]) == (
        step.vertex, str(step.range), kind, message,
    )  # fmt: skip


def producer_of(manifest: Manifest, file: str) -> tuple[Physical, int] | None:
    """Which range recorded this file, and in which epoch."""
    for vertex, lineages in manifest.vertices.items():
        for range_, lineage in lineages.items():
            for epoch, committed in lineage.commits.items():
                if any(record.file == file for record in committed.outputs.values()):
                    return (vertex, range_), epoch
    return None


def repair(
    manifest: Manifest,
    graph: JobGraph,
    failed: Sequence[Physical],
    *,
    code: str,
    reason: str,
    to: int | None = None,
    damaged: Sequence[str] = (),
    lost: Sequence[tuple[str, Range, int]] = (),
    configurations: Configurations | None = None,
) -> Rollback:
    """The rollback that mends what was damaged or lost. UsageError when nothing intact is left inside the horizon."""
    bases = [_based_on(manifest, physical, frozenset(damaged)) for physical in failed]
    roots = dict.fromkeys(root for each, _ in bases for root in each)
    moved = dict.fromkeys(physical for _, each in bases for physical in each)
    plan = rollback(
        [physical_name(physical) for physical in roots],
        recovery_manifests(manifest, graph, code=code, damaged=damaged, configurations=configurations),
        [(physical_name((vertex, range_)), epoch) for vertex, range_, epoch in lost],
        to=to,
        recorded_from=recorded_from(manifest),
    )
    if is_from_log(manifest, plan):  # what they read since was collected: it has to be made again first
        moved |= dict.fromkeys(map(parse_physical, sorted(plan.rollback)))
    return Rollback(
        tuple(moved), plan.epoch, changed=False, reason=reason, lost=tuple(lost),
        predicted=tuple(sorted(plan.rollback)), replay=plan.replay, cost=cost(manifest, plan),
    )  # fmt: skip


def _based_on(manifest: Manifest, physical: Physical, damaged: frozenset[str]) -> tuple[list[Physical], list[Physical]]:
    """Whose intact snapshot to look for, and who goes back together. A range that was split off or merged stands on its
    parents' files until it has written a base of its own: when one of those is damaged, a parent makes it again."""
    lineage = manifest.lineage(physical)
    intact = any(not each.stale and not each.state_files() & damaged for each in lineage.commits.values())
    parents = [
        (physical[0], parent)
        for parent in lineage.parents
        if any(damaged & {*part.chain} for part in manifest.snapshot((physical[0], parent), lineage.first - 1) or ())
    ]
    if intact or not parents:
        return [physical], [physical]
    above = [_based_on(manifest, parent, damaged) for parent in parents]
    return [root for roots, _ in above for root in roots], [physical, *(each for _, moved in above for each in moved)]
