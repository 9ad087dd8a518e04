"""`python -m tests.processes.kill_points --kills 40`: a device and a gateway, killed at the n-th system call on their disks.

One process runs both ends with the production machines: spool, sender, receiver, log, on a real file system. Every
call by which they change a file (write, sync, truncate, create, rename, remove) is counted where it leaves Python. At
the chosen one the process sends itself SIGKILL: before the call, or, for a write, after half of its bytes. What was
promised before (a spool synced to a number, a receipt up to a number) was written to a pipe first. The parent then
opens both files, holds them against these promises, and lets a next process go on from there to the end.

This is not a crash of the machine: the page cache survives. `tests/shared/spool/test_crash_images.py` and
`tests/cloud_backend/log/test_crashes.py` are about that. This is about the real files, the real calls and their order.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import struct
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import shared.spool.disk as disk_module
from cloud_backend.log.format import Record
from cloud_backend.log.log import Log
from cloud_backend.log.verify import verify
from shared.identity import EdgeKey, device_id, edge_id
from shared.language.schema import Schema
from shared.spool.disk import PosixDisk
from shared.spool.entry import DataEntry, SpooledBatch
from shared.spool.ring import Spool
from shared.sync.pacing import Pacing
from shared.sync.persist import SyncSpool
from shared.sync.receiver import Arrival, Receiver
from shared.sync.sender import EdgePolicy, Sender
from shared.sync.session import DeviceSession, Enrolment, GatewaySessions
from tests.processes.digests import digest_of, logged
from tests.shared.sync.builders import Downlink
from tests.simulation.keys import ToyKeys

SCHEMA = Schema.of({"value": "float64"})
EDGE_NAME = "gps"
EDGE = edge_id(EDGE_NAME)
BATCH = 5  # elements
BACKLOG = 60  # elements that are produced ahead of the log: they fit the spool, nothing has to be given up
PROMISE = struct.Struct("<cQ")  # b"s": the spool holds everything below; b"r": a receipt said so of the log
CHANGING = ("pwrite", "pwritev", "fdatasync", "fsync", "ftruncate", "write", "open")


class CountingOs:
    """Stands for `os` in the disk port: counts the calls that change files, and dies at one of them."""

    def __init__(self, die_at: int, *, half: bool = False) -> None:
        self.calls = 0
        self._die_at = die_at
        self._half = half

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        return self.counted(name, real) if name in CHANGING else real

    def counted(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if name == "open" and not arguments[1] & os.O_CREAT:
                return real(*arguments)
            self.calls += 1
            if self.calls == self._die_at:
                if self._half and name in ("pwrite", "write"):
                    real(arguments[0], arguments[1][: len(arguments[1]) // 2], *arguments[2:])
                elif self._half and name == "pwritev":
                    whole = b"".join(arguments[1])
                    os.pwrite(arguments[0], whole[: len(whole) // 2], arguments[2])
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments)

        return call

    def install(self) -> None:
        disk_module.os = self  # type: ignore[assignment]
        disk_module._pwritev = self.counted("pwritev", os.pwritev)
        for name in ("replace", "unlink"):
            setattr(Path, name, self.counted(name, getattr(Path, name)))


def columns(lo: int) -> bytes:
    return b"%d " % lo * (20 + lo % 60)


class Fixed:
    """Device and gateway keys that are the same in every process."""

    def __init__(self) -> None:
        self.known: dict[bytes, bytes] = {}
        self.gateway = ToyKeys(Random(1), self.known)
        self.device = ToyKeys(Random(2), self.known, gateway_key=self.gateway.public_key)
        self.id = device_id(self.device.public_key)

    def find(self, _device: bytes) -> Enrolment:
        return Enrolment(self.device.public_key, 1)


def upload(home: Path, elements: int, promise: Callable[[bytes, int], None]) -> None:
    """Both ends, until the log has this many elements and the device knows it."""
    fixed = Fixed()
    disk = PosixDisk(home / "device")
    spool = Spool.open(disk) if "spool.index" in disk.names() else None
    if spool is None:
        spool = Spool.create(disk, capacity_bytes=16 << 10, device=fixed.id, incarnation=1, journal_bytes=4096)
    log = Log.open(PosixDisk(home / "log"), segment_bytes=8 << 10)
    receiver = Receiver(log, GatewaySessions(fixed.gateway, fixed), Downlink(), fixed.gateway)
    session = DeviceSession(fixed.device, fixed.id, 1)
    pacing = Pacing(poll_s=0.0, exchange_bytes_max=2000)
    sender = Sender(spool, session, pacing=pacing, rng=Random(3), edges=[(EDGE_NAME, SCHEMA)])
    sender.declare(EDGE_NAME, SCHEMA, EdgePolicy(within_s=0.0))
    owner, now = EdgeKey(fixed.id, 1, EDGE), 0.0
    while True:
        now += 1.0
        for _ in range(4):
            lo = spool.head(EDGE)
            if lo < min(elements, log.high_water(owner) + BACKLOG):
                batch = SpooledBatch(EDGE, lo, lo + BATCH, BATCH, SCHEMA.id, 0, lo, 1, columns(lo))
                sender.append(batch, now)
        step = sender.step(now)
        for item in step.persist:
            if isinstance(item, SyncSpool):
                spool.sync()
                promise(b"s", spool.head(EDGE))
        for body in step.send:
            receiver.receive(Arrival("device", body), now)
            answer = receiver.step(now)
            log.append([Record(int(now), record.frame, record.digest) for record in answer.persist])
            log.sync()
            promise(b"r", log.high_water(owner))
            sender.receive(answer.send[0].body, now)
        if log.high_water(owner) >= elements and not any(True for _ in spool.pending(EDGE)):
            break
    spool.close()
    log.close()


@dataclass
class Outcome:
    calls: int  # how many it made; -1: it was killed
    spooled: int = 0
    received: int = 0


def child(home: Path, elements: int, die_at: int, *, half: bool = False) -> Outcome:
    """Upload in a process of its own, which dies at a call; what it had promised by then."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        counting = CountingOs(die_at, half=half)
        counting.install()
        try:
            upload(home, elements, lambda kind, number: os.write(writing, PROMISE.pack(kind, number)) and None)
            os.write(writing, PROMISE.pack(b"c", counting.calls))
            os._exit(0)
        finally:
            os._exit(3)  # an exception: the parent sees the status
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read()
    _, status = os.waitpid(pid, 0)
    outcome = Outcome(-1)
    for kind, number in PROMISE.iter_unpack(told):
        if kind == b"s":
            outcome.spooled = number
        elif kind == b"r":
            outcome.received = number
        else:
            outcome.calls = number
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    if not killed and (os.waitstatus_to_exitcode(status) != 0 or outcome.calls < 0):
        raise RuntimeError(f"the child ended with status {status} and not by the kill")
    return outcome


