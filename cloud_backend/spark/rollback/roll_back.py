"""Rolling a vertex back while the job runs: one entry in the manifest, by anyone who can write to the store.

No request is sent to the driver. It finds the entry when it next folds the manifest in, or when it loses the race for
an entry's number; what it had in hand for a range that was moved is dropped. So a rollback needs no running driver, and
a driver that dies in the middle changes nothing about it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cloud_backend.spark.control.schedule import correction, cost, is_from_log, parse_physical
from cloud_backend.spark.graph import JobGraph, job_graph
from cloud_backend.spark.manifest.entries import Rollback
from cloud_backend.spark.manifest.manifest import Manifest, ManifestLog
from cloud_backend.spark.manifest.plans import Configurations, store_plan, stored_plan
from cloud_backend.spark.slots import Range
from cloud_backend.spark.storage.store import Store
from shared.errors import DamagedData, UsageError
from shared.plan.graph import Plan
from shared.recovery.rollback import FAILED, RecoveryPlan, Rule

OTHER_WRITERS_MAX = 100


@dataclass(frozen=True, slots=True)
class RolledBack:
    """What a rollback takes, and, once done, the manifest entry that did it."""

    plan: RecoveryPlan
    cost: dict[str, float]
    asked: int  # the epoch that was asked for; it goes back to the newest kept one up to it
    from_log: bool = False  # beyond the records: what it needs is made again from the log
    entry: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "rollback": sorted(self.plan.rollback), "replay": dict(self.plan.replay), "epoch": self.plan.epoch,
            # Nothing has failed: these are what a person named.
            "reasons": {name: "asked for" if why == FAILED else why for name, why in self.plan.reasons.items()},
            "cost": self.cost, "asked": self.asked, "from_log": self.from_log,
            "in_words": self.in_words(), "entry": self.entry,
        }  # fmt: skip

    def in_words(self) -> str:
        """Where it goes back to, when that is not simply what was asked for."""
        said = []
        if self.plan.rollback and self.plan.epoch != self.asked:
            said.append(
                f"Epoch {self.asked} is not kept; the newest kept one before it is {self.plan.epoch}, and the epochs "
                "from there on run again."
            )
        if self.from_log:
            said.append("What it reads was collected and is made again from the log.")
        return " ".join(said)


def roll_back(
    store_dir: Path | str,
    vertex: str,
    to: int,
    *,
    ranges: Collection[Range] | None = None,
    dry_run: bool = False,
    fixed: Plan | None = None,
    rule: Rule = Rule.CHANGED,
    undoes: int | None = None,
) -> RolledBack:
    """Give up what the vertex did after epoch `to`, or only say what that takes. With `fixed`, another plan of the same
    shape counts from here on: how an operator bug is corrected without stopping the job. `undoes`: the entry of an
    earlier rollback that this one takes back by running again."""
    store = Store(store_dir)
    log = ManifestLog(store)
    for _ in range(OTHER_WRITERS_MAX):
        log.catch_up()
        if not log.state.plan:
            raise UsageError(f"no job has run in {store.name!r} yet", code="job-no-plan")
        graph = job_graph(stored_plan(store, log.state.plan))
        _check(graph, vertex, to, log, fixed)
        answer = _intact(log, graph, vertex, to, ranges=ranges, rule=rule)
        from_log = is_from_log(log.state, answer)
        if from_log and ranges is not None:
            _demand_all(answer, _intact(log, graph, vertex, to, ranges=None, rule=rule))
        what = RolledBack(answer, dict(cost(log.state, answer)), to, from_log)
        if dry_run or not answer.rollback:
            return what
        moved = [  # who reads it follows when what it says differs, as far as it is known what it said
            physical
            for physical in map(parse_physical, sorted(answer.rollback))
            if physical[0] == vertex or from_log or rule is not Rule.CHANGED
        ]
        # A higher version than the one it corrects: the program's own file, read at the next start, is older then.
        corrected = None if fixed is None else replace(fixed, version=graph.plan.version + 1)
        entry = Rollback(
            tuple(moved), answer.epoch, changed=True, undoes=undoes, vertex=vertex,
            reason="asked for" if undoes is None else f"takes back rollback {undoes}",
            predicted=tuple(sorted(answer.rollback)), replay=answer.replay, cost=what.cost,
            plan=store_plan(store, corrected) if corrected else None,
        )  # fmt: skip
        number = log.try_append(entry, term=log.state.term)
        if number is not None:
            return replace(what, entry=number)
    raise UsageError("the manifest changes too fast to append to it; try again", code="job-busy")


def _demand_all(asked: RecoveryPlan, whole: RecoveryPlan) -> None:
    if asked.rollback != whole.rollback:
        raise UsageError(
            f"what ranges read after epoch {asked.epoch} was collected, so only all of them can go back there; choose "
            "a later epoch, or leave the ranges out",
            code="rollback-ranges",
        )


def _intact(
    log: ManifestLog, graph: JobGraph, vertex: str, to: int, *, ranges: Collection[Range] | None, rule: Rule
) -> RecoveryPlan:
    """The rollback to snapshots that can be read: what a range gives up by going back may be all that is whole."""
    damaged: set[str] = set()
    while True:
        answer = correction(
            log.state, graph, vertex, to, ranges=ranges, rule=rule, damaged=damaged,
            configurations=Configurations(log.store, graph),
        )  # fmt: skip
        found = {
            file
            for physical in map(parse_physical, answer.rollback)
            for part in log.state.snapshot(physical, answer.epoch) or ()
            for file in part.chain
            if not _whole(log.store, file)
        }
        if not found - damaged:
            return answer
        damaged |= found


def _whole(store: Store, file: str) -> bool:
    try:
        store.read_file(file)
    except DamagedData:
        return False
    return True


def _check(graph: JobGraph, vertex: str, to: int, log: ManifestLog, fixed: Plan | None) -> None:
    if vertex not in graph.vertices:
        raise UsageError(f"no vertex {vertex!r} (have: {', '.join(graph.order)})", code="rollback-unknown-vertex")
    if not 0 <= to <= log.state.last_cut:
        raise UsageError(
            f"epoch {to} is outside this job; its epochs go from 1 to {log.state.last_cut}", code="job-epoch"
        )
    if fixed is not None:
        other = job_graph(fixed)
        same = other.order == graph.order and all(
            other.vertices[name].inputs == graph.vertices[name].inputs for name in graph.order
        )
        if not same:
            raise UsageError(
                "the corrected plan has other vertices than the running one; submit it as a new plan instead",
                code="job-other-shape",
            )
    check_no_stable_results(log.state, graph, [name for name in graph.order if vertex in graph.upstream(name)], to)


def check_no_stable_results(manifest: Manifest, graph: JobGraph, vertices: Collection[str], to: int) -> None:
    """Raise when one of these vertices has given out stable results after an epoch: phones may have used them."""
    for name in vertices:
        held = [sink.name for sink in graph.vertices[name].sinks if sink.stable]
        if held and manifest.position(name) > to:
            raise UsageError(
                f"sink {held[0]!r} has given out stable results up to epoch {manifest.position(name)}; what phones "
                f"compute from them cannot be undone: choose --to {manifest.position(name)} or later",
                code="rollback-past-stable",
            )
