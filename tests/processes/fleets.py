"""Fleets of real node processes for tests: one file, one home per node, made-up readings from a recording.

Readings are functions of their number, so what a sink holds is compared with `rs.evaluate` of the same program over the
same readings, number by number. Event times differ from run to run; values do not.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import resurge as rs
from resurge.up.process_fleet import COORDINATOR, PHONE, ProcessFleet
from shared.hosting.fleet_file import read_fleet
from shared.hosting.sink import sink_rows
from shared.language.registry import references
from shared.plan.deployment import HostedQuery
from shared.stream.program import load_operators
from tests.patience import RAN_OUT, SPARK_PATIENCE_S
from tests.processes.gateway_process import ROOT

__all__ = ["COORDINATOR", "PHONE", "Fleet", "Program", "digest", "example", "first_reading", "ideal"]

EXAMPLES = ROOT / "resurge" / "examples" / "peers"
Rows = list[tuple[float, ...]]
READINGS_MORE = 800  # than results, while windows fill


@dataclass(frozen=True, slots=True)
class Program:
    """A program file, the sensors it reads, and which columns of its sinks are compared."""

    name: str
    text: str
    sensors: Mapping[str, str]  # sensor -> its column
    sinks: Mapping[str, tuple[str, ...]]
    modules: tuple[str, ...]
    every_us: int = 20_000  # slower than the programs ask for: a busy machine keeps up, and the readings last
    lead_s: float = 0.0  # before the first reading
    readings: int = 1  # that lead to one result, at most


def example(name: str) -> Program:
    """SP1 to SP4 of the ECOC paper."""
    text = (EXAMPLES / f"{name}.py").read_text()
    if name == "beats":
        module = "resurge.examples.ecg.operators"
        return Program(
            name, text, {"ecg": "mv"}, {"beats": ("mv", "bpm")}, (module,), every_us=2778, lead_s=8.0, readings=400
        )
    sensors = {"test_a": "v", "test_b": "v"}
    return Program(name, text, sensors, {"mean": ("v",)}, ("resurge.examples.peers.operators",))


def wave(sensor: str, rows: int) -> np.ndarray:
    numbers = np.arange(rows)
    if sensor == "count":
        return numbers.astype(np.float64)
    if sensor == "ecg":
        at = numbers / 360
        return np.round(np.exp(-(((at - 0.5) % 0.8 - 0.4) ** 2) / 0.0002), 6)
    return np.round(1.0 + 0.3 * np.sin(numbers / (7 if sensor == "test_a" else 11)), 6)


def first_reading(program: Program, found: Mapping[str, Rows], rows: int) -> int:
    """The number of the reading with which the phone began: its sensors are read from the moment on at which it learnt
    of the query. Known by the first result, or because there is nothing to read before."""
    if program.lead_s:
        return 0
    (value, *_), *_ = next(iter(found.values()))
    if "count" in program.sensors:
        return int(value)
    both = wave("test_a", rows) + wave("test_b", rows)
    sums = np.convolve(both, np.ones(100), "valid")
    means = np.convolve(sums, np.ones(100) / 100, "valid")
    return int(np.argmin(np.abs(means - value)))


def ideal(program: Program, path: Path, rows: int, found: Mapping[str, Rows]) -> dict[str, Rows]:
    """What each sink should hold, in order, as far as something was found there."""
    first = first_reading(program, found, rows)
    rows = min(rows, first + READINGS_MORE + program.readings * max(map(len, found.values())))
    given = {
        name: {
            "time": np.arange(first, rows) * program.every_us,
            "device": np.array(["phone"] * (rows - first)),
            column: wave(name, rows)[first:],
        }
        for name, column in program.sensors.items()
    }
    evaluated = rs.evaluate(rs.load_program(path), given)
    return {
        sink: list(zip(*(evaluated[sink][name].tolist() for name in names), strict=True))[: len(found[sink])]
        for sink, names in program.sinks.items()
    }


def digest(rows: Rows) -> str:
    return hashlib.sha256("\n".join(map(repr, rows)).encode()).hexdigest()[:16]


class Fleet(ProcessFleet):
    """Homes, one fleet file, and the processes that run; results as a test compares them."""

    def __init__(
        self, folder: Path, program: Program, *, hubs: int, strategy: str, rows: int, every: int = 200,
        hosts: Mapping[str, str] | None = None, hanging: str = "5s", keepers: int = 1,
    ) -> None:  # fmt: skip
        self.program, self.rows = program, rows
        self._hosted: HostedQuery | None = None
        path = folder / f"{program.name}.py"
        path.write_text(program.text)
        for name, column in program.sensors.items():
            values = wave(name, rows).tolist()
            times = np.arange(rows) * program.every_us / 1e6 + program.lead_s
            lines = [f"{at:.6f},{value}" for at, value in zip(times.tolist(), values, strict=True)]
            (folder / f"{name}.csv").write_text("\n".join([f"time,{column}", *lines]) + "\n")
        super().__init__(
            folder, path, hubs=hubs, strategy=strategy, every=every, hosts=hosts, keepers=keepers, hanging=hanging,
            recordings={name: folder / f"{name}.csv" for name in program.sensors}, modules=program.modules,
        )  # fmt: skip

    def results(self) -> dict[str, Rows]:
        """What each sink holds now; a lost number is a failure of the test."""
        if self._hosted is None:
            load_operators(self.file.parent)
            self._hosted = read_fleet(self.file, sorted(references())).hosted()[0]
        found: dict[str, Rows] = {}
        for sink, names in self.program.sinks.items():
            rows, lost = sink_rows(self.disk, self._hosted, sink)
            assert not lost, f"{lost} numbers came as tombstones"
            assert [row["number"] for row in rows] == list(range(len(rows))), "a number is missing or came twice"
            found[sink] = [tuple(row[name] for name in names) for row in rows]  # type: ignore[misc]
        return found

    def count(self) -> int:
        """Of results in the sink that has fewest."""
        return min(map(len, self.results().values()))

    def wait_for(self, count: int, what: str) -> None:
        """Until every sink holds so many results. The nodes need the machine more than this does: look seldom."""
        end = time.monotonic() + SPARK_PATIENCE_S
        while (found := self.count()) < count:
            assert time.monotonic() < end, f"{what} {RAN_OUT} patience: {found} of {count} results\n{self.logs()}"
            time.sleep(0.2)

    def placed(self) -> dict[str, str]:
        """{vertex: the node it runs on}, as the coordinator says."""
        return {each["vertex"]: each["hosts"][0] for each in self.shown()["placements"]}

    def terms(self) -> dict[str, int]:
        return {each["vertex"]: each["term"] for each in self.shown()["placements"]}
