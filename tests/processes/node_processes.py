"""Real nodes and relays as processes for tests, and what the log holds of them, row by row.

The sensors are functions of event time, so every row in the log can be compared with what the sensor must have read
at that time. Nothing here looks at the senders' own counters.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cloud_backend.coordinator.roster import Roster
from cloud_backend.database import in_home
from cloud_backend.log.partitions import open_log
from mobile_app.sensors.synthetic import Synthetic
from mobile_app.spool.opening import spool_cipher
from resurge.up.account import Account, count, open_spool
from shared.identity import device_id
from shared.plan.encoding import encode_plan
from shared.stream.program import load_program
from shared.wire.enrolment import EnrolmentLink
from shared.wire.frame import decode_one
from tests.log_batches import log_batches
from tests.patience import PATIENCE_S
from tests.processes.gateway_process import ROOT, GatewayProcess

# Every reading goes up, and so do windows that the phone computes: an edge without and one with state.
PROGRAM = """
import resurge as rs

gps = rs.sensor("gps", every="1s")
gps.sync("raw", batch=20, within="20s")
gps.tumbling("10s").aggregate(fixes=rs.count(), top=rs.max("speed")).sync("windows", batch=4, within="40s")
"""
EVERY_US = 1_000_000
SPEED = 40.0  # event seconds per second
LOSS_WINDOW_S = 0.5


def write_plan(directory: Path) -> Path:
    program, plan = directory / "program.py", directory / "plan.bin"
    program.write_text(PROGRAM)
    plan.write_bytes(encode_plan(load_program(program)))
    return plan


def listens(address: str) -> bool:
    host, port = address.removeprefix("tcp://").split(":")
    try:
        socket.create_connection((host, int(port)), timeout=PATIENCE_S).close()
    except OSError:
        return False
    return True


class Command:
    """One `resurge node ...` process; ended by whoever started it, whatever happens."""

    def __init__(self, *arguments: str, run_by: Sequence[str] = ()) -> None:
        self.process = subprocess.Popen(
            [*run_by, sys.executable, "-m", "resurge", "node", *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

    def kill(self) -> int:
        self.process.kill()
        self.process.communicate()
        return self.process.pid

    def finish(self, after_s: float = 0.0) -> dict[str, object]:
        """Wait for it to end by itself, after as long as it was told to run; its last line is one JSON object."""
        said, _ = self.process.communicate(timeout=after_s + PATIENCE_S)
        assert self.process.returncode == 0, said
        return json.loads(said.splitlines()[-1])

    def terminate(self) -> dict[str, object]:
        """SIGTERM; the account it printed."""
        self.process.send_signal(signal.SIGTERM)
        return self.finish()

    def end(self) -> None:
        """Whatever state it is in: no process and no open pipe is left."""
        if self.process.poll() is None:
            self.process.kill()
        if not self.process.stdout.closed:
            self.process.communicate()


def enrolment_link(gateway: GatewayProcess, port: int = 0) -> str:
    """What `resurge device pair` would print; `port`: of what stands before the gateway."""
    roster = Roster(in_home(gateway.home, "roster.sqlite"))
    code = roster.new_code(time.time_ns() // 1000)
    roster.close()
    pin = bytes.fromhex(json.loads((gateway.home / "gateway.json").read_bytes())["pin"])
    return str(EnrolmentLink(gateway.host, port or gateway.port, code, gateway.key, pin))


class NodeHome:
    """A home directory and the node process that runs in it, over restarts."""

    def __init__(self, directory: Path, gateway: GatewayProcess, *, seed: int, relay: str = "") -> None:
        self.home = directory
        self.home.mkdir()
        (self.home / "settings.toml").write_text(
            f'name = "{directory.name}"\nloss_window_s = {LOSS_WINDOW_S}\nspool_mb = 4\n'
        )
        self.seed = seed
        self.link = enrolment_link(gateway)
        self.relay = ["--relay", relay] if relay else []
        self.run_by: list[str] = []
        self.running: Command | None = None

    def start(self, *options: str) -> NodeHome:
        self.running = Command(
            "run", "--home", str(self.home), "--link", self.link, "--sensor", f"gps=synthetic:{self.seed}",
            "--speed", str(SPEED), "--json", *self.relay, *options, run_by=self.run_by,
        )  # fmt: skip
        return self

    def status(self) -> dict[str, object]:
        try:
            return json.loads((self.home / "status.json").read_bytes())
        except FileNotFoundError:
            return {}

    def has(self, name: str, least: int) -> bool:
        return int(self.status().get(name, 0)) >= least

    @property
    def device(self) -> bytes:
        from mobile_app.home.keys import load_keys

        return device_id(load_keys(self.home).public_key)

    @property
    def origin_us(self) -> int:
        return int(json.loads((self.home / "clock.json").read_bytes())["origin_us"])

    def expected(self, until_us: int) -> dict[int, tuple[float, ...]]:
        """What the sensor reads at every time up to until_us."""
        source = Synthetic("gps", seed=self.seed, every_us=EVERY_US, origin_us=self.origin_us)
        found: dict[int, tuple[float, ...]] = {}
        while not found or max(found) + EVERY_US <= until_us:  # one read gives so many at most
            samples = source.read(until_us + 1)
            rows = zip(*(samples.columns[name].tolist() for name in sorted(samples.columns)), strict=True)
            found |= zip(samples.time_us.tolist(), rows, strict=True)
        return found


def log_rows(log: Path | str, device: bytes, edge: str) -> list[tuple[int, int, tuple[float, ...]]]:
    """(sequence number, event time, values by sorted column name) of every row of one edge, in log order."""
    reader = open_log(log)
    starts, ends = reader.starts(), reader.ends()
    records = (
        record.frame for each in ends for _, record in reader.read(each, starts[each], ends[each]) if record.frame
    )
    frames = (decode_one(frame)[0] for frame in records)
    rows: list[tuple[int, int, tuple[float, ...]]] = []
    for batch in log_batches((frame for frame in frames if frame.source == device), edge):
        values = zip(*(batch.columns[name].tolist() for name in sorted(batch.columns)), strict=True)
        rows += zip(batch.seq.tolist(), batch.time_us.tolist(), values, strict=True)
    return rows


def digest(rows: list[tuple[float, ...]]) -> str:
    """SHA-256 over the rows' float64 bits, in order."""
    return hashlib.sha256(np.asarray(rows, dtype=np.float64).tobytes()).hexdigest()[:16]


