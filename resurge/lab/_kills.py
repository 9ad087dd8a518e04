"""A node of a fleet is killed (kill -9) while it runs an operator: how long until it is noticed, restored, caught up.

Real processes over ZeroMQ, one query, the paper's placement: the operators before the victim on one node, the victim on
another, its snapshots on a third that does nothing else. Times come from the nodes' own logs of what happened, by the
clock that all processes of a machine share, and from the sink's file.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np

from resurge.lab._virtual_fleet import PROCESSES, Process, readings
from resurge.up.process_fleet import ProcessFleet
from shared.errors import DamagedData, PeerError
from shared.hosting.fleet_file import read_fleet
from shared.hosting.keeper import PREFIX
from shared.hosting.kept_snapshot import KeptSnapshot
from shared.hosting.sink import sink_file
from shared.language.registry import references
from shared.plan.cuts import region_vertices
from shared.stream.program import load_operators
from shared.wire import codecs
from shared.wire.frame import FrameType, decode_one
from shared.wire.messages import Data

SECONDS = 240  # of readings; a run ends long before
LEAD_S = 6.0  # before the first reading: nodes are still starting
PATIENCE_S = 120.0
LOOK_S = 0.05
STEADY_S = 3.0  # of results before the kill, to know how late they usually are
BEFORE, VICTIM, SPARE = "hub1", "hub2", "hub3"
MODULES = ("resurge.examples.ecg.operators", "resurge.examples.peers.operators")


@dataclass(frozen=True)
class Killed:
    """Seconds, but for the counts."""

    detection: float  # from the kill until the coordinator moves the vertex
    recovery: float  # from then until it is restored elsewhere and its inputs go on
    catch_up: float  # from then until results are as late as they were before
    first_output: float  # from the kill until the first new result
    rows: int  # in the sink at the end
    lost: int  # numbers that came as a tombstone, or out of their place
    usual: float  # how late the newest result was before the kill, at the worst


class Disturbed(RuntimeError):
    """Something else went wrong than what was to fail: on a machine that is too busy, nodes miss each other."""


class _SinkFile:
    """Follows the file of a sink while a node writes it."""

    def __init__(self, fleet: ProcessFleet, sink: str) -> None:
        load_operators(fleet.file.parent)
        hosted = read_fleet(fleet.file, sorted(references())).hosted()[0]
        outputs = [output for vertex in region_vertices(hosted.plan) for output in vertex.fragment.outputs]
        self._schema = next(each.schema for each in outputs if each.kind == "subscribe" and each.name == sink)
        self._path = fleet.folder / "laptop" / "fleet" / sink_file("q", sink, 1)
        self._at = 0
        self.rows = self.lost = 0
        self.newest_us = 0

    def look(self) -> bool:
        """Whether there are new results."""
        before = self.rows
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                data = file.read()
        except FileNotFoundError:
            return False
        at = 0
        while at < len(data):
            try:
                frame, at = decode_one(data, at)
            except PeerError:  # half written: the rest comes
                break
            if frame.type is FrameType.DATA and frame.seq == self.rows + self.lost:
                batch = codecs.decode_data(Data.of(frame), self._schema)
                self.rows += frame.count
                self.newest_us = max(self.newest_us, int(batch.time_us[-1]))
            else:
                self.lost += frame.count
        self._at += at
        return self.rows > before

    def behind_s(self) -> float:
        return time.time() - self.newest_us / 1e6


def kill_once(name: str, strategy: str, every: int, seed: int) -> Killed:
    process = PROCESSES[name]
    with tempfile.TemporaryDirectory(prefix="resurge-lab-") as directory:
        fleet = _fleet(process, strategy, every, Path(directory))
        fleet.start()
        try:
            return _kill(fleet, process, every, Random(f"{name} {strategy} {every} {seed}"))
        except RuntimeError as error:
            raise Disturbed(f"{name} under {strategy}, c = {every}: {error}\n{fleet.logs()}") from error
        finally:
            fleet.stop()


def victim_of(process: Process) -> str:
    """The last vertex of the paper's last operator."""
    return process.operators["QRSDetector" if process.name == "SP1" else "TestAvg"][0]