def check(home: Path, promised: Outcome) -> float:
    """Open what a kill left; raises unless every promise holds. Returns how many seconds opening took."""
    started = time.monotonic()
    received = spooled = 0
    if (home / "log").exists():
        log = Log.open(PosixDisk(home / "log"), segment_bytes=8 << 10)
        received = log.high_water(EdgeKey(Fixed().id, 1, EDGE))
        log.close()
    disk = PosixDisk(home / "device")
    if "spool.index" in disk.names():
        spool = Spool.open(disk)
        spooled = spool.head(EDGE)
        for entry in spool.pending(EDGE):
            if not isinstance(entry, DataEntry) or spool.read(entry).payload != columns(entry.lo):
                raise RuntimeError(f"[{entry.lo}, {entry.hi}) is not as it was spooled")
        spool.close()
    seconds = time.monotonic() - started
    if spooled < promised.spooled or received < promised.received or spooled < received:
        raise RuntimeError(f"promised {promised}, found {spooled} spooled and {received} in the log")
    return seconds


def run(kills: int, elements: int, scratch: Path) -> dict[str, Any]:
    expected = digest_of((Fixed().id, lo, lo + BATCH, columns(lo)) for lo in range(0, elements, BATCH))
    calls = child(scratch / "whole", elements, 0).calls
    points = [(call, half) for call in range(1, calls + 1) for half in (False, True)]
    step = max(1, len(points) // kills)
    fired, slowest, rows = 0, 0.0, 0
    digests: set[tuple[int, str]] = {logged(scratch / "whole" / "log")}
    for turn, (die_at, half) in enumerate(points[::step]):
        home = scratch / str(turn)
        first = child(home, elements, die_at, half=half)
        fired += first.calls < 0
        slowest = max(slowest, check(home, first))
        # The next life is killed too, somewhere on its way; the third goes to the end.
        second = child(home, elements, 1 + (die_at * 7) % max(1, calls - die_at + 40))
        fired += second.calls < 0
        slowest = max(slowest, check(home, Outcome(-1, first.spooled, max(first.received, second.received))))
        child(home, elements, 0)
        found = verify(PosixDisk(home / "log"))
        if (found.delivered, found.duplicates, found.gaps, found.ledgered) != (elements, 0, 0, 0):
            raise RuntimeError(f"after kills at {die_at} the log holds {found.delivered} of {elements}: {found}")
        result = logged(home / "log")
        rows += result[0]
        digests.add(result)
        shutil.rmtree(home)
    return {
        "calls": calls, "points": len(points[::step]), "kills": fired, "elements": rows, "slowest_open_s": round(slowest, 4),
        "expected": expected, "digests": sorted(digests),
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=40, help="at about how many points; at every one if it is large")
    parser.add_argument("--elements", type=int, default=300)
    arguments = parser.parse_args()
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as scratch:
        print(json.dumps(run(arguments.kills, arguments.elements, Path(scratch))))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
