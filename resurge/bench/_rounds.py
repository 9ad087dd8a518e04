"""Interleaved rounds: every contender once per round, in turn, the first round not counted."""

from __future__ import annotations

import gc
import importlib.metadata
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

Rates = dict[str, list[float]]


def interleave(contenders: dict[str, Callable[[], float]], rounds: int) -> Rates:
    """`contenders` do their work and return how much of it they timed per second."""
    rates: Rates = {name: [] for name in contenders}
    for turn in range(rounds + 1):
        for name, work in contenders.items():
            gc.collect()
            gc.disable()
            try:
                rate = work()
            finally:
                gc.enable()
            if turn:
                rates[name].append(rate)
    return rates


def timed(work: Callable[[], object], amount: float) -> float:
    """Amount per second."""
    start = time.perf_counter()
    work()
    return amount / (time.perf_counter() - start)


def ratio(rates: Rates, ours: str, peer: str) -> float:
    """The median of the ratios within each round."""
    return statistics.median(mine / theirs for mine, theirs in zip(rates[ours], rates[peer], strict=True))


def at_least(name: str, value: float, goal: float) -> dict[str, Any]:
    return {"name": name, "value": round(value, 3), "goal": f">= {goal}", "ok": value >= goal}


def at_most(name: str, value: float, goal: float) -> dict[str, Any]:
    return {"name": name, "value": round(value, 4), "goal": f"<= {goal}", "ok": value <= goal}


def versions(*packages: str) -> dict[str, str]:
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in packages}}
