"""ECOC, Fig 13 and 23: bytes of checkpoint messages over bytes of elements, by checkpoint interval and strategy.

The production hosts with the examples that are the paper's SP1 to SP4, in one process on a network in memory and a
virtual clock (`_virtual_fleet`); every byte is one that a host sent. Checkpoint messages are snapshots on their way to
keepers, marks, and requests to extend. A run without a strategy sends none of them, and is run to show it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from resurge.lab._figure import draw, report, shape
from resurge.lab._virtual_fleet import PROCESSES, Ran, heart, ran, rows_of, setting

EVERY = (500, 1000, 1500, 2000, 2500, 3000)
ELEMENTS = 12_000  # of every sensor, as the paper's 400 s at 30 a second
NONE, UNCOORDINATED, ECOC, EXTENDED = "none", "uncoordinated", "ecoc", "extended-ecoc"
CYCLES = ("SP3", "SP4")
QUICK = {"elements": 6_000, "cycles": ("SP3",), "intervals": (500, 3000)}


def run(
    elements: int = ELEMENTS, cycles: Sequence[str] = CYCLES, intervals: Sequence[int] | None = None
) -> dict[str, Any]:
    intervals = EVERY if intervals is None else intervals
    processes = ("SP1", "SP2", *cycles)
    runs = {
        (process, row, every): ran(process, row, every, elements)
        for process in processes
        for row in rows_of(process)
        for every in intervals
    }
    bare = {process: ran(process, NONE, intervals[0], elements) for process in processes}
    over = {key: each.sent.overhead for key, each in runs.items()}
    least, most = intervals[0], intervals[-1]
    product = {
        process: [over[process, ECOC, every] * elements / checkpoints(process, every, elements) for every in intervals]
        for process in ("SP1", "SP2")
    }
    by_c = [round(max(each) / min(each), 2) for each in product.values()]
    ratio = [round(over[p, UNCOORDINATED, most] / over[p, ECOC, most], 1) for p in ("SP1", "SP2")]
    cyclic = [round(over[p, UNCOORDINATED, most] / over[p, EXTENDED, most], 1) for p in cycles]
    extended = round(over["SP2", EXTENDED, least] / over["SP2", ECOC, least], 2)
    alone = {(process, every): over[process, UNCOORDINATED, every] for process in processes for every in intervals}
    floor = [round(alone[process, most] / alone[process, least], 2) for process in processes]
    less = [round(alone[process, least], 2) for process in ("SP2", *cycles)]
    stuck = [each.pending for (process, row, _), each in runs.items() if process in cycles and row == EXTENDED]
    permanent = [_least_commits(runs[process, EXTENDED, most], process) for process in cycles]
    results = {process: {r.results for (p, _, _), r in runs.items() if p == process} for process in processes}
    shapes = [
        shape("without a strategy no byte goes into checkpoints, percent", 0,
              max(100 * each.sent.overhead for each in bare.values()),
              not any(each.sent.checkpoints for each in bare.values())),
        shape("ECOC: overhead falls as 1/c; overhead times elements per checkpoint, largest over smallest: SP1, SP2",
              "falls with c", by_c, max(by_c) <= 1.2),
        shape("uncoordinated over ECOC at c = 3000: SP1, SP2", "significantly higher", ratio, min(ratio) >= 5),
        shape("uncoordinated over extended ECOC at c = 3000 on the cycles: SP3, SP4", "significantly higher", cyclic,
              min(cyclic) >= 2),
        shape("extended over plain ECOC on SP2 at c = 500", "less for short intervals", extended, extended <= 1),
        shape("uncoordinated does not fall so: overhead at c = 3000 over that at c = 500, SP1 to SP4", "a floor", floor,
              min(floor) > 0.4),
        shape("uncoordinated at c = 500 is less on the cycles: SP2, SP3, SP4", "SP3 and SP4 below SP2", less,
              max(less[1:]) < less[0]),
        shape("both cycles end their checkpoints: fewest of a vertex at c = 3000, and pending at the end",
              "extended ECOC terminates", [*permanent, sum(stuck)], min(permanent) > 0 and not sum(stuck)),
        shape("every strategy gives as many results: SP1 to SP4", "-", [max(each) for each in results.values()],
              all(len(each) == 1 and max(each) > 0 for each in results.values())),
    ]  # fmt: skip
    curves = {
        process: {
            row: [(float(every), round(100 * over[process, row, every], 3)) for every in intervals]
            for row in rows_of(process)
        }
        for process in processes
    }
    drawn = [
        draw(f"ecoc-overhead-{process.lower()}", f"Checkpoint bytes over element bytes, {process}",
             "elements between two checkpoints", "percent", lines)
        for process, lines in curves.items()
    ]  # fmt: skip
    return report(
        "ecoc-overhead", "ECOC Fig 13 and 23", shapes, percent=curves, drawn=drawn,
        bytes_at_3000={f"{p} {row}": vars(r.sent) for (p, row, every), r in runs.items() if every == most},
        setting=setting(elements), ecg="a heart's" if heart()[1] else "drawn",
    )  # fmt: skip


def checkpoints(process: str, every: int, elements: int) -> int:
    """That a sensor begins: each goes behind the batch in which its element is."""
    batch = PROCESSES[process].batch
    return elements // (-(-every // batch) * batch)


def _least_commits(each: Ran, process: str) -> int:
    vertices = [vertex for of in PROCESSES[process].operators.values() for vertex in of]
    return min(each.commits[vertex] for vertex in vertices)
