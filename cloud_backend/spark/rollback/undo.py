"""Undo: a rollback that an operator asked for is taken back.

After a rollback that was asked for, the manifest keeps what the ranges had committed before, inside the horizon. So
taking it back is moving pointers: the former runs count again, nothing of them is computed. They get a higher
term than anything said meanwhile, so every result that had already changed is published once more with its
former value and a higher revision: revisions only grow.

Three kinds of ranges have to move, and only these:

* those that went back because of it, by name or by cascade (their term has grown): their former runs return
* those below them that did not go back but went on, reading what the second run said: they return to where they were
* nobody else

Once a former run is out of the horizon, or a vertex was divided differently since, the same answer is reached by
a second rollback to the same epoch under the former plan: it runs again, which costs time and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cloud_backend.spark.control.schedule import physical_name
from cloud_backend.spark.graph import JobGraph, job_graph
from cloud_backend.spark.manifest.entries import PastRollback, Position, Undo
from cloud_backend.spark.manifest.lineage import Lineage, Physical
from cloud_backend.spark.manifest.manifest import Manifest, ManifestLog
from cloud_backend.spark.manifest.plans import stored_plan
from cloud_backend.spark.rollback.roll_back import OTHER_WRITERS_MAX, check_no_stable_results, roll_back
from cloud_backend.spark.slots import Range
from cloud_backend.spark.storage.store import Store
from shared.errors import UsageError


@dataclass(frozen=True, slots=True)
class Undone:
    """How a rollback is taken back, and, once done, the manifest entry that did it."""

    of: int
    how: str  # "pointers": nothing is computed; "run again": a rollback under the former plan
    restored: tuple[str, ...]  # ranges whose former runs count again
    returned: tuple[str, ...]  # ranges that had gone on, and run those epochs again
    entry: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "of": self.of, "how": self.how, "restored": list(self.restored), "returned": list(self.returned),
            "entry": self.entry,
        }  # fmt: skip


def undo(store_dir: Path | str, entry: int, *, dry_run: bool = False) -> Undone:
    """Take back the rollback that was this manifest entry, or only say how."""
    store = Store(store_dir)
    log = ManifestLog(store)
    for _ in range(OTHER_WRITERS_MAX):
        log.catch_up()
        past = _requested_rollback(log.state, entry)
        plan = past.plan or log.state.plan
        graph = job_graph(stored_plan(store, plan))
        restore = _former_runs(log.state, past)
        if restore is None:
            return _run_again(store, log.state, past, dry_run=dry_run)
        back = _went_on(log.state, graph, past, {each.physical for each in restore})
        for vertex, to in [*((each.vertex, each.epoch) for each in restore), *((each[0], each[2]) for each in back)]:
            check_no_stable_results(log.state, graph, [vertex], to)
        what = Undone(
            entry, "pointers", tuple(physical_name(each.physical) for each in restore),
            tuple(physical_name((vertex, range_)) for vertex, range_, _ in back),
        )  # fmt: skip
        if dry_run:
            return what
        done = log.try_append(Undo(entry, plan, tuple(restore), tuple(back)), term=log.state.term)
        if done is not None:
            return replace(what, entry=done)
    raise UsageError("the manifest changes too fast to append to it; try again", code="job-busy")


def undoable(manifest: Manifest, rollback: PastRollback) -> bool:
    """True for a rollback that was asked for and not taken back yet."""
    newest = _newest_request(manifest)
    return newest is not None and newest.n == rollback.n


def _newest_request(manifest: Manifest) -> PastRollback | None:
    return next(
        (each for each in reversed(manifest.rollbacks) if each.before is not None and each.undone is None), None
    )


def _requested_rollback(manifest: Manifest, number: int) -> PastRollback:
    found = next((each for each in manifest.rollbacks if each.n == number), None)
    if found is None or found.before is None:
        raise UsageError(
            f"manifest entry {number} is no rollback that was asked for, or another program came after it",
            code="undo-unknown",
        )
    if found.undone is not None:
        raise UsageError(f"rollback {number} was taken back by entry {found.undone}", code="undo-done")
    newest = _newest_request(manifest)
    if newest is not None and newest.n != found.n:
        raise UsageError(
            f"rollback {newest.n} came after {number} and builds on it; take {newest.n} back first",
            code="undo-order",
        )
    return found


def _former_runs(manifest: Manifest, past: PastRollback) -> list[Position] | None:
    """Where every range that is restored was; None when a former run is forgotten."""
    if any(n > past.n for n, _ in manifest.divisions):
        return None
    restore = []
    for position in past.before or ():
        lineage = manifest.vertices.get(position.vertex, {}).get(position.range)
        if lineage is None:
            return None
        if lineage.term > position.term:
            if not _is_recorded(lineage, past.entry.to, position):
                return None
            restore.append(position)
    return restore


def _is_recorded(lineage: Lineage, to: int, position: Position) -> bool:
    for epoch in range(max(to + 1, lineage.first), position.epoch + 1):
        if not any(each.epoch == epoch and each.term <= position.term for each in lineage.runs()):
            return False
    return True


def _went_on(
    manifest: Manifest, graph: JobGraph, past: PastRollback, restored: set[Physical]
) -> list[tuple[str, Range, int]]:
    """Ranges below the restored ones that have read what the second run said, and the epoch they return to."""
    below = {vertex for vertex, _ in restored}
    while more := {name for name in graph.order for source in graph.vertices[name].feeds if source in below} - below:
        below |= more
    back = []
    for position in past.before or ():
        to = max(position.epoch, past.entry.to)
        moved = position.vertex in below and position.physical not in restored
        if moved and manifest.lineage(position.physical).position > to:
            back.append((position.vertex, position.range, to))
    return back


def _run_again(store: Store, manifest: Manifest, past: PastRollback, *, dry_run: bool) -> Undone:
    """A rollback of the same vertex to the same epoch under the plan that ran before."""
    vertex, plan = past.entry.vertex, past.plan
    if vertex is None or plan is None or plan == manifest.plan:
        raise UsageError(
            f"rollback {past.n} has run again to the end under the same plan; its results are what they were, "
            "there is nothing to take back",
            code="undo-nothing",
        )
    ranges = [range_ for name, range_ in past.entry.rollback if name == vertex]
    answer = roll_back(
        store.location, vertex, past.entry.to, ranges=ranges, dry_run=dry_run, fixed=stored_plan(store, plan),
        undoes=past.n,
    )  # fmt: skip
    return Undone(past.n, "run again", (), tuple(sorted(answer.plan.rollback)), answer.entry)
