"""The cloud's side alone: what people's phones would send is written straight into a log, and a job runs over it.

For the bench, for showing what a failure costs, and for tests of what happens when somebody comes back late. The
phones' part of the program really runs, by the engine that phones use; only the network is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from cloud_backend.log.format import Record
from cloud_backend.log.log import Log
from cloud_backend.results.rows import ResultRow
from cloud_backend.results.store import Results
from cloud_backend.spark.control.driver import JobManager, JobSettings, Runner
from resurge.examples.trips.people import Person
from resurge.examples.trips.report import with_names
from shared.batch import Batch
from shared.engine.pipeline import Pipeline
from shared.identity import DeviceId, device_id, edge_id
from shared.plan.graph import Plan
from shared.plan.placement import device_fragment
from shared.spool.disk import PosixDisk
from shared.wire import columns
from shared.wire.frame import encode
from shared.wire.messages import Data, Frontier


class Cloud:
    """A log that people's phones fill, hour by hour, and the job over it."""

    def __init__(self, root: Path, plan: Plan, people: Sequence[Person]) -> None:
        self.root, self.plan = root, plan
        self.log = Log.open(PosixDisk(root / "log"))
        self.phones = {person.name: _Uploader(plan, person) for person in people}
        self.waiting: dict[str, list[bytes]] = {person.name: [] for person in people}
        self.names = {phone.device.hex(): name for name, phone in self.phones.items()}
        self.points = self.batches = self.bytes = 0  # that phones made; frontiers without rows are not in it
        self.results = Results(root / "results.sqlite")

    def advance(self, until_us: int, *, offline: Collection[str] = ()) -> None:
        """Everybody reads up to this time; who is not offline sends it, and what was left from before."""
        for name, phone in self.phones.items():
            self.waiting[name] += phone.read(until_us)
            if name not in offline:
                frames, self.waiting[name] = self.waiting[name], []
                if frames:
                    self.log.append([Record(until_us, frame) for frame in frames])
        self.log.sync()
        self.points = sum(phone.rows for phone in self.phones.values())
        self.batches = sum(phone.batches for phone in self.phones.values())
        self.bytes = sum(phone.bytes for phone in self.phones.values())

    def driver(self, runner: Runner, **settings: object) -> JobManager:
        chosen = JobSettings(epoch_s=0.0, balance=False, **settings)  # type: ignore[arg-type]
        return JobManager(
            self.root / "log", self.root / "store", self.plan, results=self.results, runner=runner, settings=chosen
        )

    def report(self) -> list[ResultRow]:
        return with_names(self.results.current(), self.names)

    def close(self) -> None:
        self.results.close()
        self.log.close()


class _Uploader:
    """One person's part of the program, and the frames that come out of it."""

    def __init__(self, plan: Plan, person: Person) -> None:
        self.device: DeviceId = device_id(person.name.encode())
        self._edge = plan.edges[0]
        self._person = person
        self._pipeline = Pipeline(device_fragment(plan), device=self.device.hex())
        self._schemas = {entry.name: entry.schema for entry in self._pipeline.fragment.inputs}
        self._next = dict.fromkeys(self._schemas, 0)
        self._cache = columns.Cache()
        self._head = 0
        self.rows = self.batches = self.bytes = 0

    def read(self, until_us: int) -> list[bytes]:
        outputs: list[tuple[str, Batch]] = []
        for name, schema in self._schemas.items():
            given = self._person.sensors.get(name)
            start = self._next[name]
            end = start if given is None else int(np.searchsorted(given["time"], until_us))
            if given is not None and end > start:
                part = {field.name: given[field.name][start:end] for field in schema}
                outputs += self._pipeline.push(name, Batch.of(schema, part, given["time"][start:end], lo=start))
                self._next[name] = end
        for name in self._schemas:
            outputs += self._pipeline.advance(name, until_us)
        frontier_us = self._pipeline.frontier_us(self._edge.name)
        made = [batch for name, batch in outputs if name == self._edge.name and batch.lo < batch.hi]
        if not made:
            return [encode(Frontier(self.device, 1, edge_id(self._edge.name), self._head, frontier_us).frame())]
        return [self._frame(batch, frontier_us if batch is made[-1] else batch.frontier_us) for batch in made]

    def _frame(self, batch: Batch, frontier_us: int) -> bytes:
        codec, payload = columns.encode(batch, cache=self._cache)
        self.rows += len(batch)
        self._head = batch.hi
        frame = encode(
            Data(
                self.device, 1, edge_id(self._edge.name), batch.lo, batch.hi, len(batch), self._edge.schema.id, 0,
                codec, payload, frontier_us,
            ).frame()
        )  # fmt: skip
        self.batches += 1
        self.bytes += len(frame)
        return frame
