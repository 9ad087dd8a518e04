"""The device's part of a plan, running: reads its sources and pushes what they say through the engine.

A source is a sensor, a timer, what the program appends, or results that came back from the cloud.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mobile_app.sensors.cloud_results import CloudResults, ReadResults
from mobile_app.sensors.program_rows import ProgramRows
from mobile_app.sensors.source import Samples, SensorMissing, Source, shaped
from mobile_app.sensors.timer import Timer as TimerSource
from mobile_app.spool.snapshots import Snapshot
from shared.batch import NO_FRONTIER, Batch
from shared.contracts.promises import promises
from shared.engine.pipeline import Pipeline
from shared.errors import BrokenInvariant, DamagedData, ResurgeError, UsageError
from shared.plan.fragments import Fragment, Input
from shared.plan.graph import Plan
from shared.plan.late_account import late_account
from shared.plan.operators import Appended, Sensor, SyncBack, Timer
from shared.plan.placement import device_fragment

LEAVING = ("sync", "gather")
RATE_LEAST = 0.01  # a hint may slow a sensor down a hundredfold, not stop it: silence is for the plan to ask for

TEXT_CHARACTERS_MAX = 80  # of what a user's exception says

OpenSource = Callable[[str, int], Source]  # sensor name, microseconds between readings


class OperatorFailed(ResurgeError):
    """The plan's own code raised: this computation is half done, so nothing of it may be kept. Close it."""


@contextmanager
def _users_code() -> Iterator[None]:
    """Around everything that may call an operator of the user's, its `snapshot` and `restore` too."""
    try:
        yield
    except (BrokenInvariant, DamagedData):  # about stored data, not about the plan's code
        raise
    except Exception as error:
        raise OperatorFailed(
            f"{_describe(error)}. Update the program or the plan; it then goes on from the last snapshot",
            code="operator-failed",
        ) from error


def _describe(error: Exception) -> str:
    who = next((note for note in getattr(error, "__notes__", ()) if note.startswith("operator type ")), "the plan")
    try:
        text = " ".join(str(error).split())
    except Exception:  # an exception of the user's, whose text fails as well
        text = ""
    if len(text) > TEXT_CHARACTERS_MAX:
        text = f"{text[: TEXT_CHARACTERS_MAX - 1]}…"
    return f"{who} raised {type(error).__name__}{': ' if text else ''}{text}"


@dataclass(slots=True)
class _Reading:
    """One input of the pipeline, and where it comes from."""

    input: Input
    source: Source
    every_us: int  # 0: on request only
    next: int = 0  # number of the next reading
    readings: int = 0


@dataclass(slots=True)
class FilterCount:
    """What filters made of the rows of one edge, since the start."""

    passed: int = 0
    dropped: int = 0


