"""How large a spool should be: from how fast it fills and how long the link was gone.

A rate is of what the device's operators leave, compressed as it is spooled. At a steady rate a spool lasts so long
offline, and an outage that is longer loses the rest of it. So the advice is arithmetic on what was measured, and where
nothing was, it says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

HEADROOM = 1.1  # what lies in pages that are not full, and rates that are not steady
STEP_BYTES = 1 << 20  # sizes are set in megabytes
OUTAGES_MIN = 5  # fewer say nothing of rare ones


@dataclass(frozen=True, slots=True)
class Advice:
    """Of one spool. None where it is not known."""

    rates: Mapping[str, float]  # stream -> bytes per second
    capacity_bytes: int
    outages: int  # how many were seen
    lasts_s: float | None  # offline, from empty to the first loss
    p95_s: float | None  # of 100 outages, 95 were not longer
    p99_s: float | None
    p95_bytes: int | None  # for which nothing of such an outage is lost
    p99_bytes: int | None
    lost_share: float | None  # of what came in during the outages that were seen, this share would not have fitted

    @property
    def bytes_per_second(self) -> float:
        return sum(self.rates.values())

    def loss_at(self, outage_s: float) -> float | None:
        """The share of an outage's rows that is lost, when the spool was empty before it."""
        return None if self.lasts_s is None else _loss([outage_s], self.lasts_s)


def advise(rates: Mapping[str, float], capacity_bytes: int, outages_s: Sequence[float]) -> Advice:
    """What was measured, and the sizes that it asks for."""
    known = len(outages_s) >= OUTAGES_MIN
    p95_s, p99_s = (percentile(outages_s, share) if known else None for share in (0.95, 0.99))
    said = advice_of(rates, capacity_bytes, len(outages_s), p95_s, p99_s)
    return said if said.lasts_s is None or not outages_s else replace(said, lost_share=_loss(outages_s, said.lasts_s))


def advice_of(
    rates: Mapping[str, float], capacity_bytes: int, outages: int, p95_s: float | None, p99_s: float | None
) -> Advice:
    """The same from a summary of the outages; what all of them together would have lost it does not say."""
    rate = sum(rates.values())
    lasts_s = capacity_bytes / HEADROOM / rate if rate > 0 else None
    return Advice(
        dict(rates), capacity_bytes, outages, lasts_s, p95_s, p99_s, _bytes(p95_s, rate), _bytes(p99_s, rate), None
    )


def in_words(
    advice: Advice, duration: Callable[[float], str], size: Callable[[float], str], reader: str = "a gateway"
) -> str:
    """How long the spool lasts without whoever reads it, and whether that was enough so far, in one plain sentence."""
    lasts_s, p95_s, p99_s = advice.lasts_s, advice.p95_s, advice.p99_s
    if lasts_s is None:
        return f"How long it would last without {reader} is not known yet."
    lasts = f"Empty, it lasts about {duration(lasts_s)} without {reader}"
    if p95_s is None or p99_s is None:
        seen = "no outage was" if not advice.outages else f"only {advice.outages} outages were"
        return f"{lasts}; {seen} seen so far."
    if lasts_s >= p99_s:
        return f"{lasts}; 99 of 100 outages ended within {duration(p99_s)}."
    rare, long_s, wanted = (1, p99_s, advice.p99_bytes) if lasts_s >= p95_s else (5, p95_s, advice.p95_bytes)
    return (
        f"{lasts}, but {rare} of 100 outages lasted {duration(long_s)} or longer: that long takes {size(wanted or 0)}."
    )


def percentile(values: Sequence[float], share: float) -> float:
    """The least of the values that this share of them does not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def _bytes(outage_s: float | None, rate: float) -> int | None:
    if outage_s is None or rate <= 0:
        return None
    return max(1, math.ceil(outage_s * rate * HEADROOM / STEP_BYTES)) * STEP_BYTES


def _loss(outages_s: Sequence[float], lasts_s: float) -> float:
    total = sum(outages_s)
    return sum(max(0.0, each - lasts_s) for each in outages_s) / total if total > 0 else 0.0
