"""When to divide a vertex differently, and when to ask phones to sample less. Pure decisions.

A hash range whose task takes more than 90 % of the epoch interval is split in half; two neighbours that each
stay under 30 % are merged (SO-33). One decision per vertex at a time, each after `patience` epochs in a row, so that
one slow disk write divides nothing. A slot cannot be divided: a single hot key ends in a range of its own.

Overload is first absorbed by the log: epochs grow larger, none is skipped. Once the backlog passes what the log should
hold, a rate hint asks the phones to sample less, and it is lifted once the backlog is half of that (SO-34, SO-35).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from cloud_backend.spark.slots import Range

SPLIT_ABOVE = 0.9
MERGE_BELOW = 0.3


@dataclass(frozen=True, slots=True)
class Change:
    """Ranges `old` become ranges `new`."""

    old: tuple[Range, ...]
    new: tuple[Range, ...]


def redivision(
    loads: Mapping[Range, Sequence[float]], *, patience: int = 3, ranges_max: int = 64, ranges_min: int = 1
) -> Change | None:
    """The next change for one vertex. `loads` are, per range, task seconds over epoch interval, newest last."""
    recent = {range_: list(values)[-patience:] for range_, values in loads.items()}
    steady = {range_: values for range_, values in recent.items() if len(values) == patience}
    hot = [range_ for range_, values in steady.items() if min(values) > SPLIT_ABOVE and range_.hi - range_.lo > 1]
    if hot and len(loads) < ranges_max:
        worst = max(hot, key=lambda range_: (sum(steady[range_]), range_))
        return Change((worst,), worst.halves())
    ordered = sorted(steady)
    pairs = [
        (left, right)
        for left, right in pairwise(ordered)
        if left.hi == right.lo and max(*steady[left], *steady[right]) < MERGE_BELOW
    ]
    if pairs and len(loads) > ranges_min:
        left, right = min(pairs, key=lambda pair: (sum(steady[pair[0]]) + sum(steady[pair[1]]), pair))
        return Change((left, right), (Range(left.lo, right.hi),))
    return None


@dataclass(frozen=True, slots=True)
class Overload:
    """What the log may hold before phones are asked to send less, and how far they may be asked to fall."""

    backlog_bytes_max: int = 64 * 1024 * 1024
    rate_min: float = 0.1


def sampling_rate(backlog_bytes: int, current: float, limits: Overload) -> float:
    """The share of the normal sampling rate to ask for: halved while the backlog is above its limit, doubled back once
    it is under half of it, unchanged between, so that it does not swing."""
    if backlog_bytes > limits.backlog_bytes_max:
        return max(limits.rate_min, current / 2)
    if backlog_bytes < limits.backlog_bytes_max // 2:
        return min(1.0, current * 2)
    return current
