"""One program, one meaning: whatever the batching, whatever was killed and restored on the way."""

from __future__ import annotations

import pytest

from resurge.evaluate import evaluate
from tests.conformance.programs import case
from tests.conformance.running import bits, rebatched

SEEDS = 120
MORE = [pytest.param(seed, marks=pytest.mark.soak) for seed in range(SEEDS, 240)]


@pytest.mark.covers("SO-27", "EC-8")
@pytest.mark.parametrize("seed", [*range(SEEDS), *MORE])
def test_batching_and_restoring_change_no_bit(seed: int) -> None:
    made = case(seed)
    expected = bits(evaluate(made.stream, made.inputs)["out"])
    assert rebatched(made, seed + 1) == expected
    assert rebatched(made, seed + 2) == expected


@pytest.mark.parametrize("seed", [*range(0, SEEDS, 4), *MORE[::4]])
def test_device_frontiers_change_no_bit_of_any_row(seed: int) -> None:
    made = case(seed)
    expected = bits(evaluate(made.stream, made.inputs)["out"])
    assert sorted(map(repr, rebatched(made, seed + 1, by_device=True))) == sorted(map(repr, expected))


def test_the_random_programs_use_every_verb() -> None:
    used = set().union(*(case(seed).verbs for seed in range(60)))
    assert used >= {
        "where", "extend", "significant", "significant_metres", "state", "state_config", "state_keep", "previous", "text", "apply_rows", "union", "zip", "combine",
        "join", "with_latest", "hold", "sync", "key_by", "key_by_nothing", "key_by_computed", "key_by_thrice", "key_by_device_again", "tumbling", "hopping", "hopping_odd", "sliding", "session",
        "count", "calendar", "daily", "distinct_within", "state_expire", "followed_by", "absent", "count_hopping", "count_sliding", "aggregate", "apply_window", "machine", "ports", "sum", "mean", "min", "max",
        "map", "of_some", "first_of_some", "ratio", "join_left", "join_on", "as_of", "as_of_left", "variance", "std", "quantile", "first", "last", "top_k", "distinct", "path_km", "dft", "user",
    }  # fmt: skip
