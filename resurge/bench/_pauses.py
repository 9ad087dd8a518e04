"""How long results pause when a phone is back, when its rows get another way, and when a vertex moves: real node
processes, and links that are really lost (`resurge/lab/_linked_nodes.py`).

All of it is seen at the far end, in the files of the sinks, so it holds every hop, every poll and the disk. What came
first after a pause is what was spooled first, as an edge keeps its order.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from resurge.lab._linked_nodes import network, nodes_of
from resurge.lab._paper_fleet import LINKS, PaperFleet
from resurge.up.process_fleet import COORDINATOR, ProcessFleet
from shared.moves import MOVED

SHARE = 100  # of the paper's rates: a pause is not a matter of how much there is
SECONDS = 600.0
AWAY_S = 5.0
LOOK_S = 0.02
BETWEEN_S = 2.0  # of results between two moves
EVERY_US = 10_000
READINGS = 60_000
HUBS = ("hub2", "hub3", "hub1")
VERTEX = "mean"
GOES_OVER = "go over"


@dataclass(slots=True)
class Walked:
    """Seconds, one for each time."""

    links: str  # what they were made of
    back_s: list[float] = field(default_factory=list)  # back where it was, until the first result
    elsewhere_s: list[float] = field(default_factory=list)  # back elsewhere, until the first result
    told_s: list[float] = field(default_factory=list)  # from the decision until all eight nodes follow it


class Gaps(threading.Thread):
    """How long no result came at a time: looks at the sink's file."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self._folder, self._ended = folder, threading.Event()
        self._bytes, self._at = 0, time.monotonic()
        self.longest_s = 0.0

    def run(self) -> None:
        while not self._ended.wait(LOOK_S):
            found = sum(path.stat().st_size for path in self._folder.glob("sink-*"))
            now = time.monotonic()
            if found > self._bytes:
                self.longest_s = max(self.longest_s, now - self._at) if self._bytes else 0.0
                self._bytes, self._at = found, now

    def end(self) -> float:
        self._ended.set()
        self.join()
        return self.longest_s


def walk(times: int) -> Walked:
    """The paper's nine nodes. The phone is out of reach so often, and back where it was; then so often elsewhere."""
    with tempfile.TemporaryDirectory(prefix="resurge-bench-") as directory:
        folder = Path(directory)
        with network(nodes_of(LINKS), LINKS, folder) as links:
            found = Walked(links.kind)
            fleet = PaperFleet(folder, links, share=SHARE, seconds=SECONDS)
            fleet.begin()
            try:
                links.gain("hub5")
                fleet.until(lambda: fleet.way() == [("hub5", "hub2")] and _arrives(fleet), "results over hub5")
                for _ in range(times):
                    found.back_s.append(_back(fleet, "hub5", "hub5"))
                for before, after in _elsewhere(times):
                    version = fleet.shown()["version"]
                    found.elsewhere_s.append(_back(fleet, before, after))
                    found.told_s.append(_told_s(fleet, version))
            finally:
                fleet.stop()
    return found


def _elsewhere(times: int) -> list[tuple[str, str]]:
    hubs = ["hub5", "hub6"] * times
    return list(itertools.pairwise(hubs))[:times]


def _arrives(fleet: PaperFleet) -> bool:
    """Whether what is read now is at the sinks soon."""
    return time.time() - fleet.newest_us() / 1e6 < 1.0


def _back(fleet: PaperFleet, before: str, after: str) -> float:
    """Out of reach, and back at a hub: seconds until the first new byte of results."""
    fleet.network.lose(before)
    time.sleep(AWAY_S)
    had = fleet.sunk_bytes()
    fleet.network.gain(after)
    begun = time.monotonic()
    found = fleet.until(lambda: fleet.sunk_bytes() > had, f"results over {after}") - begun
    fleet.until(lambda: _arrives(fleet), "all that was spooled")
    return found


def _told_s(fleet: PaperFleet, version: int) -> float:
    """From the decision on another way until the last node follows it."""
    decided = [each for each in fleet.shown()["events"] if GOES_OVER in each["text"]][-1]["at_us"]
    fleet.until(lambda: all(fleet.shown(name)["version"] > version for name in fleet.processes), "a new deployment")
    known = [fleet.shown(name)["deployed_us"] for name in fleet.processes if name != COORDINATOR]
    return float(max(known) - decided) / 1e6


def move(times: int) -> list[float]:
    """A vertex with two sliding windows moves so often: the longest time without a result around each move."""
    import resurge.examples.peers as examples

    with tempfile.TemporaryDirectory(prefix="resurge-bench-") as directory:
        folder = Path(directory)
        program = folder / "average.py"
        program.write_text((Path(examples.__path__[0]) / "average.py").read_text())
        recordings = {}
        for sensor in ("test_a", "test_b"):
            recordings[sensor] = folder / f"{sensor}.csv"
            lines = [f"{number * EVERY_US / 1e6:.6f},{1.0 + number % 7}" for number in range(READINGS)]
            recordings[sensor].write_text("\n".join(["time,v", *lines]) + "\n")
        fleet = ProcessFleet(
            folder, program, hubs=3, strategy="extended-ecoc", every=100, recordings=recordings,
            modules=("resurge.examples.peers.operators",), hosts={VERTEX: "hub1"},
        )  # fmt: skip
        fleet.start()
        try:
            return [_moved_s(fleet, HUBS[number % len(HUBS)]) for number in range(times)]
        finally:
            fleet.stop()


def _moved_s(fleet: ProcessFleet, to: str) -> float:
    sinks = fleet.folder / COORDINATOR / "fleet"
    end = time.monotonic() + 120.0
    while not any(path.stat().st_size for path in sinks.glob("sink-*")):
        if time.monotonic() > end or fleet.ended():
            raise RuntimeError(f"no results before the move\n{fleet.logs()}")
        time.sleep(LOOK_S)
    gaps = Gaps(sinks)
    gaps.start()
    time.sleep(BETWEEN_S)
    command = [sys.executable, "-m", "resurge", "fleet", "move", "q", VERTEX, "--to", to, "--json"]
    done = subprocess.run(
        [*command, "--home", str(fleet.folder / COORDINATOR)], capture_output=True, text=True, check=False
    )
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1]) if done.stdout else {}
    if said.get("state") != MOVED:
        raise RuntimeError(f"the move to {to} was not made: {done.stdout}{done.stderr}")
    time.sleep(BETWEEN_S)
    return gaps.end()
