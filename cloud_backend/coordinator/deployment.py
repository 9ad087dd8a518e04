"""The program of phones and Spark as it is deployed: one file with a plan and a version that only grows.

The gateway signs it and sends it to phones, the Spark job follows it between two epochs. So deploying is replacing that
file, and what follows from it can be said before: which windows and states are kept, and what starts anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cloud_backend.coordinator.device_operators import left_out
from cloud_backend.coordinator.queries import sinks_of
from cloud_backend.coordinator.roster import RosterEntry
from shared.contracts.promises import check_kept
from shared.errors import UsageError
from shared.language.schema import Field
from shared.language.widening import MISSING_ITSELF
from shared.plan.changes import ANEW, GONE, KEPT, NEW, EdgeChange, PlanChanges, changes
from shared.plan.cuts import device_streams
from shared.plan.encoding import encode_plan
from shared.plan.graph import Plan
from shared.plan.placement import check_unhosted
from shared.plan.wellformed import operators_on_device
from shared.spool.disk import PosixDisk

_EXAMPLES = {"str": "''", "bool": "False"}  # of whole numbers -1


@dataclass(frozen=True, slots=True)
class Deployment:
    """A plan with the version it gets, and what its coming means for phones and for Spark."""

    plan: Plan
    before: int  # the version that runs
    phones: PlanChanges
    spark: PlanChanges
    parked: Mapping[str, int] = field(default_factory=dict)  # vertices that wait, and how many epochs behind
    without: Sequence[str] = ()  # about devices that will not get it, a sentence each
    remarks: Sequence[str] = ()  # about rows that it or a query cannot read, and groups, a sentence each

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.plan.name, "group": "", "version": self.plan.version, "before": self.before,
            "phones_keep_state": self.phones.device_kept, "sensors_new": list(self.phones.sensors_new),
            "sensors_gone": list(self.phones.sensors_gone), "edges_new": list(self.phones.edges_new),
            "edges_gone": list(self.phones.edges_gone), "edges_reshaped": list(self.phones.edges_reshaped),
            "columns_added": [[each.name, *pair] for each in self.phones.edge_changes for pair in _pairs(each.added)],
            "columns_widened": [
                [each.name, field.name, field.kind, kind]
                for each in self.phones.edge_changes for field, kind in each.widened
            ],
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
    queries: Mapping[str, Plan] | None = None,
    newest: int = 0,
    remarks: Sequence[str] = (),
) -> Deployment:
    """What putting `plan` in the place of `current` means. `running`: what the job runs, where it is known: a rollback
    may have corrected it. `taken`: sinks of queries. `parked`: vertices that wait, and how many epochs behind.
    `devices`: those that should get it. `synced`: streams that a fleet sends to the cloud, and by which query.
    `queries`: the plans of those that run beside it. `newest`: versions that groups of devices have already. `remarks`:
    about groups that it does not fit."""
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
    newest = max(newest, current.version, 0 if running is None else running.version)
    found = changes(current, plan)
    if found.same and (running is None or changes(running, plan).same):
        version = current.version if running is None else max(current.version, running.version)
        raise UsageError(f"this program runs already, as version {version}; nothing would change", code="program-same")
    for each in found.edge_changes:
        _check_columns(each)
    spark = found if running is None else changes(running, plan)
    without = left_out(operators_on_device(plan), devices)
    return Deployment(
        replace(plan, version=newest + 1), current.version, found, spark, parked or {}, without,
        [*_left_behind(found, queries or {}), *_unsaid(current, plan), *remarks],
    )  # fmt: skip


def deploy(file: Path, deployment: Deployment) -> None:
    """Make it count: durable when this returns. Phones hear of it with their next exchange."""
    PosixDisk(file.parent).replace(file.name, encode_plan(deployment.plan))


def phone_words(version: int, phones: PlanChanges) -> list[str]:
    """What happens on phones, a sentence each."""
    kept = "go on with the windows and states they have" if phones.device_kept else "begin their windows anew"
    words = [f"phones take version {version} with their next exchange and {kept}; what they hold is sent"]
    if phones.sensors_new:
        words.append(f"each phone asks its person before it reads {_listed(phones.sensors_new)}")
    if phones.sensors_gone:
        words.append(f"phones stop reading {_listed(phones.sensors_gone)}")
    return words


def _words(deployment: Deployment) -> list[str]:
    """What happens, a sentence each; the same on the terminal and on the page."""
    phones, spark = deployment.phones, deployment.spark
    words = [*phone_words(deployment.plan.version, phones), *deployment.without]
    words += [f"edge {name!r} is new" for name in phones.edges_new]
    words += [f"edge {name!r} gets no more; what it delivered stays in the log" for name in phones.edges_gone]
    stated = {edge.name: dict(edge.missing) for edge in deployment.plan.edges}
    for change in phones.edge_changes:
        words += [
            f"edge {change.name!r} goes on with column {each.name!r} ({each.kind}): in rows of phones that do not have "
            f"it yet it is {stated[change.name].get(each.name, 'NaN')!s}"
            for each in change.added
        ]
        words += [
            f"edge {change.name!r} goes on with column {each.name!r} as {kind}: {each.kind} of phones that run the old "
            "program is read as that"
            for each, kind in change.widened
        ]
        if not change.added and not change.widened:
            words.append(f"edge {change.name!r} goes on with its columns in another order")
    words += deployment.remarks
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


def _check_columns(change: EdgeChange) -> None:
    """Rows of both forms are on their way for as long as some phone has the old program: each must be readable as the
    new one's."""
    name, other = change.name, change.other
    lost = [f"column {each.name!r} ({each.kind}) would be gone" for each in change.gone]
    lost += [f"column {each.name!r} would be {kind}, which does not hold every {each.kind}" for each, kind in other]
    if lost:
        raise UsageError(
            f"edge {name!r}: {'; '.join(lost)}, while phones still send rows that have it. Keep the column as it is, "
            f"or give the edge another name: .sync({name + '2'!r})",
            code="program-columns",
        )
    check_stated(change, "phones that do not have it yet")


