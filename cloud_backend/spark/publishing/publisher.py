"""Publishing: follows the manifest with a durable place of its own, so that every commit reaches the results once.

The place is kept beside the manifest and moved after the results were published; a driver that died in between
publishes again, which changes nothing.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable

from cloud_backend.results.rows import ResultRow
from cloud_backend.results.store import Results
from cloud_backend.spark.graph import JobGraph, Sink
from cloud_backend.spark.manifest.entries import Commit, Entry, Json, Settled, Undo, entry_from_json
from cloud_backend.spark.manifest.lineage import Lineage, Physical
from cloud_backend.spark.manifest.manifest import Manifest, ManifestLog
from cloud_backend.spark.publishing.sink_rows import corrections, not_said_again, read_sink, same_as_before
from cloud_backend.spark.slots import Range
from cloud_backend.spark.storage.store import GONE, Store
from shared.recovery.snapshot_states import Snapshots, SnapshotState

NOTES_EVERY_S = 5.0  # at least between two notes of a kind, where requests cost more than bytes
Run = tuple[str, str, int]  # vertex, range, epoch


class Publication:
    def __init__(
        self, store: Store, graph: JobGraph, results: Results, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._store = store
        self._graph = graph
        self._results = results
        self._sessions = {sink.name for vertex in graph.vertices.values() for sink in vertex.sinks if sink.sessions}
        place: Json = {"n": 0, "held": []} | store.note("published")
        self._n: int = place["n"]
        self._moved, self._saved_at = False, float("-inf")  # since it was last written down
        self._held: list[Run] = [(vertex, text, epoch) for vertex, text, epoch in place["held"]]
        # Runs that were rolled back before they were published: when the second run says the same, it is news.
        self._unpublished: set[Run] = {(vertex, text, epoch) for vertex, text, epoch in place.get("unsaid", ())}

    @property
    def holds_back(self) -> bool:
        """Whether rows wait for their epoch to be stable."""
        return bool(self._held)

    def publish(self, log: ManifestLog, term: int, snapshots: Snapshots) -> int:
        """Publish everything committed since the last time; returns how many rows were news."""
        if self._n == log.state.n and not self._held:
            self._save()
            return 0
        news = 0
        fresh: list[Run] = []
        for number in range(self._n + 1, log.state.n + 1):
            data = self._store.entry(number)
            value = json.loads(data) if data else {"kind": GONE}
            if value["kind"] != GONE:
                fresh += self._runs_of(entry_from_json(value), log.state)
        before = set(self._unpublished)
        self._unpublished |= {each for each, times in Counter([*self._held, *fresh]).items() if times > 1}
        for vertex, text, epoch in dict.fromkeys([*self._held, *fresh]):
            news += self._publish_range((vertex, Range.parse(text)), epoch, log, snapshots)
        self._unpublished = {each for each in self._unpublished if _runs_again(each, log.state)}
        self._settle(log, term, snapshots)
        held = [each for each in dict.fromkeys([*self._held, *fresh]) if self._waits(each, log, snapshots)]
        if (self._n, self._held, before) != (log.state.n, held, self._unpublished):
            self._n, self._held, self._moved = log.state.n, held, True
            self._save()
        return news

    def _sinks(self, vertex: str) -> tuple[Sink, ...]:
        """None of a vertex that another plan has taken away since it committed."""
        found = self._graph.vertices.get(vertex)
        return found.sinks if found else ()

    def _runs_of(self, entry: Entry, manifest: Manifest) -> list[Run]:
        """The runs that an entry makes count at vertices with sinks."""
        match entry:
            case Commit(vertex, ranges) if self._sinks(vertex):
                return [(vertex, str(range_), each.epoch) for range_, each in ranges.items()]
            case Undo(restore=restore):
                return [
                    (each.vertex, str(each.range), epoch)
                    for each in restore
                    if self._sinks(each.vertex)
                    for epoch in manifest.lineage(each.physical).superseded
                ]
        return []

    def _publish_range(self, physical: Physical, epoch: int, log: ManifestLog, snapshots: Snapshots) -> int:
        run = (physical[0], str(physical[1]), epoch)
        lineage = log.state.vertices.get(physical[0], {}).get(physical[1])
        committed = lineage.commits.get(epoch) if lineage else None
        if lineage is None or committed is None or committed.stale:
            self._unpublished.add(run)
            return 0  # rolled back since; what replaces it has an entry of its own
        rows: list[ResultRow] = []
        for sink in self._sinks(physical[0]):
            if sink.stable and not _stable(snapshots, physical[0], epoch):
                continue
            if run in self._unpublished or not same_as_before(lineage, committed, sink.name):
                rows += read_sink(self._store, committed, sink)
        self._unpublished.discard(run)
        return self._results.publish(epoch, rows, sessions=self._sessions) if rows else 0

    def _settle(self, log: ManifestLog, term: int, snapshots: Snapshots) -> None:
        """Ranges that have caught up with where they were before a rollback say what is left to correct."""
        for vertex in self._graph.order:
            sinks = self._graph.vertices[vertex].sinks
            lineages = log.state.vertices[vertex]
            anew = [each for each in lineages.values() if each.last is None and each.anew_after is not None]
            # Where all of a vertex went back to a point, what it said since is known to the results alone, and not by
            # range: what was not said again is taken back once every range has caught up.
            whole = anew if len(anew) == len([each for each in lineages.values() if each.last is None]) else []
            if whole and any(map(_is_behind, lineages.values())):
                continue
            for range_, lineage in list(lineages.items()):
                if not (lineage.superseded or lineage.anew_after is not None) or _is_behind(lineage):
                    continue
                if any(sink.stable for sink in sinks) and not _stable(snapshots, vertex, lineage.position):
                    continue
                rows = [
                    row
                    for sink in sinks
                    for row in (
                        not_said_again(self._results, whole, sink) if whole else corrections(self._store, lineage, sink)
                    )
                ]
                if rows:
                    self._results.publish(lineage.position, rows, sessions=self._sessions)
                if log.try_append(Settled(vertex, range_), term=term) is None:
                    return  # somebody appended; the next round does it again

    def _waits(self, held: Run, log: ManifestLog, snapshots: Snapshots) -> bool:
        vertex, text, epoch = held
        lineage = log.state.vertices.get(vertex, {}).get(Range.parse(text))
        stable_sink = any(sink.stable for sink in self._sinks(vertex))
        return (
            lineage is not None and epoch in lineage.commits and stable_sink and not _stable(snapshots, vertex, epoch)
        )

    def write_place(self) -> None:
        """Write down where publishing has come to."""
        self._saved_at = float("-inf")
        self._save()

    def _save(self) -> None:
        """The place, lost, is published from again, which changes nothing: where requests cost more than bytes it is
        written down only now and then."""
        rarely = NOTES_EVERY_S if self._store.counts_requests else 0
        if not self._moved or self._clock() - self._saved_at < rarely:
            return
        self._moved, self._saved_at = False, self._clock()
        place = {"n": self._n, "held": self._held, "unsaid": sorted(self._unpublished)}
        self._store.put_note("published", place, durable=True)


def _is_behind(lineage: Lineage) -> bool:
    """Whether it is still running again what it ran before."""
    return lineage.position < max((*lineage.superseded, *lineage.commits), default=0)


def _runs_again(run: Run, manifest: Manifest) -> bool:
    lineage = manifest.vertices.get(run[0], {}).get(Range.parse(run[1]))
    return lineage is not None and lineage.position < run[2]


def _stable(snapshots: Snapshots, vertex: str, epoch: int) -> bool:
    state = snapshots.state(vertex, epoch)
    return state is not None and state >= SnapshotState.STABLE
