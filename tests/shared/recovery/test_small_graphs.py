"""Every schedule on every small graph: no snapshot waits for ever, nothing that a reader could ask for is gone (EC-24, T9)."""

from __future__ import annotations

from random import Random

import pytest

from shared.recovery.strategies import STRATEGIES
from tests.claims import Claim
from tests.shared.recovery.positions.graphs import NAMED, Graph, all_graphs
from tests.shared.recovery.positions.world import World

EXTENDED = STRATEGIES["extended-ecoc"].row
PLAIN = STRATEGIES["ecoc"].row
STATES_MAX = 60_000
TWO_INTO_A_CYCLE = ((0, 1), (0, 2), (1, 2), (2, 1), (3, 1), (3, 2))


def graphs(vertices: int) -> list[Graph]:
    return list(all_graphs(vertices, cycles=True, one_drives=True))


def is_large(graph: Graph) -> bool:
    """Has too many schedules for every run of the suite: `make soak` tries it, and random schedules do."""
    return len(graph.edges) > 6 or graph.edges == TWO_INTO_A_CYCLE


def test_there_are_as_many_graphs_as_there_should_be() -> None:
    """Connected and fed by sources, up to renaming. Without cycles these are the connected acyclic graphs: 1, 4, 24."""
    assert [len(graphs(n)) for n in (2, 3, 4)] == [1, 6, 72]
    assert [len([g for g in graphs(n) if not g.back]) for n in (2, 3, 4)] == [1, 4, 24]


@pytest.mark.covers("EC-13", "EC-24", "EC-25", "EC-27", "T9")
@pytest.mark.parametrize("edges", [3, 4, 5, pytest.param(6, marks=pytest.mark.soak)])
def test_every_schedule_on_graphs_of_four_vertices(edges: int, claim: Claim) -> None:
    chosen = [graph for graph in graphs(4) if len(graph.edges) == edges and not is_large(graph)]
    states = sum(
        World(graph, EXTENDED, elements=1, every=1, prompt=True).every_schedule(STATES_MAX) for graph in chosen
    )
    claim(f"extended ECOC, {len(chosen)} graphs of 4 vertices: {states} states, none stuck, none inconsistent")
    assert states > 500


@pytest.mark.covers("EC-13", "EC-23", "EC-27", "T9")
def test_every_schedule_with_a_crash_on_graphs_of_three_vertices(claim: Claim) -> None:
    chosen = graphs(2) + graphs(3)
    states = sum(
        World(graph, EXTENDED, elements=1, every=1, crashes=1, prompt=True).every_schedule(STATES_MAX)
        for graph in chosen
    )
    claim(f"extended ECOC, {len(chosen)} graphs to 3 vertices, a crash anywhere: {states} states")
    assert states > 5_000


@pytest.mark.covers("EC-24", "EC-23")
def test_every_schedule_of_plain_ecoc_on_acyclic_graphs(claim: Claim) -> None:
    acyclic = [graph for n in (2, 3, 4) for graph in graphs(n) if not graph.back]
    small = [graph for graph in acyclic if graph.vertices < 4]
    prompt = sum(World(graph, PLAIN, elements=1, every=1, prompt=True).every_schedule(STATES_MAX) for graph in acyclic)
    crashing = sum(World(graph, PLAIN, elements=1, every=1, crashes=1).every_schedule(STATES_MAX) for graph in small)
    claim(f"ECOC, {len(acyclic)} acyclic graphs to 4 vertices: {prompt} states")
    claim(f"ECOC, {len(small)} of them, slow keepers, a crash anywhere: {crashing} states")
    assert min(prompt, crashing) > 500


def test_every_schedule_with_slow_keepers_and_answers_where_rows_meet(claim: Claim) -> None:
    states = World(NAMED["two-source cycle"], EXTENDED, elements=1, every=1).every_schedule(STATES_MAX)
    claim(f"extended ECOC, a cycle of two sources with slow keepers: {states} states")
    assert states > 1_000


@pytest.mark.covers("T9")
@pytest.mark.parametrize(("name", "least"), [("SP2", 300), ("SP3", 2_000), ("SP4", 12_000)])
def test_every_schedule_of_the_papers_processes_with_slow_keepers_and_answers(
    name: str, least: int, claim: Claim
) -> None:
    """What is sent to extend, when that counts as acknowledged: nothing sticks, and nothing is gone that could be asked."""
    states = World(NAMED[name], EXTENDED, elements=1, every=1).every_schedule(STATES_MAX)
    claim(f"extended ECOC on {name} with slow keepers and answers: {states} states")
    assert states > least


@pytest.mark.covers("T9")
def test_every_schedule_of_a_join_with_a_crash_anywhere(claim: Claim) -> None:
    """Whoever extends may fail, too. The cycles take minutes: they are in `test_every_schedule_on_the_named_graphs`."""
    states = World(NAMED["SP2"], EXTENDED, elements=1, every=1, crashes=1, prompt=True).every_schedule(STATES_MAX)
    claim(f"extended ECOC on SP2, a crash anywhere: {states} states")
    assert states > 2_000


@pytest.mark.soak
@pytest.mark.parametrize(
    "graph", [g for g in graphs(4) if is_large(g) and len(g.edges) < 9], ids=lambda g: f"{g.edges}"
)
def test_every_schedule_on_dense_graphs(graph: Graph, claim: Claim) -> None:
    states = World(graph, EXTENDED, elements=1, every=1, prompt=True).every_schedule(2_000_000)
    claim(f"extended ECOC on {graph.edges}: {states} states")


@pytest.mark.soak
def test_random_schedules_on_the_graph_with_every_edge(claim: Claim) -> None:
    """Its schedules are too many to try them all."""
    graph = max(graphs(4), key=lambda each: len(each.edges))
    steps = sum(
        World(graph, EXTENDED, elements=3, every=1, crashes=seed % 3).random_schedule(Random(seed))[0]
        for seed in range(500)
    )
    claim(f"extended ECOC on {graph.edges}: 500 schedules, {steps} steps")


@pytest.mark.soak
@pytest.mark.covers("T9")
@pytest.mark.parametrize("name", sorted(NAMED))
def test_every_schedule_on_the_named_graphs(name: str, claim: Claim) -> None:
    crashing = World(NAMED[name], EXTENDED, elements=1, every=1, crashes=1, prompt=True).every_schedule(2_000_000)
    slow = World(NAMED[name], EXTENDED, elements=1, every=1).every_schedule(2_000_000)
    claim(f"extended ECOC on {name}: {crashing} states with a crash anywhere, {slow} with slow keepers and answers")