def _fleet(process: Process, strategy: str, every: int, folder: Path) -> ProcessFleet:
    plan = process.plan()
    program = folder / f"{process.program}.py"
    program.write_text((Path(__file__).resolve().parents[1] / "examples" / "peers" / program.name).read_text())
    recordings = {}
    count = round(SECONDS * 1e6 / process.every_us)
    for sensor in ("ecg",) if process.name == "SP1" else ("test_a", "test_b"):
        column, values = readings(sensor, 0, count)
        times = np.arange(count) * process.every_us / 1e6 + LEAD_S
        lines = [f"{at:.6f},{value}" for at, value in zip(times.tolist(), values.tolist(), strict=True)]
        recordings[sensor] = folder / f"{sensor}.csv"
        recordings[sensor].write_text("\n".join([f"time,{column}", *lines]) + "\n")
    victim = victim_of(process)
    hosts = {vertex.name: VICTIM if vertex.name == victim else BEFORE for vertex in region_vertices(plan)}
    return ProcessFleet(
        folder, program, hubs=3, strategy=strategy, every=every, recordings=recordings, modules=MODULES, hosts=hosts
    )


def _kill(fleet: ProcessFleet, process: Process, every: int, random: Random) -> Killed:
    victim = victim_of(process)
    sink = _SinkFile(fleet, process.sink)
    _until(lambda: _kept(fleet, victim), "a snapshot of the victim")
    # Anywhere between two checkpoints, as the paper's random delay makes it.
    usual_s = _watch(sink, STEADY_S + random.uniform(0, min(5.0, every * process.every_us / 1e6)))
    fleet.kill(VICTIM)
    killed_at = time.time()
    while sink.look():  # what was under way
        time.sleep(LOOK_S)
    _until(sink.look, "a result after the kill")
    first_output = time.time() - killed_at
    _until(lambda: (sink.look() or True) and sink.behind_s() <= usual_s, "the results of before")
    caught_up_at = time.time()
    time.sleep(1.0)
    fleet.stop()  # what happened is published at the end
    sink.look()
    silent = [each["text"] for each in fleet.shown()["events"] if "is silent" in each["text"]]
    if others := [text for text in silent if f"({VICTIM} is silent" not in text]:
        raise RuntimeError(f"other nodes were given up, too: {others}")
    moved_at = _happened(fleet, "laptop", f"{victim} to ", killed_at)
    connected_at = _happened(fleet, SPARE, f"{victim} goes on here", killed_at)
    return Killed(
        moved_at - killed_at, connected_at - moved_at, max(0.0, caught_up_at - connected_at), first_output, sink.rows,
        sink.lost, usual_s,
    )  # fmt: skip


def _kept(fleet: ProcessFleet, vertex: str) -> bool:
    """Whether the node that takes over has a snapshot of the vertex."""
    for path in (fleet.folder / SPARE / "fleet").glob(f"{PREFIX}*"):
        try:
            found = KeptSnapshot.decode(path.read_bytes())
        except (DamagedData, FileNotFoundError):
            continue
        if found.vertex == vertex and found.permanent.id is not None:
            return True
    return False


def _watch(sink: _SinkFile, seconds: float) -> float:
    """How late the newest result was, at the worst."""
    end, worst = time.monotonic() + seconds, 0.0
    while time.monotonic() < end:
        sink.look()
        worst = max(worst, sink.behind_s())
        time.sleep(LOOK_S)
    if not sink.rows:
        raise RuntimeError("no results before the kill")
    return worst


def _until(is_so: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > end:
            raise RuntimeError(f"{what} did not come within {PATIENCE_S:.0f} s")
        time.sleep(LOOK_S)


def _happened(fleet: ProcessFleet, node: str, text: str, after: float) -> float:
    """When a node first noted this."""
    for event in fleet.shown(node)["events"]:
        if text in event["text"] and event["at_us"] / 1e6 > after:
            return float(event["at_us"]) / 1e6
    raise RuntimeError(f"{node} never said {text!r}")
