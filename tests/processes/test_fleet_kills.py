"""SP1 to SP4 on five node processes that are killed at random, under every strategy that promises to lose nothing."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.row import Align, Commit, Home, Include
from tests.claims import Claim
from tests.patience import SPARK_PATIENCE_S, wait_until
from tests.processes.fleets import COORDINATOR, PHONE, Fleet, digest, example, ideal

pytestmark = pytest.mark.processes
ROWS, EVERY_US = 60_000, 10_000
CYCLIC = ("one_attenuated", "both_attenuated")
GROWS = {"beats": 4}  # results that must follow a kill; the others' come faster
BETWEEN_NODES = [
    each.row for each in STRATEGIES.values() if each.row.home is not Home.STORE and each.row.align is Align.NONE
]
LOSSLESS = [row for row in BETWEEN_NODES if row.include is not Include.NOTHING or row.copies > 1]
FOR_CYCLES = [
    row for row in LOSSLESS if row.include is not Include.NOTHING and (row.commit is not Commit.READERS or row.extends)
]
KILLS = 4  # of each case: 122 in all
CASES = [
    # Of live copies one may go; it is not replaced.
    (program, row.name, KILLS if row.include is not Include.NOTHING else row.copies - 1)
    for program in ("beats", "average", *CYCLIC)
    for row in (FOR_CYCLES if program in CYCLIC else LOSSLESS)
]


def kill_some(fleet: Fleet, kills: int, rng: Random, *, moves: bool) -> list[str]:
    """Kill so many nodes, one after the other: first the one that makes the results, then any. Each is started again at
    once, or when its vertices are elsewhere, as the first is."""
    killed: list[str] = []
    victims = [name for name in fleet.names if name != PHONE]  # its sensors would be read with a gap
    grows = GROWS.get(fleet.program.name, 60)
    for _ in range(kills):
        last = fleet.placed()[next(iter(fleet.program.sinks))]
        name, before = rng.choice(victims) if killed or last == PHONE else last, fleet.count()
        time.sleep(rng.uniform(0.0, 1.5))
        fleet.kill(name)
        if moves and name != COORDINATOR and (not killed or rng.random() < 0.5):
            wait_until(lambda name=name: name not in fleet.placed().values(), "a move", patience_s=SPARK_PATIENCE_S)
        else:
            time.sleep(rng.uniform(0.0, 2.0))
        killed.append(name)
        fleet.start(name)
        fleet.wait_for(before + grows, f"results after killing {', '.join(killed)}")
    return killed


def check(folder: Path, program: str, strategy: str, kills: int, claim: Claim) -> None:
    row = STRATEGIES[strategy].row
    keepers = {Home.LOCAL: 0, Home.REGION: 4}.get(row.home, row.copies)
    chosen = example(program)
    if chosen.every_us > EVERY_US:
        chosen = replace(chosen, every_us=EVERY_US)
    fleet = Fleet(folder, chosen, hubs=3, strategy=strategy, rows=ROWS, every=100, keepers=keepers)
    fleet.start()
    try:
        fleet.wait_for(1, "first results")
        killed = kill_some(fleet, kills, Random(f"{program} {strategy}"), moves=row.home is not Home.LOCAL)
    except AssertionError:
        print(fleet.logs())
        raise
    finally:
        fleet.stop()
    found = fleet.results()
    same = ideal(fleet.program, fleet.path, ROWS, found)
    for sink, rows in found.items():
        mine, theirs = digest(rows), digest(same[sink])
        claim(
            f"{program} under {strategy}: {len(killed)} kills ({', '.join(killed)}), {len(rows)} rows compared, "
            f"digests {mine} = {theirs}"
        )
        assert len(killed) == kills
        assert rows
        assert mine == theirs


@pytest.mark.covers("EC-14", "EC-21", "EC-28", "EC-30", "EC-31")
@pytest.mark.parametrize(
    ("program", "strategy", "kills"),
    [
        ("average", "extended-ecoc", 1),
        *(pytest.param(*case, marks=pytest.mark.soak) for case in CASES),
    ],
)
def test_random_kills_change_no_result(program: str, strategy: str, kills: int, tmp_path: Path, claim: Claim) -> None:
    check(tmp_path, program, strategy, kills, claim)
