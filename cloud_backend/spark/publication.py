"""Publishing: follows the manifest with a durable place of its own, so that every commit reaches the results once.

The place is kept beside the manifest and moved after the results were published; a driver that died in between
publishes again, which changes nothing.
"""

from __future__ import annotations

import json
from collections import Counter

from cloud_backend.results.rows import ResultRow
from cloud_backend.results.store import Results
from cloud_backend.spark.graph import JobGraph
from cloud_backend.spark.lineage import Entry, Physical
from cloud_backend.spark.manifest import Manifest, ManifestLog
from cloud_backend.spark.publish import corrections, read_sink, same_as_before
from cloud_backend.spark.slots import Range
from cloud_backend.spark.store import Store
from shared.recovery.snapshots import Snapshots, SnapshotState

Said = tuple[str, str, int]  # vertex, range, epoch


class Publication:
    def __init__(self, store: Store, graph: JobGraph, results: Results) -> None:
        self._store = store
        self._graph = graph
        self._results = results
        self._sessions = {sink.name for vertex in graph.vertices.values() for sink in vertex.sinks if sink.sessions}
        place: Entry = {"n": 0, "held": []} | store.note("published")
        self._n: int = place["n"]
        self._held: list[Said] = [(vertex, text, epoch) for vertex, text, epoch in place["held"]]
        # Runs that were rolled back before they were published: when the second run says the same, it is news.
        self._unsaid: set[Said] = {(vertex, text, epoch) for vertex, text, epoch in place.get("unsaid", ())}

    def publish(self, log: ManifestLog, term: int, snapshots: Snapshots) -> int:
        """Publish everything committed since the last time; returns how many rows were news."""
        if self._n == log.state.n and not self._held:
            return 0
        news = 0
        fresh: list[Said] = []
        for number in range(self._n + 1, log.state.n + 1):
            data = self._store.entry(number)
            fresh += self._said_by(json.loads(data) if data else {"kind": "gone"}, log.state)
        before = set(self._unsaid)
        self._unsaid |= {each for each, times in Counter([*self._held, *fresh]).items() if times > 1}
        for vertex, text, epoch in dict.fromkeys([*self._held, *fresh]):
            news += self._publish_range((vertex, Range.parse(text)), epoch, log, snapshots)
        self._unsaid = {each for each in self._unsaid if _runs_again(each, log.state)}
        self._settle(log, term, snapshots)
        held = [each for each in dict.fromkeys([*self._held, *fresh]) if self._waits(each, log, snapshots)]
        if (self._n, self._held, before) != (log.state.n, held, self._unsaid):
            self._n, self._held = log.state.n, held
            self._save()
        return news

    def _said_by(self, entry: Entry, manifest: Manifest) -> list[Said]:
        """The runs that an entry makes count at vertices with sinks."""
        if entry["kind"] == "commit" and self._graph.vertices[entry["vertex"]].sinks:
            return [(entry["vertex"], text, value["epoch"]) for text, value in entry["ranges"].items()]
        if entry["kind"] == "undo":
            return [
                (vertex, text, epoch)
                for vertex, text, *_ in entry["restore"]
                if self._graph.vertices[vertex].sinks
                for epoch in manifest.lineage((vertex, Range.parse(text))).superseded
            ]
        return []

    def _publish_range(self, physical: Physical, epoch: int, log: ManifestLog, snapshots: Snapshots) -> int:
        said = (physical[0], str(physical[1]), epoch)
        lineage = log.state.vertices.get(physical[0], {}).get(physical[1])
        committed = lineage.commits.get(epoch) if lineage else None
        if lineage is None or committed is None or committed.stale:
            self._unsaid.add(said)
            return 0  # rolled back since; what replaces it has an entry of its own
        rows: list[ResultRow] = []
        for sink in self._graph.vertices[physical[0]].sinks:
            if sink.stable and not _stable(snapshots, physical[0], epoch):
                continue
            if said in self._unsaid or not same_as_before(lineage, committed, sink.name):
                rows += read_sink(self._store, committed, sink)
        self._unsaid.discard(said)
        return self._results.publish(epoch, rows, sessions=self._sessions) if rows else 0

    def _settle(self, log: ManifestLog, term: int, snapshots: Snapshots) -> None:
        """Ranges that have caught up with where they were before a rollback say what is left to correct."""
        for vertex in self._graph.order:
            sinks = self._graph.vertices[vertex].sinks
            for range_, lineage in list(log.state.vertices[vertex].items()):
                if not lineage.superseded or lineage.position < max((*lineage.superseded, *lineage.commits)):
                    continue  # still running again
                if any(sink.stable for sink in sinks) and not _stable(snapshots, vertex, lineage.position):
                    continue
                rows = [row for sink in sinks for row in corrections(self._store, lineage, sink)]
                if rows:
                    self._results.publish(lineage.position, rows, sessions=self._sessions)
                if log.try_append("settled", term=term, vertex=vertex, range=str(range_)) is None:
                    return  # somebody appended; the next round does it again

    def _waits(self, held: tuple[str, str, int], log: ManifestLog, snapshots: Snapshots) -> bool:
        vertex, text, epoch = held
        lineage = log.state.vertices.get(vertex, {}).get(Range.parse(text))
        stable_sink = any(sink.stable for sink in self._graph.vertices[vertex].sinks)
        return (
            lineage is not None and epoch in lineage.commits and stable_sink and not _stable(snapshots, vertex, epoch)
        )

    def _save(self) -> None:
        place = {"n": self._n, "held": self._held, "unsaid": sorted(self._unsaid)}
        self._store.put_note("published", place, durable=True)


def _runs_again(said: Said, manifest: Manifest) -> bool:
    lineage = manifest.vertices.get(said[0], {}).get(Range.parse(said[1]))
    return lineage is not None and lineage.position < said[2]


def _stable(snapshots: Snapshots, vertex: str, epoch: int) -> bool:
    state = snapshots.state(vertex, epoch)
    return state is not None and state >= SnapshotState.STABLE
