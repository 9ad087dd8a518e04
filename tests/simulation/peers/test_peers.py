"""Queries over several simulated nodes that crash, are cut off and lose messages: the sink holds what it should."""

from __future__ import annotations

from functools import cache
from random import Random

import numpy as np
import pytest

import resurge as rs
from resurge import col
from shared.hosting.wiring import EdgeSpec
from shared.plan.graph import Plan
from tests.claims import Claim
from tests.simulation.peers.world import Outcome, Settings, faults_of, run

pytestmark = pytest.mark.sim
ROWS = 300
LOSSLESS = ("ecoc", "extended-ecoc", "uncoordinated", "dist-2")


def chain() -> Plan:
    """One sensor, two windows with a filter between them."""
    means = rs.sensor("x", every="33ms", columns={"x": "float64"}).gather("g").sliding(count=5)
    sums = means.aggregate(m=rs.mean("x")).where(col.m > 0).sliding(count=10)
    return rs.plan_of(sums.aggregate(s=rs.sum("m")).subscribe("out"))


def meeting() -> Plan:
    """Rows of several devices meet and are counted together."""
    rows = rs.sensor("x", every="33ms", columns={"x": "float64"}).gather("g")
    both = rows.key_by().tumbling("1s").aggregate(m=rs.mean("x"), n=rs.count())
    return rs.plan_of(both.sliding(count=3).aggregate(s=rs.sum("m")).subscribe("out"))


PLANS = {"chain": (chain, (1,)), "meeting": (meeting, (1, 2))}


def rows_of(spec: EdgeSpec, lo: int, hi: int) -> tuple[dict[str, object], np.ndarray]:
    numbers = np.arange(lo, hi)
    shift = spec.key.device[0] % 7
    return {"x": np.sin(numbers * 0.1) * 10 + (numbers + shift) % 7}, numbers * 33_000 + 1 + shift


def settings(name: str, **more: object) -> Settings:
    plan, sources = PLANS[name]
    return Settings(plan(), ROWS, rows_of, sources=sources, **more)  # type: ignore[arg-type]


@cache
def undisturbed(name: str) -> Outcome:
    return run(settings(name, within_s=12.0))


@pytest.mark.parametrize("row", LOSSLESS)
@pytest.mark.parametrize("name", PLANS)
def test_what_fails_changes_no_result(name: str, row: str, claim: Claim) -> None:
    ideal = undisturbed(name)
    assert not ideal.violation
    assert ideal.elements
    crashes = recoveries = compared = 0
    for seed in range(4):
        rng = Random(f"{name} {row} {seed}")
        outcome = run(
            settings(
                name, row=row, seed=seed, loss=rng.choice((0.0, 0.05, 0.2)), duplication=rng.choice((0.0, 0.05)),
                copies=rng.choice((1, 2)), faults=faults_of(rng, (0, 1, 2, 3, 4), rng.randint(2, 5), 1.5),
            ),
            ideal.elements,
        )  # fmt: skip
        assert (outcome.violation, outcome.lost, outcome.digest) == ("", 0, ideal.digest), f"seed {seed}"
        crashes += outcome.crashes
        recoveries += outcome.recoveries
        compared += outcome.elements
    claim(
        f"{name} under {row}: {crashes} crashes, {recoveries} recoveries, {compared} rows compared, digests "
        f"{outcome.digest} = {ideal.digest}"
    )
    assert crashes
    assert recoveries
