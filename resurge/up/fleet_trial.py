"""`resurge fleet try`: five nodes on this machine find heart beats together, one of them is killed, nothing changes.

The heart is made up, everything else is the product: processes as `resurge node run --fleet` starts them, over ZeroMQ.
What ends in the sink is compared, number by number, with `rs.evaluate` of the same program over the same readings.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import resurge as rs
from mobile_app.screens.words.fleet_text import move_line, move_of
from resurge.cli.fleet_lines import fleet_lines
from resurge.up.process_fleet import COORDINATOR, PHONE, ProcessFleet
from shared.errors import UsageError
from shared.hosting.fleet_file import read_fleet
from shared.hosting.sink import sink_rows
from shared.language.registry import references
from shared.plan.cuts import region_vertices
from shared.stream.program import load_operators

PROGRAM = Path(__file__).resolve().parents[1] / "examples" / "peers" / "beats.py"
MODULES = ("resurge.examples.ecg.operators",)
RATE, EVERY_US = 360, 2778
LEAD_S = 8.0  # before the first reading: nodes are still starting
PATIENCE_S = 120.0  # beyond the readings; a busy machine is no failure
LOOK_S = 0.5
ENDED_S = 3.0  # without a reading, when the recording has ended
LEFT_S = 8.0  # of readings at least, when a hub is killed, by a status that is some seconds old: beats must follow it
SECONDS_MAX = 600.0
Beats = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Outcome:
    killed: str
    moved: str  # what followed, in words
    results: int
    digest: str
    expected: str  # the digest without failures

    @property
    def equal(self) -> bool:
        return self.results > 0 and self.digest == self.expected


def fleet_trial(folder: Path, *, seconds: float, strategy: str, say: Callable[[str], None]) -> Outcome:
    """Lasts as long as the readings and some more. UsageError with the nodes' own words when nothing comes of it."""
    if any(folder.iterdir()):
        raise UsageError(f"{str(folder)!r} is not empty; name a directory that is, or none", code="fleet-try")
    readings = heart(seconds)
    (folder / PROGRAM.name).write_text(PROGRAM.read_text(encoding="utf-8"), encoding="utf-8")
    recording = folder / "ecg.csv"
    times = np.arange(len(readings)) * EVERY_US / 1e6 + LEAD_S
    recording.write_text(
        "time,mv\n" + "".join(f"{at:.6f},{mv}\n" for at, mv in zip(times.tolist(), readings, strict=True))
    )
    hosts = {vertex.name: f"hub{number}" for number, vertex in enumerate(region_vertices(rs.load_program(PROGRAM)), 1)}
    fleet = ProcessFleet(
        folder, folder / PROGRAM.name, hubs=3, strategy=strategy, every=2 * RATE, recordings={"ecg": recording},
        modules=MODULES, hosts=hosts,
    )  # fmt: skip
    deadline = time.monotonic() + seconds + LEAD_S + PATIENCE_S
    say(f"Starting {', '.join(fleet.names)}; everything is in {folder}")
    fleet.start()
    try:
        _wait(fleet, lambda: len(beats(fleet)) > 2, "the first beats", deadline)
        _wait(fleet, lambda: all(each["snapshot"] for each in fleet.shown()["placements"]), "snapshots", deadline)
        for line in fleet_lines(fleet.shown(), _now_us()):
            say(f"  {line}")
        killed = list(hosts.values())[-1]
        if too_late := too_late_to_kill(_read(fleet) / RATE, seconds):
            say(too_late)
            fleet.stop()
            again = folder / "again"
            again.mkdir()
            return fleet_trial(again, seconds=min(2 * seconds, SECONDS_MAX), strategy=strategy, say=say)
        before = len(beats(fleet))
        say(f"{before} beats so far. Killing {killed} (kill -9)")
        fleet.kill(killed)
        _wait(fleet, lambda: fleet.shown()["moves"], "a move", deadline)
        moved = move_line(move_of(fleet.shown()["moves"][-1]), _now_us())
        say(f"  {moved}")
        _wait(fleet, lambda: len(beats(fleet)) > before, "beats after it", deadline)
        say(f"{len(beats(fleet))} beats; the phone reads on")
        _wait(fleet, EndOfReadings(lambda: fleet.status(PHONE), time.monotonic), "the last reading", deadline)
        wanted = expected(readings[len(readings) - _read(fleet) :])
        # The last beat or two are known only with the readings that would follow.
        _wait(fleet, lambda: len(beats(fleet)) >= len(wanted) - 2, "the last beats", deadline)
        found = beats(fleet)
    finally:
        fleet.stop()
    return Outcome(killed, moved, len(found), digest(found), digest(wanted[: len(found)]))


