"""Fleets of real node processes for tests: one file, one home per node, made-up readings from a recording.

Readings are functions of their number, so what a sink holds is compared with `rs.evaluate` of the same program over the
same readings, number by number. Event times differ from run to run; values do not.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

import resurge as rs
from shared.hosting.fleet_file import read_fleet
from shared.hosting.sink import sink_rows
from shared.language.registry import references
from shared.spool.disk import PosixDisk
from tests.processes.gateway_process import ROOT
from tests.processes.node_processes import free_address

COORDINATOR, PHONE = "laptop", "phone"
EVERY_US = 20_000  # slower than the programs ask for: a busy machine keeps up, and the readings last
EXAMPLES = ROOT / "resurge" / "examples" / "peers"
SINKS = {"average": "mean", "one_attenuated": "mean", "both_attenuated": "mean", "beats": "beats"}
MODULES = ("resurge.examples.ecg.operators", "resurge.examples.peers.operators")


def wave(sensor: str, rows: int) -> np.ndarray:
    numbers = np.arange(rows)
    if sensor == "ecg":
        at = numbers / 360
        return np.round(np.exp(-(((at - 0.5) % 0.8 - 0.4) ** 2) / 0.0002), 6)
    return np.round(1.0 + 0.3 * np.sin(numbers / (7 if sensor == "test_a" else 11)), 6)


def sensors_of(program: str) -> dict[str, str]:
    """{sensor: its column} of an example."""
    return {"ecg": "mv"} if program == "beats" else {"test_a": "v", "test_b": "v"}


def first_reading(found: list[tuple[float, ...]], rows: int) -> int:
    """The number of the reading with which the phone began, by the first mean: its sensors are read from the moment on
    at which it learnt of the query."""
    both = wave("test_a", rows) + wave("test_b", rows)
    sums = np.convolve(both, np.ones(100), "valid")
    means = np.convolve(sums, np.ones(100) / 100, "valid")
    return int(np.argmin(np.abs(means - found[0][0])))


def ideal(program: str, rows: int, first: int = 0) -> list[tuple[float, ...]]:
    """What the sink should hold, in order, if the phone begins with this reading."""
    every_us = 2778 if program == "beats" else EVERY_US
    given = {
        name: {
            "time": np.arange(first, rows) * every_us,
            "device": np.array(["phone"] * (rows - first)),
            column: wave(name, rows)[first:],
        }
        for name, column in sensors_of(program).items()
    }
    found = rs.evaluate(rs.load_program(EXAMPLES / f"{program}.py"), given)[SINKS[program]]
    return list(zip(*(found[name].tolist() for name in compared(program)), strict=True))


def compared(program: str) -> tuple[str, ...]:
    return ("mv", "bpm") if program == "beats" else ("v",)


def digest(rows: list[tuple[float, ...]]) -> str:
    return hashlib.sha256("\n".join(map(repr, rows)).encode()).hexdigest()[:16]


class Fleet:
    """Homes, one fleet file, and the processes that run."""

    def __init__(self, folder: Path, program: str, *, hubs: int, strategy: str, rows: int, every: int = 200) -> None:
        self.folder, self.program, self.rows = folder, program, rows
        self.names = [COORDINATOR, PHONE, *(f"hub{number}" for number in range(1, hubs + 1))]
        self.file = folder / "fleet.toml"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        (folder / f"{program}.py").write_text((EXAMPLES / f"{program}.py").read_text())
        (folder / "resurge.toml").write_text(f"[operators]\nmodules = {list(MODULES)!r}\n".replace("'", '"'))
        cards = [self._resurge("fleet", "card", "--name", name, "--home", str(folder / name), "--listen", free_address())
                 for name in self.names]  # fmt: skip
        query = (
            f'[[query]]\nname = "q"\nprogram = "{program}.py"\nstrategy = "{strategy}"\nevery = {every}\n'
            f'sources = ["{PHONE}"]\nsink = "{COORDINATOR}"\n'
        )
        self.file.write_text("\n".join([f'coordinator = "{COORDINATOR}"', *cards, query]))
        for name, column in sensors_of(program).items():
            every_us = 2778 if name == "ecg" else EVERY_US
            lines = [f"{number * every_us / 1e6:.6f},{value}" for number, value in enumerate(wave(name, rows).tolist())]
            (folder / f"{name}.csv").write_text("\n".join([f"time,{column}", *lines]) + "\n")

    def _resurge(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "resurge", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
        )
        return done.stdout

    def start(self, *names: str) -> None:
        for name in names or self.names:
            sensors = []
            if name == PHONE:
                for sensor in sensors_of(self.program):
                    sensors += ["--sensor", f"{sensor}=recording:{self.folder / f'{sensor}.csv'}"]
            with (self.folder / f"{name}.log").open("ab") as log:
                self.processes[name] = subprocess.Popen(
                    [sys.executable, "-m", "resurge", "node", "run", "--home", str(self.folder / name), "--fleet",
                     str(self.file), "--for", "600", *sensors],
                    cwd=ROOT, stdout=log, stderr=log, env={**os.environ, "PYTHONUNBUFFERED": "1"},
                )  # fmt: skip

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes.clear()

    def results(self) -> list[tuple[float, ...]]:
        """What the sink holds now; a lost number is a failure of the test."""
        hosted = read_fleet(self.file, sorted(references())).hosted()[0]
        rows, lost = sink_rows(PosixDisk(self.folder / COORDINATOR / "fleet"), hosted, SINKS[self.program])
        assert not lost, f"{lost} numbers came as tombstones"
        assert [row["number"] for row in rows] == list(range(len(rows))), "a number is missing or came twice"
        return [tuple(row[name] for name in compared(self.program)) for row in rows]  # type: ignore[misc]

    def placed(self) -> dict[str, str]:
        """{vertex: the node it runs on}, as the coordinator says."""
        shown: dict[str, Any] = json.loads(
            self._resurge("fleet", "show", "--home", str(self.folder / COORDINATOR), "--json")
        )
        return {each["vertex"]: each["hosts"][0] for each in shown["placements"]}

    def logs(self) -> str:
        return "\n".join(f"== {path.name}\n{path.read_text()[-2000:]}" for path in sorted(self.folder.glob("*.log")))