class Compared(NamedTuple):
    rows: int
    read: str  # digest of what the sensor read at these times
    logged: str  # and of what the log holds

    def __str__(self) -> str:
        return f"{self.rows} rows, digests {self.read} {self.logged}"


def check_rows(log: Path | str, phone: NodeHome, *, gaps: int) -> Compared:
    """Each row once, in order, exactly what the sensor read; readings may be missing only in `gaps` places."""
    raw = log_rows(log, phone.device, "raw")
    times = [time_us for _, time_us, _ in raw]
    assert times == sorted(set(times)), "an element came twice or out of order"
    expected = phone.expected(times[-1])
    assert [values for _, _, values in raw] == [expected[time_us] for time_us in times]
    holes = [after - before for before, after in itertools.pairwise(times) if after - before != EVERY_US]
    assert len(holes) <= gaps, f"{len(holes)} holes of {holes} us"
    if not gaps:
        assert times == sorted(expected)
    windows = log_rows(log, phone.device, "windows")
    starts = [time_us for _, time_us, _ in windows]
    assert starts == sorted(set(starts)), "a window was put out twice"
    read, logged = digest([expected[time_us] for time_us in times]), digest([values for _, _, values in raw])
    assert raw
    assert read == logged
    return Compared(len(raw), read, logged)


def account(gateway: GatewayProcess, *phones: NodeHome) -> Account:
    """Counted from the log and the spools; call it when the phones have stopped."""
    spools = [open_spool(phone.home / "spool", spool_cipher(phone.home)) for phone in phones]
    try:
        return count(gateway.home / "log", spools)
    finally:
        for spool in spools:
            spool.close()
