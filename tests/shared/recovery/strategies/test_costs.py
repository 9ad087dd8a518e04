"""The papers' arguments about cost, in numbers."""

from __future__ import annotations

import pytest

from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.costs import Cost, VertexLoad

LOAD = VertexLoad(state_bytes=1_000, outputs=(16.0,))


def sent(strategy: str, every: int, load: VertexLoad = LOAD) -> float:
    return STRATEGIES[strategy].cost(load, every).bytes_per_element


def test_coordinated_snapshots_fall_as_one_over_c_and_uncoordinated_ones_have_a_floor() -> None:
    assert [sent("ecoc", every) for every in (500, 1_000, 2_000)] == [2.0, 1.0, 0.5]
    assert sent("uncoordinated", 10_000_000) == pytest.approx(16 / 2, rel=0.001)
    assert sent("uncoordinated", 3_000) > 5 * sent("ecoc", 3_000)


def test_every_further_keeper_costs_the_same_again() -> None:
    assert [sent(f"dist-{n}", 500) for n in (1, 2, 3)] == [n * sent("uncoordinated", 500) for n in (1, 2, 3)]
    assert sent("local", 500) == 0


def test_extending_at_a_join_costs_what_is_smaller_of_state_and_transfer() -> None:
    join = VertexLoad(state_bytes=1_000, outputs=(16.0,), marks=2, transfer_bytes=100)
    assert (sent("ecoc", 500, join), sent("extended-ecoc", 500, join)) == (4.0, 2.2)
    far_apart = VertexLoad(state_bytes=1_000, outputs=(16.0,), marks=2, transfer_bytes=9_000)
    assert sent("extended-ecoc", 500, far_apart) == sent("ecoc", 500, far_apart)


def test_live_copies_cost_their_output_and_a_token_its_broadcast() -> None:
    assert STRATEGIES["none"].cost(LOAD, 500) == Cost(0.0, 0.0, 0.0)
    assert sent("rep-2", 500) == 16.0
    region = VertexLoad(state_bytes=1_000, source_bytes=10.0, broadcast=1.5)
    assert sent("token", 500, region) == 1.5 * (1_000 / 500 + 10)
    assert STRATEGIES["token"].cost(region, 500).replay_elements == 500
    assert STRATEGIES["ecoc"].cost(LOAD, 500).replay_elements == 250
