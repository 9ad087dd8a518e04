"""python -m tests.simulation.peers.run PROGRAM ROW SEEDS [WORLD]: worlds of several nodes until one breaks a promise.

Where PROGRAM is "governed" a gateway coordinates, and ROW is what happens to it.

The last line is JSON: {"seeds": how many ran, "first": {"seed", "checker", "violation"} or null}."""

from __future__ import annotations

import json
import sys

from tests.simulation.peers import governed, regions
from tests.simulation.peers.worlds import outcome_of


def violation_of(name: str, row: str, seed: int, world: str = "disturbed") -> str:
    if name == "governed":
        return governed.outcome_of(row, seed)[0].violation
    if name == "regions":
        return regions.violation_of(seed) if world != "wifi" else regions.without_wifi(seed).run().violation
    return outcome_of(name, row, seed, world=world).violation


def main(name: str, row: str, seeds: int, world: str = "disturbed") -> None:
    for seed in range(seeds):
        violation = violation_of(name, row, seed, world)
        if violation:
            first = {"seed": seed, "checker": violation.partition(":")[0], "violation": violation}
            print(json.dumps({"seeds": seed + 1, "first": first}))
            return
    print(json.dumps({"seeds": seeds, "first": None}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), *sys.argv[4:])
