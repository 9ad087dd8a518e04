"""The product as an operator has it, small: a real gateway with its dashboard, the program's job and a runner of
queries (their tasks in this process, no JVM), a phone as a process of its own, and a network that can be cut.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import uvicorn

import resurge as rs
from cloud_backend.gateway.address_file import write_address
from cloud_backend.gateway.app import create_app
from cloud_backend.gateway.gateway import Gateway
from cloud_backend.gateway.settings import Settings
from cloud_backend.results.store import Results
from cloud_backend.spark.cluster.session import LocalRunner
from cloud_backend.spark.control.driver import JobManager, JobSettings
from cloud_backend.spark.control.jobs import JobDirectory, JobsRunner
from cloud_backend.spark.control.log_needs import LogUse
from cloud_backend.spark.manifest.manifest import Manifest, ManifestLog
from cloud_backend.spark.slots import Range
from cloud_backend.spark.storage.store import Store
from cloud_backend.spark.task import state
from shared.plan.encoding import encode_plan
from shared.plan.graph import Plan
from tests.patience import PATIENCE_S, wait_until

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = JobSettings(epoch_s=0.5, balance=False)


def program() -> Plan:
    """Two vertices: per phone, then everything together."""
    up = rs.sensor("gps", every="250ms").sync("gps", batch=4, within="1s")
    mine = up.key_by("device").tumbling("2s").aggregate(km=rs.path_km("lat", "lon"), points=rs.count())
    everything = mine.key_by().tumbling("4s").aggregate(km=rs.sum("km"), windows=rs.count())
    return rs.plan_of(mine.sync_back("my_trips"), everything.subscribe("everybody"), name="story")


class Network:
    """Forwards connections to the gateway, until it is cut."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.is_up = threading.Event()
        self.is_up.set()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self.is_up.clear()
        for each in self._open:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def restore(self) -> None:
        self.is_up.set()

    def close(self) -> None:
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                device, _ = self._listener.accept()
                if not self.is_up.is_set():
                    device.close()
                    continue
                gateway = socket.create_connection(("127.0.0.1", self._target))
                self._open += [device, gateway]
                threading.Thread(target=_pump, args=(device, gateway), daemon=True).start()


def _pump(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError), one, other:
        while True:
            readable, _, _ = select.select([one, other], [], [])
            for each in readable:
                data = each.recv(65536)
                if not data:
                    return
                (other if each is one else one).sendall(data)


class Product:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = root / "spark"
        self.home = root / "gateway"
        plan = program()
        (root / "plan.bin").write_bytes(encode_plan(plan))
        self.settings = Settings(
            home=self.home, plan=root / "plan.bin", results=root / "results.sqlite", stable=self.store / "stable.json",
            hints=self.store / "hints.json", jobs=root / "jobs",
        )  # fmt: skip
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._start_gateway()
        self.network = Network(self.port)
        self._say_address()
        self._phones: list[subprocess.Popen[bytes]] = []
        self._stopping = threading.Event()
        self._jobs = threading.Thread(target=self._run_jobs, args=(plan,), daemon=True)
        self._jobs.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def sign_in_link(self) -> str:
        access = self.app.state.access
        return f"{self.address}/signin/once/{access.people.new_link(access.clock_us())}"

    def restart_gateway(self) -> None:
        self._stop_gateway()
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._start_gateway()
        self._say_address()

    def start_phone(self, name: str, link: str) -> None:
        home = self.root / "phones" / name
        home.mkdir(parents=True, mode=0o700)
        (home / "settings.toml").write_text(f'name = "{name}"\nspool_mb = 8\nloss_window_s = 1.0\n')
        command = [
            sys.executable,
            "-m",
            "resurge",
            "node",
            "run",
            "--home",
            str(home),
            "--link",
            link,
            "--sensor",
            "gps=synthetic:7",
        ]
        with (self.root / f"{name}.txt").open("wb") as output:
            self._phones.append(
                subprocess.Popen(
                    command, stdout=output, stderr=subprocess.STDOUT, env=os.environ | {"PYTHONPATH": str(ROOT)}
                )
            )

    def kill_range(self, vertex: str) -> str:
        """Lose one range's newest state, on the disk and in every worker's memory; returns the range. Again until it was
        missed: a step that was under way had read it, and keeps what follows in memory."""
        before = len(self._manifest().rollbacks)
        while True:
            range_, position, files = self._with_state(vertex)
            (self.store / "files" / files[-1]).write_bytes(b"?")
            state.forget_all()

            def went_on(range_: Range = range_, position: int = position) -> bool:
                now = self._manifest()
                return len(now.rollbacks) > before or now.vertices[vertex][range_].position > position + 1

            wait_until(went_on, "a step without that state")
            if len(self._manifest().rollbacks) > before:
                return str(range_)

    def _manifest(self) -> Manifest:
        return ManifestLog(Store(self.store)).state

    def _with_state(self, vertex: str) -> tuple[Range, int, list[str]]:
        for range_, lineage in sorted(self._manifest().vertices[vertex].items()):
            committed = lineage.commits.get(lineage.position)
            files = sorted(committed.state_files()) if committed else []
            if files:
                return range_, lineage.position, files
        raise AssertionError(f"{vertex} has no state yet")

    def close(self) -> None:
        for phone in self._phones:
            phone.terminate()
        for phone in self._phones:
            with contextlib.suppress(subprocess.TimeoutExpired):
                phone.wait(PATIENCE_S)
            phone.kill()
        self._stopping.set()
        self._jobs.join(PATIENCE_S)
        self.network.close()
        self._stop_gateway()

    def _start_gateway(self) -> None:
        self.gateway = Gateway(self.settings)
        self.app = create_app(self.settings, gateway=self.gateway)
        self._server = uvicorn.Server(uvicorn.Config(self.app, log_level="warning", timeout_graceful_shutdown=1))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._listener]}, daemon=True)
        self._thread.start()
        wait_until(lambda: self._server.started, "the gateway")

    def _stop_gateway(self) -> None:
        self._server.should_exit = True
        self._thread.join(PATIENCE_S)
        self._listener.close()

    def _say_address(self) -> None:
        key = self.gateway.keys.public_key
        write_address(self.home, host="127.0.0.1", port=self.network.port, pin=b"", key=key, pid=os.getpid())

    def _run_jobs(self, plan: Plan) -> None:
        results = Results(self.root / "results.sqlite")
        runner, use = LocalRunner(), LogUse(self.store)
        manager = JobManager(
            self.home / "log", self.store, plan, results=results, runner=runner, settings=SETTINGS, log_use=use
        )
        others = JobsRunner(
            JobDirectory(self.root / "jobs"), self.home / "log", results=results, runner=runner, log_use=use,
            settings=SETTINGS,
        )  # fmt: skip
        following = threading.Thread(target=others.run, args=(self._stopping.is_set,), daemon=True)
        following.start()
        manager.run(stop=self._stopping.is_set)
        following.join(PATIENCE_S)
        results.close()


@contextlib.contextmanager
def running(root: Path) -> Iterator[Product]:
    product = Product(root)
    try:
        yield product
    finally:
        product.close()


def status_of(product: Product) -> dict[str, object]:
    return dict(json.loads((product.store / "status.json").read_bytes()))
