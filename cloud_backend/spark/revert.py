"""Taking a rollback back: an operator's undo, undone.

After a rollback that was asked for, the manifest keeps what the ranges had committed before, inside the horizon. So
taking it back is moving pointers: the former runs count again, nothing of them is computed. They get a higher
generation than anything said meanwhile, so every result that had already changed is published once more with its
former value and a higher revision: revisions only grow.

Three kinds of ranges have to move, and only these:

* those that went back because of it, by name or by cascade (their generation has grown): their former runs return
* those below them that did not go back but went on, reading what the second run said: they return to where they were
* nobody else

Once a former run is out of the horizon, or a vertex was divided differently since, the same answer is reached by
a second rollback to the same epoch under the former plan: it runs again, which costs time and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cloud_backend.spark.graph import JobGraph, job_graph
from cloud_backend.spark.lineage import Entry, Lineage, Physical
from cloud_backend.spark.manifest import Manifest, ManifestLog
from cloud_backend.spark.plans import stored_plan
from cloud_backend.spark.slots import Range
from cloud_backend.spark.store import Store
from cloud_backend.spark.undo import OTHER_WRITERS_MAX, demand_not_given_out, roll_back
from shared.errors import UsageError


@dataclass(frozen=True, slots=True)
class Reverted:
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


def revert(store_dir: Path | str, entry: int, *, dry_run: bool = False) -> Reverted:
    """Take back the rollback that was this manifest entry, or only say how."""
    store = Store(store_dir)
    log = ManifestLog(store)
    for _ in range(OTHER_WRITERS_MAX):
        log.catch_up()
        undone = _asked_for(log.state, entry)
        graph = job_graph(stored_plan(store, undone["plan"]))
        restore = _former_runs(log.state, undone)
        if restore is None:
            return _run_again(store, log.state, undone, dry_run=dry_run)
        back = _went_on(log.state, graph, undone, {(vertex, Range.parse(text)) for vertex, text, *_ in restore})
        for vertex, *_, to in [*((each[0], each[2]) for each in restore), *back]:
            demand_not_given_out(log.state, graph, [vertex], to)
        what = Reverted(
            entry, "pointers", tuple(f"{each[0]} {each[1]}" for each in restore),
            tuple(f"{vertex} {text}" for vertex, text, _ in back),
        )  # fmt: skip
        if dry_run:
            return what
        done = log.try_append(
            "undo", term=log.state.term, of=entry, plan=undone["plan"], restore=restore, rollback=back
        )
        if done is not None:
            return Reverted(what.of, what.how, what.restored, what.returned, done["n"])
    raise UsageError("the manifest changes too fast to append to it; try again", code="job-busy")


def undoable(manifest: Manifest, rollback: Entry) -> bool:
    """True for a rollback that was asked for and not taken back yet."""
    return "before" in rollback and "undone" not in rollback and rollback is _newest_asked_for(manifest)


def _newest_asked_for(manifest: Manifest) -> Entry | None:
    return next((each for each in reversed(manifest.rollbacks) if "before" in each and "undone" not in each), None)


def _asked_for(manifest: Manifest, number: int) -> Entry:
    found = next((each for each in manifest.rollbacks if each["n"] == number), None)
    if found is None or "before" not in found:
        raise UsageError(f"manifest entry {number} is no rollback that was asked for", code="undo-unknown")
    if "undone" in found:
        raise UsageError(f"rollback {number} was taken back by entry {found['undone']}", code="undo-done")
    newest = _newest_asked_for(manifest)
    if newest is not None and newest is not found:
        raise UsageError(
            f"rollback {newest['n']} came after {number} and builds on it; take {newest['n']} back first",
            code="undo-order",
        )
    return found


def _former_runs(manifest: Manifest, undone: Entry) -> list[list[Any]] | None:
    """[vertex, range, position, generation] of every range to restore; None when a former run is forgotten."""
    if any(each["n"] > undone["n"] for each in manifest.divisions):
        return None
    restore = []
    for vertex, text, position, generation in undone["before"]:
        lineage = manifest.vertices.get(vertex, {}).get(Range.parse(text))
        if lineage is None:
            return None
        if lineage.generation > generation:
            if not _kept(lineage, undone["to"], position, generation):
                return None
            restore.append([vertex, text, position, generation])
    return restore


def _kept(lineage: Lineage, to: int, position: int, generation: int) -> bool:
    for epoch in range(max(to + 1, lineage.first), position + 1):
        if not any(each.epoch == epoch and each.generation <= generation for each in lineage.runs()):
            return False
    return True


def _went_on(manifest: Manifest, graph: JobGraph, undone: Entry, restored: set[Physical]) -> list[list[Any]]:
    """[vertex, range, epoch] of ranges below the restored ones that have read what the second run said."""
    below = {vertex for vertex, _ in restored}
    while more := {name for name in graph.order for source in graph.vertices[name].feeds if source in below} - below:
        below |= more
    back = []
    for vertex, text, position, _ in undone["before"]:
        physical = (vertex, Range.parse(text))
        to = max(position, undone["to"])
        if vertex in below and physical not in restored and manifest.lineage(physical).position > to:
            back.append([vertex, text, to])
    return back


def _run_again(store: Store, manifest: Manifest, undone: Entry, *, dry_run: bool) -> Reverted:
    """A rollback of the same vertex to the same epoch under the plan that ran before."""
    if undone["plan"] == manifest.plan:
        raise UsageError(
            f"rollback {undone['n']} has run again to the end under the same plan; its results are what they were, "
            "there is nothing to take back",
            code="undo-nothing",
        )
    ranges = [Range.parse(text) for vertex, text in undone["rollback"] if vertex == undone["vertex"]]
    answer = roll_back(
        store.location, undone["vertex"], undone["to"], ranges=ranges, dry_run=dry_run,
        fixed=stored_plan(store, undone["plan"]), undoes=undone["n"],
    )  # fmt: skip
    return Reverted(undone["n"], "run again", (), tuple(sorted(answer.plan.rollback)), answer.entry)
