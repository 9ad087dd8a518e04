"""python -m tests.simulation.region.run SEEDS: regions that broadcast until one breaks a promise; the last line is JSON."""

from __future__ import annotations

import json
import sys

from tests.simulation.region.world import drawn, run


def main(seeds: int) -> None:
    for seed in range(seeds):
        violation = run(drawn(seed)).violation
        if violation:
            first = {"seed": seed, "checker": violation.partition(":")[0], "violation": violation}
            print(json.dumps({"seeds": seed + 1, "first": first}))
            return
    print(json.dumps({"seeds": seeds, "first": None}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