def check_stated(change: EdgeChange, whose: str) -> None:
    """Whether each column that comes has a value for rows without it."""
    if change.unstated:
        example = ", ".join(f"{each.name!r}: {_EXAMPLES.get(each.kind, '-1')}" for each in change.unstated)
        raise UsageError(
            f"edge {change.name!r} gets {_listed([each.name for each in change.unstated])}, and rows of {whose} need a "
            f"value, as it cannot be NaN: .sync({change.name!r}, missing={{{example}}})",
            code="program-missing",
        )


def _left_behind(found: PlanChanges, queries: Mapping[str, Plan]) -> Iterator[str]:
    for name, plan in sorted(queries.items()):
        reads = {edge.name: edge.schema for edge in plan.edges}
        for change in found.edge_changes:
            for column, kind in change.widened:
                if change.name in reads and column.name in reads[change.name]:
                    yield (
                        f"query {name!r} reads column {column.name!r} of edge {change.name!r} as {column.kind}: what "
                        f"phones send as {kind} is quarantined there. Drop it and submit it again to have it read both"
                    )


def _unsaid(former: Plan, plan: Plan) -> Iterator[str]:
    """A phone may have been away since before the program that brought the column."""
    edges = {edge.name: edge for edge in plan.edges}
    for was in (each for each in former.edges if each.name in edges):
        now = edges[was.name]
        needed = {each.name for each in now.schema if each.kind not in MISSING_ITSELF} - dict(now.missing).keys()
        for column, value in was.missing:
            if column in needed:
                yield (
                    f"edge {was.name!r} states no value for column {column!r} any more: rows of phones that never had "
                    f"it are quarantined from now on. While there may be some, keep missing={{{column!r}: {value!r}}}"
                )


def _pairs(columns: Sequence[Field]) -> list[list[str]]:
    return [[each.name, each.kind] for each in columns]


def _listed(names: Collection[str]) -> str:
    return ", ".join(map(repr, names))
