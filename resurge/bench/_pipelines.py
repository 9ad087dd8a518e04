"""A whole pipeline against Structured Streaming: the same rows, epoch by epoch in turn. A ratio counts only where both
end with the same results."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

from cloud_backend.spark.control.driver import JobManager
from resurge.bench._rounds import interleave, ratio, timed
from resurge.bench._spark_world import World
from resurge.bench._structured_streaming import StructuredStreaming


def against_structured(
    world: World, driver: JobManager, theirs: StructuredStreaming, rounds: int
) -> tuple[float, dict[str, Any]]:
    """How many times their rows per second ours are, and what was measured. Stops their queries."""
    rows = world.rows
    given: dict[str, np.ndarray] = {}

    def ours() -> float:
        nonlocal given
        given = world.epoch_columns()
        world.append(given)
        return timed(driver.drain, rows)

    def peers() -> float:
        theirs.prepare(given, world.epoch)
        return timed(theirs.process, rows)

    rates = interleave({"resurge": ours, "structured": peers}, rounds + 1)  # the JVM is warm only after two
    rates = {name: values[1:] for name, values in rates.items()}
    # One more epoch closes the windows of the last one on both sides; Structured Streaming closes one epoch later.
    for _ in range(3):
        ours()
        peers()
    theirs.stop()
    found = {
        (row.window_start_us, int(row.key[0])): (int(row.values["users"]), round(float(row.values["total"]), 6))
        for row in driver._results.current()
    }
    wanted = theirs.results()
    common = found.keys() & wanted.keys()
    assert len(common) > 100, "the two pipelines have no results in common"
    assert all(found[key] == wanted[key] for key in common), "the two pipelines disagree"
    figures = {"results_compared": len(common)} | {
        f"{name}_ms": round(1000 * rows / statistics.median(values), 1) for name, values in rates.items()
    }
    return ratio(rates, "resurge", "structured"), figures
