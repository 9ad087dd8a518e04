"""What it costs to lose one hash range of the trips vertex, and who notices.

A job has run for some epochs when the files with one range's newest states vanish, and the worker that had them in
memory with them. The range runs those epochs again, from the last state that is left and from recorded inputs.
Meanwhile the next epochs come in, and everybody whose trips are in another range gets them at once. The same loss
under full rollback is the measure: all ranges of all vertices.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cloud_backend.spark.control.driver import JobManager, Runner
from cloud_backend.spark.control.schedule import cost, physical_name, recovery_manifests
from cloud_backend.spark.rollback.roll_back import RolledBack
from cloud_backend.spark.slots import Range, slot_of_text
from cloud_backend.spark.task import state
from resurge.examples.trips.cloud import Cloud
from resurge.examples.trips.people import SECOND, Person
from resurge.examples.trips.report import digest, failure_free
from shared.plan.graph import Plan
from shared.recovery.rollback import Rule, rollback

VERTEX = "my_trips"
EPOCH_US = 900 * SECOND


@dataclass(frozen=True, slots=True)
class Recovery:
    failed: str  # the range that was lost
    theirs: list[str]  # whose trips it holds
    partial: RolledBack
    full: RolledBack
    others_got: dict[str, int]  # results that others got before the range had caught up
    own_behind: int  # epochs that the range was behind when they got them
    seconds: float
    digest: str
    failure_free_digest: str

    def as_json(self) -> dict[str, Any]:
        partial, full = _bytes(self.partial), _bytes(self.full)
        return {
            "failed": f"{VERTEX} {self.failed}", "people_in_it": self.theirs,
            "R": sorted(self.partial.plan.rollback),
            "E": dict(self.partial.plan.replay) or {"log": self.partial.plan.epoch + 1},
            "bytes": partial,
            "full_R": len(self.full.plan.rollback), "full_bytes": full,
            "share_of_full": round(partial / full, 3) if full else None,
            "others_told_meanwhile": self.others_got, "range_was_behind_by": self.own_behind,
            "seconds": round(self.seconds, 2), "digest": self.digest, "failure_free_digest": self.failure_free_digest,
        }  # fmt: skip


def _bytes(undo: RolledBack) -> int:
    return round(undo.cost["state_bytes"] + undo.cost["replay_bytes"])


def lose_a_range(
    root: Path, plan: Plan, people: Sequence[Person], runner: Runner, *, epochs: int = 12, lost: int = 4
) -> Recovery:
    """Run half of the epochs, lose a range, go on with the rest."""
    cloud = Cloud(root, plan, people)
    driver = cloud.driver(runner)
    base_us, end_us = min(p.start_us for p in people), max(p.end_us for p in people)
    step_us = max(EPOCH_US, -(-(end_us - base_us) // epochs))
    for number in range(1, epochs // 2 + 1):
        cloud.advance(base_us + number * step_us)
        driver.drain()
    failed = _a_range_in_use(driver, cloud)
    to = driver.manifest.position(VERTEX) - lost
    gone = _kill(driver, failed, to)
    manifests = recovery_manifests(driver.manifest, driver.graph, damaged=gone)
    partial, full = (
        RolledBack(plan, dict(cost(driver.manifest, plan)), to)
        for plan in (rollback([physical_name((VERTEX, failed))], manifests, rule=rule)
                     for rule in (Rule.CHANGED, Rule.FULL))
    )  # fmt: skip
    theirs = sorted(name for name, phone in cloud.phones.items() if _in(failed, phone.device.hex()))
    others_got: dict[str, int] = {}
    behind = 0
    begun = time.perf_counter()
    # The lost range goes back one epoch at a time while the others take the new ones: watch who is told what.
    for number in range(epochs // 2 + 1, epochs + 1):
        cloud.advance(base_us + number * step_us)
        before = _results_by_person(cloud)
        driver.step()
        lag = _lag(driver, failed)
        if lag:
            for name, count in _results_by_person(cloud).items():
                if name not in theirs and count > before.get(name, 0):
                    others_got[name] = others_got.get(name, 0) + count - before.get(name, 0)
                    behind = max(behind, lag)
    driver.drain()
    took = time.perf_counter() - begun
    cloud.advance(end_us + 2 * 86_400 * SECOND)
    driver.drain()
    found = digest(cloud.report())
    cloud.close()
    return Recovery(
        str(failed), theirs, partial, full, others_got, behind, took, found, digest(failure_free(plan, people))
    )


def _kill(driver: JobManager, failed: Range, to: int) -> list[str]:
    """Remove every state of the range after an epoch, and what workers remember of it; the files' names."""
    commits = driver.manifest.vertices[VERTEX][failed].commits
    kept = commits[to].state_files()
    gone = sorted({name for commit in commits.values() for name in commit.state_files()} - kept)
    for name in gone:
        (driver.store.files / name).unlink()
    state.forget_all()
    return gone


def _a_range_in_use(driver: JobManager, cloud: Cloud) -> Range:
    """A range with somebody's trips in it, and not everybody's, if there is one."""
    ranges = sorted(driver.manifest.vertices[VERTEX])
    used = [[_in(range_, phone.device.hex()) for phone in cloud.phones.values()] for range_ in ranges]
    divided = [range_ for range_, here in zip(ranges, used, strict=True) if any(here) and not all(here)]
    return (divided or ranges)[0]


def _in(range_: Range, device: str) -> bool:
    return range_.lo <= slot_of_text(device) < range_.hi


def _lag(driver: JobManager, failed: Range) -> int:
    lineages = driver.manifest.vertices[VERTEX]
    return max(lineage.position for lineage in lineages.values()) - lineages[failed].position


def _results_by_person(cloud: Cloud) -> dict[str, int]:
    counts: dict[str, int] = {}
    for row in cloud.report():
        if row.device:
            counts[row.device] = counts.get(row.device, 0) + 1
    return counts
