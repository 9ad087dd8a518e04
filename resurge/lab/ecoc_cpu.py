"""ECOC, Fig 14 and 24: what checkpoints cost in processor time per element.

All nodes of a stream process run in one process with a virtual clock (`_virtual_fleet`), so its processor time is that
of every host together: operators, sessions, exchanges, snapshots and keepers; not that of sockets and disks. Seconds
per element stand in place of the paper's load in percent (requirements, section 1.0). Strategies take turns of a second
of virtual time or so, so that whatever else the machine does falls on all of them; the median of the ratios of five
rounds counts.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Sequence
from typing import Any

from resurge.lab._figure import draw, report, shape
from resurge.lab._virtual_fleet import fleet_of, heart, rows_of, setting
from resurge.lab.ecoc_overhead import CYCLES, ECOC, EXTENDED, NONE, UNCOORDINATED

EVERY = (500, 3000)
ELEMENTS = 3_000
ROUNDS = 5
GOAL = 1.10
TURNS = 40
QUICK = {"elements": 1_000, "rounds": 2, "cycles": ("SP3",)}
GREETED_S = 0.2  # before the first element: nodes know each other

Key = tuple[str, str, int]  # stream process, strategy, elements between two checkpoints


def run(elements: int = ELEMENTS, rounds: int = ROUNDS, cycles: Sequence[str] = CYCLES) -> dict[str, Any]:
    processes = ("SP1", "SP2", *cycles)
    seconds: dict[Key, list[float]] = {
        (process, row, every): []
        for process in processes
        for row in (NONE, *rows_of(process))
        for every in sorted({_of(row, every) for every in EVERY})
    }
    for turn in range(rounds + 1):
        for process in processes:
            for key, took in seconds_of([key for key in seconds if key[0] == process], elements).items():
                if turn:
                    seconds[key].append(took)

    def ratio(process: str, row: str, every: int, than: str = NONE) -> float:
        other = seconds[process, than, _of(than, every)]
        pairs = zip(seconds[process, row, every], other, strict=True)
        return round(statistics.median(mine / theirs for mine, theirs in pairs), 3)

    coordinated = {
        f"{process}, c = {every}": ratio(process, ECOC, every) for process in ("SP1", "SP2") for every in EVERY
    }
    cyclic = {f"{process}, c = {every}": ratio(process, EXTENDED, every) for process in cycles for every in EVERY}
    against = {f"{p}, c = {every}": ratio(p, ECOC, every, UNCOORDINATED) for p in ("SP1", "SP2") for every in EVERY}
    extended = {f"SP2, c = {every}": ratio("SP2", EXTENDED, every, ECOC) for every in EVERY}
    shapes = [
        shape("processor time per element, ECOC over none", "small overhead; none measurable on servers", coordinated,
              max(coordinated.values()) <= GOAL),
        shape("the same on the cycles, extended ECOC over none", "none measurable", cyclic,
              max(cyclic.values()) <= GOAL),
        shape("ECOC over uncoordinated", "slightly below", against, statistics.median(against.values()) <= 1.02),
        shape("extended over plain ECOC on SP2", "no additional", extended,
              statistics.median(extended.values()) <= 1.02),
    ]  # fmt: skip
    micros = {
        process: {
            row: [
                (float(every), round(statistics.median(seconds[process, row, _of(row, every)]) / elements * 1e6, 2))
                for every in EVERY
            ]
            for row in (NONE, *rows_of(process))
        }
        for process in processes
    }
    drawn = [
        draw(f"ecoc-cpu-{process.lower()}", f"Processor time of all nodes together, {process}",
             "elements between two checkpoints", "microseconds per element of a sensor", lines)
        for process, lines in micros.items()
    ]  # fmt: skip
    return report(
        "ecoc-cpu", "ECOC Fig 14 and 24", shapes, microseconds_per_element=micros, rounds=rounds, drawn=drawn,
        setting=setting(elements), ecg="a heart's" if heart()[1] else "drawn",
    )  # fmt: skip


def _of(row: str, every: int) -> int:
    """Without a strategy the interval means nothing: one run serves for all."""
    return EVERY[0] if row == NONE else every


def seconds_of(keys: Sequence[Key], elements: int) -> dict[Key, float]:
    """Of processor time, for so many elements of each sensor; making the fleets is not counted, nor are greetings. All
    of them go on by a second or so in turn, another one first each time: whatever else the machine does falls on every
    one, and what one leaves in the processor's caches on another each time."""
    took = dict.fromkeys(keys, 0.0)
    fleets = {key: fleet_of(*key) for key in keys}
    for fleet in fleets.values():
        fleet.advance(GREETED_S)
    end = max(fleet.feed(elements) for fleet in fleets.values())
    gc.collect()
    gc.disable()
    try:
        for turn in range(1, TURNS + 1):
            first = turn % len(keys)
            for key in (*keys[first:], *keys[:first]):
                begun = time.process_time()
                fleets[key].advance(end * turn / TURNS)
                took[key] += time.process_time() - begun
    finally:
        gc.enable()
    for fleet in fleets.values():
        fleet.finish()
    return took