def heart(seconds: float) -> list[float]:
    """Pulses about 0.8 s apart, no two gaps alike."""
    at = np.arange(int(seconds * RATE)) / RATE
    pulses = np.zeros_like(at)
    when, number = 0.5, 0
    while when < seconds:
        pulses += np.exp(-((at - when) ** 2) / 0.0002)
        when, number = when + 0.75 + 0.1 * ((number * 7) % 11) / 10, number + 1
    return [float(value) for value in np.round(pulses, 6)]


def expected(readings: list[float]) -> Beats:
    """The beats without failures."""
    given = {
        "time": np.arange(len(readings)) * EVERY_US, "device": np.array(["phone"] * len(readings)),
        "mv": np.array(readings),
    }  # fmt: skip
    found = rs.evaluate(rs.load_program(PROGRAM), {"ecg": given})["beats"]
    return list(zip(found["mv"].tolist(), found["bpm"].tolist(), strict=True))


def beats(fleet: ProcessFleet) -> Beats:
    """In the sink now."""
    load_operators(fleet.file.parent)
    hosted = read_fleet(fleet.file, sorted(references())).hosted()[0]
    rows, lost = sink_rows(fleet.disk, hosted, "beats")
    if lost:
        raise UsageError(f"{lost} elements were lost, and the sink says so", code="fleet-try")
    return [(float(row["mv"]), float(row["bpm"])) for row in rows]  # type: ignore[arg-type]


def digest(found: Beats) -> str:
    return hashlib.sha256("\n".join(map(repr, found)).encode()).hexdigest()[:16]


def _read(fleet: ProcessFleet) -> int:
    """Readings that the phone took: from the moment on at which it learnt of the query, to the end."""
    return int(fleet.status(PHONE)["sensors"]["ecg"]["readings"])


def too_late_to_kill(read_s: float, seconds: float) -> str:
    """Why killing a node now would show nothing; empty while readings follow it, or where no more can be had."""
    if read_s + LEFT_S < seconds or seconds >= SECONDS_MAX:
        return ""
    return (
        f"This machine is busy: {read_s:.0f} of {seconds:.0f} s of readings were read before there were snapshots. "
        "Once more, with twice as many"
    )


class EndOfReadings:
    """Whether the phone has read its whole recording. One that is behind looks so, too, but reads on."""

    def __init__(self, status: Callable[[], Any], now: Callable[[], float]) -> None:
        self._status, self._now = status, now
        self._last_us, self._since = -1, now()

    def __call__(self) -> bool:
        view = self._status()
        last_us = int(view["sensors"]["ecg"]["last_us"])
        if last_us != self._last_us:
            self._last_us, self._since = last_us, self._now()
        return view["time_us"] - last_us > ENDED_S * 1e6 and self._now() - self._since > ENDED_S


def _wait(fleet: ProcessFleet, done: Callable[[], Any], what: str, deadline: float) -> None:
    while True:
        try:
            if done():
                return
        except (OSError, KeyError, TypeError, ValueError):  # its status is not written yet
            pass
        if ended := fleet.ended():
            raise UsageError(f"{', '.join(ended)} ended by itself\n{fleet.logs()}", code="fleet-try")
        if time.monotonic() > deadline:
            raise UsageError(f"{COORDINATOR} waited too long for {what}\n{fleet.logs()}", code="fleet-try")
        time.sleep(LOOK_S)


def _now_us() -> int:
    return time.time_ns() // 1000
