"""Sonora, Fig 9 and 10: ranges split above 90 % and merge below 30 % as the rate of arrivals changes.

Modelled: a range's load is its share of the arriving rows over what one machine can take; decisions are the job's own
(`cloud_backend.spark.control.balance`). Users are hashed to slots as in the job.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cloud_backend.spark.control.balance import MERGE_BELOW, SPLIT_ABOVE, redivision
from cloud_backend.spark.slots import SLOTS, Range, covers_all, even_ranges, slots_of
from resurge.lab._figure import draw, report, shape

USERS = 20_000
CAPACITY = 1_000.0  # rows per second that load one machine fully
RATES = [4_000] * 60 + [9_000] * 60 + [18_000] * 90 + [6_000] * 120


def run() -> dict[str, Any]:
    slots = slots_of({"user": np.arange(USERS)}, ("user",), USERS)
    weight = np.bincount(slots, minlength=SLOTS) / USERS
    ranges = list(even_ranges(2))
    history: dict[Range, list[float]] = {}
    machines, loads, owned = [], [], []
    for rate in RATES:
        load = {range_: rate * float(weight[range_.lo : range_.hi].sum()) / CAPACITY for range_ in ranges}
        for range_, value in load.items():
            history.setdefault(range_, []).append(value)
        division = redivision({range_: history[range_] for range_ in ranges}, patience=2)
        if division is not None:
            ranges = sorted([range_ for range_ in ranges if range_ not in division.old] + list(division.new))
            for range_ in division.old:
                history.pop(range_, None)
        machines.append(len(ranges))
        owned.append(covers_all(ranges))
        loads.append(load)
    settled = {rate: max(index for index, each in enumerate(RATES) if each == rate) for rate in set(RATES)}
    inside = [MERGE_BELOW <= value <= SPLIT_ABOVE for rate, index in settled.items() for value in loads[index].values()]
    share = sum(inside) / len(inside)
    at = {rate: machines[index] for rate, index in settled.items()}
    shapes = [
        shape("machines follow the rate up", "19, 38", [at[4_000], at[9_000], at[18_000]],
              at[4_000] < at[9_000] < at[18_000]),
        shape("and down", "-", [at[18_000], at[6_000]], at[6_000] < at[18_000]),
        shape("ranges inside the band once settled, percent", 95, round(100 * share, 1), share >= 0.9),
        shape("every slot is always owned once, epochs", "-", sum(owned), all(owned)),
    ]  # fmt: skip
    series = {
        "rate, thousand rows/s": [(float(t), rate / 1000) for t, rate in enumerate(RATES)],
        "ranges": [(float(t), float(count)) for t, count in enumerate(machines)],
    }
    drawn = draw("sonora-rebalance", "Ranges as the rate changes (modelled)", "epoch", "count", series)
    return report("sonora-rebalance", "Sonora Fig 9, 10", shapes, modelled=True, ranges=at, drawn=drawn)
