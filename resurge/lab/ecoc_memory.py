"""ECOC, Fig 15: memory of the nodes that run operators, by checkpoint interval and strategy.

Counted in the production hosts (`Host.held`) at moments spread over a run in one process with a virtual clock
(`_virtual_fleet`), not asked of the operating system: a Python process would hide it, as the paper's JVM blurred it.
Two kinds of bytes are counted apart. Snapshots: frozen ones that are not permanent, pieces on their way to keepers, and
the newest one, which a node keeps. Rows: what an operator has sent and its readers may ask for again. The paper shows
both together with the virtual machine's own megabytes.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from resurge.lab._figure import draw, report, shape
from resurge.lab._virtual_fleet import heart, ran, setting
from resurge.lab.ecoc_overhead import ECOC, EVERY, EXTENDED, NONE, UNCOORDINATED

ROWS = (NONE, UNCOORDINATED, ECOC, EXTENDED)
SAMPLES = 200
ELEMENTS = 24_000  # the first quarter is not looked at
PROCESSES = ("SP1", "SP2")
QUICK = {"elements": 4_000, "intervals": (500, 1000)}
Line = list[tuple[float, float]]


def run(elements: int = ELEMENTS, intervals: Sequence[int] | None = None) -> dict[str, Any]:
    intervals = EVERY if intervals is None else intervals
    snapshots: dict[str, dict[str, Line]] = {process: {row: [] for row in ROWS} for process in PROCESSES}
    rows: dict[str, dict[str, Line]] = {process: {row: [] for row in ROWS} for process in PROCESSES}
    after = 2 * intervals[-1]  # before the first snapshot there is nothing to hold
    for process in PROCESSES:
        for row in ROWS:
            for every in intervals:
                held = ran(process, row, every, elements, samples=SAMPLES, after=after).held.values()
                for lines, name in ((snapshots, "snapshots"), (rows, "rows")):
                    mean = statistics.mean(getattr(each, name) for node in held for each in node)
                    lines[process][row].append((float(every), round(mean / 1000, 3)))
    growth = {row: [_growth(snapshots[process][row]) for process in PROCESSES] for row in ROWS}
    kept = {row: [rows[process][row][-1][1] for process in PROCESSES] for row in ROWS}
    coordinated = [each for row in (ECOC, EXTENDED) for each in growth[row]]
    shapes = [
        shape("ECOC: snapshots held do not grow with c; KB more per 1000 elements of c, ECOC and extended, SP1, SP2",
              "only slightly above unsafe", [*growth[ECOC], *growth[EXTENDED]],
              max(coordinated) <= 0.1 * min(growth[UNCOORDINATED])),
        shape("uncoordinated: they do; KB more per 1000 elements of c, SP1, SP2", "rises with c", growth[UNCOORDINATED],
              min(growth[UNCOORDINATED]) > 0),
        shape("snapshots held at the largest c, uncoordinated over ECOC: SP1, SP2", "significantly higher",
              over := [round(snapshots[process][UNCOORDINATED][-1][1] / snapshots[process][ECOC][-1][1], 1)
                       for process in PROCESSES], min(over) > 2),
        shape("snapshots held without a strategy, KB: SP1, SP2", 0, [snapshots[p][NONE][-1][1] for p in PROCESSES],
              not any(snapshots[p][NONE][-1][1] for p in PROCESSES)),
        shape("rows kept for readers at the largest c, KB, SP1 and SP2: uncoordinated, ECOC", "not told apart",
              [kept[UNCOORDINATED], kept[ECOC]],
              all(mine <= 1.5 * theirs for mine, theirs in zip(kept[ECOC], kept[UNCOORDINATED], strict=True))),
    ]  # fmt: skip
    drawn = [
        draw(f"ecoc-memory-{process.lower()}", f"Snapshots in the memory of a node, {process}",
             "elements between two checkpoints", "KB, mean", snapshots[process])
        for process in PROCESSES
    ]  # fmt: skip
    return report(
        "ecoc-memory", "ECOC Fig 15", shapes, snapshots_kb=snapshots, rows_kb=rows, drawn=drawn,
        setting=setting(elements), ecg="a heart's" if heart()[1] else "drawn",
    )  # fmt: skip


def _growth(line: Line) -> float:
    """Slope of a least-squares line, per 1000 elements."""
    slope, _ = statistics.linear_regression([c / 1000 for c, _ in line], [kb for _, kb in line])
    return round(slope, 3)
