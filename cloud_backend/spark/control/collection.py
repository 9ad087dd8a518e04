"""Collection: forget what no rollback inside the horizon could need, and then delete the files nobody names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cloud_backend.log.partitions import Place, distance
from cloud_backend.spark.graph import JobGraph
from cloud_backend.spark.manifest.entries import Collect
from cloud_backend.spark.manifest.lineage import Committed, Lineage
from cloud_backend.spark.manifest.manifest import Manifest, ManifestLog
from cloud_backend.spark.storage.file_names import driver_term, object_name
from cloud_backend.spark.storage.store import Store
from shared.recovery.retention import Point, Retention, first_of_every, thinned, trims, within_bytes
from shared.recovery.snapshot_states import Snapshots

BASES_MIN = 2
HISTORY_ENTRIES = 1000  # newest manifest entries that are kept for reading back; opening needs those after a summary


def collect(
    log: ManifestLog, term: int, graph: JobGraph, snapshots: Snapshots, *, retention: Retention, now_s: float
) -> int:
    """Append what may go and delete its files; returns how many were deleted."""
    inputs = {name: graph.vertices[name].sources for name in graph.order}
    times = cut_times(log.state, now_s)
    stable = {name: snapshots.stable(name) for name in graph.order}
    newest = {
        name: _newest(log.state, name, stable[name], times, retention=retention, now_s=now_s) for name in graph.order
    }
    points = points_to_keep(log.state, times, retention, now_s)
    answer = trims(inputs, newest, points)
    oldest = {name: min(newest[name], default=0) for name in graph.order}
    entry = Collect(answer.records, oldest, answer.log, log.state.last_cut, tuple(points))
    if log.try_append(entry, term=term) is None:
        return 0
    for name, epochs in stable.items():
        for epoch in {*epochs}.difference(newest[name], points):
            snapshots.collect(name, epoch)
    forget_history(log)
    return delete_unnamed(log.store, log.state, term)


def cut_times(manifest: Manifest, now_s: float) -> dict[int, float]:
    """When each epoch was cut whose work is still kept. One of a version that did not write it down counts as just
    before the next one that says."""
    kept = {epoch for lineages in manifest.vertices.values() for each in lineages.values() for epoch in each.commits}
    times: dict[int, float] = {}
    later_s = now_s
    for epoch in sorted(kept, reverse=True):
        cut = manifest.cuts.get(epoch)
        later_s = cut.at_ms / 1000 if cut is not None and cut.at_ms else later_s
        times[epoch] = later_s
    return times


def points_to_keep(manifest: Manifest, times: Mapping[int, float], retention: Retention, now_s: float) -> list[int]:
    """The epochs that everything can still return to: thinned by age, within the bytes that they may keep alive, and
    every savepoint."""
    complete = {epoch: at_s for epoch, at_s in times.items() if _is_complete(manifest, epoch)}
    named = {each.epoch for each in manifest.savepoints.values() if each.epoch in complete}
    chosen = {*thinned(complete, retention, now_s), *named}
    return within_bytes(_points(manifest, {epoch: complete[epoch] for epoch in chosen}), named, retention)


def _is_complete(manifest: Manifest, epoch: int) -> bool:
    """Whether every vertex can be put back to where it was after this epoch, or is on its way through it again."""
    for vertex, lineages in manifest.vertices.items():
        for range_ in manifest.ranges_at(vertex, epoch):
            lineage = lineages[range_]
            if lineage.position >= epoch and (epoch not in lineage.commits or lineage.commits[epoch].stale):
                return False
    return epoch in manifest.cuts


def _points(manifest: Manifest, times: Mapping[int, float]) -> dict[int, Point]:
    """What each epoch keeps alive: its files, as far as no newer one of these has them too, and the log after it."""
    seen: set[str] = set()
    points = {}
    end = manifest.cuts[manifest.last_cut].ends
    for epoch in sorted(times, reverse=True):
        files = _sizes(
            lineage.commits[epoch]
            for lineages in manifest.vertices.values()
            for lineage in lineages.values()
            if epoch in lineage.commits
        )
        own = sum(size for name, size in files.items() if name not in seen)
        seen |= files.keys()
        points[epoch] = Point(times[epoch], own, distance(manifest.cuts[epoch].ends, end))
    return points


def forget_history(log: ManifestLog, entries: int = HISTORY_ENTRIES) -> None:
    """Delete manifest entries that two summaries cover, that were published, and that are not among the newest; and
    all summaries but two."""
    summaries = log.store.summaries()
    if len(summaries) >= BASES_MIN:
        covered = summaries[-BASES_MIN]
        published = int(log.store.note("published").get("n", 0))
        log.store.remove_history(min(covered, published, log.state.n - entries), summaries_before=covered)


def log_places(manifest: Manifest) -> tuple[Place, Place] | None:
    """Two places in the log: the one below which it may go because no rollback inside the horizon reads it again, and
    the one below which every vertex has committed its work. None before the first epoch."""
    if not manifest.cuts:
        return None
    oldest = manifest.cuts[manifest.cuts.first].starts
    done = min((manifest.position(vertex) for vertex in manifest.vertices), default=0)
    return oldest, manifest.cuts[done].ends if done in manifest.cuts else oldest


def _newest(
    manifest: Manifest,
    vertex: str,
    stable: list[int],
    times: Mapping[int, float],
    *,
    retention: Retention,
    now_s: float,
) -> list[int]:
    """The stable epochs from the first on that are all kept. They reach back until every range has two snapshots among
    them without a common file, so that one damaged base never takes all of them with it."""
    first = first_of_every({epoch: times[epoch] for epoch in stable if epoch in times}, retention, now_s)
    for lineage in manifest.vertices[vertex].values():
        if lineage.last is None:
            first = min(first, _on_two_bases(lineage))
    return [epoch for epoch in stable if epoch >= first]


def _on_two_bases(lineage: Lineage) -> int:
    """The newest epoch whose snapshot has no file in common with the last one. 0 while there is none, and everything
    stays; a range without state has nothing to lose."""
    last: set[str] = set()
    for epoch in range(lineage.position, lineage.recorded_from() - 1, -1):
        files = lineage.commits[epoch].state_files()
        last = last or files
        if files.isdisjoint(last):
            return epoch
    return 0 if last or not lineage.commits else lineage.position


def kept_files(manifest: Manifest) -> dict[str, int]:
    """Every file that a commit names, with its bytes."""
    lineages = [lineage for each in manifest.vertices.values() for lineage in each.values()]
    return _sizes(committed for lineage in lineages for committed in lineage.runs())


def _sizes(commits: Iterable[Committed]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for committed in commits:
        sizes.update((record.file, record.bytes) for record in committed.outputs.values())
        for part in committed.state:
            sizes.update(zip(part.chain, part.sizes, strict=True))
        if committed.frontiers_file:
            sizes.setdefault(committed.frontiers_file, 0)  # some kilobytes at most, written down nowhere
    return sizes


def delete_unnamed(store: Store, manifest: Manifest, term: int) -> int:
    """Delete files that no commit names, and a bundle when none of its files is named; returns how many objects. Those
    of a later driver (a higher term in the name) may be about to be committed and stay; ours are all decided, because
    a driver collects only between its own jobs."""
    named = {object_name(name) for name in kept_files(manifest)}
    gone = [name for name in store.object_names() if name not in named and driver_term(name) <= term]
    store.remove_objects(gone)
    return len(gone)
