"""Tests wait for a condition, never for a time. How long at most is one number, made for a busy machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 120.0
SPARK_PATIENCE_S = 300.0  # a JVM starts, or tasks queue behind another test's
LOOK_AGAIN_S = 0.02
RAN_OUT = "did not happen within"
Answer = TypeVar("Answer")


def let_pass(seconds: float) -> None:
    """Where time itself is the subject: how long a gateway stays away, say. The seconds have a name at the caller's."""
    time.sleep(seconds)


def wait_until(
    ask: Callable[[], Answer],
    what: str = "what it waited for",
    *,
    again_after: type[Exception] | tuple[type[Exception], ...] = (),
    patience_s: float = PATIENCE_S,
) -> Answer:
    """The first answer that is neither None, False nor empty; these exceptions count as none yet."""
    end = time.monotonic() + patience_s
    while True:
        last = ""
        try:
            if answer := ask():
                return answer
        except again_after as error:
            last = f"; the last answer was {error!r}"
        assert time.monotonic() < end, f"{what} {RAN_OUT} {patience_s:.0f} s{last}"
        time.sleep(LOOK_AGAIN_S)
