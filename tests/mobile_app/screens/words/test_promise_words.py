"""A promise and its light in words."""

from __future__ import annotations

import pytest

from mobile_app.screens.words.promise_words import LIGHTS, light_text, state_text
from shared.contracts.auditor import Verdict

PROMISE = {
    "name": "up",
    "promise": "lossless within 10m",
    "produced": 9,
    "ledgered": 1200,
    "delay_s": 1.0,
    "bound_s": 600.0,
}


@pytest.mark.parametrize(
    ("verdict", "why", "words"),
    [
        ("kept", "", "Lossless within 10m."),
        ("broken", "loss", "Lossless within 10m. 1\u2009200 readings were given up."),
        ("broken", "delay", "Lossless within 10m. What waits here is older than promised."),
        ("at risk", "delay", "Lossless within 10m. What waits here will soon be older than promised."),
        ("at risk", "loss", "Lossless within 10m. It has given up almost all it may."),
        ("unknown", "silent", "Lossless within 10m. The gateway is out of reach."),
    ],
)
def test_each_light_says_why(verdict: str, why: str, words: str) -> None:
    assert state_text(PROMISE | {"verdict": verdict, "why": why}) == words


def test_every_verdict_has_a_light_and_a_word() -> None:
    assert LIGHTS.keys() == {each.value for each in Verdict}
    assert {light_text({"verdict": each.value}) for each in Verdict} == {"Kept", "Unknown", "At risk", "Broken"}
