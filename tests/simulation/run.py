"""`python -m tests.simulation.run --seeds 500 --json`: many worlds, one line of JSON at the end.

A failing seed prints the one command that replays it with its transcript.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from tests.simulation.world import run_seed

PROGRESS_EVERY_S = 2.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=500, help="how many worlds")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="replay one seed and print its transcript")
    parser.add_argument("--stop", action="store_true", help="stop at the first violation")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        outcome = run_seed(arguments.seed, keep=True)
        print("\n".join(outcome.lines))
        print(f"digest {outcome.digest}; {outcome.violation or 'no violation'}")
        return 1 if outcome.violation else 0

    totals = dict.fromkeys(
        ("events", "crashes", "partitions", "duplicates", "replays", "disk_faults", "elements", "ledgered", "results"),
        0,
    )
    violations: list[dict[str, object]] = []
    drained_s_max = 0.0
    started = reported = time.monotonic()
    ran = 0
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        outcome = run_seed(seed)
        ran += 1
        for name in totals:
            totals[name] += getattr(outcome, name)
        drained_s_max = max(drained_s_max, outcome.drained_s)
        if outcome.violation is not None:
            violations.append({"seed": seed, "checker": outcome.violation.checker, "text": outcome.violation.text})
            print(
                f"seed {seed}: {outcome.violation}\n  replay: python -m tests.simulation.run --seed {seed}", flush=True
            )
            if arguments.stop:
                break
        if time.monotonic() - reported > PROGRESS_EVERY_S:
            reported = time.monotonic()
            print(f"{ran}/{arguments.seeds} seeds, {len(violations)} violations", file=sys.stderr, flush=True)
    seconds = time.monotonic() - started
    summary = {
        "seeds": ran, **totals, "violations": len(violations), "drained_s_max": round(drained_s_max, 1),
        "seconds": round(seconds, 1),
    }  # fmt: skip
    if violations:
        summary["first"] = violations[0]
    if arguments.json:
        print(json.dumps(summary))
    else:
        print(", ".join(f"{name} {value}" for name, value in summary.items()))
    # A run in which nothing went wrong around the product has shown nothing about it.
    hollow = ran >= 50 and not all(totals[name] for name in totals)
    return 1 if violations or hollow else 0


if __name__ == "__main__":
    sys.exit(main())
