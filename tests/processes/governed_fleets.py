"""A fleet that its gateway coordinates, as processes: nodes are paired, offer to host, and are given a query."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from resurge.up.process_fleet import COORDINATOR, PHONE
from resurge.up.processes import end_with_parent
from shared.hosting.store import Memory
from shared.plan.deployment import decode_deployment
from tests.processes.cellular import Cellular
from tests.processes.fleets import Fleet, Program
from tests.processes.gateway_process import ROOT, GatewayProcess
from tests.processes.node_processes import enrolment_link

LAPTOP = COORDINATOR  # in these fleets it only has the results
SMOOTHED = Program(
    "smoothed",
    "\n".join(
        [
            "import resurge as rs",
            'near = rs.sensor("count", every="10ms", columns={"v": "float64"}).gather("count", batch=20, within="200ms")',
            'near.sliding(count=5).aggregate(v=rs.min("v"), m=rs.mean("v")).subscribe("smooth")',
        ]
    ),
    {"count": "v"},
    {"smooth": ("v", "m")},
    (),
    every_us=10_000,
)


class GovernedFleet(Fleet):
    """Its homes and processes; there is no node that coordinates, and no file that nodes read."""

    def __init__(
        self,
        folder: Path,
        gateway: GatewayProcess,
        program: Program,
        *,
        hubs: int,
        rows: int,
        options: Mapping[str, Sequence[str]] | None = None,
        network: Cellular | None = None,
    ) -> None:
        """`options` are of some nodes, by name; a phone that is given none only feeds. `network` is where they live."""
        self._options = options or {}
        self.network = network
        super().__init__(folder, program, hubs=hubs, strategy="ecoc", rows=rows, every=50)
        self.gateway = gateway
        written = tomllib.loads(self.file.read_text())
        self._addresses = {node["name"]: node["address"] for node in written["node"]}
        self.file.unlink()
        self._paired: set[str] = set()

    def address(self, name: str) -> str:
        return super().address(name) if self.network is None else self.network.address(name)

    def run_by(self, name: str) -> list[str]:
        return [] if self.network is None else self.network.run_by(name)

    def start(self, *names: str) -> None:
        for name in names or self.names:
            more = self._options.get(name, ())
            host = "none" if name == PHONE and not more else self._addresses[name]
            options = ["--host", host, "--name", name, "--for", "600", *more]
            if name not in self._paired:
                self._paired.add(name)
                options += ["--link", enrolment_link(self.gateway)]
            if name == PHONE:
                for sensor, recording in self._recordings.items():
                    options += ["--sensor", f"{sensor}=recording:{recording}"]
            with (self.folder / f"{name}.log").open("ab") as log:
                self.processes[name] = subprocess.Popen(
                    [
                        *self.run_by(name), sys.executable, "-m", "resurge", "node", "run",
                        "--home", str(self.folder / name), *options,
                    ],
                    cwd=ROOT, stdout=log, stderr=log, env={**os.environ, "PYTHONUNBUFFERED": "1"},
                    preexec_fn=end_with_parent,  # noqa: PLW1509 - started before any thread
                )  # fmt: skip

    def command(self, *arguments: str) -> str:
        """What a command says; it must succeed."""
        home = "--home" if arguments[0] in ("query", "region") else "--gateway"
        done = subprocess.run(
            [*self.gateway.run_by, sys.executable, "-m", "resurge", *arguments, home, str(self.gateway.home)],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert not done.returncode, done.stdout + done.stderr
        return done.stdout

    def submit(self, *, to: str = LAPTOP, **hosts: str) -> None:
        """Without `to` its results end where the gateway says."""
        placed = [option for vertex, node in hosts.items() for option in ("--on", f"{vertex}={node}")]
        placed += ["--to", to] if to else []
        self.command(
            "query", "submit", "q", str(self.path), "--from", PHONE, "--strategy", "ecoc", "--every",
            "50", *placed,
        )  # fmt: skip

    def shown(self, name: str = "") -> dict[str, Any]:
        """The fleet as the gateway tells it."""
        (found,) = json.loads(self.command("fleet", "show", "--json"))["fleets"]
        placements = [each for query in found["queries"] for each in query["vertices"]]
        return {**found, "placements": placements}

    def members(self) -> set[str]:
        found = json.loads(self.command("fleet", "show", "--json"))["fleets"]
        return {node["name"] for fleet in found for node in fleet["nodes"]}

    def results(self) -> dict[str, Any]:
        if self._hosted is None:
            told = Memory.read(self.disk).deployment
            queries = decode_deployment(told).queries if told else ()
            if not queries:
                return {sink: [] for sink in self.program.sinks}
            self._hosted = queries[0]
        return super().results()


def counted(gateway: GatewayProcess, name: str) -> int:
    """A number that the gateway tells whoever watches it, since it started."""
    token = (gateway.home / "operator.token").read_text()
    ask = (
        "import sys, urllib.request as r; print(r.urlopen(r.Request(sys.argv[1], headers={'authorization': 'Bearer ' + "
        "sys.argv[2]})).read().decode())"
    )
    url = f"http://127.0.0.1:{gateway.port}/metrics"
    said = subprocess.run(
        [*gateway.run_by, sys.executable, "-c", ask, url, token], capture_output=True, text=True, check=True
    ).stdout  # fmt: skip
    (line,) = [line for line in said.splitlines() if line.startswith(f"{name} ")]
    return round(float(line.split()[1]))
