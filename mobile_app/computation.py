"""The device's part of a plan, running: reads the sensors it names and pushes them through the engine."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mobile_app.sensors.source import Samples, SensorMissing, Source, shaped
from mobile_app.sensors.timer import Timer as TimerSource
from mobile_app.snapshots import Snapshot
from shared.batch import NO_FRONTIER, Batch
from shared.engine.pipeline import Pipeline
from shared.errors import DamagedData
from shared.plan.fragments import Fragment, Input
from shared.plan.graph import Plan
from shared.plan.operators import Sensor, Timer
from shared.plan.placement import device_fragment

RATE_LEAST = 0.01  # a hint may slow a sensor down a hundredfold, not stop it: silence is for the plan to ask for

OpenSource = Callable[[str, int], Source]  # sensor name, microseconds between readings


@dataclass(slots=True)
class _Reading:
    """One input of the pipeline, and where it comes from."""

    input: Input
    source: Source
    every_us: int  # 0: on request only
    next: int = 0  # number of the next reading
    readings: int = 0


class Computation:
    """Owns the pipeline and its sources. Numbers of readings start at 0 or where a snapshot says."""

    def __init__(self, plan: Plan, device: str, open_source: OpenSource, *, from_us: int) -> None:
        self.plan = plan
        self.fragment: Fragment = device_fragment(plan)
        self.missing: dict[str, str] = {}
        self._pipeline = Pipeline(self.fragment, device=device)
        self._readings: dict[str, _Reading] = {}
        for entry in self.fragment.inputs:
            operator = plan.node(entry.node).operator
            if isinstance(operator, Timer):
                source: Source = TimerSource(every_us=operator.every_us, from_us=from_us)
                self._readings[entry.name] = _Reading(entry, source, operator.every_us)
            elif isinstance(operator, Sensor):
                try:
                    source = open_source(operator.name, operator.every_us)
                except SensorMissing as missing:
                    self.missing[operator.name] = missing.message
                    continue
                self._readings[entry.name] = _Reading(entry, source, operator.every_us)
        self.kinds = {output.name: output.kind for output in self.fragment.outputs}
        self._regular = [reading for reading in self._readings.values() if reading.every_us]
        regular = {reading.input.name for reading in self._regular}
        fed = {name for name, kind in self.kinds.items() if kind == "feed"}
        # Read on request, missing here, or results from the cloud: rows may be rare, but time passes on them too.
        self._quiet = [entry.name for entry in self.fragment.inputs if entry.name not in regular | fed]

    def read(self, until_us: int) -> list[tuple[str, Batch]]:
        """Read every sensor up to until_us and compute; returns what came out, by output name."""
        outputs: list[tuple[str, Batch]] = []
        frontier_us = until_us
        for reading in self._regular:
            samples = reading.source.read(until_us)
            frontier_us = min(frontier_us, samples.frontier_us)
            outputs += self._serve(self._push(reading, samples, samples.frontier_us))
        for name in self._quiet:
            outputs += self._serve(self._pipeline.advance(name, frontier_us))
        return outputs

    def _push(self, reading: _Reading, samples: Samples, frontier_us: int) -> list[tuple[str, Batch]]:
        name, schema = reading.input.name, reading.input.schema
        if not len(samples):
            return self._pipeline.advance(name, frontier_us)
        columns = shaped(samples, schema)
        batch = Batch.of(schema, columns, samples.time_us, lo=reading.next, frontier_us=frontier_us)
        reading.next = batch.hi
        reading.readings += len(samples)
        return self._pipeline.push(name, batch)

    def _serve(self, outputs: list[tuple[str, Batch]]) -> list[tuple[str, Batch]]:
        """Answer the plan's own requests for readings; what the answers cause comes after what is there."""
        done: list[tuple[str, Batch]] = []
        waiting = deque(outputs)
        while waiting:
            name, batch = waiting.popleft()
            if self.kinds[name] != "request":
                done.append((name, batch))
                continue
            reading = self._readings.get(name.removeprefix("request "))
            if reading is not None and len(batch):
                waiting.extend(self._push(reading, reading.source.at(batch.time_us), NO_FRONTIER))
        return done

    def frontiers(self) -> dict[str, int]:
        """Per sync edge: no earlier row follows."""
        return {name: self._pipeline.frontier_us(name) for name, kind in self.kinds.items() if kind == "sync"}

    def slow_down(self, rates: Mapping[str, float]) -> None:
        """Apply hints: each sensor at this share of its plan's rate, `*` for all; what is not named has all of it."""
        for reading in self._regular:
            share = min(1.0, max(RATE_LEAST, rates.get(reading.input.name, rates.get("*", 1.0))))
            reading.source.sample_every(round(reading.every_us / share))

    def readings(self) -> dict[str, int]:
        """Readings taken since the start, by input."""
        return {name: reading.readings for name, reading in self._readings.items()}

    def origins(self) -> dict[str, int]:
        return {name: reading.next for name, reading in self._readings.items()}

    def snapshot(self) -> bytes:
        return self._pipeline.snapshot()

    def resume(self, snapshot: Snapshot) -> bool:
        """Go on from this state; False when it is of another plan or another version of the engine."""
        if snapshot.plan != self.digest():
            return False
        try:
            self._pipeline.restore(snapshot.state)
        except DamagedData:
            return False
        for name, reading in self._readings.items():
            reading.next = snapshot.origins.get(name, 0)
        return True

    def digest(self) -> str:
        """Names the device's part of the plan: state fits another computation only if this is the same."""
        parts = [
            [(node.id, node.operator, node.inputs, node.type) for node in self.fragment.nodes],
            [(entry.name, entry.node, entry.schema) for entry in self.fragment.inputs],
            [(output.name, output.node, output.kind, output.schema) for output in self.fragment.outputs],
        ]
        return hashlib.sha256(repr(parts).encode()).hexdigest()
