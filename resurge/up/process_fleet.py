"""A fleet of node processes as a person starts them: one file, a home for each node, `resurge node run --fleet`."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from resurge.cli.fleet import card
from resurge.up.free_ports import free_ports
from resurge.up.processes import end_with_parent
from shared.spool.disk import PosixDisk

ROOT = Path(__file__).resolve().parents[2]
COORDINATOR, PHONE = "laptop", "phone"
STOP_S = 20.0


def free_address() -> str:
    return f"tcp://127.0.0.1:{free_ports(1)[0]}"


class ProcessFleet:
    """Homes, one fleet file with one query "q", and the processes that run. The phone reads recordings."""

    def __init__(
        self,
        folder: Path,
        program: Path,
        *,
        hubs: int,
        strategy: str,
        every: int,
        recordings: Mapping[str, Path],
        modules: Sequence[str],
        hosts: Mapping[str, str] | None = None,
        keepers: int = 1,
        hanging: str = "5s",
        sources: Sequence[str] = (PHONE,),
    ) -> None:
        """`program` lies in `folder`; `modules` register the operators that it applies. Without a strategy what the
        program promises picks one."""
        self.folder, self.path, self._recordings = folder, program, recordings
        self.names = [COORDINATOR, PHONE, *(f"hub{number}" for number in range(1, hubs + 1))]
        self.file = folder / "fleet.toml"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.link = ""  # by which the coordinator is paired with a gateway
        (folder / "resurge.toml").write_text(f"[operators]\nmodules = {json.dumps(list(modules))}\n")
        placed = ", ".join(f"{json.dumps(vertex)} = {json.dumps(node)}" for vertex, node in (hosts or {}).items())
        chosen = f'strategy = "{strategy}"\n' if strategy else ""
        query = (
            f'[[query]]\nname = "q"\nprogram = "{program.name}"\n{chosen}every = {every}\n'
            f'sources = {json.dumps(list(sources))}\nsink = "{COORDINATOR}"\nkeepers = {keepers}\n'
            f"hosts = {{ {placed} }}\n"
        )
        head = f'coordinator = "{COORDINATOR}"\nhanging = "{hanging}"'
        self.file.write_text("\n".join([head, *self._cards(), query]))

    def _cards(self) -> list[str]:
        """What `resurge fleet card` prints for each node."""
        cards = []
        for name in self.names:
            with contextlib.redirect_stdout(io.StringIO()) as said:
                card(name, self.folder / name, self.address(name))
            cards.append(said.getvalue())
        return cards

    def address(self, name: str) -> str:  # noqa: ARG002
        """Where a node listens."""
        return free_address()

    def run_by(self, name: str) -> list[str]:  # noqa: ARG002
        """The command that runs the command of a node; none runs it here."""
        return []

    @property
    def disk(self) -> PosixDisk:
        """Where the coordinator's node has its sinks."""
        return PosixDisk(self.folder / COORDINATOR / "fleet")

    def start(self, *names: str) -> None:
        for name in names or self.names:
            sensors = []
            if name == PHONE:
                for sensor, recording in self._recordings.items():
                    sensors += ["--sensor", f"{sensor}=recording:{recording}"]
            paired = ["--link", self.link] if self.link and name == COORDINATOR else []
            with (self.folder / f"{name}.log").open("ab") as log:
                self.processes[name] = subprocess.Popen(
                    [*self.run_by(name), sys.executable, "-m", "resurge", "node", "run",
                     "--home", str(self.folder / name), "--fleet", str(self.file), "--for", "600", *sensors, *paired],
                    cwd=ROOT, stdout=log, stderr=log, env={**os.environ, "PYTHONUNBUFFERED": "1"},
                    preexec_fn=end_with_parent,  # noqa: PLW1509 - started before any thread
                )  # fmt: skip

    def ended(self) -> list[str]:
        """Nodes that should run and do not."""
        return [name for name, process in self.processes.items() if process.poll() is not None]

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(timeout=STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes.clear()

    def shown(self, name: str = COORDINATOR) -> dict[str, Any]:
        """What `resurge fleet show` says on a node."""
        shown: dict[str, Any] = self.status(name)["fleet"]
        return shown

    def status(self, name: str) -> dict[str, Any]:
        """What a node last said of itself."""
        said: dict[str, Any] = json.loads((self.folder / name / "status.json").read_text())
        return said

    def logs(self) -> str:
        return "\n".join(f"== {path.name}\n{path.read_text()[-2000:]}" for path in sorted(self.folder.glob("*.log")))
