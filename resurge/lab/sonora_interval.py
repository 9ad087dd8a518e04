"""Sonora, Table 1: what a failure in the middle of a checkpoint interval costs, for five intervals.

The paper's R-cost is |R| S + r T/2: checkpoints of the rolled-back vertices, and what they had read since. Its R-time
is until the failed vertex is back, RC-time until all are. Here an interval of 40 to 120 s is 4 to 12 epochs, and a
failure in the middle loses half of them. Every epoch has a snapshot; those in between are left alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from resurge.lab._figure import draw, report, shape
from resurge.lab._sonora import fail_first_stage, parameters, running
from shared.recovery.rollback import Rule

INTERVALS = (4, 6, 8, 10, 12)
EPOCHS = 14
PAPER_R_S = (8, 12, 17, 23, 31)
PAPER_RC_S = (36, 50, 64, 76, 88)
PAPER_TIMES_LONGER = min(rc / r for r, rc in zip(PAPER_R_S, PAPER_RC_S, strict=True))
REPEATS = 3  # of the times: the least of them counts
PAPER_MB = {40: 266.12, 60: 288.27, 80: 317.27, 100: 321.58, 120: 355.60}


def run() -> dict[str, Any]:
    with running(EPOCHS) as (_, driver):
        runs = [
            {interval: fail_first_stage(driver, interval // 2, Rule.SONORA) for interval in INTERVALS}
            for _ in range(REPEATS)
        ]
    found = runs[0]
    failed_s, complete_s = (
        [round(min(getattr(each[interval], name) for each in runs), 3) for interval in INTERVALS]
        for name in ("failed_s", "seconds")
    )
    costs = [found[interval].bytes_read for interval in INTERVALS]
    predicted = [found[interval].predicted for interval in INTERVALS]
    slope, base = np.polyfit(INTERVALS, costs, 1)
    fitted = np.polyval((slope, base), INTERVALS)
    residual = float(np.max(np.abs(fitted - costs) / np.array(costs)))
    off = max(abs(cost / model - 1) for cost, model in zip(costs, predicted, strict=True))
    times_longer = min(rc / r for r, rc in zip(failed_s, complete_s, strict=True))
    vertices = len(found[4].rolled_back.plan.rollback)
    shapes = [
        shape("R-cost rises with the interval", list(PAPER_MB.values()), costs, all(np.diff(costs) > 0)),
        shape("R-cost is a constant plus a rate times the interval: residual", 0.05, round(residual, 3),
              residual < 0.15),
        shape("R-cost against |R| S + r T/2, S and r measured before the failure: largest deviation", "-",
              round(off, 3), off <= 0.15),
        shape("R-time rises with the interval, s", list(PAPER_R_S), failed_s, all(np.diff(failed_s) > 0)),
        shape("RC-time rises with the interval, s", list(PAPER_RC_S), complete_s, all(np.diff(complete_s) > 0)),
        shape("RC-time over R-time, least", round(PAPER_TIMES_LONGER, 1), round(times_longer, 1),
              times_longer >= PAPER_TIMES_LONGER),
        shape("vertices rolled back", 24, vertices, vertices == 24),
    ]  # fmt: skip
    series = {
        "ours, MB read": [(10.0 * interval, cost / 1e6) for interval, cost in zip(INTERVALS, costs, strict=True)],
        "paper, scaled to our first point": [
            (float(seconds), cost * costs[0] / 1e6 / PAPER_MB[40]) for seconds, cost in PAPER_MB.items()
        ],
    }
    drawn = draw(
        "sonora-interval", "Cost of recovery by checkpoint interval", "interval, s (10 s an epoch)", "MB", series
    )
    split = {interval * 10: [each.bytes_read - each.state_bytes, each.state_bytes] for interval, each in found.items()}
    return report(
        "sonora-interval", "Sonora Table 1", shapes, parameters=parameters(EPOCHS, intervals_in_epochs=INTERVALS),
        replayed_and_snapshot_bytes=split, r_time_cpu_s=failed_s, rc_time_cpu_s=complete_s, drawn=drawn,
    )  # fmt: skip
