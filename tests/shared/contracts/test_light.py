"""The light of a stream on its phone: green, amber past bound minus recovery, red, grey."""

from __future__ import annotations

import pytest

from shared.contracts.auditor import Verdict
from shared.contracts.light import Waiting, verdict
from shared.plan.contracts import LOSSLESS, Contract

BOUND = Contract(delay_us_max=600_000_000)


@pytest.mark.parametrize(
    ("contract", "waiting", "light"),
    [
        (BOUND, Waiting(100, 0, 0.0, True), (Verdict.KEPT, "")),
        (BOUND, Waiting(100, 0, 569.0, True), (Verdict.KEPT, "")),
        (BOUND, Waiting(100, 0, 571.0, True), (Verdict.AT_RISK, "delay")),
        (BOUND, Waiting(100, 0, 601.0, True), (Verdict.BROKEN, "delay")),
        (BOUND, Waiting(100, 0, 601.0, False), (Verdict.BROKEN, "delay")),
        (BOUND, Waiting(100, 0, 10.0, False), (Verdict.UNKNOWN, "silent")),
        (BOUND, Waiting(0, 0, 0.0, True), (Verdict.UNKNOWN, "silent")),
        (LOSSLESS, Waiting(100, 0, 9e9, True), (Verdict.KEPT, "")),  # it promises no delay
        (LOSSLESS, Waiting(100, 1, 0.0, True), (Verdict.BROKEN, "loss")),
        (Contract(kept_min=0.9), Waiting(100, 7, 0.0, True), (Verdict.KEPT, "")),
        (Contract(kept_min=0.9), Waiting(100, 9, 0.0, True), (Verdict.AT_RISK, "loss")),
        (Contract(kept_min=0.9), Waiting(100, 11, 0.0, True), (Verdict.BROKEN, "loss")),
    ],
)
def test_the_light_says_how_the_promise_is(contract: Contract, waiting: Waiting, light: tuple[Verdict, str]) -> None:
    assert verdict(contract, waiting, recovery_s=30.0) == light
