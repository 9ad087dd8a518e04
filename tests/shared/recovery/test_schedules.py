"""Random schedules with crashes: larger graphs, more elements, slow keepers and answers."""

from __future__ import annotations

from random import Random

import pytest

from shared.recovery.strategies import STRATEGIES
from tests.claims import Claim
from tests.shared.recovery.positions.graphs import Graph, all_graphs
from tests.shared.recovery.positions.run import CASES, run_seed
from tests.shared.recovery.positions.world import World

PLAIN = STRATEGIES["ecoc"].row


@pytest.mark.covers("EC-13", "EC-18", "EC-23", "EC-27")
@pytest.mark.parametrize(("graph", "row"), CASES)
def test_no_schedule_with_crashes_loses_anything_or_sticks(graph: str, row: str, claim: Claim) -> None:
    steps = sum(run_seed(graph, row, seed) for seed in range(4))
    claim(f"{row} on {graph}: 4 schedules, {steps} steps, up to 3 crashes, lost answers")


@pytest.mark.soak
@pytest.mark.parametrize(("graph", "row"), CASES)
def test_no_schedule_of_many_loses_anything_or_sticks(graph: str, row: str, claim: Claim) -> None:
    steps = sum(run_seed(graph, row, seed) for seed in range(1_000))
    claim(f"{row} on {graph}: 1000 schedules, {steps} steps, up to 3 crashes, lost answers")


def random_acyclic(vertices: int, random: Random) -> Graph:
    edges = [(a, b) for a in range(vertices) for b in range(a + 1, vertices) if random.random() < 0.5]
    edges += [(random.randrange(b), b) for b in range(1, vertices) if all(reader != b for _, reader in edges)]
    return Graph(vertices, tuple(sorted(set(edges))), one_drives=True)


@pytest.mark.covers("EC-24")
def test_ecoc_ends_on_every_acyclic_graph_of_five_vertices_and_some_of_six(claim: Claim) -> None:
    random = Random(0)
    five = list(all_graphs(5, cycles=False, one_drives=True))
    assert len(five) == 267, "connected and acyclic, up to renaming"
    steps = [
        World(graph, PLAIN, elements=2, every=1, crashes=n % 2).random_schedule(Random(n))[0]
        for n, graph in enumerate([*five, *(random_acyclic(6, random) for _ in range(64))])
    ]
    claim(f"ECOC on all {len(five)} acyclic graphs of 5 vertices and 64 of 6: {sum(steps)} steps, nothing left pending")


@pytest.mark.soak
@pytest.mark.covers("EC-24")
def test_ecoc_ends_on_every_acyclic_graph_of_five_and_six_vertices(claim: Claim) -> None:
    chosen = [graph for n in (5, 6) for graph in all_graphs(n, cycles=False, one_drives=True)]
    assert len(chosen) == 267 + 5_647
    steps = sum(
        World(graph, PLAIN, elements=2, every=1, crashes=seed % 2).random_schedule(Random(seed))[0]
        for graph in chosen
        for seed in range(3)
    )
    claim(f"ECOC on all {len(chosen)} acyclic graphs of 5 and 6 vertices, 3 schedules each: {steps} steps")
