"""ECOC, Fig 16 and 19: how long recovery and catching up take after the node of an operator was killed.

Five real node processes on one machine, ZeroMQ between them (`_kills`): the node that runs QRSDetector (SP1) or TestAvg
(SP2) gets kill -9 at a random moment after its first permanent snapshot. Recovery is from the coordinator's decision
until the operator is restored on another node and its inputs go on; detection, which is a fixed silence, is told apart.
So is catching up, until results are as late as they were before. The paper waits 150 to 200 seconds before the failure;
here the first snapshot is enough, as nothing older is kept.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Sequence
from typing import Any

from resurge.lab._figure import draw, report, shape
from resurge.lab._kills import Disturbed, Killed, kill_once
from resurge.lab._virtual_fleet import heart
from shared.recovery.delays import SILENCE_S

STRATEGIES = ("uncoordinated", "ecoc", "extended-ecoc")
EVERY = (500, 3000)
REPEATS = 4
PROCESSES = ("SP1", "SP2")
SPREAD = 0.20
QUICK = {"repeats": 1, "processes": ("SP2",)}
EARLIER_S, LATER_S = 2.0, 2.0  # a node speaks every second, so its last word may be older than the kill

Key = tuple[str, str, int]  # stream process, strategy, elements between two checkpoints


def run(
    repeats: int = REPEATS, processes: Sequence[str] = PROCESSES, strategies: Sequence[str] = STRATEGIES,
    every: Sequence[int] = EVERY,
) -> dict[str, Any]:  # fmt: skip
    keys = [(process, strategy, c) for process in processes for strategy in strategies for c in every]
    runs: dict[Key, list[Killed]] = {key: [] for key in keys}
    load = [os.getloadavg()[0]]
    disturbed = 0
    for repeat in range(repeats):
        for key in keys:
            while len(runs[key]) <= repeat:
                try:
                    runs[key].append(kill_once(*key, repeat))
                except Disturbed as error:
                    disturbed += 1
                    print(error, file=sys.stderr)
                    if disturbed > len(keys) * repeats:
                        raise
                load.append(os.getloadavg()[0])
            print(*key, runs[key][-1], file=sys.stderr)

    def mean(name: str, *of: object) -> float:
        found = [getattr(each, name) for key, many in runs.items() if set(of) <= set(key) for each in many]
        return round(float(statistics.mean(found)), 3)

    all_runs = [each for many in runs.values() for each in many]
    by_strategy = {strategy: mean("recovery", strategy) for strategy in strategies}
    by_c = {str(c): mean("recovery", c) for c in every}
    by_process = {process: mean("recovery", process) for process in processes}
    caught_up = {strategy: mean("catch_up", strategy) for strategy in strategies}
    detections = [round(of(each.detection for each in all_runs), 2) for of in (min, max)]
    shapes = [
        shape("recovery does not depend on the strategy: mean seconds of each", "no significant differences",
              by_strategy, _spread(by_strategy) < SPREAD),
        shape("nor on c: mean seconds of each", "does not depend on frequency", by_c, _spread(by_c) < SPREAD),
        shape("mean seconds of each stream process", "slightly shorter for SP2", by_process,
              _spread(by_process) < 2 * SPREAD),
        shape("catching up is alike for all strategies: mean seconds of each", "no significant differences", caught_up,
              max(caught_up.values()) - min(caught_up.values()) < 0.5 * mean("recovery")),
        shape("detection, seconds: fewest, most; as long as a node may be silent", "not measured", detections,
              SILENCE_S - EARLIER_S <= detections[0] <= detections[1] <= SILENCE_S + LATER_S),
        shape("failures, and numbers lost or out of order in all of them", ["-", 0],
              [len(all_runs), sum(each.lost for each in all_runs)], not any(each.lost for each in all_runs)),
    ]  # fmt: skip
    lines = {
        f"{process}, {strategy}": [(float(c), mean("recovery", process, strategy, c)) for c in every]
        for process in processes
        for strategy in strategies
    }
    behind = {
        f"{process}, {strategy}": [(float(c), mean("catch_up", process, strategy, c)) for c in every]
        for process in processes
        for strategy in strategies
    }
    across = "elements between two checkpoints"
    drawn = [
        draw("ecoc-recovery", "From the decision until restored and connected", across, "seconds, mean", lines),
        draw("ecoc-catch-up", "From then until results are as late as before", across, "seconds, mean", behind),
    ]
    return report(
        "ecoc-recovery", "ECOC Fig 16 and 19", shapes, recovery_s=lines, catch_up_s=behind, drawn=drawn,
        each_run={
            " ".join(map(str, key)): [{name: round(value, 3) for name, value in vars(one).items()} for one in many]
            for key, many in runs.items()
        },
        load_average=[round(min(load), 1), round(max(load), 1)], repeats=repeats, disturbed_and_repeated=disturbed,
        ecg="a heart's" if heart()[1] else "drawn",
    )  # fmt: skip


def _spread(values: dict[str, float]) -> float:
    """The largest over the smallest, less one."""
    return max(values.values()) / min(values.values()) - 1
