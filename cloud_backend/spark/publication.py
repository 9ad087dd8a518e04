"""Publishing: follows the manifest with a durable place of its own, so that every commit reaches the results once.

The place is kept beside the manifest and moved after the results were published; a driver that died in between
publishes again, which changes nothing.
"""

from __future__ import annotations

import json
import os
import uuid
from typing import Any

from cloud_backend.results.rows import ResultRow
from cloud_backend.results.store import Results
from cloud_backend.spark.graph import JobGraph
from cloud_backend.spark.lineage import Physical
from cloud_backend.spark.manifest import ManifestLog
from cloud_backend.spark.publish import corrections, read_sink, same_as_before
from cloud_backend.spark.slots import Range
from cloud_backend.spark.store import Store
from shared.recovery.snapshots import Snapshots, SnapshotState


class Publication:
    def __init__(self, store: Store, graph: JobGraph, results: Results) -> None:
        self._store = store
        self._graph = graph
        self._results = results
        self._path = store.root / "published.json"
        place = self._load()
        self._n: int = place["n"]
        self._held: list[tuple[str, str, int]] = [(vertex, text, epoch) for vertex, text, epoch in place["held"]]

    def publish(self, log: ManifestLog, term: int, snapshots: Snapshots) -> int:
        """Publish everything committed since the last time; returns how many rows were news."""
        if self._n == log.state.n and not self._held:
            return 0
        news = 0
        fresh: list[tuple[str, str, int]] = []
        for number in range(self._n + 1, log.state.n + 1):
            data = self._store.entry(number)
            entry: dict[str, Any] = json.loads(data) if data else {"kind": "gone"}
            if entry["kind"] == "commit" and self._graph.vertices[entry["vertex"]].sinks:
                fresh += [(entry["vertex"], text, value["epoch"]) for text, value in entry["ranges"].items()]
        for vertex, text, epoch in dict.fromkeys([*self._held, *fresh]):
            news += self._publish_range((vertex, Range.parse(text)), epoch, log, snapshots)
        self._settle(log, term, snapshots)
        held = [each for each in dict.fromkeys([*self._held, *fresh]) if self._waits(each, log, snapshots)]
        if (self._n, self._held) != (log.state.n, held):
            self._n, self._held = log.state.n, held
            self._save()
        return news

    def _publish_range(self, physical: Physical, epoch: int, log: ManifestLog, snapshots: Snapshots) -> int:
        lineage = log.state.vertices.get(physical[0], {}).get(physical[1])
        committed = lineage.commits.get(epoch) if lineage else None
        if lineage is None or committed is None or committed.stale:
            return 0  # rolled back since; what replaces it has an entry of its own
        rows: list[ResultRow] = []
        for sink in self._graph.vertices[physical[0]].sinks:
            if sink.stable and not _stable(snapshots, physical[0], epoch):
                continue
            if not same_as_before(lineage, committed, sink.name):
                rows += read_sink(self._store, committed, sink.name, sink.key)
        return self._results.publish(epoch, rows) if rows else 0

    def _settle(self, log: ManifestLog, term: int, snapshots: Snapshots) -> None:
        """Ranges that have caught up with where they were before a rollback say what is left to correct."""
        for vertex in self._graph.order:
            sinks = self._graph.vertices[vertex].sinks
            for range_, lineage in list(log.state.vertices[vertex].items()):
                if not lineage.superseded or lineage.position < max(lineage.superseded):
                    continue
                if any(sink.stable for sink in sinks) and not _stable(snapshots, vertex, lineage.position):
                    continue
                rows = [row for sink in sinks for row in corrections(self._store, lineage, sink.name, sink.key)]
                if rows:
                    self._results.publish(lineage.position, rows)
                if log.try_append("settled", term=term, vertex=vertex, range=str(range_)) is None:
                    return  # somebody appended; the next round does it again

    def _waits(self, held: tuple[str, str, int], log: ManifestLog, snapshots: Snapshots) -> bool:
        vertex, text, epoch = held
        lineage = log.state.vertices.get(vertex, {}).get(Range.parse(text))
        stable_sink = any(sink.stable for sink in self._graph.vertices[vertex].sinks)
        return (
            lineage is not None and epoch in lineage.commits and stable_sink and not _stable(snapshots, vertex, epoch)
        )

    def _load(self) -> dict[str, Any]:
        try:
            place: dict[str, Any] = json.loads(self._path.read_bytes())
            return place
        except (FileNotFoundError, ValueError):
            return {"n": 0, "held": []}

    def _save(self) -> None:
        temporary = self._path.with_name(f".published.{uuid.uuid4().hex[:12]}")
        temporary.write_text(json.dumps({"n": self._n, "held": self._held}))
        handle = os.open(temporary, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        temporary.replace(self._path)


def _stable(snapshots: Snapshots, vertex: str, epoch: int) -> bool:
    state = snapshots.state(vertex, epoch)
    return state is not None and state >= SnapshotState.STABLE
