"""A promise as a device sees it now: kept, at risk, broken or unknown, by what waits here and what was given up.

At risk is a delay nearer to the bound than a recovery takes: past it, a failure now would break the promise.
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.contracts.auditor import Verdict
from shared.plan.contracts import Contract

USED_SHARE = 0.8  # of what may be given up: from there on it is at risk


@dataclass(frozen=True, slots=True)
class Waiting:
    """One stream on its device."""

    produced: int
    ledgered: int
    delay_s: float  # of the oldest row that has no receipt; 0 when nothing waits
    connected: bool  # receipts can come


def verdict(contract: Contract, waiting: Waiting, *, recovery_s: float) -> tuple[Verdict, str]:
    """The light, and a word for what is behind it: loss, delay, silent; empty when all is well."""
    bound_s = None if contract.delay_us_max is None else contract.delay_us_max / 1e6
    allowed = (1.0 - contract.kept_min) * waiting.produced
    if waiting.ledgered > allowed:
        return Verdict.BROKEN, "loss"
    if bound_s is not None and waiting.delay_s > bound_s:
        return Verdict.BROKEN, "delay"
    if bound_s is not None and waiting.delay_s > bound_s - recovery_s:
        return Verdict.AT_RISK, "delay"
    if waiting.ledgered and waiting.ledgered > USED_SHARE * allowed:
        return Verdict.AT_RISK, "loss"
    if not waiting.produced or not waiting.connected:
        return Verdict.UNKNOWN, "silent"
    return Verdict.KEPT, ""
