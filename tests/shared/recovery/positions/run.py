"""Random schedules over the named graphs: `python -m tests.shared.recovery.positions.run --seeds 500`. The last line is JSON."""

from __future__ import annotations

import argparse
import json
from random import Random

from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.row import Commit, Include, Row
from tests.shared.recovery.positions.graphs import NAMED
from tests.shared.recovery.positions.world import Broken, World


def _rows() -> list[Row]:
    """One of each kind that the machine tells apart and that recovers vertices one by one."""
    found = {}
    for strategy in STRATEGIES.values():
        row = strategy.row
        if row.include is not Include.NOTHING and row.commit in {Commit.READERS, Commit.AT_ONCE}:
            found.setdefault((row.trigger, row.commit, row.extends), row)
    return list(found.values())


CASES = tuple(
    (graph, row.name)
    for graph in NAMED
    for row in _rows()
    if row.commit is Commit.AT_ONCE or row.extends or not NAMED[graph].back
)


def run_seed(graph: str, row: str, seed: int) -> int:
    """One schedule, its steps; Broken when a checker's promise does not hold."""
    world = World(NAMED[graph], STRATEGIES[row].row, elements=6, every=2, crashes=seed % 4)
    return world.random_schedule(Random(seed))[0]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=100)
    seeds = parser.parse_args().seeds
    steps = 0
    for seed in range(seeds):
        for graph, row in CASES:
            try:
                steps += run_seed(graph, row, seed)
            except Broken as broken:
                print(broken)
                print(json.dumps({"checker": broken.checker, "graph": graph, "row": row, "seed": seed}))
                return
    print(json.dumps({"checker": None, "schedules": seeds * len(CASES), "steps": steps}))


if __name__ == "__main__":
    main()
