"""SP1 to SP4 on five simulated nodes that crash and lose messages: the sink holds what `evaluate` says."""

from __future__ import annotations

import hashlib
from functools import cache
from random import Random

import numpy as np
import pytest

import resurge as rs
from shared.hosting.wiring import EdgeSpec
from shared.plan.graph import Plan
from shared.plan.placement import device_fragment
from tests.claims import Claim
from tests.simulation.peers.world import Fault, PeerWorld, Settings, faults_of

pytestmark = pytest.mark.sim
CYCLIC = ("one_attenuated", "both_attenuated")
ROWS = {"beats": 1_200, "average": 400, "one_attenuated": 600, "both_attenuated": 600}  # attenuated from 400 on
SOURCE = 1
QUICK, MANY = 1, 50
Values = tuple[dict[str, np.ndarray], np.ndarray]


@cache
def program(name: str) -> Plan:
    return rs.load_program(f"resurge/examples/peers/{name}.py")


def made(edge: str, numbers: np.ndarray) -> Values:
    """A row is a function of its number."""
    if edge == "ecg":
        seconds = numbers / 360
        pulse = np.exp(-(((seconds - 0.5) % 0.8 - 0.4) ** 2) / 0.0002)
        return {"mv": pulse}, np.round(seconds * 1e6).astype(np.int64) + 1
    shift = 1 if edge == "test_a" else 3
    return {"v": 1.0 + 0.3 * np.sin(numbers * 0.37 + shift)}, numbers * 5_000 + shift


def rows_of(spec: EdgeSpec, lo: int, hi: int) -> Values:
    return made(spec.name, np.arange(lo, hi))


def world(name: str, **more: object) -> PeerWorld:
    row = "extended-ecoc" if name in CYCLIC else "ecoc"
    settings = Settings(program(name), ROWS[name], rows_of, sources=(SOURCE,), batch=20, row=row, **more)  # type: ignore[arg-type]
    return PeerWorld(settings)


@cache
def evaluated(name: str) -> tuple[int, str]:
    """How many rows, and their digest as a world says it."""
    device = world(name).nodes[SOURCE].id
    given = {}
    for output in device_fragment(program(name)).outputs:
        columns, time_us = made(output.name, np.arange(ROWS[name]))
        given[output.name] = {"time": time_us, "device": [device] * len(time_us), **columns}
    ((sink, columns),) = rs.evaluate(program(name), given).items()
    names = sorted(column for column in columns if column != "time")
    values = zip(*(columns[column].tolist() for column in ("time", *names)), strict=True)
    rows = [(sink, number, *each) for number, each in enumerate(values)]
    return len(rows), hashlib.sha256("\n".join(map(repr, rows)).encode()).hexdigest()[:16]


@pytest.mark.parametrize(
    ("name", "seeds"),
    [
        *((name, QUICK) for name in ("beats", "average", "both_attenuated")),
        *(pytest.param(name, MANY, marks=pytest.mark.soak) for name in ROWS),
    ],
)
def test_what_fails_changes_no_result_of_the_papers_processes(name: str, seeds: int, claim: Claim) -> None:
    expected, ideal = evaluated(name)
    assert expected
    crashes = compared = 0
    for seed in range(1, 1 + seeds):
        rng = Random(f"{name} {seed}")
        early = Fault(
            rng.uniform(0.2, 0.8), rng.choice((1, 2, 3, 4)), "crash", rng.uniform(0.2, 9.0)
        )  # rows still come
        faults = (early, *faults_of(rng, (1, 2, 3, 4), rng.randint(0, 3), 3.0))
        outcome = world(name, seed=seed, loss=0.05 * (seed % 4), copies=1 + seed % 2, faults=faults).run(expected)
        assert (outcome.violation, outcome.lost, outcome.digest) == ("", 0, ideal), f"seed {seed}"
        crashes += outcome.crashes
        compared += outcome.elements
    assert crashes
    claim(f"{name}: {crashes} crashes, {compared} rows compared, digests {outcome.digest} = {ideal}")


def test_a_cycle_all_of_whose_vertices_begin_again_goes_on(claim: Claim) -> None:
    """Each of them reads what the one before it makes: none may wait for the others before it begins."""
    name = "both_attenuated"
    expected, ideal = evaluated(name)
    faults = tuple(Fault(0.8, node, "crash", 1.0) for node in (1, 2, 3, 4))
    outcome = world(name, faults=faults).run(expected)
    claim(f"{outcome.crashes} crashes, {outcome.elements} rows compared, digests {outcome.digest} = {ideal}")
    assert (outcome.violation, outcome.lost, outcome.digest) == ("", 0, ideal)
    assert outcome.crashes == 4