class Computation:
    """Owns the pipeline and its sources. Numbers of readings start at 0 or where a snapshot says."""

    def __init__(
        self,
        plan: Plan,
        device: str,
        open_source: OpenSource,
        *,
        from_us: int,
        read_results: ReadResults = lambda _sink, _first: (),
        results_from: int = 1,
    ) -> None:
        """`results_from`: the first number of the downlink that is news to a computation without a snapshot."""
        self.plan = plan
        self.fragment: Fragment = device_fragment(plan)
        self.missing: dict[str, str] = {}
        self.reading_count = 0  # readings and results since the start, in all
        self.filters = {edge.name: FilterCount() for edge in plan.edges}
        self.empty_columns: dict[str, list[str]] = {}  # by sensor: what its source does not have
        self._open_source = open_source
        self._kept_origins: Mapping[str, int] = {}
        self._pipeline = Pipeline(self.fragment, device=device)
        self._readings: dict[str, _Reading] = {}
        self._cloud_results: dict[str, CloudResults] = {}
        self._program_rows: dict[str, ProgramRows] = {}
        self._reached_us = from_us  # no row enters with an earlier time
        for entry in self.fragment.inputs:
            operator = plan.node(entry.node).operator
            if isinstance(operator, Timer):
                source: Source = TimerSource(every_us=operator.every_us, from_us=from_us)
                self._readings[entry.name] = _Reading(entry, source, operator.every_us)
            elif isinstance(operator, Appended):
                rows = self._program_rows[entry.name] = ProgramRows(entry.name, entry.schema)
                self._readings[entry.name] = _Reading(entry, rows, every_us=0)
            elif isinstance(operator, SyncBack):
                self._cloud_results[entry.name] = CloudResults(entry, device, read_results, first=results_from)
            elif isinstance(operator, Sensor):
                self._open(entry, operator)
        self.kinds = {output.name: output.kind for output in self.fragment.outputs}
        self.recovery_s = {name: choice.recovery_s for name, choice in promises(plan).items()}  # by edge, as planned
        self._arrange()

    def _open(self, entry: Input, sensor: Sensor) -> bool:
        try:
            source = self._open_source(sensor.name, sensor.every_us)
        except SensorMissing as missing:
            self.missing[sensor.name] = missing.message
            return False
        first = self._kept_origins.get(entry.name, 0)
        self._readings[entry.name] = _Reading(entry, source, sensor.every_us, next=first)
        self.missing.pop(sensor.name, None)
        return True

    def _arrange(self) -> None:
        self._regular = [reading for reading in self._readings.values() if reading.every_us]
        regular = {reading.input.name for reading in self._regular} | set(self._program_rows)
        fed = {name for name, kind in self.kinds.items() if kind == "feed"}
        # Read on request, missing here, or results from the cloud: rows may be rare, but time passes on them too.
        self._quiet = [entry.name for entry in self.fragment.inputs if entry.name not in regular | fed]

    def try_missing(self) -> None:
        """Open again what could not be had: a permission may have come back, a sensor may have been plugged in."""
        found = False
        for entry in self.fragment.inputs:
            operator = self.plan.node(entry.node).operator
            if isinstance(operator, Sensor) and operator.name in self.missing:
                found |= self._open(entry, operator)
        if found:
            self._arrange()

    def _lost(self, reading: _Reading, missing: SensorMissing) -> None:
        """A sensor that cannot be read any more; the rest goes on, and so does time on its input."""
        name = reading.input.name
        self._kept_origins = {**self._kept_origins, name: reading.next}
        self.missing[name] = missing.message
        reading.source.close()
        del self._readings[name]
        self._arrange()

    def troubles(self) -> dict[str, str]:
        """What sensors say that they suffer from, beside those that are missing."""
        return {
            name: reading.source.trouble for name, reading in self._readings.items() if reading.source.trouble
        } | self.missing

    def malformed(self) -> int:
        """Results that came back and did not fit what the plan says of them."""
        return sum(results.malformed for results in self._cloud_results.values())

    def rates(self) -> dict[str, int]:
        """{sensor: microseconds between readings} of what the plan reads by itself."""
        return {reading.input.name: reading.every_us for reading in self._regular}

    def close(self) -> None:
        """Let go of every sensor."""
        for reading in self._readings.values():
            reading.source.close()

    def read(self, until_us: int) -> list[tuple[str, Batch]]:
        """Read every sensor up to until_us and compute; returns what came out, by output name."""
        outputs: list[tuple[str, Batch]] = []
        for name, results in self._cloud_results.items():
            if (came := results.read(self._reached_us)) is not None:
                self.reading_count += 1
                with _users_code():
                    computed = self._pipeline.push(name, came)
                outputs += self._serve(computed)
        frontier_us = until_us
        for name, rows in self._program_rows.items():
            outputs += self._serve(self._push(self._readings[name], rows.read(until_us), until_us))
        for reading in self._regular:
            try:
                samples = reading.source.read(until_us)
            except SensorMissing as missing:
                self._lost(reading, missing)
                continue
            frontier_us = min(frontier_us, samples.frontier_us)
            outputs += self._serve(self._push(reading, samples, samples.frontier_us))
        for name in self._quiet:
            outputs += self._serve(self._advance(name, frontier_us))
        self._reached_us = max(self._reached_us, until_us)
        return outputs

    @property
    def reached_us(self) -> int:
        """Up to where the sensors were read."""
        return self._reached_us

    def late(self) -> list[dict[str, Any]]:
        """The account of rows that came too late for this device's windows."""
        return late_account(self.fragment.nodes, self._pipeline.late())

    def _push(self, reading: _Reading, samples: Samples, frontier_us: int) -> list[tuple[str, Batch]]:
        name, schema = reading.input.name, reading.input.schema
        if not len(samples):
            return self._advance(name, frontier_us)
        try:
            batch = shaped(samples, schema, lo=reading.next, frontier_us=frontier_us)
        except SensorMissing as missing:
            self._lost(reading, missing)
            return self._advance(name, frontier_us)
        if not reading.readings and (empty := [field for field in schema.names if field not in samples.columns]):
            self.empty_columns[name] = empty
        reading.next = batch.hi
        reading.readings += len(samples)
        self.reading_count += len(samples)
        with _users_code():
            return self._pipeline.push(name, batch)

    def _advance(self, name: str, frontier_us: int) -> list[tuple[str, Batch]]:
        with _users_code():
            return self._pipeline.advance(name, frontier_us)

    def _serve(self, outputs: list[tuple[str, Batch]]) -> list[tuple[str, Batch]]:
        """Answer the plan's own requests for readings; what the answers cause comes after what is there."""
        done: list[tuple[str, Batch]] = []
        waiting = deque(outputs)
        while waiting:
            name, batch = waiting.popleft()
            if self.kinds[name] != "request":
                done.append((name, batch))
                if (count := self.filters.get(name)) is not None:  # a batch covers the numbers of dropped rows, too
                    count.passed += len(batch)
                    count.dropped += batch.hi - batch.lo - len(batch)
                continue
            reading = self._readings.get(name.removeprefix("request "))
            if reading is not None and len(batch):
                try:
                    samples = reading.source.at(batch.time_us)
                except SensorMissing as missing:
                    self._lost(reading, missing)
                    continue
                waiting.extend(self._push(reading, samples, NO_FRONTIER))
        return done

    def frontiers(self) -> dict[str, int]:
        """Per edge that leaves the device: no earlier row follows."""
        return {name: self._pipeline.frontier_us(name) for name, kind in self.kinds.items() if kind in LEAVING}

    def slow_down(self, rates: Mapping[str, float]) -> None:
        """Apply hints: each sensor at this share of its plan's rate, `*` for all; what is not named has all of it."""
        for reading in self._regular:
            share = min(1.0, max(RATE_LEAST, rates.get(reading.input.name, rates.get("*", 1.0))))
            reading.source.sample_every(round(reading.every_us / share))

    def readings(self) -> dict[str, int]:
        """Readings taken since the start, by input."""
        results = {name: results.readings for name, results in self._cloud_results.items()}
        return {name: reading.readings for name, reading in self._readings.items()} | results

    def origins(self) -> dict[str, int]:
        results = {name: results.next for name, results in self._cloud_results.items()}
        numbers = {name: reading.next for name, reading in self._readings.items()}
        return {**self._kept_origins, **numbers, **results}

    def append(self, name: str, time_us: int, row: Mapping[str, object]) -> None:
        """Take a row that the program appends to one of its own streams; it enters with the next read."""
        if name not in self._program_rows:
            known = ", ".join(self._program_rows) or "none"
            raise UsageError(f"the plan has no stream {name!r} to append to (it has: {known})", code="append-stream")
        self._program_rows[name].append(max(time_us, self._reached_us), row)

    def takes(self, name: str, columns: tuple[str, ...]) -> bool:
        """Whether the plan has a stream of this name and exactly these columns to append to."""
        return any(entry.name == name and entry.schema.names == columns for entry in self.fragment.inputs
                   if name in self._program_rows)  # fmt: skip

    def snapshot(self) -> bytes:
        with _users_code():
            return self._pipeline.snapshot()

    def resume(self, snapshot: Snapshot) -> bool:
        """Go on from this state; False when it is of another plan or another version of the engine."""
        if snapshot.plan != self.digest():
            return False
        try:
            with _users_code():
                self._pipeline.restore(snapshot.state)
        except DamagedData:
            return False
        self._kept_origins = dict(snapshot.origins)
        for name, reading in self._readings.items():
            reading.next = snapshot.origins.get(name, 0)
        for name, results in self._cloud_results.items():
            results.next = snapshot.origins.get(name, results.next)
        self._reached_us = max(self._reached_us, snapshot.read_until_us)
        return True

    def digest(self) -> str:
        """Names the device's part of the plan: state fits another computation only if this is the same."""
        parts = [
            [(node.id, node.operator, node.inputs, node.type) for node in self.fragment.nodes],
            [(entry.name, entry.node, entry.schema) for entry in self.fragment.inputs],
            [(output.name, output.node, output.kind, output.schema) for output in self.fragment.outputs],
        ]
        return hashlib.sha256(repr(parts).encode()).hexdigest()
