"""Programs, devices and logs that the Spark tests share: everything from a seed, nothing from a clock."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

import resurge as rs
import tests.spark.operators  # noqa: F401  registers the operator types that misbehave
from cloud_backend.log.log import Log, Record
from cloud_backend.results.rows import Identity, ResultRow, digest_of
from cloud_backend.results.store import Results
from cloud_backend.spark.cluster.session import LocalRunner
from cloud_backend.spark.control.driver import JobManager, JobSettings, Runner
from cloud_backend.spark.graph import sink_of
from cloud_backend.spark.publishing.sink_rows import result_rows
from cloud_backend.spark.slots import WHOLE
from cloud_backend.spark.storage.store import Store
from cloud_backend.spark.task import log_input
from resurge import col
from shared.batch import NO_FRONTIER, Batch
from shared.engine.pipeline import Pipeline
from shared.identity import device_id, edge_id
from shared.plan.graph import Plan
from shared.plan.placement import cloud_fragment
from shared.spool.disk import PosixDisk
from shared.wire import columns, frame
from shared.wire.messages import Data, Declare

SECOND = 1_000_000


def trips_plan() -> Plan:
    """One vertex, keyed by device: what the walking skeleton runs."""
    up = rs.sensor("walk", every="1s", columns={"x": "float64", "cell": "int64"}).sync("walk", batch=20)
    return rs.plan_of(up.tumbling("10s").aggregate(n=rs.count(), total=rs.sum("x")).sync_back("trips"), name="trips")


def cells_plan(*, factor: float = 1.0, merge: str = "ordered", faults: Path | None = None) -> Plan:
    """Three vertices: per device, then by cell, then everything together. `faults`: a directory whose files make the
    first vertex misbehave."""
    up = rs.sensor("walk", every="1s", columns={"x": "float64", "cell": "int64"}).sync("walk", batch=20)
    if faults is not None:
        up = up.apply("tests_spark_troubled", faults=str(faults))
    mine = up.where(col.x > -1.0).tumbling("10s").aggregate(n=rs.count(), total=rs.sum("x"), cell=rs.last("cell"))
    cells = (
        mine.extend(total=col.total * factor)
        .key_by("cell", merge=merge)
        .tumbling("30s")
        .aggregate(devices=rs.count(), total=rs.sum("total"))
    )
    everything = cells.key_by().tumbling("60s").aggregate(cells=rs.count(), total=rs.sum("total"))
    return rs.plan_of(
        mine.subscribe("mine"), cells.subscribe("cells"), everything.subscribe("everything"), name="cells"
    )


@dataclass
class World:
    """A log that grows on demand, a store, results, and drivers over them."""

    root: Path
    plan: Plan
    seed: int = 1
    devices: int = 6
    settings: JobSettings = field(default_factory=lambda: JobSettings(epoch_s=0.0, balance=False))
    make_runner: Callable[[World], Runner] = lambda _: LocalRunner()

    def __post_init__(self) -> None:
        self.log_dir = self.root / "log"
        self.store_dir = self.root / "store"
        self.log = Log.open(PosixDisk(self.log_dir))
        self.random = np.random.default_rng(self.seed)
        self.ids = [device_id(f"{self.seed} {number}".encode()) for number in range(self.devices)]
        self.next = [0] * self.devices
        self.results = Results(self.root / "results.sqlite")
        self.offsets: list[int] = []

    def append(
        self, seconds: int = 30, *, batches: int = 2, poison: int | None = None, steps: int | None = None
    ) -> None:
        """Every device goes on for some seconds of event time, in shuffled order, `batches` batches each.
        `poison`: this device's first row carries the value the test operator cannot bear. `steps`: of each row, where the
        plan has that column."""
        records: list[Record] = []
        for batch in range(batches):
            for number in self.random.permutation(self.devices).tolist():
                rows = seconds // batches
                x = np.round(self.random.normal(size=rows), 3)
                if poison == number and batch == 0:
                    x[0] = 666.0
                records.append(self.record(number, x, steps=steps))
        self.offsets += self.log.append(records)
        self.log.sync()

    def declare(self) -> None:
        """Every device says which columns it sends, as a session does; only readers of other forms look at it."""
        (edge,) = self.plan.edges
        frames = [Declare(each, 1, edge_id(edge.name), edge.name, edge.schema).frame() for each in self.ids]
        self.log.append([Record(1_700_000_000_000_000, frame.encode(each)) for each in frames])

    def record(self, number: int, x: np.ndarray, cells: int = 5, *, steps: int | None = None) -> Record:
        """The next seconds of a device, a row each, as the log gets them."""
        (edge,) = self.plan.edges
        lo, rows = self.next[number], len(x)
        content = Batch.of(
            edge.schema,
            {"x": x, "cell": self.random.integers(0, cells, rows)} | ({} if steps is None else {"steps": [steps] * rows}),
            np.arange(lo, lo + rows) * SECOND, lo=lo, frontier_us=(lo + rows) * SECOND,
        )  # fmt: skip
        self.next[number] = lo + rows
        codec, payload = columns.encode(content)
        data = Data(
            self.ids[number], 1, edge_id(edge.name), content.lo, content.hi, rows, edge.schema.id, 0, codec, payload,
            content.frontier_us,
        )  # fmt: skip
        return Record(1_700_000_000_000_000 + lo, frame.encode(data.frame()))

    def driver(self, **changes: object) -> JobManager:
        return JobManager(
            self.log_dir,
            self.store_dir,
            self.plan,
            results=self.results,
            runner=self.make_runner(self),
            settings=self.settings,
            **changes,  # type: ignore[arg-type]
        )

    def started(self, epochs: int) -> JobManager:
        """A driver that has run this many epochs, each after every device went on."""
        driver = self.driver()
        for _ in range(epochs):
            self.append()
            driver.drain()
        return driver

    def expected(self) -> list[ResultRow]:
        """The failure-free answer: one numpy pipeline over the whole cloud side, one push per epoch that was cut. Epochs
        matter where devices meet, because a device counts from the epoch it is first heard in."""
        import contextlib

        from cloud_backend.spark.manifest.entries import Cut
        from cloud_backend.spark.manifest.manifest import ManifestLog
        from cloud_backend.spark.task.specification import slices_of

        store = Store(self.store_dir)
        entries = []
        for number in store.entry_numbers():
            with contextlib.suppress(ValueError):  # a torn last one, while nobody has written since
                entries.append(json.loads(store.entry(number) or b"{}"))
        cuts = {entry["epoch"]: Cut.from_json(entry) for entry in entries if entry["kind"] == "cut"}
        cuts |= ManifestLog(store).state.cuts  # where the entries were forgotten
        pipeline = Pipeline(cloud_fragment(self.plan))
        said: dict[Identity, ResultRow] = {}
        for epoch in sorted(cuts):
            outputs: list[tuple[str, Batch]] = []
            found, _ = log_input.read_edges(
                self.log_dir, slices_of(cuts[epoch]), {edge.name: edge.schema for edge in self.plan.edges}, WHOLE,
                missing={edge.name: dict(edge.missing) for edge in self.plan.edges},
            )  # fmt: skip
            for name, arrivals in found.items():
                for each in arrivals.units:
                    outputs += pipeline.push(name, replace(each.batch, frontier_us=NO_FRONTIER))
            for name, arrivals in found.items():
                outputs += pipeline.advance_devices(name, arrivals.frontiers)
            for sink, batch in outputs:
                said.update((row.identity, row) for row in result_rows(sink_of(self.plan, sink), batch, len(said) + 1))
        return list(said.values())

    def compare(self) -> tuple[int, str, str]:
        """Rows compared, digest of the results, digest of the failure-free answer."""
        expected = self.expected()
        return len(expected), self.results.digest(), digest_of(expected)

    def check(self, *, least_rows: int = 1) -> tuple[int, str]:
        rows, found, wanted = self.compare()
        assert rows >= least_rows
        assert found == wanted, self.difference()
        return rows, found

    def difference(self) -> str:
        found = {row.identity: row.content() for row in self.results.current()}
        wanted = {row.identity: row.content() for row in self.expected()}
        missing = [wanted[key] for key in sorted(wanted.keys() - found.keys())]
        extra = [found[key] for key in sorted(found.keys() - wanted.keys())]
        other = [(found[key], wanted[key]) for key in sorted(wanted.keys() & found.keys()) if wanted[key] != found[key]]
        return (
            f"missing {len(missing)}: {missing[:3]}\nextra {len(extra)}: {extra[:3]}\nother {len(other)}: {other[:3]}"
        )
