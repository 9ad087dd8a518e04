"""python -m tests.simulation.walks.run KIND SEEDS: worlds of phones that walk, until one breaks a promise.

The last line is JSON: {"seeds": how many ran, "first": {"seed", "checker", "violation"} or null}."""

from __future__ import annotations

import json
import sys

from tests.simulation.walks.world import outcome_of


def main(kind: str, seeds: int) -> None:
    for seed in range(seeds):
        violation = outcome_of(seed, kind).outcome.violation
        if violation:
            first = {"seed": seed, "checker": violation.partition(":")[0], "violation": violation}
            print(json.dumps({"seeds": seed + 1, "first": first}))
            return
    print(json.dumps({"seeds": seeds, "first": None}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
