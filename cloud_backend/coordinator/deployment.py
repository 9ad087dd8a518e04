"""The program of phones and Spark as it is deployed: one file with a plan and a version that only grows.

The gateway signs it and sends it to phones, the Spark job follows it between two epochs. So deploying is replacing that
file, and what follows from it can be said before: which windows and states are kept, and what starts anew.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cloud_backend.coordinator.device_operators import left_out
from cloud_backend.coordinator.queries import sinks_of
from cloud_backend.coordinator.roster import RosterEntry
from shared.contracts.promises import check_kept
from shared.errors import UsageError
from shared.plan.changes import ANEW, GONE, KEPT, NEW, PlanChanges, changes
from shared.plan.cuts import device_streams
from shared.plan.encoding import encode_plan
from shared.plan.graph import Plan
from shared.plan.placement import check_unhosted
from shared.plan.wellformed import operators_on_device
from shared.spool.disk import PosixDisk


@dataclass(frozen=True, slots=True)
class Deployment:
    """A plan with the version it gets, and what its coming means for phones and for Spark."""

    plan: Plan
    before: int  # the version that runs
    phones: PlanChanges
    spark: PlanChanges
    parked: Mapping[str, int] = field(default_factory=dict)  # vertices that wait, and how many epochs behind
    without: Sequence[str] = ()  # about devices that will not get it, a sentence each

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.plan.name, "version": self.plan.version, "before": self.before,
            "phones_keep_state": self.phones.device_kept, "sensors_new": list(self.phones.sensors_new),
            "sensors_gone": list(self.phones.sensors_gone), "edges_new": list(self.phones.edges_new),
            "edges_gone": list(self.phones.edges_gone), "edges_reshaped": list(self.phones.edges_reshaped),
            "sinks_new": list(self.spark.sinks_new), "sinks_gone": list(self.spark.sinks_gone),
            "vertices": [{"name": each.name, "how": each.how, "why": each.why} for each in self.spark.vertices],
            "words": list(_words(self)),
        }  # fmt: skip


def prepare(
    plan: Plan,
    current: Plan,
    running: Plan | None,
    taken: Collection[str],
    parked: Mapping[str, int] | None = None,
    *,
    devices: Collection[RosterEntry] = (),
    synced: Mapping[str, str] | None = None,
) -> Deployment:
    """What putting `plan` in the place of `current` means. `running`: what the job runs, where it is known: a rollback
    may have corrected it. `taken`: sinks of queries. `parked`: vertices that wait, and how many epochs behind.
    `devices`: those that should get it. `synced`: streams that a fleet sends to the cloud, and by which query."""
    check_unhosted(plan)
    check_kept(plan)
    both = [each for each in sinks_of(plan) if each in taken]
    if both:
        raise UsageError(
            f"sink {both[0]!r} belongs to a query; call the program's sink otherwise, or drop the query",
            code="program-sink",
        )
    for stream in sorted(device_streams(plan)):
        if synced and stream in synced:
            raise UsageError(
                f"stream {stream!r} is what query {synced[stream]!r} of the fleet syncs to the cloud; call the "
                "program's otherwise, or drop the query",
                code="program-stream",
            )
    newest = max(current.version, 0 if running is None else running.version)
    found = changes(current, plan)
    if found.same and (running is None or changes(running, plan).same):
        raise UsageError(f"this program runs already, as version {newest}; nothing would change", code="program-same")
    spark = found if running is None else changes(running, plan)
    without = left_out(operators_on_device(plan), devices)
    return Deployment(replace(plan, version=newest + 1), current.version, found, spark, parked or {}, without)


def deploy(file: Path, deployment: Deployment) -> None:
    """Make it count: durable when this returns. Phones hear of it with their next exchange."""
    PosixDisk(file.parent).replace(file.name, encode_plan(deployment.plan))


def _words(deployment: Deployment) -> list[str]:
    """What happens, a sentence each; the same on the terminal and on the page."""
    phones, spark = deployment.phones, deployment.spark
    kept = "go on with the windows and states they have" if phones.device_kept else "begin their windows anew"
    words = [
        f"phones take version {deployment.plan.version} with their next exchange and {kept}; what they hold is sent"
    ]
    words += deployment.without
    if phones.sensors_new:
        words.append(f"each phone asks its person before it reads {_listed(phones.sensors_new)}")
    if phones.sensors_gone:
        words.append(f"phones stop reading {_listed(phones.sensors_gone)}")
    words += [f"edge {name!r} is new" for name in phones.edges_new]
    words += [f"edge {name!r} gets no more; what it delivered stays in the log" for name in phones.edges_gone]
    words += [
        f"edge {name!r} has other columns: what phones still hold of the old ones is quarantined when it arrives. Give "
        "the edge another name to keep both"
        for name in phones.edges_reshaped
    ]
    how = {KEPT: "goes on with its state", NEW: "is new", GONE: "ends, and its state goes"}
    for each in spark.vertices:
        effect = how.get(each.how) or f"starts anew with the next epoch, its open windows go: {each.why}"
        words.append(f"vertex {each.name!r} {effect}")
        if each.how in (ANEW, GONE) and (epochs := deployment.parked.get(each.name, 0)):
            words.append(
                f"vertex {each.name!r} is parked, and would never compute the {epochs} epochs it is behind. To have "
                f"them computed, first roll it back with the corrected program: resurge job rollback {each.name}"
            )
    words += [f"sink {name!r} is new" for name in spark.sinks_new]
    words += [f"sink {name!r} gets no more rows; what it said stays" for name in spark.sinks_gone]
    if spark.of(ANEW) or spark.of(GONE):
        words.append("rollbacks from before this cannot be taken back any more")
    return words


def _listed(names: Collection[str]) -> str:
    return ", ".join(map(repr, names))
