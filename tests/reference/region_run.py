"""The region side run vertex by vertex, as nodes would, by the rules that every driver of vertices keeps:

* rows go over an edge without a frontier; then time moves as the producer's `take_progress` says, once per step;
* every source is known from the start: its time is at the beginning, so that where devices meet each is waited for, also
  before its first row;
* a feedback holds nothing back: its time is at the end from the start. Rows fed back enter before the next row from a
  device does, not before the frontier of the region's inputs;
* a vertex may be replaced at any moment between steps by one that is restored from its snapshot.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from shared.batch import END_OF_TIME, NO_FRONTIER, Batch
from shared.engine.pipeline import Pipeline
from shared.engine.rows import Progress
from shared.plan.cuts import region_vertices
from shared.plan.graph import Plan
from shared.plan.placement import device_fragment, region_fragment

FEEDBACK = "feedback "
BEGINNING_OF_TIME = NO_FRONTIER + 1  # the least that a frontier can say


class Devices:
    """The device side of a plan, one pipeline per device: what it gathers, with `device` added as a host does it."""

    def __init__(self, plan: Plan, names: Iterable[str]) -> None:
        self.fragment = device_fragment(plan)
        self._schemas = {entry.name: entry.schema for entry in region_fragment(plan).inputs}
        self._pipelines = {name: Pipeline(self.fragment, device=name) for name in names}

    def push(self, device: str, source: str, batch: Batch) -> list[tuple[str, Batch]]:
        found = self._pipelines[device].push(source, batch)
        return [(name, self._named(device, name, each)) for name, each in found if name in self._schemas]

    def _named(self, device: str, edge: str, batch: Batch) -> Batch:
        schema = self._schemas[edge]
        column = np.array([device] * len(batch), dtype=np.dtypes.StringDType())
        columns = {each.name: column if each.name == "device" else batch.columns[each.name] for each in schema}
        return replace(batch, schema=schema, columns=columns)

    def frontier_us(self, device: str, edge: str) -> int:
        return self._pipelines[device].frontier_us(edge)


class OnePipeline:
    """The oracle: the region in one piece."""

    def __init__(self, plan: Plan) -> None:
        fragment = region_fragment(plan)
        self.kinds = {output.name: output.kind for output in fragment.outputs}
        self._pipeline = Pipeline(fragment)
        self.received: dict[str, list[Batch]] = {}

    def push(self, edge: str, batch: Batch) -> None:
        self._take(self._pipeline.push(edge, replace(batch, frontier_us=NO_FRONTIER)))

    def advance(self, edge: str, frontier_us: int, device: str | None = None) -> None:
        self._take(self._pipeline.advance(edge, frontier_us, device))

    def _take(self, outputs: list[tuple[str, Batch]]) -> None:
        for name, batch in outputs:
            self.received.setdefault(name, []).append(batch)


class VertexByVertex:
    """The same region, each vertex in a pipeline of its own."""

    def __init__(self, plan: Plan) -> None:
        self.vertices = {vertex.name: vertex for vertex in region_vertices(plan)}
        self.pipelines = {name: self._started(name) for name in self.vertices}
        self._readers: dict[str, list[str]] = {}
        for name, vertex in self.vertices.items():
            for edge in vertex.inputs:
                self._readers.setdefault(edge, []).append(name)
        self._floors = {entry.name: NO_FRONTIER for entry in region_fragment(plan).inputs}
        self._floors = {name: at for name, at in self._floors.items() if not name.startswith(FEEDBACK)}
        self._waiting: deque[tuple[str, Batch]] = deque()
        self._fed: deque[tuple[str, Batch]] = deque()
        self._cycles = any(edge.startswith(FEEDBACK) for edge in self._readers)
        self.received: dict[str, list[Batch]] = {}
        self.restored = 0

    def _started(self, name: str) -> Pipeline:
        pipeline = Pipeline(self.vertices[name])
        for edge in self.vertices[name].inputs:
            if edge.startswith(FEEDBACK):
                pipeline.advance_by(edge, Progress(END_OF_TIME))
        return pipeline

    def restore(self, name: str) -> None:
        """Kill a vertex between two steps; another one goes on from its snapshot."""
        state = self.pipelines[name].snapshot()
        self.pipelines[name] = Pipeline(self.vertices[name])
        self.pipelines[name].restore(state)
        self.restored += 1

    def push(self, edge: str, batch: Batch) -> None:
        batch = replace(batch, frontier_us=NO_FRONTIER)
        rows = [batch.slice(at, at + 1) for at in range(len(batch))] if self._cycles else [batch]
        for row in rows:  # in a cycle each row goes round before the next one comes
            self._deliver(edge, row)
            self._settle()

    def advance(self, edge: str, frontier_us: int, device: str | None = None) -> None:
        if device is None:
            self._floors[edge] = max(self._floors[edge], frontier_us)
        devices = {} if device is None else {device: frontier_us}
        progress = Progress(NO_FRONTIER if device is not None else frontier_us, devices)
        for reader in self._readers.get(edge, ()):
            self._take(self.pipelines[reader].advance_by(edge, progress))
        self._move_time()
        self._settle()

    def _settle(self) -> None:
        """Rows and time to their ends; then what was fed back, one batch after the other."""
        while True:
            while self._waiting:
                self._deliver(*self._waiting.popleft())
            if self._move_time():
                continue
            if not self._fed:
                return
            edge, batch = self._fed.popleft()
            floor = min(self._floors.values(), default=NO_FRONTIER)
            if floor < END_OF_TIME:
                self._deliver(edge, replace(batch, time_us=np.maximum(batch.time_us, floor)))

    def _move_time(self) -> bool:
        """Tell readers how far time has come, producers first: rows that it lets go precede it on their edge."""
        moved = False
        for name, vertex in self.vertices.items():
            while self._waiting:
                self._deliver(*self._waiting.popleft())
            for output in vertex.fragment.outputs:
                if output.kind == "edge":
                    progress = self.pipelines[name].take_progress(output.name)
                    if progress.floor_us > NO_FRONTIER or progress.devices:
                        moved = True
                        for reader in self._readers[output.name]:
                            self._take(self.pipelines[reader].advance_by(output.name, progress))
        return moved

    def _deliver(self, edge: str, batch: Batch) -> None:
        for reader in self._readers.get(edge, ()):
            self._take(self.pipelines[reader].push(edge, replace(batch, frontier_us=NO_FRONTIER)))

    def _take(self, outputs: list[tuple[str, Batch]]) -> None:
        for name, batch in outputs:
            if name.startswith(FEEDBACK):
                if len(batch):
                    self._fed.append((name, batch))
            elif name in self._readers:
                self._waiting.append((name, batch))
            else:
                self.received.setdefault(name, []).append(batch)


class Scattered:
    """The same region on a slow network: what an edge carries waits there, and whichever edge the dice choose goes on.

    Order holds on an edge and nowhere else, as between nodes. Vertices are restored now and then.
    """

    def __init__(self, plan: Plan, draw: np.random.Generator) -> None:
        self.vertices = {vertex.name: vertex for vertex in region_vertices(plan)}
        self.pipelines = {name: Pipeline(vertex) for name, vertex in self.vertices.items()}
        self._draw = draw
        self._edges: dict[tuple[str, str], deque[Batch | Progress]] = {}  # by edge and reader
        self._floors: dict[tuple[str, str], int] = {}
        for name, vertex in self.vertices.items():
            for edge in vertex.inputs:
                self._edges[edge, name] = deque()
                if edge.startswith(FEEDBACK):
                    self.pipelines[name].advance_by(edge, Progress(END_OF_TIME))
                else:
                    self._floors[edge, name] = NO_FRONTIER
        self.received: dict[str, list[Batch]] = {}
        self.restored = 0
        self.waited_most = 0

    def push(self, edge: str, batch: Batch) -> None:
        self._put(edge, replace(batch, frontier_us=NO_FRONTIER))
        self._run(int(self._draw.integers(0, 6)))

    def advance(self, edge: str, frontier_us: int, device: str | None = None) -> None:
        if device is None:  # the end: what is under way arrives before it
            self.drain()
        self._put(edge, Progress(frontier_us) if device is None else Progress(NO_FRONTIER, {device: frontier_us}))
        self._run(int(self._draw.integers(0, 3)))

    def drain(self) -> None:
        while self._run(1):
            pass

    def _put(self, edge: str, what: Batch | Progress) -> None:
        for key, waiting in self._edges.items():
            if key[0] == edge:
                waiting.append(what)
                self.waited_most = max(self.waited_most, len(waiting))

    def _run(self, steps: int) -> int:
        """So many things on edges arrive; how many there were."""
        for done in range(steps):
            full = [key for key, waiting in self._edges.items() if waiting]
            if not full:
                return done
            self._arrive(full[int(self._draw.integers(len(full)))])
            if self._draw.random() < 0.02:
                self._restore(list(self.vertices)[int(self._draw.integers(len(self.vertices)))])
        return steps

    def _arrive(self, key: tuple[str, str]) -> None:
        edge, name = key
        what = self._edges[key].popleft()
        pipeline = self.pipelines[name]
        if isinstance(what, Progress):
            self._floors[key] = max(self._floors[key], what.floor_us)
            self._take(pipeline.advance_by(edge, what))
        elif edge.startswith(FEEDBACK):
            own = [at for (_, reader), at in self._floors.items() if reader == name]
            floor = min(own, default=NO_FRONTIER)
            if floor < END_OF_TIME:
                self._take(pipeline.push(edge, replace(what, time_us=np.maximum(what.time_us, floor))))
        else:
            self._take(pipeline.push(edge, what))
        for output in self.vertices[name].fragment.outputs:
            if output.kind == "edge":
                progress = pipeline.take_progress(output.name)
                if progress.floor_us > NO_FRONTIER or progress.devices:
                    self._put(output.name, progress)

    def _take(self, outputs: list[tuple[str, Batch]]) -> None:
        for name, batch in outputs:
            if any(edge == name for edge, _ in self._edges):
                self._put(name, replace(batch, frontier_us=NO_FRONTIER))
            else:
                self.received.setdefault(name, []).append(batch)

    def _restore(self, name: str) -> None:
        state = self.pipelines[name].snapshot()
        self.pipelines[name] = Pipeline(self.vertices[name])
        self.pipelines[name].restore(state)
        self.restored += 1
